"""Every quantity: models' statements, the truth, and real answers."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.prior import PRIOR, ways
from lm_eval_epidemia.benchmarks.prior.judged import FamilyPriors, of_baseline, proportions
from lm_eval_epidemia.benchmarks.prior.metrics import JudgedTask
from lm_eval_epidemia.benchmarks.prior.quantities import families
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES, Quantities, Quantity
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.priors import select_stated
from lm_eval_epidemia.results.read import Results

#: How many models the page's table of all quantities has; that of a quantity has all.
MOST = 8

#: Ends and middle of what is drawn of a distribution.
SHOWN = (0.05, 0.5, 0.95)

#: What wordings say of people, survey and year: the same in all of a set.
_OF_A_SHARE = re.compile(r", (among|for an?|according to) .*")
_OF_A_MEAN = re.compile(
    r"(the (?:mean|average) .+?) of (?:adults|an? (?:\w+ )?(?:person|household)) .*"
)


def title(quantity: Quantity) -> str:
    """Name a quantity with its conditions: "The mean weight (in kg); who are ..."."""
    what = _OF_A_MEAN.sub(r"\1", _OF_A_SHARE.sub("", quantity.wording))
    known = [each.phrase for each in quantity.conditions if each.phrase not in what]
    return "; ".join([what[:1].upper() + what[1:], *known])


def quantities(results: Results) -> Finding:
    """Every quantity: what a model stated, the truth, and how far it is from it."""
    texts = ["run", "group", "task", "quantity", "title", "difficulty"]
    numbers = ["truth", "truth_error", "mean", "sd", "stated", "ratio"]
    rows = [
        [
            *(said.run, said.group, said.task, of.name, title(of), of.difficulty, of.mean, of.se),
            *(_average(said.said.judged.centre[place]), _average(said.said.judged.spread[place])),
            *(said.said.judged.uncertainty[place], said.said.judged.ratio[place]),
        ]
        for said in select_stated(results).itertuples()
        for place, of in enumerate(said.said.truth.quantities)
    ]
    table = pd.DataFrame(rows, columns=[*texts, *numbers])
    return make_finding("quantities", table, results.runs)


def _average(of: Array) -> float:
    """Average what was read; NaN if nothing was."""
    of = of[np.isfinite(of)]
    return float(of.mean()) if len(of) else math.nan


class _Statement(NamedTuple):
    """What a model said of a quantity: its place among those judged, and `SHOWN` of the priors."""

    name: str
    kind: str
    known: JudgedTask
    place: int
    ranges: Array


def make_page_data(results: Results, write: Callable[[str, str, Any], None]) -> dict[str, Any]:
    """Return the contents of the site's page of quantities, whether or not anybody was asked.

    Parameters
    ----------
    results : Results
    write : callable
        Receives the data of each set: file name, set name, contents.
    """
    rows, files, models = [], {}, dict[str, None]()
    for task in PRIOR.available():
        truth: Quantities = PRIOR.plain.load(task)
        said = _list_statements(results, task)
        files[task] = f"quantities-{task}"
        write(files[task], task, _set(truth, said))
        for quantity in truth.quantities:
            ratios = {
                of.name: _format_value(of.known.judged.ratio[of.place], 2)
                for of in said[quantity.name]
            }
            models |= dict.fromkeys(ratios)
            row = {"task": task, "survey": truth.survey, "about": title(quantity), "ratios": ratios}
            row |= {name: getattr(quantity, name) for name in ("name", "difficulty", "unit")}
            rows.append(row | {"truth": _with_error(quantity), "people": f"{quantity.n:,}"})
    shown = list(models)[:MOST]
    return {"rows": rows, "models": shown, "left": len(models) - len(shown), "files": files}


def _list_statements(results: Results, task: str) -> dict[str, list[_Statement]]:
    """Return what was said in a task, by the names of quantities."""
    scores, made, runs = select_stated(results), defaultdict(list), results.runs
    for row in scores[scores["task"] == task].itertuples():
        suffix = WAYS[row.way].suffix.strip("_").replace("_", " ")
        name = runs["name"][row.run] + (f", {suffix}" if suffix else "")
        kind = "published" if runs["kind"][row.run] == "published" else "model"
        ranges = _ranges(row.said)
        for place, quantity in enumerate(row.said.truth.quantities):
            made[quantity.name].append(_Statement(name, kind, row.said, place, ranges[place]))
    return made


def _ranges(known: JudgedTask) -> Array:
    """Return `SHOWN` of every prior, shape (Q, R, 3); NaN for unreadable replies."""
    if isinstance(known.stated, FamilyPriors):
        family, a, b = (each[..., None] for each in known.stated)
        return families.ppf(family, a, b, np.array(SHOWN))
    ranges = np.full((len(known.truth.quantities), 1, len(SHOWN)), math.nan)
    pairs = zip(known.truth.quantities, known.stated, strict=True)
    for place, (quantity, logs) in enumerate(pairs):
        if np.isfinite(logs).all():
            below = np.cumsum(np.exp(logs - logs.max()))
            ranges[place] = ways.points(quantity)[np.searchsorted(below / below[-1], SHOWN)]
    return ranges


def _format_value(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def _digits(quantity: Quantity) -> int:
    """Digits after the point that give a standard error two significant digits."""
    return max(0, 1 - math.floor(math.log10(quantity.se))) if quantity.se > 0 else 3


def _with_error(quantity: Quantity) -> str:
    return " ± ".join(_format_value(x, _digits(quantity)) for x in (quantity.mean, quantity.se))


def _set(truth: Quantities, said: Mapping[str, list[_Statement]]) -> dict[str, Any]:
    family, a, b = of_baseline(proportions(truth), truth.baseline)
    # Answers that are all the same leave no spread; a quantile needs one.
    spread = np.where(family == families.BETA, b, np.maximum(b, np.finfo(float).tiny))
    drawn = families.ppf(family[..., None], a[..., None], spread[..., None], np.array(SHOWN))
    errors = np.abs(families.mean(family, a, b) - truth.column("mean")[:, None, None]).mean(axis=2)
    return {
        "name": truth.task,
        **{key: getattr(truth, key) for key in ("title", "survey", "vintage", "scored")},
        "source": truth.about.get("citation", truth.about.get("source", "")),
        "quantities": [
            _one(quantity, said[quantity.name], *of)
            for quantity, *of in zip(truth.quantities, drawn, errors, strict=True)
        ],
    }


def _one(quantity: Quantity, said: list[_Statement], drawn: Array, errors: Array) -> dict[str, Any]:
    """Return the texts of a quantity, and the rows of the figure ``stated``."""
    digits = _digits(quantity)
    ends = dict(zip(("low", "high"), quantity.interval, strict=True))
    rows = [{"who": "truth", "kind": "truth", "place": 0.5, "middle": quantity.mean, **ends}]
    facts = {
        "Truth": f"{_with_error(quantity)} {quantity.unit}".strip(),
        "People in the survey": f"{quantity.n:,}",
        "Spread between people": f"{quantity.sd:.{digits}f}",
        "Everybody's mean": f"{quantity.marginal_mean:.{digits}f}",
    }
    for of in said:
        rows += _make_rows(of.name, of.kind, of.ranges)
    for size, draws, error in zip(SIZES, drawn, errors, strict=True):
        rows += _make_rows(f"{size} real answers", "real answers", draws)
        facts[f"Error of {size} real answers"] = f"{error:.{digits}f}"
    names = ("name", "wording", "family", "unit", "difficulty")
    return {
        **{name: getattr(quantity, name) for name in names},
        "about": title(quantity),
        "facts": facts,
        "rows": rows,
        "table": [_cells(of, digits) for of in said],
    }


def _make_rows(name: str, kind: str, ranges: Array) -> list[dict[str, Any]]:
    rows = []
    for repeat, of in enumerate(ranges.tolist()):
        if all(map(math.isfinite, of)):
            place = round((repeat + 0.5) / len(ranges), 3)
            low, middle, high = (float(f"{x:.5g}") for x in of)
            ends = {"low": low, "middle": middle, "high": high}
            rows.append({"who": name, "kind": kind, "place": place, **ends})
    return rows


def _cells(of: _Statement, digits: int) -> list[str]:
    """Return the statements about a quantity, with their worth."""
    judged, said, at = of.known.judged, of.known.stated, of.place
    if isinstance(said, FamilyPriors):
        priors = [
            f"{families.FAMILIES[int(family)]} {a:.4g}, {b:.4g}" if math.isfinite(a) else "not read"
            for family, a, b in zip(said.family[at], said.a[at], said.b[at], strict=True)
        ]
    else:
        priors = [f"{len(said[at])} numbers scored"]
    beaten = [str(n) for n, won in zip(SIZES, judged.wins[at], strict=True) if won > 0]
    return [
        of.name,
        "; ".join(priors),
        *(_format_value(_average(each[at]), digits) for each in (judged.centre, judged.spread)),
        _format_value(float(judged.ratio[at]), 2),
        ", ".join(beaten) or "none",
    ]
