"""References for stated priors: knowing the population, and samples that cannot be beaten."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from lm_eval_epidemia.benchmarks import PRIOR
from lm_eval_epidemia.benchmarks.prior.judgements import beatable, knower
from lm_eval_epidemia.benchmarks.prior.quantities import store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore, leaf

#: What the respondent is called that knows what the truths are estimates of.
KNOWS_POPULATION = "knows the population"


@lru_cache(maxsize=16)
def _known(task: str, _fingerprint: str) -> TaskScore:
    return TaskScore(math.nan, said=knower(store.load(task)))


def reference(entries: Iterable[Entry]) -> Entry:
    """Return the respondent that knows the population, in the plain way for every set asked."""
    tasks = {
        asked.task
        for entry in entries
        for asked, score in entry.scores.items()
        if leaf(asked).benchmark is PRIOR and score.said is not None
    }
    scores = {
        Asked(task, PRIOR.plain.name): _known(task, store.load(task).fingerprint)
        for task in sorted(tasks)
    }
    return Entry(KNOWS_POPULATION, scores=scores, reference=True)


def left_out(known: Entry) -> str:
    """Say which samples are left out of wins because nothing can beat them, if any.

    Parameters
    ----------
    known : Entry
        As from `reference`.
    """
    parts = []
    for asked, score in known.scores.items():
        for place, row in enumerate(beatable(score.said)):
            if not row.all():
                sizes = ", ".join(map(str, np.array(SIZES)[~row]))
                name = score.said.truth.quantities[place].name
                parts.append(f"{name} of {asked.task} (N = {sizes})")
    if not parts:
        return ""
    return f" Left out, because the error of N answers is about 0: {'; '.join(parts)}."
