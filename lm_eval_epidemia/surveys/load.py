"""Load a survey record from its YAML file; errors name file and line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys.record import Record
from lm_eval_epidemia.surveys.variable import written_out


def _written(levels: yaml.SequenceNode) -> list[yaml.Node]:
    """Return, for every level the schema sees, the YAML that wrote it: ``each`` writes several."""
    items = yaml.constructor.SafeConstructor().construct_document(levels)
    pairs = zip(levels.value, items, strict=True)
    return [node for node, item in pairs for _ in written_out([item])]


def _line_of(node: yaml.Node | None, location: tuple[Any, ...]) -> int:
    """Follow a pydantic error location through composed YAML to a line number (1-based)."""
    line, above = node.start_mark.line + 1 if node else 1, None
    for step in location:
        child: yaml.Node | None = None
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(step):
                    child, line = value, key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            items = _written(node) if above == "levels" else node.value
            if step < len(items):
                child, line = items[step], items[step].start_mark.line + 1
        # A step that the file does not have: a missing field, or a list that the schema adds.
        node, above = child or node, step
    return line


def _repeated(node: yaml.Node | None) -> Iterator[tuple[int, str]]:
    """Find keys that a mapping has twice: YAML would keep the last and lose the others."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            if str(key.value) in seen:
                yield key.start_mark.line + 1, str(key.value)
            seen.add(str(key.value))
            yield from _repeated(value)
    elif isinstance(node, yaml.SequenceNode):
        for child in node.value:
            yield from _repeated(child)


def _composed(text: str) -> tuple[yaml.Node | None, Any]:
    """Return the nodes of a YAML text and a loader for their data."""
    # libyaml's parser, where PyYAML was built with it, is ten times as fast; of an error, the one
    # in Python says more.
    if fast := getattr(yaml, "CSafeLoader", None):
        with suppress(yaml.YAMLError):
            return yaml.compose(text, fast), fast
    return yaml.compose(text, yaml.SafeLoader), yaml.SafeLoader


def _parsed(path: Path) -> tuple[Any, yaml.Node | None]:
    """Return the data of a YAML file, and its nodes, which know their lines."""
    text = path.read_text(encoding="utf-8")
    tree, loader = _composed(text)
    return yaml.load(text, loader), tree


def load_record(path: Path) -> Record:
    """Read and check a survey record.

    Parameters
    ----------
    path : Path
        A YAML file.

    Returns
    -------
    Record

    Raises
    ------
    EpidemiaError
        Names file, line and field of every error.
    """
    try:
        data, tree = _parsed(path)
    except (OSError, UnicodeDecodeError) as error:
        raise EpidemiaError(f"{path.name} cannot be read as UTF-8 text: {error}") from None
    except yaml.YAMLError as error:
        fault = " ".join(str(error).split())
        raise EpidemiaError(f"{path.name} is not valid YAML: {fault}") from None
    if repeated := dict.fromkeys(_repeated(tree)):
        twice = (f"{path.name}:{line}: {key} is given twice here" for line, key in repeated)
        raise EpidemiaError("\n".join(f"{fault}: keep one" for fault in twice))
    try:
        return Record.model_validate(data)
    except ValidationError as error:
        lines = []
        for problem in error.errors():
            field = ".".join(str(step) for step in problem["loc"]) or "record"
            message = problem["msg"].removeprefix("Value error, ")
            lines.append(f"{path.name}:{_line_of(tree, problem['loc'])}: {field}: {message}")
        raise EpidemiaError("\n".join(lines)) from None
