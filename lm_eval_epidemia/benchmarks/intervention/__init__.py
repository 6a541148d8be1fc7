"""Questions about the effect of an intervention in a causal graph."""

from __future__ import annotations

from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.benchmarks.intervention import questions, respondents
from lm_eval_epidemia.benchmarks.intervention.metrics import metrics_of
from lm_eval_epidemia.benchmarks.intervention.ways import WAYS

INTERVENTION = Benchmark(
    name="intervention",
    base="_epidemia_intervention",
    groups=("epidemia_intervention", "epidemia_intervention_large"),
    ways=WAYS,
    metrics=metrics_of,
    primary="accuracy",
    says="Accuracy on causal graphs",
    digits=3,
    entries=lambda: {
        name: TaskEntry(
            name,
            "epidemia_intervention" + ("_large" if task.nodes else ""),
            "",
            f"Interventions, {task.nodes} variables"
            if task.nodes
            else f"Interventions, {task.names} names",
            {"nodes": f"n = {task.nodes:02}"} if task.nodes else {"names": task.names},
            name,
            task,
        )
        for name, task in questions.TASKS.items()
    },
    available=lambda: questions.TASKS,
    metadata=lambda truth: {"truth": truth.fingerprint},
    kinds=respondents.KINDS,
    without_anchors="is about causal graphs and has no anchors; in Python, questions({task!r}, "
    "way={way!r}) returns its prompts",
    answers=respondents.answers,
    cells=questions.cells_of,
)
