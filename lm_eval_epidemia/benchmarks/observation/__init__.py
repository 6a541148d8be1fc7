"""What surveys say: P(Y | X)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.benchmarks.observation import predicted, quick, respondents, undated
from lm_eval_epidemia.benchmarks.observation.cells import cells_of, quick_cells_of
from lm_eval_epidemia.benchmarks.observation.metrics import measure, metrics_of
from lm_eval_epidemia.benchmarks.observation.ways import WAYS
from lm_eval_epidemia.benchmarks.observation.written import Closed
from lm_eval_epidemia.elicit.wording import ways_of
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.surveys.catalogue import all_tasks, drawn, own_surveys, record
from lm_eval_epidemia.surveys.catalogue import task as task_of
from lm_eval_epidemia.surveys.fresh import GROUP as FRESH
from lm_eval_epidemia.surveys.fresh import FreshTask
from lm_eval_epidemia.surveys.record import Task

#: Changes when all scores stop being comparable; CHANGELOG.md says why.
TASK_VERSION = 3


#: The published `epidemia_high` of 94 tasks, each whose truth does not ship replaced by a stand-in.
STANDIN = "epidemia_high_standin"


def _entry(task: Task, replaced: Collection[int | None]) -> TaskEntry:
    is_kept = task.kind == "high" and task.number is not None and task.number not in replaced
    facets = {
        "survey": task.survey,
        "domain": record(task.survey).domain,
        "dimension": f"d = {len(task.given)}",
    }
    if WAYS[Closed.name].asks(task):
        facets["subset"] = "closed"
    group, part = task.group, f"{task.group}_{task.survey}"
    if isinstance(task, FreshTask):
        part = task.part
    elif task.survey in own_surveys():
        # Of its own: the groups that ship have the same tasks, and the same means, for everybody.
        group = part = part.replace("epidemia_extra", "epidemia")
    is_fresh = isinstance(task, FreshTask)
    also = (STANDIN,) if (is_kept or task.stands_for) and not is_fresh else ()
    outcome = (task.survey, task.outcome)
    return TaskEntry(task.name, group, part, task.title, facets, outcome, task, also)


def _metadata(truth: store.GroundTruth) -> dict[str, str]:
    facts = {"survey": truth.survey, "vintage": truth.vintage, "truth": truth.fingerprint}
    if fresh_set := drawn(truth.task):
        facts |= {"seed": str(fresh_set.seed), "record": fresh_set.record[:12]}
    return facts


def _version(truth: store.GroundTruth) -> int:
    return TASK_VERSION + ways_of(truth)[task_of(truth.task).outcome].revision


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
    metrics = staticmethod(metrics_of)
    measure = staticmethod(measure)
    metadata = staticmethod(_metadata)
    version = staticmethod(_version)
    answers = staticmethod(respondents.answers)
    cells = staticmethod(cells_of)

    def entries(self) -> dict[str, TaskEntry]:
        tasks = all_tasks()
        replaced = {task.stands_for for task in tasks.values()} - {None}
        return {name: _entry(task, replaced) for name, task in tasks.items()}


class QuickLook(Benchmark):
    """A quick look: a benchmark of its own, so that no table ranks it beside full runs."""

    name = "quick"
    base = "_epidemia_quick"
    groups = (quick.GROUP,)
    ways = predicted.WAYS
    primary = "score"
    says = "Quick look: predicted score, 0 to 100"
    digits = 1
    kinds = respondents.KINDS
    predicts = True
    without_anchors = (
        "predicts other groups' scores and has no anchors of its own; 'epidemia anchors "
        "epidemia_low epidemia_high' prints theirs"
    )
    available = staticmethod(quick.available)
    metrics = staticmethod(predicted.metrics_of)
    measure = staticmethod(predicted.measure)
    answers = staticmethod(quick.answers)
    cells = staticmethod(quick_cells_of)

    def entries(self) -> dict[str, TaskEntry]:
        return {
            name: TaskEntry(name, quick.GROUP, "", f"Quick look at {of.group}", {}, name, of)
            for name, of in quick.choices().items()
        }

    def metadata(self, truth: quick.QuickTruth) -> dict[str, str]:
        return {"predicts": truth.choice.group, "truth": truth.fingerprint}


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
    metrics = staticmethod(undated.metrics_of)
    measure = staticmethod(undated.measure)
    answers = staticmethod(undated.answers)

    def entries(self) -> dict[str, TaskEntry]:
        return {
            name: TaskEntry(
                name,
                undated.GROUP,
                "",
                of.title.replace("Year, ", "") + " (no year named)",
                {"survey": of.survey},
                (of.survey, of.outcome),
                of,
            )
            for name, of in undated.declared().items()
        }

    def available(self) -> list[str]:
        return [n for n, of in undated.declared().items() if store.is_available(of.name)]

    def metadata(self, truth: undated.Undated) -> dict[str, str]:
        return _metadata(truth.dated)

    def version(self, truth: undated.Undated) -> int:
        return _version(truth.dated)

    def cells(self, truth: undated.Undated) -> Mapping[str, Sequence[Any]]:
        return {"levels": [list(truth.levels)] * len(truth.given)}


OBSERVATION, QUICK, UNDATED = Observation(), QuickLook(), WithoutYear()
