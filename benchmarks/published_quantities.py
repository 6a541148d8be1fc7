"""Make the published quantities and the published models' answers: `groundtruth/quantities/`.

    python benchmarks/published_quantities.py FOLDER

FOLDER holds the benchmark's own files: ``variables.parquet``, ``baseline_samples.parquet``,
``results_per_variable.parquet`` and ``SOURCE.json``. Truths (mean, standard deviation between
people, standard error, number of people) are taken as published; thresholds are read from the
published texts, all other words are ours, because the published ones do not always say what the
truth is of. Of the drawn people only sums are kept; of the answers the priors of the NHANES part as
the benchmark read them, one row each, and none of its scores: these are computed again.

Source: "OpenEstimate: Evaluating LLMs on Reasoning Under Uncertainty with Real-World Data" and its
repository, alanarenda/openestimate (MIT License, copyright 2025 Alana Marzoev, Jillian Ross, Jacob
Andreas, Mike Cafarella; the text is in the files).
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from lm_eval_epidemia.benchmarks.prior.quantities.answers import ANSWERS, RUN
from lm_eval_epidemia.benchmarks.prior.quantities.published import (
    VARIABLES,
    YesNoVariable,
    word_published,
)
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import (
    DRAWS,
    SIZES,
    Condition,
    DomainStats,
    Quantities,
    Quantity,
    Sums,
    count_alike,
    list_numbers,
    stack_draws,
    weight_twice,
)
from lm_eval_epidemia.benchmarks.prior.quantities.store import PREFIX, write_quantities
from lm_eval_epidemia.benchmarks.prior.quantities.wording import QUARTERS, format_bounds
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError

#: Bounds in a published text; the digits of 1.4124999999999999 are those of a float.
_BOUNDS = re.compile(r"(?P<side>greater than|less than or equal to) (?P<bound>\d+(?:\.\d+)?)")


def _condition(name: str, level: float, text: str) -> Condition:
    """Read a condition: a level by its code, the bounds of a quarter from the published text."""
    variable = VARIABLES[name]
    if isinstance(variable, YesNoVariable):
        label = "Yes" if level == 1 else "No"
        return Condition(name, label, variable.yes if level == 1 else variable.no)
    bounds = {bound["side"]: float(bound["bound"]) for bound in _BOUNDS.finditer(text)}
    low, high = bounds.get("greater than"), bounds.get("less than or equal to")
    quarter = int(level)
    if (low is None) != (quarter == 0) or (high is None) != (quarter == 3):
        raise EpidemiaError(
            f"{name} {QUARTERS[quarter]}: expected its bounds, got {text!r}: is this the "
            "published list of variables?"
        )
    return Condition(
        name,
        QUARTERS[quarter],
        f"whose {variable.words} is {format_bounds(low, high, variable.unit)}",
    )


def _conditions(row: Any) -> tuple[Condition, ...]:
    listed = json.loads(row.conditions)
    texts = row.description.partition(", given ")[2].split(", and ") if listed else []
    if len(texts) != len(listed):
        raise EpidemiaError(
            f"{row.variable}: {len(listed)} conditions, but {len(texts)} in {row.description!r}"
        )
    return tuple(
        _condition(name, level, text) for (name, level), text in zip(listed, texts, strict=True)
    )


def _stats(row: Any) -> DomainStats:
    return DomainStats(row.mean, row.std, row.se)


def _quantity(row: Any, marginals: dict[str, Any]) -> Quantity:
    base, conditions = row.base_variable, _conditions(row)
    variable = VARIABLES[base]
    family = row.ground_truth_distribution_type
    return Quantity(
        name=row.variable,
        base=base,
        conditions=conditions,
        family=family,
        unit="" if isinstance(variable, YesNoVariable) else variable.unit,
        wording=word_published(base, conditions),
        **list_numbers(_stats(row), int(row.n), _stats(marginals[base]), family),
    )


def _read(file: Path, columns: list[str]) -> pd.DataFrame:
    if not file.is_file():
        raise EpidemiaError(
            f"{file.parent} has no {file.name}: give the folder with the published files"
        )
    frame = pd.read_parquet(file)
    if missing := [column for column in columns if column not in frame]:
        raise EpidemiaError(
            f"{file.name} lacks {', '.join(missing)}: expected {', '.join(columns)}"
        )
    return frame[frame["dataset"] == "nhanes"]


def made_from(folder: Path) -> Quantities:
    """Make the set from the published files.

    Parameters
    ----------
    folder : Path
        With ``variables.parquet``, ``baseline_samples.parquet`` and ``SOURCE.json``.

    Returns
    -------
    Quantities
        Scores are relative to the "published" draws. "corrected" are the first N people of each,
        in the order in which they were drawn, counted alike. Its fingerprint is empty.

    Raises
    ------
    EpidemiaError
        If a file is missing, or is another.
    """
    files = [folder / name for name in ("variables.parquet", "baseline_samples.parquet")]
    told = ["variable", "base_variable", "conditions", "description", "mean", "std", "se", "n"]
    variables = _read(files[0], [*told, "ground_truth_distribution_type"])
    people = _read(files[1], ["variable", "n", "trial", "draw", "value", "weight_WTMEC2YR"])
    source = json.loads((folder / "SOURCE.json").read_text(encoding="utf-8"))
    rows: list[Any] = list(variables.itertuples(index=False))
    marginals = {row.variable: row for row in rows if row.variable == row.base_variable}
    sums: dict[Any, Sums] = {}
    people = people.sort_values(["variable", "n", "trial", "draw"])
    for (name, size, trial), drawn in people.groupby(["variable", "n", "trial"], sort=False):
        value = drawn["value"].to_numpy(np.float64)
        weight = drawn["weight_WTMEC2YR"].to_numpy(np.float64)
        sums["published", name, size, trial] = weight_twice(value, weight)
        sums["corrected", name, size, trial] = count_alike(value[:size])
    return Quantities(
        task=PREFIX + "nhanes",
        survey="nhanes",
        vintage="2017-2018",
        title="NHANES 2017-2018, the published quantities",
        about={
            "source": f"{source['official_url']}, commit {source['commit']}",
            "citation": "OpenEstimate: Evaluating LLMs on Reasoning Under Uncertainty with "
            "Real-World Data (2025). Survey: National Center for Health Statistics, National "
            "Health and Nutrition Examination Survey, 2017-2018.",
            "licence": source["licence_text"],
            "files": "; ".join(f"{file.name} sha256 {paths.sha256_of(file)}" for file in files),
            "truth": "as published: weights WTMEC2YR, Taylor-linearised standard errors",
            "draws": "published: drawn without replacement, in proportion to the weight, until "
            "Kish's effective size is N, and weighted again. corrected: the first N people of "
            "each, counted alike",
            "bins": "quarters of the people sampled, not weighted, within the earlier conditions",
        },
        quantities=tuple(_quantity(row, marginals) for row in rows),
        baselines={
            kind: stack_draws(
                [
                    [[sums[kind, row.variable, size, k] for k in range(DRAWS)] for size in SIZES]
                    for row in rows
                ]
            )
            for kind in ("published", "corrected")
        },
        scored="published",
        fingerprint="",
    )


def write_answers(folder: Path, to: Path) -> Path:
    """Take the answers out of the benchmark's results, and write them.

    Parameters
    ----------
    folder : Path
        With ``results_per_variable.parquet`` and ``SOURCE.json``.
    to : Path
        Folder of the file.
    """
    results = folder / "results_per_variable.parquet"
    answers = pd.read_parquet(results)
    answers = answers[answers.dataset == "nhanes"]
    is_beta = answers.ground_truth_distribution_type == "beta"
    kept = answers[[*RUN, "trial"]].assign(
        trial=answers.trial.astype("int8"),
        quantity=answers.variable,
        family=answers.ground_truth_distribution_type,
        a=answers.a.where(is_beta, answers.prior_mean),
        b=answers.b.where(is_beta, answers.prior_std),
    )
    kept = kept.sort_values([*RUN, "trial", "quantity"], kind="stable")
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


def main() -> None:
    """Write both where the package ships them."""
    parser = argparse.ArgumentParser(description="Write the published quantities and answers.")
    parser.add_argument("folder", type=Path, help="with variables.parquet")
    given, folder = parser.parse_args().folder, paths.shipped_groundtruth() / "quantities"
    print(write_quantities(folder, made_from(given), published=True), write_answers(given, folder))


if __name__ == "__main__":
    main()
