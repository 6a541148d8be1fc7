"""Every quantity: models' statements, the truth, and real answers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import PRIOR, WAYS
from lm_eval_epidemia.benchmarks.prior import grid
from lm_eval_epidemia.benchmarks.prior.judged import Stated, proportions
from lm_eval_epidemia.benchmarks.prior.judgements import JudgedTask
from lm_eval_epidemia.benchmarks.prior.posterior import of_baseline
from lm_eval_epidemia.benchmarks.prior.quantities import families
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES, Quantities, Quantity
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, who
from lm_eval_epidemia.findings.priors import RUN, stated
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
    names = ["run", "group", "task", "quantity", "title", "difficulty", "truth", "truth_error"]
    rows = [
        {
            "run": run,
            "group": group,
            "task": task,
            "quantity": quantity.name,
            "title": title(quantity),
            "difficulty": quantity.difficulty,
            "truth": quantity.mean,
            "truth_error": quantity.se,
            "mean": _mean(known.judged.centre[place]),
            "sd": _mean(known.judged.spread[place]),
            "stated": known.judged.uncertainty[place],
            "ratio": known.judged.ratio[place],
        }
        for run, group, task, known in stated(results)[["run", "group", "task", "said"]].itertuples(
            index=False
        )
        for place, quantity in enumerate(known.truth.quantities)
    ]
    columns = {
        **{**WHO, "group": Column(), "title": Column("quantity")},
        "truth": Column(digits=3, error="truth_error"),
        "mean": Column("stated mean", digits=3),
        "sd": Column("stated sd", digits=3),
        "stated": Column("sd, relative", digits=2),
        "ratio": Column("error ratio", digits=2),
    }
    numbers = ["mean", "sd", "stated", "ratio"]
    return Finding(
        "quantities",
        "Priors: every quantity",
        who(pd.DataFrame(rows, columns=[*names, *numbers]), results.runs),
        columns,
        "Mean and standard deviation of the stated priors, over repeats; the standard deviation "
        "relative to the error of 5 real answers; and the error of the mean relative to it: below "
        "1 the model is closer to the truth than 5 real answers.",
        left_out=[] if rows else [RUN],
    )


def _mean(of: Array) -> float:
    """Average what was read; NaN if nothing was."""
    of = of[np.isfinite(of)]
    return float(of.mean()) if len(of) else math.nan


class _Stated(NamedTuple):
    """One model's answers to a set in one way: places by the names of quantities."""

    name: str
    kind: str
    known: JudgedTask
    places: dict[str, int]
    ranges: Array


def page(results: Results, write: Callable[[str, str, Any], None]) -> dict[str, Any]:
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
        said = _said(results, task)
        files[task] = f"quantities-{task}"
        write(files[task], task, _set(truth, said))
        models |= dict.fromkeys(each.name for each in said)
        for quantity in truth.quantities:
            ratios = {
                each.name: _written(each.known.judged.ratio[each.places[quantity.name]], 2)
                for each in said
                if quantity.name in each.places
            }
            rows.append(
                {
                    "task": task,
                    "name": quantity.name,
                    "survey": truth.survey,
                    "difficulty": quantity.difficulty,
                    "about": title(quantity),
                    "truth": _with_error(quantity),
                    "unit": quantity.unit,
                    "people": f"{quantity.n:,}",
                    "ratios": ratios,
                }
            )
    shown = list(models)[:MOST]
    return {"rows": rows, "models": shown, "left": len(models) - len(shown), "files": files}


def _said(results: Results, task: str) -> list[_Stated]:
    scores, made = stated(results), []
    for run, way, known in scores[scores["task"] == task][["run", "way", "said"]].itertuples(
        index=False
    ):
        suffix = WAYS[way].suffix.strip("_").replace("_", " ")
        name = results.runs["name"][run] + (f", {suffix}" if suffix else "")
        places = {quantity.name: place for place, quantity in enumerate(known.truth.quantities)}
        kind = "published" if results.runs["kind"][run] == "published" else "model"
        made.append(_Stated(name, kind, known, places, _ranges(known)))
    return made


