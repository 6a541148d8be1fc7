"""The published quantities: the NHANES part of OpenEstimate, its variables in words, recomputed.

``groundtruth/quantities/nhanes.json`` and the draws beside it are made from the benchmark's own
files by ``benchmarks/published_quantities.py``. Who has the official files of NHANES 2017-2018 can
recompute them: the same people, quarters and estimators, and baseline draws of one's own.

The words are ours. They follow the official questionnaires and what the published truth was
computed from, which the published texts do not always say: diabetes includes borderline diabetes;
difficulty is in concentrating, remembering or making decisions; insurance is one's own, not a
spouse's; cancer and heart attack were asked at age 20 and over. Source of the questions: NCHS
documentation of the files named in `VARIABLES` (cycle J).

Source: "OpenEstimate: Evaluating LLMs on Reasoning Under Uncertainty with Real-World Data" and its
repository, alanarenda/openestimate (MIT License, copyright 2025 Alana Marzoev, Jillian Ross, Jacob
Andreas, Mike Cafarella).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.prior.quantities import quantity, store, wording
from lm_eval_epidemia.benchmarks.prior.quantities.wording import join_clauses
from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few, suggest
from lm_eval_epidemia.core.paths import read_yaml
from lm_eval_epidemia.surveys.raw import open_raw, raw_files
from lm_eval_epidemia.surveys.read import raw_columns, read_columns

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


class MeasuredVariable(NamedTuple):
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


_TOLD = read_yaml(__package__, "nhanes.yaml")

VARIABLES: Mapping[str, YesNoVariable | MeasuredVariable] = {
    **{name: MeasuredVariable(**told) for name, told in _TOLD["measured"].items()},
    **{name: YesNoVariable(**told) for name, told in _TOLD["answered"].items()},
}


def word_published(base: str, conditions: Sequence[quantity.Condition]) -> str:
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
    civilians = "the civilian noninstitutionalized population of the United States"
    clauses = join_clauses([condition.phrase for condition in conditions])
    people = f"adults aged {age} and over in {civilians}{clauses}"
    if isinstance(variable, MeasuredVariable):
        what = f"the mean {variable.words} (in {variable.unit}) of {people}"
    else:
        what = f"the proportion {variable.yes}, among {people}"
    return f"{what}, according to {SURVEY}"


#: Columns by official file.
FILES: dict[str, list[str]] = {"DEMO_J": ["SEQN", "RIDAGEYR", "WTMEC2YR", "SDMVSTRA", "SDMVPSU"]}
for _one in VARIABLES.values():
    FILES.setdefault(_one.file, ["SEQN"]).append(_one.column)

PAGE = "https://wwwn.cdc.gov/nchs/nhanes/continuousnhanes/default.aspx?BeginYear=2017"

#: Codes that are answers; others are refusals and "don't know".
ANSWERS = (1, 2, 3)


class _Respondents(NamedTuple):
    """Examined adults: what is known of them by variable (NaN if nothing is), their design."""

    values: dict[str, Array]
    design: quantity.SampleDesign


def _join_files(raw: Sequence[Path]) -> pd.DataFrame:
    with open_raw(raw, {name.lower() for name in FILES}) as files:
        there = {file.stem.upper(): file for file in files}
        if missing := [name for name in FILES if name not in there]:
            raise EpidemiaError(f"{few([*map(str, raw)])}: {', '.join(missing)} missing: {PAGE}")
        tables = {}
        for name, columns in FILES.items():
            here = raw_columns(there[name])
            if lacking := [c for c in columns if c.lower() not in map(str.lower, here)]:
                hint = suggest(lacking[0], here)
                raise EpidemiaError(f"{there[name].name} lacks {', '.join(lacking)} ({hint})")
            tables[name] = read_columns(there[name], columns).set_index("SEQN")
    joined = tables.pop("DEMO_J")
    for table in tables.values():
        joined = joined.join(table, validate="1:1")
    return joined


def _people(frame: pd.DataFrame) -> _Respondents:
    frame = frame[(frame["RIDAGEYR"] >= ADULT) & (frame["WTMEC2YR"] > 0)]
    values = {}
    for name, variable in VARIABLES.items():
        value = frame[variable.column].to_numpy(np.float64)
        if isinstance(variable, YesNoVariable):
            known = np.isin(value, ANSWERS) | variable.unknown
            value = np.where(known, np.isin(value, variable.codes), np.nan)
        values[name] = value
    strata = frame["SDMVSTRA"].to_numpy(np.int64)
    within = frame["SDMVPSU"].to_numpy(np.int64)
    weight = frame["WTMEC2YR"].to_numpy(np.float64)
    return _Respondents(
        values, quantity.SampleDesign(weight, strata, strata * (within.max() + 1) + within)
    )


def _slice(
    people: _Respondents, asked: quantity.Quantity
) -> tuple[NDArray[np.bool_], tuple[quantity.Condition, ...]]:
    """Find the people of a quantity; quarters are taken within the earlier conditions."""
    there, conditions = np.ones(len(people.design.weight), dtype=bool), []
    for condition in asked.conditions:
        variable, value = VARIABLES[condition.variable], people.values[condition.variable]
        if isinstance(variable, YesNoVariable):
            there = there & (value == (condition.level == "Yes"))
            conditions.append(condition)
            continue
        quarter = wording.QUARTERS.index(condition.level)
        ends = [None, *map(float, wording.cuts(value[there])), None]
        low, high = ends[quarter : quarter + 2]
        there = there & wording.is_inside(value, low, high)
        phrase = f"whose {variable.words} is {wording.format_bounds(low, high, variable.unit)}"
        conditions.append(condition._replace(phrase=phrase))
    return there & ~np.isnan(people.values[asked.base]), tuple(conditions)


def rebuild_quantities(raw: Sequence[Path], seed: int = 0) -> quantity.Quantities:
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
    Quantities

    Raises
    ------
    EpidemiaError
        Naming files and columns that are missing, or a slice with fewer than `FEWEST` people.
    """
    shipped = store.load_set_file(paths.shipped_groundtruth() / "quantities" / "nhanes.json")
    people = _people(_join_files(raw))
    design, recomputed, drawn = people.design, [], []
    everyone = {old.base: old for old in shipped.quantities if not old.conditions}
    marginals = {
        base: quantity.estimate_domain(people.values[base], _slice(people, old)[0], design)
        for base, old in everyone.items()
    }
    for k, old in enumerate(shipped.quantities):
        there, conditions = _slice(people, old)
        if (n := int(there.sum())) < quantity.FEWEST:
            needed = f"{n} people are in the slice, {quantity.FEWEST} are needed"
            raise EpidemiaError(f"{old.name} ({old.base}): {needed}; are the files complete?")
        value = people.values[old.base]
        told = quantity.estimate_domain(value, there, design)
        new = old._replace(
            conditions=conditions,
            wording=word_published(old.base, conditions),
            **quantity.list_numbers(told, n, marginals[old.base], old.family),
        )
        recomputed.append(new)
        rng = np.random.default_rng([seed, 1, k])
        drawn.append(quantity.draw_samples(value[there], design.weight[there], rng)["corrected"])
    files = raw_files(raw, {name.lower() for name in FILES})
    return shipped._replace(
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
        baselines={**shipped.baselines, "corrected": quantity.stack_draws(drawn)},
        fingerprint="",
    )
