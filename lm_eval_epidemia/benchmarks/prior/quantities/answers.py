"""Answers of models in the published benchmark: reference rows for a user's models.

``groundtruth/quantities/published_answers.parquet`` is made from the benchmark's own files:
``python -m lm_eval_epidemia.benchmarks.prior.quantities.answers FOLDER``, where FOLDER holds
``results_per_variable.parquet`` and ``SOURCE.json``. It keeps the priors of the NHANES part as the
benchmark read them, one row each, and none of its scores: these are computed again.

As published: o4-mini was asked for quantiles four times only (trial 0 is missing), all others five
times; gpt-4o and o4-mini were asked directly in both experiments, each time again.

Source: alanarenda/openestimate (MIT License, copyright 2025 Alana Marzoev, Jillian Ross, Jacob
Andreas, Mike Cafarella; the text is in the file's metadata).
"""

from __future__ import annotations

import argparse
import json
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
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
_RUN = ["experiment", "model", "system_prompt", "protocol", "temperature_or_effort"]


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


def write(folder: Path, to: Path) -> Path:
    """Take the answers out of the benchmark's results, and write them.

    Parameters
    ----------
    folder : Path
        With ``results_per_variable.parquet`` and ``SOURCE.json``.
    to : Path
        Folder of the file.
    """
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    results = folder / "results_per_variable.parquet"
    answers = pd.read_parquet(results)
    answers = answers[answers.dataset == "nhanes"]
    is_beta = answers.ground_truth_distribution_type == "beta"
    kept = answers[[*_RUN, "trial"]].assign(
        trial=answers.trial.astype("int8"),
        quantity=answers.variable,
        family=answers.ground_truth_distribution_type,
        a=answers.a.where(is_beta, answers.prior_mean),
        b=answers.b.where(is_beta, answers.prior_std),
    )
    kept = kept.sort_values([*_RUN, "trial", "quantity"], kind="stable")
    table = pa.Table.from_pandas(kept, preserve_index=False)
    for place, name in enumerate(table.column_names):
        if pa.types.is_string(table[name].type) or pa.types.is_large_string(table[name].type):
            table = table.set_column(place, name, table[name].dictionary_encode())
    source = json.loads((folder / "SOURCE.json").read_text(encoding="utf-8"))
    table = table.replace_schema_metadata(
        {
            "source": f"{source['official_url']}, commit {source['commit']}",
            "file": f"{results.name} sha256 {paths.sha256_of(results)}",
            "licence": source["licence_text"],
        }
    )
    with paths.atomic_write(to / ANSWERS) as temporary:
        pq.write_table(table, temporary, compression="zstd", compression_level=15)
    return to / ANSWERS


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
    try:
        rows = pq.read_table(path).to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise EpidemiaError(f"{path} cannot be read ({error}): reinstall the package") from error
    at = {name: place for place, name in enumerate(names)}
    if unknown := sorted({row["quantity"] for row in rows} - set(at)):
        raise EpidemiaError(
            f"the published answers are about the set {PUBLISHED}; this one lacks {few(unknown)}"
        )
    # Written in the order of runs.
    return tuple(_run(key, list(of_run), at) for key, of_run in groupby(rows, itemgetter(*_RUN)))


def _run(key: tuple[str, ...], rows: list[dict[str, Any]], at: dict[str, int]) -> PublishedRun:
    trials = tuple(sorted({row["trial"] for row in rows}))
    priors = np.full((len(at), len(trials), 3), np.nan)
    for row in rows:
        if row["a"] is not None:
            place = at[row["quantity"]], trials.index(row["trial"])
            priors[place] = FAMILIES.index(row["family"]), row["a"], row["b"]
    experiment, model, system_prompt, protocol, setting = key
    return PublishedRun(experiment, model, system_prompt, protocol, setting, trials, priors)


def main() -> None:
    """Write the file where the package ships it."""
    parser = argparse.ArgumentParser(description="Write the published models' answers.")
    parser.add_argument("folder", type=Path, help="with results_per_variable.parquet")
    print(write(parser.parse_args().folder, paths.shipped_groundtruth() / "quantities"))


if __name__ == "__main__":
    main()
