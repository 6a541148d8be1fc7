"""Questions about the effect of an intervention in a causal graph."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.benchmarks.intervention import questions, respondents
from lm_eval_epidemia.benchmarks.intervention.metrics import measure
from lm_eval_epidemia.benchmarks.intervention.questions import GraphTask, Questions
from lm_eval_epidemia.benchmarks.intervention.ways import WAYS
from lm_eval_epidemia.elicit.way import Metric


class Interventions(Benchmark):
    """Does U cause V, before and after do(X)?"""

    name = "intervention"
    base = "_epidemia_intervention"
    groups = ("epidemia_intervention", "epidemia_intervention_large")
    ways = WAYS
    primary = "accuracy"
    says = "Accuracy on causal graphs"
    digits = 3
    kinds = respondents.KINDS
    without_anchors = (
        "is about causal graphs and has no anchors; in Python, questions({task!r}, way={way!r}) "
        "returns its prompts"
    )
    measure = staticmethod(measure)
    answers = staticmethod(respondents.answers)
    cells = staticmethod(questions.cells_of)

    def entries(self) -> dict[str, TaskEntry]:
        return {name: self._entry(name, task) for name, task in questions.TASKS.items()}

    def _entry(self, name: str, task: GraphTask) -> TaskEntry:
        small, large = self.groups
        if task.nodes:
            about = {"nodes": f"n = {task.nodes:02}"}
            return TaskEntry(
                name, large, "", f"Interventions, {task.nodes} variables", about, name, task
            )
        title = f"Interventions, {task.names} names"
        return TaskEntry(name, small, "", title, {"names": task.names}, name, task)

    def metrics(self, way: Any) -> Mapping[str, Metric]:
        left_out = [] if way.intervenes else ["base_", "post_", "kappa0_", "kappa1_"]
        left_out += ["margin"] if way.generated else []
        metrics = super().metrics(way)
        return {n: of for n, of in metrics.items() if not n.startswith(tuple(left_out))}

    def available(self) -> Collection[str]:
        return questions.TASKS

    def metadata(self, truth: Questions) -> dict[str, str]:
        return {"truth": truth.fingerprint}


INTERVENTION = Interventions()
