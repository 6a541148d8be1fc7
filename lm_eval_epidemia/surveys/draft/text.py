"""Texts of a file on their way into a record: cleaned, cut, quoted, never taken as markup."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import yaml

from lm_eval_epidemia.core.names import WAYS

#: What stands for a person's eye, in a comment.
CHECK = "# check:"

#: Characters that a label, a phrase's question, a variable's name are cut at.
LONGEST = 200
LONGEST_NAME = 40


def cleaned(text: object) -> str:
    """Return a text in one line of printable characters, spaces single.

    Control and format characters, line breaks and lone surrogates become spaces or nothing.
    """
    if text is None:
        return ""
    kept = "".join(
        c if c.isprintable() else "" if unicodedata.category(c) == "Cf" else " " for c in str(text)
    )
    return " ".join(kept.split())


def shortened(text: str, longest: int = LONGEST) -> str:
    """Cut a text that is longer, at a space where there is one, and end it with an ellipsis."""
    if len(text) <= longest:
        return text
    head = text[: longest - 3]
    return (head.rsplit(" ", 1)[0] if " " in head[longest // 2 :] else head) + "..."


def quoted(text: str) -> str:
    """Write a text as a YAML scalar: whatever is in it, it is read back as it is."""
    # JSON's strings are YAML's double-quoted ones, once nothing unprintable is among them.
    scalar = json.dumps(text, ensure_ascii=False)
    return scalar if scalar.isprintable() else "".join(map(_escaped, scalar))


def _escaped(character: str) -> str:
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def number(value: float) -> str:
    """Write a number so that YAML reads back the same."""
    if value in (float("inf"), float("-inf")):
        return ".inf" if value > 0 else "-.inf"
    if float(value).is_integer() and abs(value) < 2**53:
        return str(int(value))
    # Without a point before the exponent, YAML 1.1 would read a text.
    scalar = repr(float(value))
    return scalar if "." in scalar else scalar.replace("e", ".0e")


def variable_name(column: str, place: int) -> str:
    """Make a name for a variable, as task and file names need it: ``Q1 (a)`` is q1_a.

    Parameters
    ----------
    column : str
    place : int
        Of the column in its file, from 1: names one of which nothing is left.
    """
    plain = unicodedata.normalize("NFKD", column).encode("ascii", "ignore").decode().casefold()
    name = re.sub(r"[^a-z0-9]+", "_", plain).strip("_")[:LONGEST_NAME].strip("_")
    if not name or not name[0].isalpha():
        name = f"v{name or place}"
    # "a_by_b" would leave open where the outcome ends, "by_a_likelihood" what is asked.
    name = re.sub(r"(?<=_)by(?=_)", "per", name)
    return f"{name}_v" if name.split("_")[-1] in WAYS or name in _NO_NAMES else name


def apart(name: str, taken: Iterable[str]) -> str:
    """Return a name that nothing else has: q1, q1_2, q1_3."""
    taken = set(taken)
    others = (f"{name}_{n}" for n in range(2, len(taken) + 3))
    return name if name not in taken else next(other for other in others if other not in taken)


#: YAML takes them for no text.
_NO_NAMES = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class Mark(NamedTuple):
    """A place in a record that waits for a person's eye: its line, from 1, and what to check."""

    line: int
    says: str


def marks(text: str) -> list[Mark]:
    """Find the marks of a record: comments, not what a label may say.

    Parameters
    ----------
    text : str
        Valid YAML.

    Returns
    -------
    list of Mark
        In their order; what to check is the rest of the line, or the line itself.
    """
    lines = text.splitlines()
    if not any(CHECK in line for line in lines):
        return []
    ends: dict[int, int] = {}
    inside: set[int] = set()
    for token in yaml.scan(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(token, yaml.ScalarToken):
            first, last = token.start_mark, token.end_mark
            # A block scalar ends at the beginning of the line after it.
            inside.update(range(first.line, last.line))
            ends[last.line] = last.column
    places = [(row, line, line.find(CHECK, ends.get(row, 0))) for row, line in enumerate(lines)]
    return [
        Mark(row + 1, line[place + len(CHECK) :].strip() or line.strip())
        for row, line, place in places
        if place >= 0 and row not in inside
    ]
