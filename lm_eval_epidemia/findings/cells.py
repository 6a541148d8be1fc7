"""The answers of runs beside the truth, cell by cell, in many tasks or in one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.prompts import Wording, find_variables
from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks import WAYS, Benchmark, in_way, list_leaves
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.observation.measured import Part, part_of
from lm_eval_epidemia.benchmarks.observation.metrics import DROPPED
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural, suggest
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.finding import WHO, Finding, make_finding
from lm_eval_epidemia.findings.mean import add_metrics
from lm_eval_epidemia.findings.references import AVERAGES, UNIFORM
from lm_eval_epidemia.results.choose import own_scores
from lm_eval_epidemia.results.decode import LeafKey, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import TaskAnswers, answers_of
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.surveys.catalogue import all_tasks


class AnsweredGroup(NamedTuple):
    """The tasks of a group that one respondent answered.

    Attributes
    ----------
    run : int
        -1 for a known respondent.
    group : str
    tasks : dict of LeafKey to (Part, Elicited)
        The completely asked cells, and the elicited answers.
    who : str
        The name of a known respondent.
    """

    run: int
    group: str
    tasks: dict[LeafKey, tuple[Part, Elicited]]
    who: str = ""

    @property
    def row(self) -> dict[str, object]:
        """Whose a row of a finding is, see `finding.add_run_columns`."""
        kind = {"model": f"{self.who} (baseline)", "kind": "respondent"} if self.who else {}
        return {"run": self.run, **kind, "group": self.group, "tasks": len(self.tasks)}

    @property
    def score(self) -> float:
        """The mean score of the tasks."""
        tasks = self.tasks.values()
        return float(np.mean([part.score_of(part.distance(told.q)) for part, told in tasks]))


def collect_answers(
    results: Results,
    wanted: Callable[[LeafKey], object] = lambda asked: True,
    benchmark: Benchmark = OBSERVATION,
) -> tuple[dict[tuple[int, LeafKey], TaskAnswers], list[str]]:
    """Read what runs answered about surveys, by run and task; and say what is not known."""
    made: dict[tuple[int, LeafKey], TaskAnswers] = {}
    notes: list[str] = []
    missing, unordered = Counter[str](), Counter[str]()
    row: Any
    for row in add_metrics(own_scores(results), ("l1",)).itertuples():
        asked, name = LeafKey(row.task, row.way), results.runs["name"][row.run]
        is_known = leaf(asked).benchmark is benchmark and wanted(asked)
        if not is_known or (benchmark.scored and math.isnan(row.value)):
            continue
        is_kept = isinstance(row.said, str)
        try:
            own = None if row.truth and is_kept else answers_of(row.file, asked, row.said)
        except ValueError as error:
            notes.append(f"{name}: {error}")
            continue
        if own is None:
            missing[name] += 1
        # Kept to six significant digits, of which each of the answers may be off by a half.
        elif benchmark.scored and not math.isclose(own.l1, row.l1, abs_tol=1e-6 * own.q.shape[1]):
            notes.append(
                f"{name}: the answers to {in_way(*asked)} are left out: they give a distance of "
                f"{own.l1:.6f}, but the result file says {row.l1:.6f}; one of them was changed"
            )
        else:
            made[row.run, asked] = own
            if own.by_order is None and is_kept and row.said.endswith(DROPPED):
                unordered[name] += 1
    if unordered:
        notes.append(
            f"{few([*unordered])}: errors from the orderings of answers are not in those of "
            f"{plural(unordered.total(), 'task')}: run again with --log_samples for these"
        )
    if missing:
        notes.append(
            f"{few([*missing])}: no answers in {plural(missing.total(), 'task')}: the "
            "files hold none, or not to every prompt, or to questions of another truth; run again"
        )
    return made, notes


def group_answers(
    results: Results,
    wanted: Callable[[LeafKey], object] = lambda asked: True,
    fits: Callable[[Part], object] = lambda part: True,
) -> tuple[list[AnsweredGroup], list[str]]:
    """Put answers beside the truth, by run and group; and say what is left out, and why.

    Drawn answers are left out: they differ from their distribution, and between cells, by chance.

    Parameters
    ----------
    results : Results
    wanted : callable
        Selects tasks by name.
    fits : callable
        Selects tasks by the part of them that was asked.
    """
    made, notes = collect_answers(results, wanted)
    groups: dict[tuple[int, str], AnsweredGroup] = {}
    by_chance: dict[str, None] = {}
    for (run, asked), own in sorted(made.items()):
        if own.counts is not None:
            by_chance[results.runs["name"][run]] = None
            continue
        part, elicited = join_truth(asked, own)
        if fits(part):
            group = leaf(asked).group
            here = groups.setdefault((run, group), AnsweredGroup(run, group, {}))
            here.tasks[asked] = part, elicited
    if by_chance:
        notes.append(f"{few([*by_chance])}: drawn answers vary by chance and are left out")
    return [*groups.values()], notes


def join_truth(
    asked: LeafKey, own: TaskAnswers, cells: Sequence[int] | None = None
) -> tuple[Part, Elicited]:
    """Join the answers in some or all cells with the truth of these cells.

    Parameters
    ----------
    asked : LeafKey
    own : TaskAnswers
    cells : sequence of int, optional
        Numbers of answered cells, in ascending order; all by default.
    """
    truth = WAYS[asked.way].load(asked.task)
    cells = own.cells if cells is None else cells
    at = np.searchsorted(own.cells, cells)
    by_order = None if own.by_order is None else own.by_order[at]
    counts = None if own.counts is None else own.counts[at]
    part = part_of(truth, np.isin(np.arange(len(truth.weights)), cells))
    return part, Elicited(own.q[at], by_order, counts)


def add_known(
    groups: Sequence[AnsweredGroup], known: Mapping[str, Callable[[Part], Array]]
) -> Iterator[AnsweredGroup]:
    """Yield runs, then known respondents on every task that some run was asked.

    If a task was asked in parts, take the largest part.
    """
    yield from groups
    for name in dict.fromkeys(group.group for group in groups):
        parts: dict[LeafKey, Part] = {}
        for group in groups:
            if group.group == name:
                for asked, (part, _) in group.tasks.items():
                    parts[asked] = max(parts.get(asked, part), part, key=lambda of: len(of.p))
        for who, answered in known.items():
            tasks = {asked: (part, Elicited(answered(part))) for asked, part in parts.items()}
            yield AnsweredGroup(-1, name, tasks, who)


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
    known = list_leaves()[task]
    if not known.benchmark.of_surveys:
        raise EpidemiaError(f"{task} is not about a distribution, so it has no such finding")
    return LeafKey(known.entry.name, known.way)


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


def curve(results: Results, task: str, place: int = 0) -> Finding:
    """The first answer of a task, or another, over the levels of its only condition.

    As for `cells_of`; ``rank`` is a condition's place: as listed, or by share, if there are many
    without an order, such as countries.

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
        rank = np.argsort(np.argsort(truth.p[:, place], kind="stable"))
    table = every.table[every.table["place"] == place]
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
