"""What is declared, what is imported and what is locked agree."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parents[3]


def declared(project: str) -> list[Requirement]:
    content = tomllib.loads((REPOSITORY / project).read_text(encoding="utf-8"))["project"]
    extras = content.get("optional-dependencies", {}).values()
    every = [Requirement(text) for group in (content["dependencies"], *extras) for text in group]
    # An extra may hold another one of the same project.
    return [requirement for requirement in every if requirement.name != content["name"]]


def locked() -> dict[str, str]:
    lines = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines]
    assert all(len(pair) == 2 for pair in pairs), "every line is NAME==VERSION"
    return {canonicalize_name(name): version for name, version in pairs}


@pytest.mark.parametrize("project", ["pyproject.toml", "lab/reference_engine/pyproject.toml"])
def test_the_lock_satisfies_every_declared_requirement(project: str) -> None:
    versions = locked()
    for requirement in declared(project):
        version = versions.get(canonicalize_name(requirement.name))
        assert version, f"{requirement.name} is not locked"
        assert version in requirement.specifier, f"{requirement} is locked at {version}"


def test_ansible_core_is_locked_where_python_3_11_still_runs_it() -> None:
    assert locked()["ansible-core"].startswith("2.19.")
