"""What surveys say: P(Y | X)."""

from __future__ import annotations

from collections.abc import Collection

from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.benchmarks.observation import predicted, quick, respondents, undated
from lm_eval_epidemia.benchmarks.observation.cells import cells_of, quick_cells_of
from lm_eval_epidemia.benchmarks.observation.metrics import metrics_of
from lm_eval_epidemia.benchmarks.observation.ways import WAYS
from lm_eval_epidemia.benchmarks.observation.written import CLOSED
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


def _entries() -> dict[str, TaskEntry]:
    """Return what is said of every declared task, by name."""
    tasks = all_tasks()
    replaced = {task.stands_for for task in tasks.values()} - {None}
    return {name: _entry(task, replaced) for name, task in tasks.items()}


def _entry(task: Task, replaced: Collection[int | None]) -> TaskEntry:
    is_kept = task.kind == "high" and task.number is not None and task.number not in replaced
    facets = {
        "survey": task.survey,
        "domain": record(task.survey).domain,
        "dimension": f"d = {len(task.given)}",
    }
    if CLOSED.asks(task):
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


OBSERVATION = Benchmark(
    name="observation",
    base="_epidemia",
    groups=(
        "epidemia_low",
        "epidemia_high",
        "epidemia_extra",
        FRESH,
        "epidemia_marginal",
        "epidemia_joint",
        "epidemia_world",
        "epidemia_years",
        "epidemia_people",
    ),
    ways=WAYS,
    metrics=metrics_of,
    primary="score",
    says="Score, 0 to 100",
    digits=1,
    entries=_entries,
    available=store.available,
    metadata=_metadata,
    version=lambda truth: TASK_VERSION + ways_of(truth)[task_of(truth.task).outcome].revision,
    groups_version=TASK_VERSION,
    unions={
        STANDIN: "44 of the 94 published tasks of epidemia_high, and stand-ins for the 50 tasks "
        "without shipped truth: NHIS for BRFSS (39), lifetime for past-month cigarette use "
        "(11)"
    },
    kinds=respondents.KINDS,
    without_anchors="",
    answers=respondents.answers,
    cells=cells_of,
)

#: A quick look: a benchmark of its own, so that no table ranks it beside full runs.
QUICK = Benchmark(
    name="quick",
    base="_epidemia_quick",
    groups=(quick.GROUP,),
    ways=predicted.WAYS,
    metrics=predicted.metrics_of,
    primary="score",
    says="Quick look: predicted score, 0 to 100",
    digits=1,
    entries=lambda: {
        name: TaskEntry(name, quick.GROUP, "", f"Quick look at {of.group}", {}, name, of)
        for name, of in quick.choices().items()
    },
    available=quick.available,
    metadata=lambda truth: {"predicts": truth.choice.group, "truth": truth.fingerprint},
    kinds=respondents.KINDS,
    predicted=True,
    without_anchors="predicts other groups' scores and has no anchors of its own; 'epidemia "
    "anchors epidemia_low epidemia_high' prints theirs",
    answers=quick.answers,
    cells=quick_cells_of,
)

#: Questions without a year, and so without a truth: how they are answered says when a model lives.
UNDATED = Benchmark(
    name="undated",
    base="_epidemia_undated",
    groups=(undated.GROUP,),
    ways=undated.WAYS,
    metrics=undated.metrics_of,
    primary="choice_mass",
    says="No score: 'epidemia report --show year-lived' shows it",
    digits=2,
    scored=False,
    entries=lambda: {
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
    },
    available=lambda: [n for n, of in undated.declared().items() if store.is_available(of.name)],
    metadata=lambda asked: _metadata(asked.dated),
    version=lambda asked: (
        TASK_VERSION + ways_of(asked.dated)[task_of(asked.dated.task).outcome].revision
    ),
    groups_version=TASK_VERSION,
    kinds=respondents.KINDS,
    without_anchors="has no truth and no score",
    answers=undated.answers,
    cells=lambda asked: {"levels": [list(asked.levels)] * len(asked.given)},
)
