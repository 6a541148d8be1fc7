"""The package's errors: each says what was given, what was expected and how to fix it."""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

#: A name is suggested if it is at least this close (0 to 1) and near the closest of all.
CLOSE, NEARLY = 0.6, 0.95
#: If there are more names than this, the shortest are listed instead of the first.
FEW = 100


class EpidemiaError(ValueError):
    """Bad input, or ground truth that cannot be used; the message says how to fix it."""


class Option(NamedTuple):
    """An option of a command and the Python argument of the same name."""

    name: str
    value: str | Mapping[str, str]

    @property
    def typed(self) -> str:
        """Write it as on the command line: ``--where limit=none,dtype=bfloat16``."""
        value = self.value
        if not isinstance(value, str):
            value = ",".join(f"{key}={each}" for key, each in value.items())
        return f"--{self.name} {shlex.quote(value)}"

    @property
    def argument(self) -> str:
        """Write it as in Python: ``where={'limit': 'none', 'dtype': 'bfloat16'}``."""
        return f"{self.name}={self.value!r}"


class OptionError(EpidemiaError):
    """An error that names options: its text is for the command line, `in_python` for Python."""

    def __init__(self, *parts: str | Option) -> None:
        super().__init__("".join(x if isinstance(x, str) else x.typed for x in parts))
        self.in_python = "".join(x if isinstance(x, str) else x.argument for x in parts)
        self.parts = parts


def few(names: Sequence[str]) -> str:
    """Name the first three and count the others: ``"a, b, c and 4 more"``."""
    listed = ", ".join(names[:3])
    return listed if len(names) <= 3 else f"{listed} and {len(names) - 3} more"


def plural(number: int, noun: str) -> str:
    """Say how many: ``"1 task"``, ``"1,200 tasks"``."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name or text, in lower case."""
    return tuple(re.findall(r"[^\W_]+", name.casefold()))


def _closest(given: str, names: Sequence[str], n: int) -> list[str]:
    """Return the names that are spelt like a given one, else those that have its words.

    Rare words count more: in ``marijuana_by_age``, "marijuana" says more than "by" and "age".
    """
    words = {name: words_of(name) for name in names}
    common = Counter(word for several in words.values() for word in {*several})
    asked = words_of(given)
    if not asked or any(word not in common for word in asked):
        folded, typed = {name.casefold(): name for name in names}, given.casefold()
        if near := difflib.get_close_matches(typed, folded, n, CLOSE):
            least = NEARLY * difflib.SequenceMatcher(None, near[0], typed).ratio()
            return [folded[name] for name in difflib.get_close_matches(typed, near, n, least)]
        asked = tuple((difflib.get_close_matches(x, common, 1) or [x])[0] for x in asked)
    rarest = math.log(1 + len(names))
    weight = {word: math.log(1 + len(names) / count) for word, count in common.items()}

    def weigh(word: str, known: Iterable[str]) -> float:
        return max((weight[other] for other in known if other.startswith(word)), default=0.0)

    total = sum(weigh(word, common) or rarest for word in asked)
    # Containing all given words counts four times as much as containing no others.
    closeness = {
        name: 5
        * sum(weigh(word, own) for word in asked)
        / (4 * total + sum(weight[word] for word in own))
        for name, own in words.items()
        if asked and own
    }
    best = sorted(closeness, key=lambda name: -closeness[name])[:n]
    return [name for name in best if closeness[name] >= max(CLOSE, NEARLY * closeness[best[0]])]


def suggest(given: str, known: Iterable[str], n: int = 3) -> str:
    """Return a hint naming the known names closest to a wrong one.

    Parameters
    ----------
    given : str
        What the user wrote.
    known : iterable of str
        The names that exist.
    n : int
        How many names to offer at most.

    Returns
    -------
    str
        ``"nearest: a, b"``, or ``"known: ..."`` when nothing is close.
    """
    names = sorted(set(known))
    close = _closest(str(given), names, n)
    if close:
        return "nearest: " + ", ".join(close)
    if len(names) > FEW:  # among thousands of tasks, name the groups
        names = [*sorted(names, key=len)[:10], "..."]
    return f"known: {', '.join(names) or 'none'}"
