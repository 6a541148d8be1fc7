"""One model asked the same questions in several wordings, with the survey's error."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.prompts import WORDINGS
from lm_eval_epidemia.old.findings.comparison import Comparison, compare_entries
from lm_eval_epidemia.old.findings.rows import Cell, Column, Finding, Number, Row, in_groups
from lm_eval_epidemia.old.findings.leaderboard import Report, columns, compared
from lm_eval_epidemia.old.findings.means import mean_over, shared_tasks, tasks_in
from lm_eval_epidemia.old.findings.reference import KNOWS_MARGINAL, known_scores
from lm_eval_epidemia.results.entry import Asked, Entry, closest, leaf

#: What the usual wording is called.
USUAL = "usual"

#: Permutations of a test, and their seed.
PERMUTATIONS, SEED = 9_999, 34

#: A test that cannot give a p-value as small says nothing.
LEAST_P = 0.05


def _wording(entry: Entry) -> str:
    return dict(entry.protocol.variant).get("wording", "") or USUAL


def asked_in_several(entries: Iterable[Entry]) -> list[dict[str, list[Entry]]]:
    """Return the runs of each model that differ only in wording, by wording."""
    alike: dict[Any, dict[str, list[Entry]]] = {}
    for entry in entries:
        rest = tuple(pair for pair in entry.protocol.variant if pair[0] != "wording")
        plain = replace(entry.protocol, variant=rest)
        of_model = alike.setdefault((entry.weights, entry.chat, entry.settings, plain), {})
        of_model.setdefault(_wording(entry), []).append(entry)
    order = [USUAL, *filter(None, WORDINGS)]
    return [
        {wording: of_model[wording] for wording in order if wording in of_model}
        for of_model in alike.values()
        if len(of_model) > 1
    ]


def asked_in_wordings(entries: Iterable[Entry]) -> list[Comparison]:
    """Compare a model's scores in other wordings with those in the usual one.

    By group, over the tasks asked in both.
    """
    return [
        comparison
        for of_model in asked_in_several(entries)
        for other in chain(*(runs for wording, runs in of_model.items() if wording != USUAL))
        for entry in closest(of_model.get(USUAL, []), other)
        for column in compared(columns([other]))
        if (comparison := compare_entries(other, entry, column)).tasks
    ]


def permutation_p(scores: Array, clusters: Iterable[Any]) -> float:
    """Test whether the means of wordings differ, by permutation.

    If they do not, the scores of a task are exchangeable between wordings. Tasks of one cluster
    share errors, and are permuted together. The statistic is the variance of the means.

    Parameters
    ----------
    scores : ndarray, shape (W, T)
    clusters : iterable of hashable, length T

    Returns
    -------
    float
        p-value, at least 1 / (`PERMUTATIONS` + 1).
    """
    wordings = len(scores)
    numbers: dict[Any, int] = {}
    at = np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters])
    sums = np.stack([np.bincount(at, row, len(numbers)) for row in scores])
    observed = sums.sum(axis=1).var()
    rng = np.random.default_rng(SEED)
    order = rng.random((PERMUTATIONS, wordings, len(numbers))).argsort(axis=1)
    drawn = np.take_along_axis(sums[None], order, axis=1).sum(axis=2).var(axis=1)
    # Sums in another order differ in their last digits.
    as_large = int((drawn >= observed - 1e-9 * max(observed, 1.0)).sum())
    return (1 + as_large) / (1 + PERMUTATIONS)


class Spread(NamedTuple):
    """Differences between the wordings of one model, in a group, over common tasks.

    Attributes
    ----------
    means : dict of str to Number
        By wording, with joint errors.
    between : float
        Standard deviation of the means.
    flips : Number
        Per cent of the tasks in which the model beats knowing averages only in some wordings but
        not in others, among tasks where that score is known.
    p : float
        See `permutation_p`; NaN if there are too few outcomes for a value as small as `LEAST_P`.
    """

    means: dict[str, Number]
    between: float
    flips: Number
    p: float


def spread(runs: Mapping[str, Entry], tasks: list[Asked], known: Mapping[Asked, float]) -> Spread:
    """Compare wordings over tasks with a score in all of them."""
    scores = np.array([[run.scores[asked].value for asked in tasks] for run in runs.values()])
    means = {wording: mean_over(run, tasks) for wording, run in runs.items()}
    better = np.array(
        [scores[:, n] > known[asked] for n, asked in enumerate(tasks) if asked in known]
    )
    flips = Number(math.nan)
    if len(better):
        share = (better.any(axis=1) & ~better.all(axis=1)).mean()
        flips = Number(100 * float(share), tasks=len(better))
    clusters = [leaf(asked).entry.outcome for asked in tasks]
    between = float(np.std([mean.value for mean in means.values()], ddof=1))
    # Permuting all outcomes alike changes nothing.
    different = math.factorial(len(runs)) ** (len(set(clusters)) - 1)
    p = permutation_p(scores, clusters) if different * LEAST_P >= 1 else math.nan
    return Spread(means, between, flips, p)


NOTE = (
    "The same tasks in every wording (--metadata '{\"wording\": ...}'), ± joint standard errors of "
    "sampled people and orderings. Between: the standard deviation of these scores. Flips: the "
    f"share of tasks in which the model beats the respondent that {KNOWS_MARGINAL} in some "
    "wordings but not in others (in brackets: the number of tasks). p: the probability of such "
    "differences if wordings have no effect. It permutes wordings within the outcomes of a survey, "
    "whose tasks share errors; 'too few': too few outcomes to exclude chance."
)


def read(report: Report) -> tuple[list[Finding], list[str]]:
    """Return the table of wordings, and no notes.

    Raises
    ------
    EpidemiaError
        If no model was asked the same tasks in two wordings.
    """
    rows: list[Row] = []
    for of_model in asked_in_several(report.runs):
        # Of several runs in one wording, the one asked most.
        runs = {
            wording: max(several, key=lambda run: len(run.scores))
            for wording, several in of_model.items()
        }
        first = next(iter(runs.values()))
        known = known_scores(first, report.runs)
        for group in compared(columns(runs.values())):
            # Not every group was asked in all of them.
            asked = {wording: run for wording, run in runs.items() if tasks_in(run, group)}
            if len(asked) > 1 and (tasks := shared_tasks(asked.values(), group)):
                rows += _rows(asked, group, spread(asked, tasks, known))
    if not rows:
        raise EpidemiaError(
            "no model was asked the same tasks in two wordings: run lm_eval again with --metadata "
            f'\'{{"wording": "random"}}\' ({", ".join(filter(None, WORDINGS))})'
        )
    declared = (
        *map(Column, ("model", "group", "wording")),
        Column("score", "score", 1),
        Column("between", "standard deviation between wordings", 1, form="plain"),
        Column("flips", "tasks whose verdict flips, %", 0, form="counted", title="flips, %"),
        Column("p", "p that wordings do not differ", 3, form="plain", nan="too few"),
    )
    title = "One model in several wordings"
    return [in_groups(Finding("wordings", title, declared, rows, NOTE, 3))], []


def _rows(runs: Mapping[str, Entry], group: str, known: Spread) -> Iterator[Row]:
    first, tasks = next(iter(runs.values())), next(iter(known.means.values())).tasks
    for wording, mean in known.means.items():
        cells: dict[str, Cell] = {"model": first.name, "wording": wording, "score": mean}
        yield Row(cells, runs[wording], group, wording)
    together: dict[str, Cell] = {"between": known.between, "flips": known.flips, "p": known.p}
    yield Row({"wording": "all", **together}, first, group, "all", {"tasks": tasks})
