"""Dialects: how one SGLang version or fork spells the parameters of a restart key.

A dialect is data, one YAML file in ``roles/sglang_ddtree/vars/dialects/``; a user's own file may be named
by its path. This module reads and checks such a file and writes what the engine is given (argument list,
environment) and what it must then report (served arguments, captured verify width).

Parameters come as a restart key or as a mapping with its field names; a mapping may hold numbers and
booleans as text, because values given with ``-e`` are text, and further names that static rules ask for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from treeline.keys import SWITCH_WORDS, RestartKey

# Named dialects belong to the role, so they are in a clone and not in what pip installs.
DIRECTORY = Path(__file__).resolve().parents[2] / "roles" / "sglang_ddtree" / "vars" / "dialects"
PARAMETERS = ("budget", "topk", "block_size", "maxreq", "graph_max_bs", "attention_backend")
# Parameters of the draft: a service without speculation (budget 0) is given none of them.
_OF_THE_DRAFT = ("budget", "topk", "block_size")

# Flags that would contradict the key or the role's own variables whatever the dialect: other spellings of
# the same setting, and --config, whose file could hold any of them.
ALWAYS_OWNED = (
    "--model-path",
    "--model",
    "--tp-size",
    "--tensor-parallel-size",
    "--host",
    "--port",
    "--config",
    "--speculative-algorithm",
    "--speculative-draft-model-path",
    "--speculative-draft-model",
    "--speculative-num-draft-tokens",
    "--speculative-dflash-block-size",
    "--speculative-num-steps",
    "--speculative-eagle-topk",
    "--max-running-requests",
    "--attention-backend",
    "--cuda-graph-max-bs",
    "--cuda-graph-max-bs-decode",
    "--cuda-graph-bs",
    "--cuda-graph-bs-decode",
    "--cuda-graph-backend-decode",
    "--cuda-graph-config",
    "--disable-cuda-graph",
    "--disable-decode-cuda-graph",
)

_VALUE = "{value}"
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class DialectError(ValueError):
    """A dialect cannot be found, read or used; the message names the file or value and what is allowed."""


class Capabilities(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the engine can vary: a tree at all, and the candidates per position of that tree."""

    tree: bool
    topk: bool


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Values that the engine insists on: always, or only for a tree larger than one chain."""

    require: dict[str, str | int | bool]
    message: str
    when_full_tree: bool = False


class Dialect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One dialect file, as read; see the files in the role for what each field means."""

    name: str
    title: str
    source: str
    speculative: list[str]
    argv: dict[str, list[str]]
    served: dict[str, str]
    width: Literal["budget_plus_one", "block_size"]
    capabilities: Capabilities
    graphs_off: list[str] = []
    env: dict[str, str] = {}
    served_graphs_off: dict[str, str | int | bool] = {}
    owned: list[str] = []
    rules: list[Rule] = []

    def changes(self, parameter: str) -> bool:
        """Whether a value of this parameter reaches the engine and makes a difference there."""
        if parameter == "topk" and not self.capabilities.topk:
            return False
        return parameter in self.argv or parameter in self.env


class _Parameters(msgspec.Struct):
    """The parameters of one service; None is a parameter that is left to the engine."""

    budget: int | None = None
    topk: int | None = None
    block_size: int | None = None
    maxreq: int | None = None
    graphs: bool = True
    graph_max_bs: int | None = None
    attention_backend: str | None = None

    @property
    def speculative(self) -> bool:
        return self.budget != 0

    def value(self, parameter: str) -> int | str | None:
        """The value that the engine is given for a parameter; None where it is given none."""
        if parameter in _OF_THE_DRAFT and not self.speculative:
            return None
        given: int | str | None = getattr(self, parameter)
        return given


def names() -> list[str]:
    """Names of the role's dialects, sorted.

    Raises:
        DialectError: there is no role beside this package.
    """
    if not DIRECTORY.is_dir():
        raise DialectError(
            f"there are no dialects at {DIRECTORY}: the role sglang_ddtree is not beside this package. "
            "Install Treeline from a clone of its repository with `pip install --editable .` (`make setup`)"
        )
    return sorted(path.stem for path in DIRECTORY.glob("*.yml"))


