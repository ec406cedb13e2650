"""Reading hosts out of inventories, and inventories written for labs of other names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from treeline_lab import inventory, state
from treeline_lab.errors import LabError
from treeline_lab.state import LabFiles

CONNECTION = inventory.LAB_INVENTORY / "group_vars/all/connection.yml"
ANSIBLE_INVENTORY = Path(sys.executable).with_name("ansible-inventory")


def host_variables(path: Path, host: str) -> dict[str, Any]:
    done = subprocess.run(
        [ANSIBLE_INVENTORY, "-i", path, "--host", host],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


@pytest.fixture(scope="module")
def default() -> dict[str, Any]:
    return host_variables(inventory.LAB_INVENTORY, "lab1")


@pytest.mark.parametrize("length", [state.LONGEST_ROOT, state.LONGEST_ROOT + 1])
def test_ansible_looks_for_control_sockets_where_the_lab_makes_them(length: int) -> None:
    files = LabFiles(Path("/" + "d" * (length - len("//labs/mine"))), "mine")
    assert len(str(files.root)) == length
    template = yaml.safe_load(CONNECTION.read_text())["ansible_control_path_dir"]
    found = jinja2.Template(template).render(treeline_lab_files=str(files.root), treeline_lab_name="mine")
    assert found == str(files.control)


def test_hosts_of_a_group_and_its_children() -> None:
    listing = {
        "_meta": {"hostvars": {"a": {"ansible_host": "10.0.0.2"}, "b": {"ansible_host": "10.0.0.3"}}},
        "sglang": {"hosts": ["a"], "children": ["more"]},
        "more": {"hosts": ["b"]},
    }
    assert inventory.hosts_of(listing, "sglang", "x") == {"a": "10.0.0.2", "b": "10.0.0.3"}


def test_hosts_without_an_address_are_named() -> None:
    listing = {"_meta": {"hostvars": {}}, "sglang": {"hosts": ["a", "b"]}}
    with pytest.raises(LabError, match=r"fleet: no ansible_host .*a, b"):
        inventory.hosts_of(listing, "sglang", "fleet")


def test_an_empty_group_is_named() -> None:
    with pytest.raises(LabError, match="group 'sglang' has no hosts"):
        inventory.hosts_of({}, "sglang", "fleet")


def test_the_default_inventory_has_lab1() -> None:
    assert inventory.read_hosts(inventory.LAB_INVENTORY)["lab1"] == "10.66.0.11"


def test_a_package_without_its_clone_says_how_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "LAB_INVENTORY", tmp_path / "none")
    with pytest.raises(LabError, match=r"none does not exist.*pip install --editable"):
        inventory.write(tmp_path / "fleet.yml", {"a": "10.1.2.3"}, "mine", tmp_path)


def test_a_written_inventory_carries_the_lab_variables_and_its_own_names(
    tmp_path: Path, default: dict[str, Any]
) -> None:
    path = inventory.write(tmp_path / "fleet.yml", {"gpu-a": "10.1.2.3"}, "mine", tmp_path / "state")
    found = host_variables(path, "gpu-a")
    assert found["ansible_host"] == "10.1.2.3"
    assert found["treeline_lab_name"] == "mine"
    assert found["treeline_lab_dir"] == str(tmp_path / "state")
    assert Path(found["treeline_lab_proxy"]).is_file()
    for name in ("ansible_ssh_common_args", "treeline_ready_timeout", "treeline_kernel_log"):
        assert found[name] == default[name]


def test_writing_again_replaces_what_was_there(tmp_path: Path) -> None:
    inventory.write(tmp_path / "fleet.yml", {"a": "10.1.2.3"}, "mine", tmp_path)
    inventory.write(tmp_path / "fleet.yml", {"b": "10.1.2.4"}, "other", tmp_path)
    text = (tmp_path / "fleet.yml").read_text()
    assert "b:" in text
    assert "a:\n" not in text.replace("sglang:\n", "").replace("all:", "")
    assert (
        yaml.safe_load((tmp_path / "group_vars/all/zz_lab.yml").read_text())["treeline_lab_name"] == "other"
    )


def test_host_key_checking_stays_on_and_only_the_labs_keys_count(default: dict[str, Any]) -> None:
    arguments = default["ansible_ssh_common_args"]
    assert "UserKnownHostsFile=" in arguments
    assert "GlobalKnownHostsFile=none" in arguments
    assert "StrictHostKeyChecking" not in arguments
