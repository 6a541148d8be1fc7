"""The published quantities recomputed from the official files of NHANES 2017-2018.

The package ships their published truths; who has the files can recompute them: the same people,
quarters and estimators, and baseline draws of one's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.prior.quantities import bins, draws, nhanes, store
from lm_eval_epidemia.benchmarks.prior.quantities.estimators import (
    SampleDesign,
    estimate,
    numbers_of,
)
from lm_eval_epidemia.benchmarks.prior.quantities.generate import check_family
from lm_eval_epidemia.benchmarks.prior.quantities.nhanes import ADULT, YesNoVariable
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import (
    FEWEST,
    Condition,
    Quantities,
    Quantity,
)
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, nearest
from lm_eval_epidemia.surveys.raw import open_raw, raw_files
from lm_eval_epidemia.surveys.read import raw_columns, read_columns

if TYPE_CHECKING:
    import pandas as pd

#: Columns by official file.
FILES: dict[str, list[str]] = {"DEMO_J": ["SEQN", "RIDAGEYR", "WTMEC2YR", "SDMVSTRA", "SDMVPSU"]}
for _one in nhanes.VARIABLES.values():
    FILES.setdefault(_one.file, ["SEQN"]).append(_one.column)

PAGE = "https://wwwn.cdc.gov/nchs/nhanes/continuousnhanes/default.aspx?BeginYear=2017"

#: Codes that are answers; others are refusals and "don't know".
ANSWERS = (1, 2, 3)

#: What a recomputed number may differ from a published one, in relation to it.
SAME = 1e-6


class Rebuilt(NamedTuple):
    """The set, and what differs from the published one, a line per quantity."""

    quantities: Quantities
    differing: list[str]


class _Respondents(NamedTuple):
    """Examined adults: what is known of them by variable (NaN if nothing is), their design."""

    values: dict[str, Array]
    design: SampleDesign


def _joined(raw: Sequence[Path]) -> pd.DataFrame:
    with open_raw(raw, {name.lower() for name in FILES}) as files:
        there = {file.stem.upper(): file for file in files}
        if missing := [name for name in FILES if name not in there]:
            raise EpidemiaError(
                f"{', '.join(path.name for path in raw)}: {', '.join(missing)} missing: the "
                f"published quantities need {', '.join(FILES)} of NHANES 2017-2018: {PAGE}"
            )
        tables = {}
        for name, columns in FILES.items():
            here = raw_columns(there[name])
            if lacking := [c for c in columns if c.lower() not in map(str.lower, here)]:
                raise EpidemiaError(
                    f"{there[name].name} lacks {', '.join(lacking)} ({nearest(lacking[0], here)}): "
                    f"is it the file of 2017-2018? {PAGE}"
                )
            tables[name] = read_columns(there[name], columns).set_index("SEQN")
            if not tables[name].index.is_unique:
                raise EpidemiaError(
                    f"{there[name].name}: SEQN has duplicates, expected one per person"
                )
    joined = tables.pop("DEMO_J")
    for table in tables.values():
        joined = joined.join(table)
    return joined


def _people(frame: pd.DataFrame) -> _Respondents:
    frame = frame[(frame["RIDAGEYR"] >= ADULT) & (frame["WTMEC2YR"] > 0)]
    if len(frame) < FEWEST:
        raise EpidemiaError(
            f"DEMO_J has {len(frame)} examined people aged {ADULT} and over: is the file complete?"
        )
    values = {}
    for name, variable in nhanes.VARIABLES.items():
        value = frame[variable.column].to_numpy(np.float64)
        if isinstance(variable, YesNoVariable):
            known = np.isin(value, ANSWERS) | variable.unknown
            value = np.where(known, np.isin(value, variable.codes), np.nan)
        values[name] = value
    strata = frame["SDMVSTRA"].to_numpy(np.int64)
    within = frame["SDMVPSU"].to_numpy(np.int64)
    weight = frame["WTMEC2YR"].to_numpy(np.float64)
    return _Respondents(values, SampleDesign(weight, strata, strata * (within.max() + 1) + within))


def _slice(
    people: _Respondents, quantity: Quantity
) -> tuple[NDArray[np.bool_], tuple[Condition, ...]]:
    """Find the people of a quantity; quarters are taken within the earlier conditions."""
    there, conditions = np.ones(len(people.design.weight), dtype=bool), []
    for condition in quantity.conditions:
        variable, value = nhanes.VARIABLES[condition.variable], people.values[condition.variable]
        if isinstance(variable, YesNoVariable):
            there = there & (value == (condition.level == "Yes"))
            conditions.append(condition)
            continue
        quarter = bins.QUARTERS.index(condition.level)
        if not (there & ~np.isnan(value)).any():
            raise EpidemiaError(f"{quantity.name}: nobody has a known {condition.variable}")
        ends = [None, *map(float, bins.cuts(value[there])), None]
        low, high = ends[quarter : quarter + 2]
        there = there & bins.inside(value, low, high)
        phrase = f"whose {variable.words} is {bins.between(low, high, variable.unit)}"
        conditions.append(condition._replace(phrase=phrase))
    return there & ~np.isnan(people.values[quantity.base]), tuple(conditions)


def rebuilt(raw: Sequence[Path], seed: int = 0) -> Rebuilt:
    """Recompute the published quantities.

    Parameters
    ----------
    raw : sequence of Path
        The official files of NHANES 2017-2018 (`FILES`), in any format that is read elsewhere, or
        a folder of them.
    seed : int
        Of the "corrected" draws, N people with replacement; the "published" ones stay.

    Returns
    -------
    Rebuilt

    Raises
    ------
    EpidemiaError
        Naming files and columns that are missing, or a slice with fewer than `FEWEST` people.
    """
    shipped = store.read(paths.shipped_groundtruth() / "quantities" / "nhanes.json")
    people = _people(_joined(raw))
    design, recomputed, differing, drawn = people.design, [], [], []
    everyone = {old.base: old for old in shipped.quantities if not old.conditions}
    marginals = {
        base: estimate(people.values[base], _slice(people, old)[0], design)
        for base, old in everyone.items()
    }
    for k, old in enumerate(shipped.quantities):
        there, conditions = _slice(people, old)
        if (n := int(there.sum())) < FEWEST:
            raise EpidemiaError(
                f"{old.name} ({old.base}): {n} people are in the slice, {FEWEST} are needed; are "
                "the files complete?"
            )
        value = people.values[old.base]
        check_family(old.family, value[there])
        told, share = estimate(value, there, design), old.family == "beta"
        new = old._replace(
            conditions=conditions,
            wording=nhanes.wording(old.base, conditions),
            **numbers_of(told, n, marginals[old.base], share),
        )
        recomputed.append(new)
        differing += _differing(old, new)
        rng = np.random.default_rng([seed, 1, k])
        drawn.append(draws.drawn(value[there], design.weight[there], rng)["corrected"])
    files = raw_files(raw, {name.lower() for name in FILES})
    new_set = shipped._replace(
        title="NHANES 2017-2018, the published quantities recomputed",
        about={
            **shipped.about,
            "files": "; ".join(f"{file.name} sha256 {paths.sha256_of(file)}" for file in files),
            "truth": "recomputed: weights WTMEC2YR, Taylor-linearised standard errors",
            "seed": str(seed),
            "draws": "published: as published. corrected: N people with replacement, in "
            "proportion to the weight, counted alike",
        },
        quantities=tuple(recomputed),
        baselines={**shipped.baselines, "corrected": draws.stacked(drawn)},
        fingerprint="",
    )
    return Rebuilt(new_set, differing)


def _differing(old: Quantity, new: Quantity) -> list[str]:
    fields = [
        f"{field} {a:.6g}, published {b:.6g}"
        for field in ("mean", "sd", "se", "n")
        if not math.isclose(a := getattr(new, field), b := getattr(old, field), rel_tol=SAME)
    ]
    if old.wording != new.wording:
        fields.append("its bounds differ")
    return [f"{old.name}: {'; '.join(fields)}"] if fields else []