def is_path(name: str) -> bool:
    """Whether a dialect was given as the path of a file and not as a name."""
    return "/" in name or name.endswith((".yml", ".yaml"))


def load(name: str) -> Dialect:
    """Read a dialect by its name, or by the path of a user's own file.

    Raises:
        DialectError: there is no such dialect, or its file is not a dialect.
    """
    if is_path(name):
        return _read(Path(name).expanduser())
    known = names()
    if name not in known:
        own = "or the path of your own dialect file, such as ./my-fork.yml"
        raise DialectError(f"dialect {name!r} is not known. Known: {', '.join(known)}; {own}")
    dialect = _read(DIRECTORY / f"{name}.yml")
    if dialect.name != name:
        raise DialectError(f"dialect file {name}.yml: its name is {dialect.name!r}, not that of the file")
    return dialect


def resolve(dialect: str | Mapping[str, Any]) -> Dialect:
    """A dialect from its name, its path, or the content of its file. Raises DialectError."""
    return load(dialect) if isinstance(dialect, str) else parse(dict(dialect))


def parse(data: Any, where: str = "dialect") -> Dialect:
    """Check the content of a dialect file.

    Raises:
        DialectError: naming ``where`` and the field that is wrong.
    """
    try:
        dialect = msgspec.convert(data, Dialect)
    except msgspec.ValidationError as error:
        raise DialectError(f"{where}: {error}") from error
    for fault in _faults(dialect):
        raise DialectError(f"{where}: {fault}")
    return dialect


def argv(
    dialect: Dialect,
    params: RestartKey | Mapping[str, Any],
    extra_args: Sequence[str] = (),
    also_owned: Iterable[str] = (),
) -> list[str]:
    """The engine's arguments for these parameters, then the user's extra ones.

    Args:
        also_owned: further flags that the caller writes itself and ``extra_args`` must not name.

    Raises:
        DialectError: a parameter is malformed, or an extra argument names a flag that is owned.
    """
    values = _parameters(params)
    refused = owned_in(dialect, extra_args, also_owned)
    if refused:
        raise DialectError("; ".join(refused))
    words = list(dialect.speculative) if values.speculative else []
    for parameter in PARAMETERS:
        value = values.value(parameter)
        if value is not None:
            words.extend(piece.replace(_VALUE, str(value)) for piece in dialect.argv.get(parameter, ()))
    if not values.graphs:
        words.extend(dialect.graphs_off)
    return words + list(extra_args)


def env(dialect: Dialect, params: RestartKey | Mapping[str, Any]) -> dict[str, str]:
    """The environment variables that carry parameters in this dialect. Raises DialectError."""
    values = _parameters(params)
    return {
        variable: str(values.value(parameter))
        for parameter, variable in dialect.env.items()
        if values.value(parameter) is not None
    }


def served(dialect: Dialect, params: RestartKey | Mapping[str, Any]) -> dict[str, Any]:
    """What /server_info must report for these parameters: its key -> value. Raises DialectError."""
    values = _parameters(params)
    expected: dict[str, Any] = {
        key: values.value(parameter)
        for parameter, key in dialect.served.items()
        if values.value(parameter) is not None
    }
    if not values.speculative:
        expected["speculative_algorithm"] = None
    if not values.graphs:
        expected |= dialect.served_graphs_off
    return expected


def expected_width(dialect: Dialect, params: RestartKey | Mapping[str, Any]) -> int | None:
    """Tokens per request that the engine must capture its verify graph for; None without graphs.

    One token where nothing is drafted.
    """
    values = _parameters(params)
    if not values.graphs:
        return None
    if not values.speculative:
        return 1
    if dialect.width == "block_size":
        return values.block_size
    return None if values.budget is None else values.budget + 1


def broken_rules(
    dialect: Dialect, params: RestartKey | Mapping[str, Any], *, complete: bool = False
) -> list[str]:
    """Messages of the static rules that these parameters break.

    Args:
        complete: ``params`` names everything that the engine will be given, so what a rule requires and
            ``params`` lacks breaks the rule. Else what is missing or None is not judged.
    """
    given = params.to_dict() if isinstance(params, RestartKey) else dict(params)
    values = _parameters(params)
    chain = (values.block_size or 0) - 1
    full_tree = values.budget is not None and values.budget > chain
    if not values.speculative:
        return []
    return [
        rule.message
        for rule in dialect.rules
        if (full_tree or not rule.when_full_tree)
        and any(
            _plain_word(given[name]) != _plain_word(wanted) if given.get(name) is not None else complete
            for name, wanted in rule.require.items()
        )
    ]


