"""What a lab host needs, made on the controller: python -m treeline_reference_engine.artifacts --cache DIR.

Writes a wheel under ``DIR/wheels`` and a model under ``DIR/models``, each named by a hash of its inputs, and
prints one JSON object: ``{"version", "wheel", "model", "model_key", "built": [...]}``. What is there already
is not made again. Nothing is downloaded: the wheel is built without isolation, with this Python's setuptools.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from .train import CANARIES, LIBRARY_CHARACTERS, PROMPTS, model_key, train_into, training_text
from .version import __version__

PROJECT = Path(__file__).resolve().parents[2]
_BUILD_FILES = ("pyproject.toml", "README.md")
_OLDEST_SETUPTOOLS = 77


class BuildError(RuntimeError):
    """Something needed for a build is missing; the text says what to do."""


def source_files() -> list[Path]:
    """Every file that goes into the wheel, relative to the project."""
    package = PROJECT / "src" / "treeline_reference_engine"
    found = [path for path in package.rglob("*") if path.suffix in (".py", ".yml") and path.is_file()]
    return sorted([path.relative_to(PROJECT) for path in found] + [Path(name) for name in _BUILD_FILES])


def source_hash() -> str:
    """Ten hex digits over the sources' names and contents."""
    digest = hashlib.sha256()
    for path in source_files():
        digest.update(f"{path}\0".encode() + (PROJECT / path).read_bytes() + b"\0")
    # With a letter: pip takes a number for one, and drops its leading zeros.
    return f"s{digest.hexdigest()[:10]}"


def build_wheel(folder: Path, version: str) -> tuple[Path, bool]:
    """(wheel, whether it was built). Raises BuildError.

    The wheel is built from a copy, so that the version can carry the source hash and the profiles can be
    there as JSON too: hosts then need no YAML parser.
    """
    target = folder / f"treeline_reference_engine-{version}-py3-none-any.whl"
    if target.exists():
        return target, False
    check_setuptools()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="treeline-wheel-") as scratch:
        copy = Path(scratch) / "project"
        for path in source_files():
            (copy / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PROJECT / path, copy / path)
        package = copy / "src" / "treeline_reference_engine"
        (package / "version.py").write_text(f'"""The version."""\n\n__version__ = "{version}"\n')
        for profile in package.glob("profiles/**/*.yml"):
            profile.with_suffix(".json").write_text(json.dumps(yaml.safe_load(profile.read_text()), indent=1))
        out = Path(scratch) / "out"
        command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index"]
        done = subprocess.run(
            [*command, "--wheel-dir", str(out), str(copy)], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise BuildError(f"The engine's wheel could not be built:\n{done.stdout}{done.stderr}")
        made = out / target.name
        if not made.exists():
            raise BuildError(f"pip made {[path.name for path in out.iterdir()]}, not {target.name}.")
        staged = folder / f".{target.name}.{os.getpid()}"
        shutil.copyfile(made, staged)
        staged.replace(target)
    return target, True


def check_setuptools() -> None:
    """Raise BuildError when this Python cannot build a wheel by itself."""
    try:
        found = importlib.metadata.version("setuptools")
    except importlib.metadata.PackageNotFoundError:
        found = "none"
    if not found.split(".")[0].isdigit() or int(found.split(".")[0]) < _OLDEST_SETUPTOOLS:
        raise BuildError(
            f"setuptools {found} is installed for {sys.executable}; building the engine's wheel needs >= "
            f"{_OLDEST_SETUPTOOLS}. Install it: {sys.executable} -m pip install "
            f"'setuptools>={_OLDEST_SETUPTOOLS}'"
        )


def build_model(folder: Path, library_characters: int) -> tuple[Path, str, bool]:
    """(model folder, key, whether it was trained)."""
    text = training_text(library_characters, [], CANARIES, PROMPTS)
    key = model_key(text)
    target = folder / key
    return target, key, train_into(target, text)


def main(argv: list[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(
        prog="python -m treeline_reference_engine.artifacts", description=__doc__
    )
    parser.add_argument("--cache", type=Path, required=True, help="folder for wheels and models")
    parser.add_argument("--library-characters", type=int, default=LIBRARY_CHARACTERS)
    args = parser.parse_args(argv)
    cache = args.cache.expanduser().resolve()
    version = f"{__version__}+{source_hash()}"
    try:
        wheel, wheel_built = build_wheel(cache / "wheels", version)
        model, key, model_built = build_model(cache / "models", args.library_characters)
    except (BuildError, OSError, ValueError) as error:
        print(f"artifacts: {error}", file=sys.stderr)
        return 1
    built = [name for name, new in (("wheel", wheel_built), ("model", model_built)) if new]
    print(
        json.dumps(
            {"version": version, "wheel": str(wheel), "model": str(model), "model_key": key, "built": built}
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
