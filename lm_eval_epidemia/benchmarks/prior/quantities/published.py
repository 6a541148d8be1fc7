"""The published quantities: the NHANES part of OpenEstimate, with its truths and its draws.

``groundtruth/quantities/nhanes.json`` and the draws beside it are made from the benchmark's own
files: ``python -m lm_eval_epidemia.benchmarks.prior.quantities.published FOLDER``. FOLDER holds
``variables.parquet``, ``baseline_samples.parquet`` and ``SOURCE.json``. Truths (mean, standard
deviation between people, standard error, number of people) are taken as published; thresholds are
read from the published texts, all other words are ours, because the published ones do
not always say what the truth is of. Of the drawn people only sums are kept.

Our words follow the official questionnaires and what the published truth was computed from:
diabetes includes borderline diabetes; difficulty is in concentrating, remembering or making
decisions; insurance is one's own, not a spouse's; cancer and heart attack were asked at age 20 and
over. Source of the questions: NCHS documentation of the files named in `VARIABLES` (cycle J).

Source: "OpenEstimate: Evaluating LLMs on Reasoning Under Uncertainty with Real-World Data" and its
repository, alanarenda/openestimate (MIT License, copyright 2025 Alana Marzoev, Jillian Ross, Jacob
Andreas, Mike Cafarella).
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lm_eval_epidemia.benchmarks.prior.quantities.estimators import (
    DomainStats,
    Sums,
    corrected,
    numbers_of,
    published,
    stacked,
)
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import (
    DRAWS,
    SIZES,
    Condition,
    Quantities,
    Quantity,
)
from lm_eval_epidemia.benchmarks.prior.quantities.store import PREFIX, write
from lm_eval_epidemia.benchmarks.prior.quantities.wording import QUARTERS, between, joined
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.paths import read_yaml

if TYPE_CHECKING:
    import pandas as pd


SURVEY = "the National Health and Nutrition Examination Survey (NHANES) 2017-2018"
ADULT = 18


class YesNoVariable(NamedTuple):
    """A question that is answered yes or no.

    Attributes
    ----------
    file, column : str
        Where it is in the official files.
    yes, no : str
        As a relative clause: "who take insulin now".
    codes : sequence of int
        That count as yes; others that are answers count as no.
    age : int
        From which it was asked.
    unknown : bool
        Whether "don't know", refusals and blanks count as no, as they do in the published truth.
    """

    file: str
    column: str
    yes: str
    no: str
    codes: Sequence[int] = (1,)
    age: int = ADULT
    unknown: bool = False


class Measurement(NamedTuple):
    """Something measured.

    Attributes
    ----------
    file, column : str
    words : str
        "blood lead level".
    unit : str
    """

    file: str
    column: str
    words: str
    unit: str


def _variables() -> dict[str, YesNoVariable | Measurement]:
    """Read ``nhanes.yaml``."""
    data = read_yaml(__package__, "nhanes.yaml")
    measured = {name: Measurement(**told) for name, told in data["measured"].items()}
    return measured | {name: YesNoVariable(**told) for name, told in data["answered"].items()}


VARIABLES: Mapping[str, YesNoVariable | Measurement] = _variables()


def wording(base: str, conditions: Sequence[Condition]) -> str:
    """Say what a quantity is.

    Parameters
    ----------
    base : str
        One of `VARIABLES`.
    conditions : sequence of Condition
        With phrases such as "whose body weight is at most 66.5 kg".

    Returns
    -------
    str
        A noun phrase.
    """
    variable = VARIABLES[base]
    involved = [variable, *(VARIABLES[condition.variable] for condition in conditions)]
    age = max([ADULT, *(other.age for other in involved if isinstance(other, YesNoVariable))])
    people = (
        f"adults aged {age} and over in the civilian noninstitutionalized population of the "
        f"United States"
    )
    people += joined([condition.phrase for condition in conditions])
    if isinstance(variable, Measurement):
        what = f"the mean {variable.words} (in {variable.unit}) of {people}"
    else:
        what = f"the proportion {variable.yes}, among {people}"
    return f"{what}, according to {SURVEY}"


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
        name, QUARTERS[quarter], f"whose {variable.words} is {between(low, high, variable.unit)}"
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
    share = isinstance(variable, YesNoVariable)
    return Quantity(
        name=row.variable,
        base=base,
        conditions=conditions,
        family=row.ground_truth_distribution_type,
        unit="" if isinstance(variable, YesNoVariable) else variable.unit,
        wording=wording(base, conditions),
        **numbers_of(_stats(row), int(row.n), _stats(marginals[base]), share),
    )


def _read(file: Path, columns: list[str]) -> pd.DataFrame:
    import pandas as pd

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
    import numpy as np

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
        sums["published", name, size, trial] = published(value, weight)
        sums["corrected", name, size, trial] = corrected(value[:size])
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
            kind: stacked(
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


def main() -> None:
    """Write the set where the package ships it."""
    parser = argparse.ArgumentParser(description="Write the published set of quantities.")
    parser.add_argument("folder", type=Path, help="with variables.parquet")
    folder = paths.shipped_groundtruth() / "quantities"
    print(write(folder, made_from(parser.parse_args().folder), published=True))


if __name__ == "__main__":
    main()
