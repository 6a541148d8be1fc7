"""Draws the page of the house from the code: ``python docs/house.py`` writes it anew."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "lm_eval_epidemia"
PAGE = ROOT / "docs" / "evidence" / "contributing.md"
#: A room hands on the classes that at least this many files of other rooms import, at most three.
OFTEN, MOST = 3, 3

TEXT = """# Contributing

How to test a change of the code, and where it goes.

[CONTRIBUTING](../../CONTRIBUTING.md) says how. <!-- from: CONTRIBUTING.md -->

## Which room imports which

A *room* is a folder of the package. It imports only from rooms above it. Each room's line ends in
its name; a dot on the line, below another room's name, says that it imports from that room:

```
{drawing}
```

"Hands on" names the classes that other rooms import most.

| room | what it is | hands on |
|---|---|---|
{table}

`docs/house.py` writes this page from the code.
"""


def rooms() -> list[str]:
    """Return the rooms in the order of CONTRIBUTING.md, the one that imports nothing first."""
    drawing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("```")[1]
    return re.findall(r"^(\w+)/", drawing, re.MULTILINE)


def imports(room: str) -> Iterator[tuple[Path, str, str]]:
    """Yield file, other room and name for all that a room imports from others."""
    for path in sorted((PACKAGE / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                package, *inside = node.module.split(".")
                for alias in node.names if package == PACKAGE.name else ():
                    other = (inside or [alias.name])[0]
                    if other != room:
                        yield path, other, alias.name


def first_sentence(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    source = (PACKAGE / room / "__init__.py").read_text(encoding="utf-8")
    docstring = " ".join((ast.get_docstring(ast.parse(source)) or "").split())
    return re.split(r"(?<=[.?]) ", docstring)[0].replace("``", "`")


def page() -> str:
    """Return the page: the drawing, and a line per room."""
    names = rooms()
    found = {room: set(imports(room)) for room in names}
    classes = re.compile(r"[A-Z][a-z]\w*[a-z]\w*")
    drawing, table, known = [], [], set()
    for at, room in enumerate(names):
        used = {other for _, other, _ in found[room]}
        line = "".join("●──" if other in used else "───" for other in names[:at])
        drawing.append(f"{line}{' ' if at else ''}{room}")
        files = {(path, name) for of in found.values() for path, other, name in of if other == room}
        # A room may pass on a class of a room above it, which is not its own.
        own = [name for _, name in sorted(files) if classes.fullmatch(name) and name not in known]
        known.update(own)
        handed = [name for name, number in Counter(own).most_common(MOST) if number >= OFTEN]
        cells = (
            room,
            first_sentence(room).replace("|", r"\|"),
            ", ".join(map("`{}`".format, handed)),
        )
        table.append(f"| {' | '.join(cells)} |")
    return TEXT.format(drawing="\n".join(drawing), table="\n".join(table))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