def _ranges(known: JudgedTask) -> Array:
    """Return `SHOWN` of every prior, shape (Q, R, 3); NaN for unreadable replies."""
    if isinstance(known.stated, Stated):
        family, a, b = (each[..., None] for each in known.stated)
        return families.ppf(family, a, b, np.array(SHOWN))
    ranges = np.full((len(known.truth.quantities), 1, len(SHOWN)), math.nan)
    for place, (quantity, logs) in enumerate(
        zip(known.truth.quantities, known.stated, strict=True)
    ):
        if np.isfinite(logs).all():
            below = np.cumsum(np.exp(logs - logs.max()))
            ranges[place] = grid.points(quantity)[np.searchsorted(below / below[-1], SHOWN)]
    return ranges


def _written(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def _digits(quantity: Quantity) -> int:
    """Digits after the point that give a standard error two significant digits."""
    return max(0, 1 - math.floor(math.log10(quantity.se))) if quantity.se > 0 else 3


def _with_error(quantity: Quantity) -> str:
    return " ± ".join(_written(x, _digits(quantity)) for x in (quantity.mean, quantity.se))


def _set(truth: Quantities, said: list[_Stated]) -> dict[str, Any]:
    family, a, b = of_baseline(proportions(truth), truth.baseline)
    # Answers that are all the same leave no spread; a quantile needs one.
    spread = np.where(family == families.BETA, b, np.maximum(b, np.finfo(float).tiny))
    drawn = families.ppf(family[..., None], a[..., None], spread[..., None], np.array(SHOWN))
    means = np.array([quantity.mean for quantity in truth.quantities])[:, None, None]
    errors = np.abs(families.mean(family, a, b) - means).mean(axis=2)
    return {
        "name": truth.task,
        **{key: getattr(truth, key) for key in ("title", "survey", "vintage", "scored")},
        "source": truth.about.get("citation", truth.about.get("source", "")),
        "quantities": [
            _one(quantity, said, *of)
            for quantity, *of in zip(truth.quantities, drawn, errors, strict=True)
        ],
    }


def _one(quantity: Quantity, said: list[_Stated], drawn: Array, errors: Array) -> dict[str, Any]:
    """Return the texts of a quantity, and the rows of the figure ``stated``."""
    digits = _digits(quantity)
    ends = dict(zip(("low", "high"), quantity.interval, strict=True))
    rows = [{"who": "truth", "kind": "truth", "place": 0.5, "middle": quantity.mean, **ends}]
    table = []
    for each in said:
        if (at := each.places.get(quantity.name)) is not None:
            rows += _rows(each.name, each.kind, each.ranges[at])
            table.append([each.name, *_cells(each.known, at, digits)])
    for size, draws in zip(SIZES, drawn, strict=True):
        rows += _rows(f"{size} real answers", "real answers", draws)
    return {
        **{key: getattr(quantity, key) for key in ("name", "wording", "family", "unit")},
        "difficulty": quantity.difficulty,
        "about": title(quantity),
        "facts": {
            "Truth": f"{_with_error(quantity)} {quantity.unit}".strip(),
            "People in the survey": f"{quantity.n:,}",
            "Spread between people": f"{quantity.sd:.{digits}f}",
            "Everybody's mean": f"{quantity.marginal_mean:.{digits}f}",
            **{
                f"Error of {size} real answers": f"{error:.{digits}f}"
                for size, error in zip(SIZES, errors, strict=True)
            },
        },
        "rows": rows,
        "table": table,
    }


def _rows(name: str, kind: str, ranges: Array) -> list[dict[str, Any]]:
    return [
        {
            "who": name,
            "kind": kind,
            "place": round((repeat + 0.5) / len(ranges), 3),
            **{
                key: float(f"{x:.5g}") for key, x in zip(("low", "middle", "high"), of, strict=True)
            },
        }
        for repeat, of in enumerate(ranges.tolist())
        if all(map(math.isfinite, of))
    ]


def _cells(known: JudgedTask, at: int, digits: int) -> list[str]:
    """Return the statements about a quantity, with their worth."""
    judged, said = known.judged, known.stated
    if isinstance(said, Stated):
        priors = [
            f"{FAMILIES[int(family)]} {a:.4g}, {b:.4g}" if math.isfinite(a) else "not read"
            for family, a, b in zip(*(each[at] for each in said), strict=True)
        ]
    else:
        priors = [f"{len(said[at])} numbers scored"]
    beaten = [str(n) for n, won in zip(SIZES, judged.wins[at], strict=True) if won > 0]
    return [
        "; ".join(priors),
        _written(_mean(judged.centre[at]), digits),
        _written(_mean(judged.spread[at]), digits),
        _written(float(judged.ratio[at]), 2),
        ", ".join(beaten) or "none",
    ]
