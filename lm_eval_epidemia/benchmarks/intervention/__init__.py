"""Questions about the effect of an intervention in a causal graph."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from lm_eval_epidemia.ask.way import Metric
from lm_eval_epidemia.benchmarks.benchmark import Benchmark, TaskEntry
from lm_eval_epidemia.benchmarks.intervention import questions
from lm_eval_epidemia.benchmarks.intervention.metrics import measure, read_kept
from lm_eval_epidemia.benchmarks.intervention.questions import CausalQuestion, GraphQuestions
from lm_eval_epidemia.benchmarks.intervention.ways import WAYS
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, suggest

#: Log-odds of an answer that is certain; of a noisy one, before the noise.
CERTAIN, NOISY = 10.0, 1.0


class Interventions(Benchmark):
    """Does U cause V, before and after do(X)?"""

    name = "intervention"
    base = "_epidemia_intervention"
    groups = ("epidemia_intervention", "epidemia_intervention_large")
    ways = WAYS
    primary = "accuracy"
    says = "Accuracy on causal graphs"
    digits = 3
    kinds = ("truth", "yes", "no", "retrieval", "target", "edges", "noisy")
    without_anchors = (
        "is about causal graphs and has no anchors; in Python, questions({task!r}, way={way!r}) "
        "returns its prompts"
    )
    measure = staticmethod(measure)
    read_kept = staticmethod(read_kept)
    cells = staticmethod(questions.cells_of)

    def entries(self) -> dict[str, TaskEntry]:
        entries, (small, large) = {}, self.groups
        for name, task in questions.TASKS.items():
            group, about, title = small, {"names": task.names}, f"{task.names} names"
            if task.nodes:
                group, about = large, {"nodes": f"n = {task.nodes:02}"}
                title = f"{task.nodes} variables"
            entries[name] = TaskEntry(name, group, "", f"Interventions, {title}", about, name, task)
        return entries

    def metrics(self, way: Any) -> Mapping[str, Metric]:
        left_out = [] if way.intervenes else ["base_", "post_", "kappa0_", "kappa1_"]
        left_out += ["margin"] if way.generated else []
        metrics = super().metrics(way)
        return {n: of for n, of in metrics.items() if not n.startswith(tuple(left_out))}

    def available(self) -> Collection[str]:
        return questions.TASKS

    def metadata(self, truth: GraphQuestions) -> dict[str, str]:
        return {"truth": truth.fingerprint}

    def answers(self, truth: GraphQuestions, kind: str, noise: float = 1.0, seed: int = 0) -> Array:
        """Return the probabilities of yes and no that a simulated respondent gives.

        Parameters
        ----------
        truth : Questions
        kind : {"truth", "yes", "no", "retrieval", "target", "edges", "noisy"}
            ``truth`` is always right. ``yes`` and ``no`` always give that answer. ``retrieval``
            ignores the intervention and answers for the stated graph; ``target`` does the same, but
            answers no if the intervention is on V itself. ``edges`` counts only direct edges, not
            longer paths, of the graph before or after the intervention. ``noisy`` gives the correct
            answer log-odds of 1 and adds normal noise.
        noise : float
            Standard deviation of that noise: an answer is correct with probability Phi(1 / noise).
        seed : int
            Seed of the noise, which also depends on the task's name.

        Returns
        -------
        ndarray, shape (prompts, 2)
        """
        if kind not in self.kinds:
            raise EpidemiaError(f"there is no baseline kind={kind!r} ({suggest(kind, self.kinds)})")
        if kind == "noisy":
            rng = np.random.default_rng([seed, zlib.crc32(truth.task.encode())])
            signs = np.array([1.0 if prompt.right else -1.0 for prompt in truth.prompts])
            odds = NOISY * signs + noise * rng.standard_normal(len(signs))
        else:
            said = np.array([_says(kind, prompt) for prompt in truth.prompts])
            odds = np.where(said, CERTAIN, -CERTAIN)
        yes = np.exp(-np.logaddexp(0, -odds))
        return np.column_stack([yes, np.exp(-np.logaddexp(0, odds))])


def _says(kind: str, prompt: CausalQuestion) -> bool:
    """Return whether a respondent answers yes."""
    graph, query = prompt.scene.graph, (prompt.cause, prompt.result)
    if kind in ("yes", "no"):
        return kind == "yes"
    # What is asked without an intervention or a graph has no shortcut but that of edges.
    if kind == "truth" or (prompt.intervened is None and kind != "edges"):
        return prompt.right
    if kind == "edges":
        seen = graph if prompt.intervened is None else graph.after(prompt.intervened)
        return query in seen.edges
    return graph.reaches(*query) and not (kind == "target" and prompt.intervened == prompt.result)


INTERVENTION = Interventions()
