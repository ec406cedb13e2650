"""The key and the contents of the root file system; building it for real is in tests/lab."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from treeline_lab import rootfs
from treeline_lab.rootfs import Recipe, apt_network_options, build_command, customise

RECIPE = Recipe("bookworm", ("deb http://mirror.example/debian bookworm main",))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("suite", "trixie"),
        ("sources", ("deb http://other.example/debian bookworm main",)),
        ("packages", ("systemd",)),
        ("dpkg_options", ()),
        ("masked", ()),
        ("files", (("etc/hostname", "other\n"),)),
        ("format", rootfs.FORMAT + 1),
    ],
)
def test_every_input_changes_the_key(field: str, value: Any) -> None:
    assert dataclasses.replace(RECIPE, **{field: value}).key() != RECIPE.key()


def test_no_field_is_left_out_of_the_test_above() -> None:
    names = {field.name for field in dataclasses.fields(Recipe)}
    assert names == {"suite", "sources", "packages", "dpkg_options", "masked", "files", "format"}


def test_equal_inputs_give_equal_keys() -> None:
    assert Recipe("bookworm", RECIPE.sources).key() == RECIPE.key()


def test_what_hosts_need_is_baked_in() -> None:
    for name in (
        "systemd-sysv",
        "openssh-server",
        "python3-aiohttp",
        "python3-venv",
        "python3-numpy",
        "sudo",
    ):
        assert name in RECIPE.packages


def test_the_build_dies_with_its_parent_and_mounts_nothing_outside() -> None:
    command = build_command(RECIPE, Path("/cache/key.tmp"), Path("/opt.conf"))
    before = command[: command.index("mmdebstrap")]
    assert before[:3] == ["setpriv", "--pdeathsig", "KILL"]
    assert {"--mount", "--pid", "--kill-child"} <= set(before)
    assert command[-3:] == ["bookworm", "/cache/key.tmp", *RECIPE.sources]


def test_only_apt_settings_about_reaching_the_archives_are_taken_over() -> None:
    dump = (
        'Acquire::http::Proxy "http://proxy.example:3128";\n'
        'Acquire::https::Proxy "";\n'
        'Acquire::Check-Valid-Until "false";\n'
        'APT::Install-Recommends "1";\n'
        'Dir::Cache "var/cache/apt";\n'
    )
    kept = apt_network_options(dump)
    assert 'Acquire::http::Proxy "http://proxy.example:3128";' in kept
    assert 'Acquire::Check-Valid-Until "false";' in kept
    assert "https::Proxy" not in kept
    assert "Dir::" not in kept
    assert "Recommends" not in kept


def test_customise_leaves_no_identity_and_masks_timers(tmp_path: Path) -> None:
    for path in ("etc/ssh/sshd_config.d", "etc/systemd/system", "var/log/journal/abc", "var/lib/apt/lists"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "etc/ssh/ssh_host_rsa_key").write_text("secret")
    (tmp_path / "etc/machine-id").write_text("0123\n")
    (tmp_path / "etc/resolv.conf").symlink_to("/run/nowhere")
    customise(tmp_path, RECIPE)
    assert list((tmp_path / "etc/ssh").glob("ssh_host_*")) == []
    assert (tmp_path / "etc/machine-id").read_text() == ""
    assert not (tmp_path / "etc/resolv.conf").is_symlink()
    assert list((tmp_path / "var/log/journal").iterdir()) == []
    assert (tmp_path / "etc/systemd/system/apt-daily.timer").readlink() == Path("/dev/null")
    assert "PasswordAuthentication no" in (tmp_path / "etc/ssh/sshd_config.d/lab.conf").read_text()
