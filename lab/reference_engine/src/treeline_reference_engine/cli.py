"""Command line: flags, checks, start."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from . import config_file, profiles
from .crash import parent_text
from .files import CONFIG_FILE
from .flags import add_flags
from .server_args import ServerArgs, resolve
from .version import __version__


def build_parser() -> argparse.ArgumentParser:
    """The parser. Prefixes of flags are accepted, as in SGLang."""
    parser = argparse.ArgumentParser(
        prog="treeline_reference_engine",
        description="SGLang's surface over a real draft tree and a real n-gram model, with simulated timing.",
    )
    parser.add_argument("--version", action="version", version=f"treeline-reference-engine {__version__}")
    add_flags(parser)
    return parser


def check_model(path: str) -> dict[str, object]:
    """The model's config. Raises OSError with the text that SGLang's loader prints."""
    folder = Path(path)
    if not folder.is_dir():
        raise OSError(
            "We couldn't connect to 'https://huggingface.co' to load the files, and couldn't find them in the"
            f" cached files ({path!r} is no local folder).\nCheck your internet connection or see how to"
            " run the library in offline mode at"
            " 'https://huggingface.co/docs/transformers/installation#offline-mode'."
        )
    if not (folder / CONFIG_FILE).is_file():
        raise OSError(
            f"{path} does not appear to have a file named {CONFIG_FILE}. Checkout "
            f"'https://huggingface.co/{path.lstrip('/')}/tree/main' for available files."
        )
    config = json.loads((folder / CONFIG_FILE).read_text())
    return dict(config)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 after an orderly stop, 1 for rejected values or a missing model, 2 for unknown flags."""
    parser = build_parser()
    try:
        parsed = parser.parse_args(config_file.merged(sys.argv[1:] if argv is None else argv))
    except config_file.ConfigFileError as error:
        parser.error(str(error))
    if parsed.model_path is None:
        parser.error("the following arguments are required: --model-path/--model")
    try:
        profile = profiles.load(parsed.fault_profile)
    except profiles.ProfileError as error:
        parser.error(str(error))
    # From here on errors are uncaught, as in SGLang: a traceback and exit status 1.
    args: ServerArgs = resolve(parsed)
    rule = profile.match(args)
    fault = rule.fault if rule else None
    if fault is not None and fault.crash and fault.error.death == "parent":
        sys.stderr.write(parent_text(fault.error))
        return fault.error.exit_code
    config = check_model(args["model_path"])
    if args["speculative_draft_model_path"]:
        check_model(args["speculative_draft_model_path"])
    if args["context_length"] is None:
        args.values["context_length"] = config.get("max_position_embeddings", 131072)
    from .launcher import launch

    launch(
        args,
        f"Treeline reference engine {__version__}: draft trees and an n-gram model are real, timing is "
        f"simulated (fault profile {profile.name}, time scale {args['time_scale']:g}).",
        fault,
    )
    return 0
