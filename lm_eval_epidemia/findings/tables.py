"""Numbers about models with their errors, and how they are laid out as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from lm_eval_epidemia.benchmarks.prior.metrics import worth_in_words
from lm_eval_epidemia.findings.section import Section
from lm_eval_epidemia.results.entry import Entry
from lm_eval_epidemia.score.estimates import Estimate


class Finding(NamedTuple):
    """One number of a table.

    Attributes
    ----------
    kind : str
        The table's.
    entry : Entry
    group : str
        As lm-eval knows it, in the way that was asked.
    about : str
        The row: "mediation, do(B)"; empty where a model has one.
    part : str
        The column.
    estimate : Estimate
    form : str
        How it is shown, a key of `FORMS`.
    long : bool
        Whether it is shown only where there is room.
    metric : str
        What it is of.
    """

    kind: str
    entry: Entry
    group: str
    about: str
    part: str
    estimate: Estimate
    form: str = "share"
    long: bool = False
    metric: str = "accuracy"


class Table(NamedTuple):
    """A table: what it is called, what fills it, what it says of itself.

    Attributes
    ----------
    kind, title : str
    find : callable
        From an entry to what stands of it in the table.
    note : str
    about : str
        Heads the column of `Finding.about`, where there is one.
    """

    kind: str
    title: str
    find: Callable[[Entry], Iterable[Finding]]
    note: str
    about: str = ""


#: Up to here, but for rounding, an error is 0: all samples say the same, and none tells how far
#: another one would be.
ALIKE = 1e-9
ALIKE_NOTE = " Without ± or interval: all samples say the same, so the error is not known."


def with_error(one: Estimate, sign: str = "", digits: int = 3) -> str:
    """Write a number with its standard error, where that is known: ``0.512 ± 0.020``."""
    error = f" ± {one.error:.{digits}f}" if one.error > ALIKE else ""
    return f"{one.value:{sign}.{digits}f}{error}"


def _with_interval(one: Estimate) -> str:
    low, high = one.interval
    return f"{one.value:+.3f}" + (f" ({low:+.3f} to {high:+.3f})" if one.error > ALIKE else "")


#: How numbers are shown.
FORMS: dict[str, Callable[[Estimate], str]] = {
    "share": with_error,
    "counted": lambda one: f"{with_error(one)} ({one.samples})",
    "difference": lambda one: with_error(one, "+"),
    "interval": _with_interval,
    "plain": lambda one: f"{one.value:.3f}",
    "worth": lambda one: worth_in_words(one.value),
    "points": lambda one: with_error(one, digits=1),
}


def laid_out(
    table: Table, found: Sequence[Finding], note: str, base: str, short: dict[str, str]
) -> Section:
    """Lay out numbers: a row per model, group and what is asked about, a column per part.

    Parameters
    ----------
    table : Table
    found : sequence of Finding
    note : str
        How to read it.
    base : str
        Begins the names of the groups, and is left out where these are shown.
    short : dict of str to str
        What heads a column that would be wide, by its part.
    """
    parts = list(dict.fromkeys(one.part for one in found))
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for one in found:
        shown = "" if math.isnan(one.estimate.value) else FORMS[one.form](one.estimate)
        about = (one.about,) if table.about else ()
        asked = one.group.removeprefix(base).strip("_").replace("_", " ")
        key = (one.entry.name, asked or "plain", *about)
        cells.setdefault(key, {})[one.part] = shown
    header = (
        "model",
        "asked",
        *([table.about] if table.about else []),
        *(short.get(part, part) for part in parts),
    )
    rows = [[*key, *(row.get(part, "") for part in parts)] for key, row in cells.items()]
    if any(one.estimate.error <= ALIKE for one in found):
        note += ALIKE_NOTE
    return Section(table.title, header, rows, note, 3 if table.about else 2)
