"""Answers of models in the published benchmark: reference rows for a user's models.

``benchmarks/published_quantities.py`` made ``groundtruth/quantities/published_answers.parquet`` of
the benchmark's own files: the priors of the NHANES part as the benchmark read them, one row each,
and none of its scores, which are computed again.

As published: o4-mini was asked for quantiles four times only (trial 0 is missing), all others five
times; gpt-4o and o4-mini were asked directly in both experiments, each time again.

Source: alanarenda/openestimate (MIT License, copyright 2025 Alana Marzoev, Jillian Ross, Jacob
Andreas, Mike Cafarella; the text is in the file's metadata).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import Quantities
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few

#: The set that they are about, and the file.
PUBLISHED = "epidemia_prior_nhanes"
ANSWERS = "published_answers.parquet"

#: What tells runs apart.
RUN = ["experiment", "model", "system_prompt", "protocol", "temperature_or_effort"]


class PublishedRun(NamedTuple):
    """The priors that a published model stated under one setting.

    Attributes
    ----------
    experiment : str
        "model_family_comparison" or "ablations".
    model : str
    system_prompt : str
        "base", "conservative" or "superforecaster".
    protocol : str
        "direct", "mean-variance" or "quantile"; of the latter two, the priors that were fitted.
    temperature_or_effort : str
        "0.5" or "medium".
    trials : tuple of int
        Numbers of its R repeats, from 0.
    priors : ndarray, shape (Q, R, 3)
        Family, of `FAMILIES`, and parameters; all NaN if none was read.
    """

    experiment: str
    model: str
    system_prompt: str
    protocol: str
    temperature_or_effort: str
    trials: tuple[int, ...]
    priors: Array


def runs(truth: Quantities) -> tuple[PublishedRun, ...]:
    """Return the published runs, by experiment and setting.

    Parameters
    ----------
    truth : Quantities
        The set `PUBLISHED`: priors are in the order of its quantities.

    Raises
    ------
    EpidemiaError
        If it lacks a quantity that was answered, or the file is missing or damaged.
    """
    return _runs(tuple(quantity.name for quantity in truth.quantities))


@lru_cache(maxsize=2)
def _runs(names: tuple[str, ...]) -> tuple[PublishedRun, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = paths.shipped_groundtruth() / "quantities" / ANSWERS
    rows = pq.ParquetFile(pa.BufferReader(path.read_bytes())).read(use_threads=False).to_pylist()
    at = {name: place for place, name in enumerate(names)}
    if unknown := sorted({row["quantity"] for row in rows} - set(at)):
        raise EpidemiaError(f"{PUBLISHED} lacks {few(unknown)}, which published answers are about")
    # Written in the order of runs.
    return tuple(_run(key, list(of_run), at) for key, of_run in groupby(rows, itemgetter(*RUN)))


def _run(key: tuple[str, ...], rows: list[dict[str, Any]], at: dict[str, int]) -> PublishedRun:
    trials = tuple(sorted({row["trial"] for row in rows}))
    priors = np.full((len(at), len(trials), 3), np.nan)
    for row in rows:
        if row["a"] is not None:
            place = at[row["quantity"]], trials.index(row["trial"])
            priors[place] = FAMILIES.index(row["family"]), row["a"], row["b"]
    return PublishedRun._make((*key, trials, priors))
