"""Which apt sources a lab's root file system is built from."""

from __future__ import annotations

from pathlib import Path

import pytest
from treeline_lab.errors import LabError
from treeline_lab.sources import (
    OVERRIDE_VARIABLE,
    Source,
    machine_sources,
    parse_deb822,
    parse_one_line,
    select,
)

DEBIAN = """\
Types: deb
# a comment inside the stanza
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb-src
URIs: http://mirror.example/debian
Suites: bookworm
Components: main
"""
NODE = """\
Types: deb
URIs: https://vendor.example/node_20.x
Suites: nodistro
Components: main
Signed-By: /usr/share/keyrings/nodesource.gpg
"""
UBUNTU = """\
Types: deb deb-src
URIs: http://ubuntu.example/ubuntu/
Suites: noble noble-updates noble-backports
Components: main universe restricted multiverse
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg

Enabled: no
Types: deb
URIs: http://ubuntu.example/ubuntu/
Suites: noble-security
Components: main
"""


def lines(sources: list[Source]) -> list[str]:
    return [source.line() for source in sources]


def machine(tmp_path: Path, codename: str, **files: str) -> tuple[Path, dict[str, str]]:
    (tmp_path / "sources.list.d").mkdir()
    for name, text in files.items():
        stem, _, ending = name.rpartition("_")
        folder = tmp_path if stem == "sources" and ending == "list" else tmp_path / "sources.list.d"
        (folder / f"{stem}.{ending}").write_text(text)
    return tmp_path, {"ID": "x", "VERSION_CODENAME": codename}


def test_debian_deb822_gives_base_updates_and_security_of_main_only(tmp_path: Path) -> None:
    apt, release = machine(tmp_path, "bookworm", debian_sources=DEBIAN, nodesource_sources=NODE)
    codename, found = machine_sources(apt, release, {})
    keyring = "[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]"
    assert codename == "bookworm"
    assert lines(found) == [
        f"deb {keyring} http://mirror.example/debian bookworm main",
        f"deb {keyring} http://mirror.example/debian bookworm-updates main",
        f"deb {keyring} http://mirror.example/debian-security bookworm-security main",
    ]


def test_ubuntu_keeps_universe_and_leaves_out_disabled_stanzas(tmp_path: Path) -> None:
    apt, release = machine(tmp_path, "noble", ubuntu_sources=UBUNTU)
    _, found = machine_sources(apt, release, {})
    assert [(source.suite, source.components) for source in found] == [
        ("noble", ("main", "universe")),
        ("noble-updates", ("main", "universe")),
    ]


def test_one_line_sources_with_options_comments_and_security(tmp_path: Path) -> None:
    text = (
        "# deb http://mirror.example/debian bookworm main\n"
        "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
        "http://mirror.example/any/path bookworm main non-free # near\n"
        "deb-src http://mirror.example/debian bookworm main\n"
        "deb http://security.example/debian-security bookworm-security main\n"
        "deb nonsense\n"
    )
    apt, release = machine(tmp_path, "bookworm", sources_list=text)
    _, found = machine_sources(apt, release, {})
    assert lines(found) == [
        "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
        "http://mirror.example/any/path bookworm main",
        "deb http://security.example/debian-security bookworm-security main",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "deb https://vendor.example/linux/debian bookworm stable",
        "deb [signed-by=/usr/share/keyrings/third-archive-keyring.gpg] https://third.example bookworm main",
        "deb http://vendor.example/pub/repos/apt bookworm-pgdg main",
        "deb https://vendor.example/apt cloud-sdk-bookworm main",
        "deb https://third.example/apt bookworm main",
        "deb http://mirror.example/debian trixie main",
    ],
)
def test_third_party_and_other_releases_are_left_out(line: str) -> None:
    assert select(parse_one_line(line), "bookworm") == []


def test_the_same_archive_twice_counts_once() -> None:
    line = "deb http://mirror.example/debian bookworm main"
    assert len(select(parse_one_line(f"{line}\n{line} contrib\n"), "bookworm")) == 1


def test_a_key_inside_the_stanza_is_no_file_name() -> None:
    stanza = "Types: deb\nURIs: http://x/debian\nSuites: bookworm\nComponents: main\n"
    text = stanza + "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n"
    assert [source.signed_by for source in parse_deb822(text)] == [None]


def test_nothing_usable_says_what_was_seen_and_the_way_on(tmp_path: Path) -> None:
    apt, release = machine(tmp_path, "bookworm", nodesource_sources=NODE)
    with pytest.raises(LabError, match=rf"nodesource.*{OVERRIDE_VARIABLE}"):
        machine_sources(apt, release, {})


def test_no_codename_says_what_is_supported(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="Debian or Ubuntu"):
        machine_sources(tmp_path, {"ID": "arch"}, {})


def test_an_override_file_is_taken_as_it_is(tmp_path: Path) -> None:
    apt, release = machine(tmp_path, "bookworm")
    mine = tmp_path / "mine.list"
    mine.write_text("deb http://mirror.example/x bookworm main contrib\n")
    _, found = machine_sources(apt, release, {OVERRIDE_VARIABLE: str(mine)})
    assert lines(found) == ["deb http://mirror.example/x bookworm main contrib"]


def test_a_missing_override_file_is_named(tmp_path: Path) -> None:
    apt, release = machine(tmp_path, "bookworm", debian_sources=DEBIAN)
    with pytest.raises(LabError, match=r"gone\.list is not a file"):
        machine_sources(apt, release, {OVERRIDE_VARIABLE: str(tmp_path / "gone.list")})
