"""Inventories: which hosts a lab boots, and inventory files by which Ansible reaches labs of other names."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from treeline_lab.commands import run
from treeline_lab.errors import LabError

GROUP = "sglang"
REPOSITORY = Path(__file__).resolve().parents[2]
LAB_INVENTORY = REPOSITORY / "inventory/lab"  # in a clone, not in what pip installs
PROXY = Path(__file__).resolve().with_name("proxy.py")
OVERRIDES = "zz_lab.yml"  # files of a group_vars directory are read in order of name: this one last


def lab_inventory() -> Path:
    """The repository's inventory/lab. Raises LabError when this package was installed without its clone."""
    if not LAB_INVENTORY.is_dir():
        raise LabError(
            f"{LAB_INVENTORY} does not exist: the lab's inventory is not beside this package. Install "
            "Treeline from a clone of its repository with `pip install --editable .` (`make setup`)"
        )
    return LAB_INVENTORY


def read_hosts(path: Path, group: str = GROUP) -> dict[str, str]:
    """Names and addresses (`ansible_host`) of a group, as Ansible reads the inventory at `path`.

    Raises LabError when the inventory cannot be read, or the group has no hosts or one without an address.
    """
    beside = Path(sys.executable).with_name("ansible-inventory")
    program = str(beside) if beside.exists() else shutil.which("ansible-inventory")
    if not program:
        raise LabError("ansible-inventory is not installed here. Name the hosts with --host NAME=ADDRESS.")
    if not path.exists():
        raise LabError(f"--inventory: {path} does not exist")
    done = run([program, "-i", str(path), "--list"], timeout=60)
    return hosts_of(json.loads(done.stdout), group, str(path))


def hosts_of(listing: Mapping[str, Any], group: str, where: str) -> dict[str, str]:
    """Names and addresses of a group and its children in the output of `ansible-inventory --list`."""
    variables = listing.get("_meta", {}).get("hostvars", {})
    names = _members(listing, group)
    if not names:
        raise LabError(f"{where}: group {group!r} has no hosts")
    bare = [name for name in names if "ansible_host" not in variables.get(name, {})]
    if bare:
        raise LabError(f"{where}: no ansible_host (the address the lab gives them) for: {', '.join(bare)}")
    return {name: str(variables[name]["ansible_host"]) for name in names}


def _members(listing: Mapping[str, Any], group: str) -> list[str]:
    entry = listing.get(group, {})
    names = list(entry.get("hosts", []))
    for child in entry.get("children", []):
        names += [name for name in _members(listing, child) if name not in names]
    return names


def write(path: Path, hosts: Mapping[str, str], lab: str, state_dir: Path, group: str = GROUP) -> Path:
    """Write an inventory file at `path`, and `group_vars` beside it with the variables of inventory/lab.

    They are linked, so a change to the repository's lab variables counts here too. Returns `path`.
    """
    shipped = lab_inventory() / "group_vars"
    path.parent.mkdir(parents=True, exist_ok=True)
    group_vars = path.parent / "group_vars"
    everyone = group_vars / "all"
    everyone.mkdir(parents=True, exist_ok=True)
    for source in sorted(shipped.iterdir()):
        if source.name != "all":
            _link(group_vars / source.name, source)
    for source in sorted((shipped / "all").iterdir()):
        _link(everyone / source.name, source)
    _write_yaml(everyone / OVERRIDES, overrides(lab, state_dir))
    entries = {name: {"ansible_host": address} for name, address in hosts.items()}
    _write_yaml(path, {"all": {"children": {group: {"hosts": entries}}}})
    return path


def overrides(lab: str, state_dir: Path) -> dict[str, str]:
    """The variables in which a lab differs from the default one (group_vars/all/connection.yml)."""
    return {
        "treeline_lab_name": lab,
        "treeline_lab_dir": str(state_dir),
        "treeline_lab_proxy": str(PROXY),
    }


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() or link.exists():
        link.unlink()
    link.symlink_to(target)


def _write_yaml(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text("---\n" + yaml.safe_dump(dict(content), sort_keys=False), encoding="utf-8")
