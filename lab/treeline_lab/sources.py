"""Where the lab's packages come from: this machine's own apt sources, the distribution's own archives only.

Third-party repositories are left out on purpose: the lab host needs nothing from them, and one that is broken
or slow would stop the lab from being built. Formats: sources.list(5), one-line and deb822.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from treeline_lab.errors import LabError

APT_DIR = Path("/etc/apt")
OVERRIDE_VARIABLE = "TREELINE_LAB_APT_SOURCES"

# Ubuntu keeps aiohttp, uvicorn and their like in universe, Debian in main.
COMPONENTS = ("main", "universe")
SUITE_ENDINGS = ("", "-updates", "-security")
DISTRIBUTION_KEYRING = re.compile(r"(debian|ubuntu)-archive[\w-]*\.(gpg|asc|pgp)$")
ARCHIVE_NAMES = frozenset({"debian", "debian-security", "ubuntu", "ubuntu-ports"})


@dataclass(frozen=True)
class Source:
    """One archive: address, suite, components and the keyring that signs it (None: apt's trusted ones)."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str | None = None

    def line(self) -> str:
        """The source in one-line form, as mmdebstrap and apt read it."""
        options = f"[signed-by={self.signed_by}] " if self.signed_by else ""
        return f"deb {options}{self.uri} {self.suite} {' '.join(self.components)}"


def _os_release() -> Mapping[str, str]:
    """The keys of os-release(5); empty when this machine has none."""
    try:
        return platform.freedesktop_os_release()
    except OSError:
        return {}


def parse_one_line(text: str) -> Iterator[Source]:
    """Sources of a `sources.list` or `*.list` text; comments, deb-src and malformed lines are skipped."""
    for raw in text.splitlines():
        line = raw.partition("#")[0].strip()
        match = re.fullmatch(r"deb(?:\s+\[(?P<options>[^\]]*)\])?\s+(?P<rest>.+)", line)
        if not match:
            continue
        words = match["rest"].split()
        if len(words) < 3:
            continue
        options = dict(item.partition("=")[::2] for item in (match["options"] or "").split())
        yield Source(words[0], words[1], tuple(words[2:]), options.get("signed-by"))


def parse_deb822(text: str) -> Iterator[Source]:
    """Sources of a `*.sources` text: one per address and suite of every enabled `deb` stanza."""
    for stanza in re.split(r"\n\s*\n", text):
        fields = _fields(stanza)
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in (
            "no",
            "false",
        ):
            continue
        signed_by = fields.get("signed-by") or None
        if signed_by and not signed_by.startswith("/"):
            signed_by = None  # the key itself stands in the stanza: no file to point mmdebstrap at
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield Source(uri, suite, tuple(fields.get("components", "").split()), signed_by)


def _fields(stanza: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    key = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and key:
            fields[key] = f"{fields[key]} {line.strip()}"
            continue
        name, sep, value = line.partition(":")
        if sep:
            key = name.strip().lower()
            fields[key] = value.strip()
    return fields


def is_own_archive(source: Source, codename: str) -> bool:
    """Whether this is an archive of the distribution `codename` itself, with stable packages."""
    if source.suite not in {codename + ending for ending in SUITE_ENDINGS} or "main" not in source.components:
        return False
    if source.signed_by:
        return DISTRIBUTION_KEYRING.search(source.signed_by) is not None
    return bool(ARCHIVE_NAMES.intersection(urlsplit(source.uri).path.split("/")))


def select(sources: Iterable[Source], codename: str) -> list[Source]:
    """The distribution's own archives, each once, with the components the lab uses; the base suite first."""
    kept: dict[Source, None] = {}
    for source in sources:
        if is_own_archive(source, codename):
            components = tuple(name for name in COMPONENTS if name in source.components)
            kept[Source(source.uri, source.suite, components, source.signed_by)] = None
    return sorted(kept, key=lambda item: SUITE_ENDINGS.index(item.suite.removeprefix(codename)))


def read_files(apt_dir: Path = APT_DIR) -> list[Source]:
    """All enabled binary sources of an apt directory, in the order apt reads the files."""
    parts = apt_dir / "sources.list.d"
    files = (
        [apt_dir / "sources.list", *sorted(parts.glob("*"))] if parts.is_dir() else [apt_dir / "sources.list"]
    )
    found: list[Source] = []
    for path in files:
        if path.suffix == ".list" and path.is_file():
            found += parse_one_line(path.read_text(encoding="utf-8", errors="replace"))
        elif path.suffix == ".sources" and path.is_file():
            found += parse_deb822(path.read_text(encoding="utf-8", errors="replace"))
    return found


def machine_sources(
    apt_dir: Path = APT_DIR,
    release: Mapping[str, str] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> tuple[str, list[Source]]:
    """The codename and the archives the rootfs is built from.

    `release` holds the keys of os-release(5), by default this machine's. A file named by
    TREELINE_LAB_APT_SOURCES is taken as it is. Raises LabError when nothing usable is found.
    """
    codename = (_os_release() if release is None else release).get("VERSION_CODENAME", "")
    if not codename:
        raise LabError(
            "this machine's os-release names no VERSION_CODENAME: "
            "lab hosts are built from Debian or Ubuntu archives"
        )
    override = environ.get(OVERRIDE_VARIABLE)
    if override:
        return codename, _read_override(Path(override))
    found = read_files(apt_dir)
    chosen = select(found, codename)
    if not any(source.suite == codename for source in chosen):
        seen = "; ".join(source.line() for source in found) or "none"
        raise LabError(
            f"no archive of {codename} itself among the apt sources in {apt_dir} (seen: {seen}). "
            f"Name a sources file to use instead in the environment variable {OVERRIDE_VARIABLE}."
        )
    return codename, chosen


def _read_override(path: Path) -> list[Source]:
    if not path.is_file():
        raise LabError(
            f"{OVERRIDE_VARIABLE}: {path} is not a file. Allowed: an apt sources file (.list or .sources)"
        )
    text = path.read_text(encoding="utf-8")
    found = list(parse_deb822(text) if path.suffix == ".sources" else parse_one_line(text))
    if not found:
        raise LabError(f"{OVERRIDE_VARIABLE}: {path} holds no enabled `deb` source")
    return found
