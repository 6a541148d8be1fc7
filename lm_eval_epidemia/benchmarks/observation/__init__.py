"""What surveys say: P(Y | X)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.benchmarks.observation import metrics, quick, respondents, undated
from lm_eval_epidemia.benchmarks.observation.likelihood import Closed
from lm_eval_epidemia.benchmarks.observation.ways import WAYS
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.elicit.way import Metric
from lm_eval_epidemia.elicit.wording import ways_of
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.score.score import anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks, drawn, own_surveys, record
from lm_eval_epidemia.surveys.catalogue import task as task_of
from lm_eval_epidemia.surveys.fresh import GROUP as FRESH
from lm_eval_epidemia.surveys.fresh import FreshTask
from lm_eval_epidemia.surveys.record import Task

#: Changes when all scores stop being comparable; CHANGELOG.md says why.
TASK_VERSION = 3


#: The published `epidemia_high` of 94 tasks, each whose truth does not ship replaced by a stand-in.
STANDIN = "epidemia_high_standin"


class Observation(Benchmark):
    """P(Y | X) of surveys."""

    name = "observation"
    base = "_epidemia"
    groups = (
        "epidemia_low",
        "epidemia_high",
        "epidemia_extra",
        FRESH,
        "epidemia_marginal",
        "epidemia_joint",
        "epidemia_world",
        "epidemia_years",
        "epidemia_people",
    )
    ways = WAYS
    primary = "score"
    says = "Score, 0 to 100"
    digits = 1
    groups_version = TASK_VERSION
    unions = {
        STANDIN: "44 of the 94 published tasks of epidemia_high, and stand-ins for the 50 tasks "
        "without shipped truth: NHIS for BRFSS (39), lifetime for past-month cigarette use "
        "(11)"
    }
    kinds = respondents.KINDS
    without_anchors = ""
    available = staticmethod(store.available)
    measure = staticmethod(metrics.measure)
    answers = staticmethod(respondents.answers)

    def entries(self) -> dict[str, TaskEntry]:
        tasks = all_tasks()
        replaced = {task.stands_for for task in tasks.values()} - {None}
        return {name: self._entry(task, replaced) for name, task in tasks.items()}

    def _entry(self, task: Task, replaced: Collection[int | None]) -> TaskEntry:
        facets = {
            "survey": task.survey,
            "domain": record(task.survey).domain,
            "dimension": f"d = {len(task.given)}",
        }
        if WAYS[Closed.name].asks(task):
            facets["subset"] = "closed"
        group, part = task.group, f"{task.group}_{task.survey}"
        also: tuple[str, ...] = ()
        is_kept = task.kind == "high" and task.number is not None and task.number not in replaced
        if isinstance(task, FreshTask):
            part = task.part
        else:
            if is_kept or task.stands_for:
                also = (STANDIN,)
            if task.survey in own_surveys():
                # The groups that ship have the same tasks, and the same means, for everybody.
                group = part = part.replace("epidemia_extra", "epidemia")
        outcome = (task.survey, task.outcome)
        return TaskEntry(task.name, group, part, task.title, facets, outcome, task, also)

    def metrics(self, way: Any) -> Mapping[str, Metric]:
        known = {**super().metrics(way)}
        if way.drawn:
            for name in ("l1", "l1_population"):
                known[name] = known[name]._replace(low=known[name].low - 2)
        if not way.expects:
            del known["score_expected"]
        return known

    def metadata(self, truth: store.GroundTruth) -> dict[str, str]:
        facts = {"survey": truth.survey, "vintage": truth.vintage, "truth": truth.fingerprint}
        if fresh_set := drawn(truth.task):
            facts |= {"seed": str(fresh_set.seed), "record": fresh_set.record[:12]}
        return facts

    def version(self, truth: store.GroundTruth) -> int:
        return TASK_VERSION + ways_of(truth)[task_of(truth.task).outcome].revision

    def cells(self, truth: store.GroundTruth) -> dict[str, Sequence[Any]]:
        """Return P(X), P(Y | X) with its intervals, and the two ends of the task's scale."""
        number, ends = len(truth.given), anchors(truth.weights, truth.p, truth.d_perfect())
        return {
            "weight": truth.weights.tolist(),
            **_distributions([truth.levels] * number, truth.p, truth.n, truth.n_eff),
            "d_zero": [ends.zero] * number,
            "d_perfect": [ends.perfect] * number,
        }


