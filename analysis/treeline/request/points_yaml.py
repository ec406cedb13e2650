"""Read configurations from YAML text.

The text is a list of mappings, or a mapping of ``points`` (that list), ``baseline`` and ``engine_dialect``.
"""

from __future__ import annotations

import yaml

from treeline.request.points import PointsFile

SETTINGS = ("baseline", "engine_dialect")
_LIST = "a YAML list of mappings, such as - {budget: 8}"


def read(content: str, result: PointsFile) -> None:
    """Add the configurations, settings and problems of the text to the result.

    PyYAML's base loader builds text, lists and mappings alone: no 010 that means 8, no dates, no objects. Its
    Python form is slower, but deep nesting ends it with an exception and not with the process.
    """
    try:
        loader = yaml.BaseLoader(content)
        try:
            root = loader.get_single_node()
            for node in [] if root is None else _points(root, loader, result):
                _read_point(node, loader, result)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        result.complain(line, f"is not YAML: {error.problem}")
    except (yaml.YAMLError, ValueError) as error:
        result.complain(1, f"is not YAML: {str(error).splitlines()[0]}")
    except RecursionError:
        result.complain(1, "is nested too deeply")


def _points(root: yaml.Node, loader: yaml.BaseLoader, result: PointsFile) -> list[yaml.Node]:
    """The nodes of the configurations; settings beside them are taken into the result."""
    if isinstance(root, yaml.SequenceNode):
        return list(root.value)
    if not isinstance(root, yaml.MappingNode):
        result.complain(1, "is neither a list nor a mapping", _LIST)
        return []
    nodes: list[yaml.Node] = []
    for name_node, value_node in root.value:
        name, line = str(name_node.value), name_node.start_mark.line + 1
        if name == "points" and isinstance(value_node, yaml.SequenceNode):
            nodes = list(value_node.value)
        elif name == "points":
            result.complain(line, "points is not a list", _LIST)
        elif name in SETTINGS:
            result.settings[name] = loader.construct_object(value_node, deep=True)
        else:
            result.refuse_name(name, line, (*SETTINGS, "points"))
    return nodes


def _read_point(node: yaml.Node, loader: yaml.BaseLoader, result: PointsFile) -> None:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        result.complain(line, "is not a mapping", "a mapping such as {budget: 8, maxreq: 64}")
        return
    names = [str(name.value) for name, _ in node.value]
    if result.check_names(names, line):
        values = [loader.construct_object(value, deep=True) for _, value in node.value]
        result.add(line, dict(zip(names, values, strict=True)))
