"""Simulated respondents to questions about causal graphs: the truth, and shortcuts."""

from __future__ import annotations

import zlib

import numpy as np

from lm_eval_epidemia.benchmarks.intervention.questions import CausalQuestion, Questions
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, nearest

KINDS = ("truth", "yes", "no", "retrieval", "target", "edges", "noisy")

#: Log-odds of an answer that is certain; of a noisy one, before the noise.
CERTAIN, NOISY = 10.0, 1.0


def answers(truth: Questions, kind: str, noise: float = 1.0, seed: int = 0) -> Array:
    """Return the probabilities of yes and no that a simulated respondent gives.

    Parameters
    ----------
    truth : Questions
    kind : {"truth", "yes", "no", "retrieval", "target", "edges", "noisy"}
        ``truth`` is always right. ``yes`` and ``no`` always give that answer. ``retrieval`` ignores
        the intervention and answers for the stated graph; ``target`` does the same, but answers no
        if the intervention is on V itself. ``edges`` counts only direct edges, not longer paths, of
        the graph before or after the intervention. ``noisy`` gives the correct answer log-odds of 1
        and adds normal noise.
    noise : float
        Standard deviation of that noise: each answer is correct with probability Phi(1 / noise).
    seed : int
        Seed of the noise, which also depends on the task's name.

    Returns
    -------
    ndarray, shape (prompts, 2)
    """
    if kind not in KINDS:
        raise EpidemiaError(f"there is no baseline kind={kind!r} ({nearest(kind, KINDS)})")
    if kind == "noisy":
        rng = np.random.default_rng([seed, zlib.crc32(truth.task.encode())])
        signs = np.array([1.0 if prompt.right else -1.0 for prompt in truth.prompts])
        odds = NOISY * signs + noise * rng.standard_normal(len(signs))
    else:
        odds = np.array([CERTAIN if _says(kind, prompt) else -CERTAIN for prompt in truth.prompts])
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