def _distributions(
    levels: list[tuple[str, ...]], p: Array, n: Any, n_eff: Array
) -> dict[str, Sequence[Any]]:
    low, high = interval(p, n_eff)
    return {
        "n": np.asarray(n).tolist(),
        "n_eff": n_eff.tolist(),
        "levels": levels,
        "p": p.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
    }


class QuickLook(Benchmark):
    """A quick look: a benchmark of its own, so that no table ranks it beside full runs."""

    name = "quick"
    base = "_epidemia_quick"
    groups = (quick.GROUP,)
    ways = quick.WAYS
    primary = "score"
    says = "Quick look: predicted score, 0 to 100"
    digits = 1
    kinds = respondents.KINDS
    predicts = True
    without_anchors = (
        "predicts other groups' scores and has no anchors of its own; 'epidemia anchors "
        "epidemia_low epidemia_high' prints theirs"
    )
    measure = staticmethod(quick.measure)

    def entries(self) -> dict[str, TaskEntry]:
        return {
            name: TaskEntry(name, quick.GROUP, "", f"Quick look at {of.group}", {}, name, of)
            for name, of in quick.choices().items()
        }

    def available(self) -> list[str]:
        """Return the quick tasks all of whose truths ship."""
        return [
            name
            for name, choice in quick.choices().items()
            if all(store.vintages(task, "shipped") for task in {cell.task for cell in choice.cells})
        ]

    def metadata(self, truth: quick.QuickTruth) -> dict[str, str]:
        return {"predicts": truth.choice.group, "truth": truth.fingerprint}

    def answers(
        self, truth: quick.QuickTruth, kind: str, noise: float = 1.0, seed: int = 0
    ) -> list[Array]:
        tasks = {cell.truth.task: cell.truth for cell in truth.asked}
        of = {name: respondents.answers(own, kind, noise, seed) for name, own in tasks.items()}
        return [of[cell.truth.task][cell.cell] for cell in truth.asked]

    def cells(self, truth: quick.QuickTruth) -> dict[str, Sequence[Any]]:
        """Return what is true in the cells, and whose they are.

        ``weight`` is per unit of distance; see `quick`.
        """
        columns: dict[str, Any] = {
            "of_task": [own.task for own, *_ in truth.asked],
            "of_cell": [cell for _, cell, _ in truth.asked],
            "weight": [cell.weight for cell in truth.choice.cells],
        }
        for own, cell, _ in truth.asked:
            at = [cell]
            known = _distributions([own.levels], own.p[at], own.n[at], own.n_eff[at])
            for name, values in known.items():
                columns.setdefault(name, []).extend(values)
        return columns


class WithoutYear(Benchmark):
    """Questions without a year, and so without a truth: the answers say when a model lives."""

    name = "undated"
    base = "_epidemia_undated"
    groups = (undated.GROUP,)
    ways = undated.WAYS
    primary = "choice_mass"
    says = "No score: 'epidemia report --show year-lived' shows it"
    digits = 2
    scored = False
    groups_version = TASK_VERSION
    kinds = respondents.KINDS
    without_anchors = "has no truth and no score"
    measure = staticmethod(undated.measure)
    answers = staticmethod(undated.answers)

    def entries(self) -> dict[str, TaskEntry]:
        entries = {}
        for name, of in undated.declared().items():
            title = of.title.replace("Year, ", "") + " (no year named)"
            facets, outcome = {"survey": of.survey}, (of.survey, of.outcome)
            entries[name] = TaskEntry(name, undated.GROUP, "", title, facets, outcome, of)
        return entries

    def available(self) -> list[str]:
        return [n for n, of in undated.declared().items() if store.is_available(of.name)]

    def metrics(self, way: Any) -> Mapping[str, Metric]:
        """Return the metrics of how a model answered; none says how well."""
        return {**way.diagnostics, **super().metrics(way)}

    def metadata(self, truth: undated.Undated) -> dict[str, str]:
        return OBSERVATION.metadata(truth.dated)

    def version(self, truth: undated.Undated) -> int:
        return OBSERVATION.version(truth.dated)

    def cells(self, truth: undated.Undated) -> dict[str, Sequence[Any]]:
        return {"levels": [list(truth.levels)] * len(truth.given)}


OBSERVATION, QUICK, UNDATED = Observation(), QuickLook(), WithoutYear()
