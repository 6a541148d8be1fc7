"""The package's errors: each says what was given, what was expected and how to fix it."""

from __future__ import annotations

import difflib
import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

#: A name is suggested if it is at least this close (0 to 1) and near the closest of all.
CLOSE, NEARLY = 0.6, 0.85
#: If there are more names than this, the shortest are listed instead of the first.
FEW = 100
#: Two words at least this close count as the same word.
ALIKE = 0.65


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
    return f"{number:,} {noun}{'s' * (number != 1)}"


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name or text, in lower case."""
    return tuple(re.findall(r"[^\W_]+", name.casefold()))


@lru_cache(maxsize=100_000)
def alike(word: str, other: str) -> float:
    """Return how alike two words or names are, from 0 to 1; a prefix of a word scores high."""
    if len(word) >= 4 and other.startswith(word):
        return max(0.9, len(word) / len(other))
    return difflib.SequenceMatcher(None, word, other).ratio()


def _closest(given: str, names: Sequence[str]) -> list[str]:
    """Return the names that are spelt like a given one or consist of the same words.

    Rare words count more: in ``marijuana_by_age``, "marijuana" says more than "by" and "age". Order
    does not matter. A word that occurs in some known name is not treated as a misspelling:
    "marijuana" does not match "marginal".
    """
    words = {name: words_of(name) for name in names}
    common = Counter(word for several in words.values() for word in set(several))
    weight = {word: math.log(1 + len(names) / count) for word, count in common.items()}
    rarest = math.log(1 + len(names))
    asked = words_of(given)
    likeness = {
        word: {
            other: alike(word, other)
            for other in weight
            if word not in weight or other.startswith(word)
        }
        for word in set(asked)
    }
    is_misspelt = not asked or any(word not in weight for word in asked)

    def closeness(name: str) -> tuple[float, float]:
        as_written = 0.0
        if is_misspelt:
            as_written = difflib.SequenceMatcher(None, given.casefold(), name.casefold()).ratio()
        shared = total = 0.0
        for word in asked:
            alikes = likeness[word]
            other = max(words[name], key=lambda each: alikes.get(each, 0.0), default="")
            near = alikes.get(other, 0.0)
            of_it = weight[other] if near >= ALIKE else weight.get(word, rarest)
            shared += of_it * near * (near >= ALIKE)
            total += of_it
        own = sum(weight[word] for word in words[name])
        # Containing all given words counts four times as much as containing no others.
        by_words = 5 * shared / (4 * total + own) if own else 0.0
        return as_written, by_words

    close = [(sum(near), name) for name in names if max(near := closeness(name)) >= CLOSE]
    close.sort(key=lambda pair: -pair[0])
    return [name for score, name in close if score >= NEARLY * close[0][0]]


def nearest(given: str, known: Iterable[str], n: int = 3) -> str:
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
    close = _closest(str(given), names)[:n]
    if close:
        return "nearest: " + ", ".join(close)
    if len(names) > FEW:  # among thousands of tasks, name the groups
        names = [*sorted(names, key=len)[:10], "..."]
    return f"known: {', '.join(names) or 'none'}"