def owned_flags(dialect: Dialect, also_owned: Iterable[str] = ()) -> set[str]:
    """Every flag that only the dialect or the role may write, spelt with dashes."""
    emitted = [*dialect.speculative, *dialect.graphs_off, *dialect.owned, *ALWAYS_OWNED, *also_owned]
    for pieces in dialect.argv.values():
        emitted.extend(pieces)
    return {_flag(word) for word in emitted if word.startswith("--")}


def owned_in(dialect: Dialect, extra_args: Sequence[str], also_owned: Iterable[str] = ()) -> list[str]:
    """One message for each extra argument that names an owned flag, abbreviated or not.

    SGLang's parser takes any unambiguous beginning of a flag for the flag, so these count too.
    """
    if isinstance(extra_args, str) or not all(isinstance(word, str) for word in extra_args):
        allowed = "a list such as ['--page-size', '1']"
        return [f"extra arguments: {extra_args!r} is not a list of words. Allowed: {allowed}"]
    owned = owned_flags(dialect, also_owned)
    messages = []
    for word in extra_args:
        flag = _flag(word)
        if not word.startswith("--"):
            continue
        hits = [flag] if flag in owned else sorted(name for name in owned if name.startswith(flag))
        if hits:
            says = f"extra arguments: {word!r} sets {hits[0]}, which Treeline writes itself"
            messages.append(f"{says}. Use the variable for it")
    return messages


def _read(path: Path) -> Dialect:
    import yaml  # here, because the parameters of a known dialect are spelt without it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - a safe loader
    except FileNotFoundError as error:
        raise DialectError(f"dialect file {path} does not exist") from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise DialectError(f"dialect file {path} cannot be read: {error}") from error
    return parse(data, f"dialect file {path}")


def _faults(dialect: Dialect) -> Iterable[str]:
    for field in ("argv", "env", "served"):
        for parameter in getattr(dialect, field):
            if parameter not in PARAMETERS:
                yield f"{field}: {parameter!r} is not a parameter. Allowed: {', '.join(PARAMETERS)}"
    for parameter, pieces in dialect.argv.items():
        if not any(_VALUE in piece for piece in pieces) or not pieces[0].startswith("--"):
            allowed = f"a flag and {_VALUE}, such as ['--page-size', '{_VALUE}']"
            yield f"argv: {parameter}: {pieces} is not {allowed}"
        if parameter in dialect.env:
            yield f"env: {parameter} is in argv already; a parameter has one spelling"
    for variable in dialect.env.values():
        if not _ENVIRONMENT_NAME.fullmatch(variable):
            yield f"env: {variable!r} is not the name of an environment variable"
    if dialect.capabilities.topk and not dialect.changes("topk"):
        yield "capabilities: topk is true, but neither argv nor env has topk"
    if dialect.capabilities.topk and not dialect.capabilities.tree:
        yield "capabilities: topk is true, but tree is false"
    for flag in dialect.owned:
        if not flag.startswith("--"):
            yield f"owned: {flag!r} is not a flag such as --page-size"


def _parameters(params: RestartKey | Mapping[str, Any]) -> _Parameters:
    given = params.to_dict() if isinstance(params, RestartKey) else dict(params)
    graphs = given.get("graphs")
    if isinstance(graphs, str):
        given["graphs"] = SWITCH_WORDS.get(graphs.strip().lower(), graphs)
    elif graphs is None:
        given.pop("graphs", None)
    try:
        return msgspec.convert(given, _Parameters, strict=False)
    except msgspec.ValidationError as error:
        raise DialectError(f"parameters {given}: {error}") from error


def _flag(word: str) -> str:
    """The flag of one argument: without its value, and with dashes as SGLang's parser spells it."""
    return re.split(r"[=\s]", word, maxsplit=1)[0].replace("_", "-")


def _plain_word(value: Any) -> str:
    return str(value).strip().lower()
