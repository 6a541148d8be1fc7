"""Tables of paired comparisons: two models, two ways, two wordings, two versions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.findings.comparison import Comparison, compare_entries
from lm_eval_epidemia.findings.leaderboard import Report, ordered_in
from lm_eval_epidemia.findings.means import shared_tasks
from lm_eval_epidemia.findings.section import Section
from lm_eval_epidemia.results.entry import Entry

#: With more models than this, only neighbours in rank are compared in the terminal.
MOST_PAIRS_OF = 5

PAIRED = (
    "pair",
    "tasks",
    "difference",
    "95 % interval",
    "here, corrected",
    "win / tie / loss",
    "the first is",
)


def models(report: Report) -> list[Section]:
    """Two models over the tasks of both, a table for each group."""
    made = []
    for column in report.columns:
        found = []
        for alike in report.alike():
            ordered = ordered_in(alike, column)
            chosen = (
                combinations(ordered, 2) if len(ordered) <= MOST_PAIRS_OF else pairwise(ordered)
            )
            found += [compare_entries(one, other, column) for one, other in chosen]
        rows = [_pair(one) for one in found if one.tasks]
        if rows:
            made.append(
                Section(
                    f"{column}: two models over the tasks of both",
                    PAIRED,
                    rows,
                    "Difference of the first from the second. The interval takes tasks on one "
                    "outcome as one observation; of one set of quantities, each of these. 'here' "
                    "means in these tasks, but not so evenly over outcomes that it can be said of "
                    "others: the difference, corrected for what sampling error adds to it, is more "
                    "than 1.96 joint standard errors. A task is won likewise, by more than twice "
                    "its own. Not corrected for the "
                    "number of comparisons.",
                )
            )
    return made


def two_ways(differences: Sequence[Comparison]) -> list[Section]:
    """One model in two ways of asking, over the tasks asked in both."""
    return _by_group(
        "One model asked in two ways",
        "model: way / other way",
        differences,
        "Paired by task, over the tasks asked in both, as two models are compared. Ways ask for "
        "different skills: what an answer would be, or how many give it.",
    )


def two_wordings(differences: Sequence[Comparison]) -> list[Section]:
    """One model asked in bare words and in the usual ones, over the tasks of both."""
    return _by_group(
        "One model in two wordings",
        "bare / usual wording",
        differences,
        "Paired by task, as two models are compared: what leaving out place, year and universe "
        "does.",
    )


def versions_compared(report: Report) -> Iterator[tuple[Entry, Comparison, Comparison | None]]:
    """Compare instruct and retrieving versions with the plain model, group by group.

    Yields
    ------
    version : Entry
    all_of_them : Comparison
        Over the tasks of both; there is one at least.
    unknown : Comparison or None
        Over those in which the plain model has 0; None where there are none.
    """
    for column in report.columns:
        for base, version in report.pairs:
            tasks = shared_tasks([base, version], column)
            unknown = [one for one in tasks if base.scores[one].value <= 0]
            if tasks:
                yield (
                    version,
                    compare_entries(version, base, column, tasks),
                    compare_entries(version, base, column, unknown) if unknown else None,
                )


def versions(report: Report) -> list[Section]:
    """Instruct and retrieving versions against the plain model."""
    rows = []
    for _version, found, unknown in versions_compared(report):
        shown = [(found, found.column)]
        # What is shown of all tasks is not shown again.
        if unknown is not None and unknown.tasks < found.tasks:
            shown.append((unknown, f"{found.column}, where the second has 0"))
        for one, which in shown:
            pair = _pair(one)
            rows.append([pair[0], which, *pair[1:]])
    return _section(
        "Instruct or retrieving version / plain model",
        PAIRED[0],
        rows,
        "Tasks in which the plain model has 0 were chosen by its score, which cannot be less: "
        "the difference there is above 0 by chance too.",
    )


def _by_group(title: str, what: str, differences: Sequence[Comparison], note: str) -> list[Section]:
    return _section(
        title, what, [[*_pair(one)[:1], one.column, *_pair(one)[1:]] for one in differences], note
    )


def _section(title: str, what: str, rows: list[list[str]], note: str) -> list[Section]:
    return [Section(title, (what, "group", *PAIRED[1:]), rows, note)] if rows else []


def _pair(found: Comparison) -> list[str]:
    digits = groups()[found.column].digits
    interval = "" if math.isnan(found.low) else f"{found.low:.{digits}f} to {found.high:.{digits}f}"
    error = "" if math.isnan(found.error) else f" ± {found.error:.{digits}f}"
    return [
        f"{found.one} / {found.other}",
        str(found.tasks),
        f"{found.difference:+.{digits}f}{error}",
        interval,
        _here(found, digits),
        f"{found.wins} / {found.ties} / {found.losses}",
        found.verdict,
    ]


def _here(found: Comparison, digits: int) -> str:
    """Write the difference in these tasks with its joint error; nothing where it is not known."""
    if math.isnan(found.here):
        return ""
    return f"{found.corrected:+.{digits}f} ± {found.here:.{digits}f}"
