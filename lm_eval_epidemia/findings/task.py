"""One task: the truth, what runs answered in every cell, and the scale of its score."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.prompts import Wording, find_variables
from lm_eval_epidemia.benchmarks import list_leaves
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import collect_answers
from lm_eval_epidemia.findings.finding import WHO, Finding, make_finding
from lm_eval_epidemia.findings.references import AVERAGES, UNIFORM
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: So many conditions without an order, such as races, are drawn as they are listed.
LISTED = 12


def find_asked(task: str) -> LeafKey:
    """Return a task about a distribution, by its lm-eval name.

    Raises
    ------
    EpidemiaError
        If there is no such task, or its answers are not a distribution.
    """
    if task not in list_leaves():
        raise EpidemiaError(f"no task {task!r} ({suggest(task, list_leaves())})")
    asked = LeafKey(list_leaves()[task].entry.name, list_leaves()[task].way)
    if asked.way not in OBSERVATION.ways:
        raise EpidemiaError(f"{task} is not about a distribution, so it has no such finding")
    return asked


def cells_of(results: Results, task: str) -> Finding:
    """What everybody says in every cell of a task: survey, runs and known respondents.

    Parameters
    ----------
    results : Results
    task : str
        The task's lm-eval name.

    Returns
    -------
    Finding
        A row per respondent, ``cell`` and ``answer``: what it says (``value``), the ``truth`` and
        the cell's ``weight``. The survey's own rows (``kind`` is ``survey``) have the ends of an
        interval (``low``, ``high``).
    """
    asked = find_asked(task)
    made, left_out = collect_answers(results, lambda other: other == asked)
    truth = store.load_truth(asked.task)
    wording = Wording(truth)
    of_cells = pd.DataFrame(
        {
            "run": -1,
            "condition": [", ".join(labels) for labels in truth.given],
            "given": [", ".join(wording.described(cell)) for cell in range(len(truth.given))],
            "weight": truth.weights,
        }
    )
    cell, place = np.indices(truth.p.shape).reshape(2, -1)
    every = of_cells.loc[cell].rename_axis("cell").reset_index()
    answer, p = [truth.levels[one] for one in place], truth.p.ravel()
    every = every.assign(answer=answer, place=place, truth=p)
    low, high = interval(truth.p, truth.n_eff)
    ends = {"low": low.ravel(), "high": high.ravel()}
    parts = [every.assign(model="truth", kind="survey", value=p, **ends)]
    ran = {results.runs["weights"][run].model for run, _ in made}
    known = {
        AVERAGES: scoring.answer_marginal(truth.weights, truth.p),
        UNIFORM: scoring.answer_uniformly(truth.p),
    }
    for kind, q in known.items():
        if f"epidemia-baseline kind={kind}" not in ran:
            whose = {"model": f"{RESPONDENTS[kind]} (baseline)", "kind": "respondent"}
            parts.append(every.assign(**whose, value=q.ravel()))
    for (run, _), own in sorted(made.items()):
        here = every["cell"].isin(own.cells)
        parts.append(every[here].assign(run=run, value=own.q.ravel()))
    left_out = left_out if made else [f"no answers to show: run lm_eval on {task}", *left_out]
    table = pd.concat(parts, ignore_index=True)
    return make_finding("cells", table, results.runs, left_out, title=task)


def distribution(results: Results, task: str) -> Finding:
    """The answers in the cell of a task with most people; parameters as for `cells_of`."""
    every = cells_of(results, task)
    largest = every.table["cell"] == every.table["cell"].iloc[every.table["weight"].argmax()]
    guesses = every.table["model"] == f"{RESPONDENTS[UNIFORM]} (baseline)"
    return replace(every, name="distribution", table=every.table[largest & ~guesses])


def curve(results: Results, task: str) -> Finding:
    """The first answer of a task over the levels of its only condition; as for `cells_of`.

    ``rank`` is a condition's place: as listed, or by share, if there are many without an order,
    such as countries.

    Raises
    ------
    EpidemiaError
        If the task has several conditions.
    """
    every = cells_of(results, task)
    truth = store.load_truth(find_asked(task).task)
    given = all_tasks()[truth.task].given
    if len(given) != 1:
        raise EpidemiaError(f"{task} has several conditions, so it has no curve")
    rank = np.arange(len(truth.given))
    if len(rank) > LISTED and not find_variables(truth)[given[0]].ordered:
        rank = np.argsort(np.argsort(truth.p[:, 0], kind="stable"))
    table = every.table[every.table["place"] == 0]
    table = table.assign(rank=rank[table["cell"]])
    return replace(every, name="curve", table=table)


def average_levels(every: Finding, condition: str) -> pd.DataFrame:
    """Average what survey and runs say in `cells_of` over people with one level of a condition."""
    table, truth = every.table, store.load_truth(find_asked(every.title).task)
    at = all_tasks()[truth.task].given.index(condition)
    known = {f"{name} (baseline)" for name in RESPONDENTS.values()}
    table = table[~table["model"].isin(known)]
    table = table.assign(level=[truth.given[cell][at] for cell in table["cell"]])
    by, numbers = [*WHO, "kind", "level", "answer", "place"], ["value", "truth", "low", "high"]
    table[numbers] = table[numbers].mul(table["weight"], axis="index")
    sums = table.groupby(by, sort=False)[[*numbers, "weight"]].sum(min_count=1)
    return sums[numbers].div(sums["weight"], axis="index").reset_index()


def bootstrap(task: str) -> Finding:
    """The anchors of a task's scale, and its distances in each bootstrap ``replicate``.

    Raises
    ------
    EpidemiaError
        If the task comes from a published table.
    """
    truth = store.load_truth(task)
    anchors = scoring.Anchors.of(truth)
    if not truth.distances:
        raise EpidemiaError(
            f"{task} comes from a published table: it has no bootstrap, and D_perfect is 0"
        )
    named = {"D_perfect: 100": anchors.perfect, "D_mean": anchors.mean, "D_zero: 0": anchors.zero}
    lines = pd.DataFrame({"label": [*named], "distance": [*named.values()]})
    drawn = pd.DataFrame({"distance": truth.distances[truth.scheme]})
    table = pd.concat([lines, drawn.rename_axis("replicate").reset_index()], ignore_index=True)
    return make_finding("bootstrap", table, title=task)
