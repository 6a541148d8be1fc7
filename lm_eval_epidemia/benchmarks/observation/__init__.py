"""What surveys say: P(Y | X)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from lm_eval_epidemia.ask.prompts import find_variables
from lm_eval_epidemia.ask.way import DistributionWay, Metric
from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.benchmarks.observation import metrics, respondents
from lm_eval_epidemia.benchmarks.observation.ways import WAYS
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.score.score import anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_fresh_set, find_record, own_surveys
from lm_eval_epidemia.surveys.catalogue import find_task as task_of
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
    of_surveys = True
    unions = {
        STANDIN: "44 of the 94 published tasks of epidemia_high, and stand-ins for the 50 tasks "
        "without shipped truth: NHIS for BRFSS (39), lifetime for past-month cigarette use "
        "(11)"
    }
    kinds = respondents.KINDS
    without_anchors = ""
    available = staticmethod(store.list_available)
    measure = staticmethod(metrics.measure)
    answers = staticmethod(respondents.simulate_answers)

    def entries(self) -> dict[str, TaskEntry]:
        tasks = all_tasks()
        replaced = {task.stands_for for task in tasks.values()} - {None}
        return {name: self._entry(task, replaced) for name, task in tasks.items()}

    def parts(self, way: DistributionWay) -> set[str]:
        """Return the surveys of several tasks that are not all of their group, and fresh sets."""
        asked = [entry for entry in self.entries().values() if way.asks(entry.declared)]
        sizes = Counter(name for entry in asked for name in entry.groups)
        return {
            entry.part
            for entry in asked
            if way.parted is None or entry.group in way.parted
            if entry.part != entry.group
            if entry.group == FRESH or 1 < sizes[entry.part] < sizes[entry.group]
        }

    def _entry(self, task: Task, replaced: Collection[int | None]) -> TaskEntry:
        facets = {
            "survey": task.survey,
            "domain": find_record(task.survey).domain,
            "dimension": f"d = {len(task.given)}",
        }
        if WAYS["closed"].asks(task):
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
        if fresh_set := find_fresh_set(truth.task):
            facts |= {"seed": str(fresh_set.seed), "record": fresh_set.record[:12]}
        return facts

    def version(self, truth: store.GroundTruth) -> int:
        return TASK_VERSION + find_variables(truth)[task_of(truth.task).outcome].revision

    def cells(self, truth: store.GroundTruth) -> dict[str, Sequence[Any]]:
        """Return P(X), P(Y | X) with its intervals, and the two ends of the task's scale."""
        number, ends = len(truth.given), anchors(truth.weights, truth.p, truth.d_perfect())
        return {
            "weight": truth.weights.tolist(),
            **distributions([truth.levels] * number, truth.p, truth.n, truth.n_eff),
            "d_zero": [ends.zero] * number,
            "d_perfect": [ends.perfect] * number,
        }


def distributions(
    levels: list[tuple[str, ...]], p: Array, n: Any, n_eff: Array
) -> dict[str, Sequence[Any]]:
    """Return the columns of `Benchmark.cells` that say what is true, with 95 % intervals."""
    low, high = interval(p, n_eff)
    return {
        "n": np.asarray(n).tolist(),
        "n_eff": n_eff.tolist(),
        "levels": levels,
        "p": p.tolist(),
        "low": low.tolist(),
        "high": high.tolist(),
    }


OBSERVATION = Observation()
