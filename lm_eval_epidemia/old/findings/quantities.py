"""Every quantity: models' statements, the truth, and real answers."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import PRIOR, WAYS
from lm_eval_epidemia.benchmarks.prior import grid
from lm_eval_epidemia.benchmarks.prior.judged import Stated, proportions
from lm_eval_epidemia.benchmarks.prior.judgements import JudgedTask
from lm_eval_epidemia.benchmarks.prior.posterior import of_baseline
from lm_eval_epidemia.benchmarks.prior.quantities import families
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES, Quantities, Quantity
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.old.findings.rows import number
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.results.entry import leaf

#: How many models the table of all quantities has; that of a quantity has all.
COLUMNS = 8

#: Ends and middle of what is drawn of a distribution.
SHOWN = (0.05, 0.5, 0.95)


class _StatedSet(NamedTuple):
    """One model's answers to a set in one way: places by the names of quantities."""

    name: str
    reference: bool
    known: JudgedTask
    places: dict[str, int]
    ranges: Array


def shown(report: Report, write: Callable[[str, str, Any], None]) -> dict[str, Any]:
    """Return the contents of the site's page of quantities.

    Parameters
    ----------
    report : Report
    write : callable
        Receives the data of each set: file name, set name, contents.
    """
    rows, files, models = [], {}, dict[str, None]()
    for task in PRIOR.available():
        truth: Quantities = PRIOR.plain.load(task)
        stated = _said(report, task)
        files[task] = f"quantities-{task}"
        write(files[task], task, _set(truth, stated))
        models |= dict.fromkeys(quantity.name for quantity in stated)
        for quantity in truth.quantities:
            ratios = {
                each.name: number(float(each.known.judged.ratio[each.places[quantity.name]]), 2)
                for each in stated
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
    shown = list(models)[:COLUMNS]
    return {"rows": rows, "models": shown, "left": len(models) - len(shown), "files": files}


def _said(report: Report, task: str) -> list[_StatedSet]:
    stated = []
    for entry in report.entries:
        for asked, score in sorted(entry.scores.items()):
            if asked.task == task and leaf(asked).benchmark is PRIOR and score.said is not None:
                known: JudgedTask = score.said
                suffix = WAYS[asked.way].suffix.strip("_").replace("_", " ")
                name = entry.name + (f", {suffix}" if suffix else "")
                places = {
                    quantity.name: place for place, quantity in enumerate(known.truth.quantities)
                }
                stated.append(_StatedSet(name, entry.reference, known, places, _ranges(known)))
    return stated


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


def _digits(quantity: Quantity) -> int:
    """Digits after the point that give a standard error two significant digits."""
    return max(0, 1 - math.floor(math.log10(quantity.se))) if quantity.se > 0 else 3


def _with_error(quantity: Quantity) -> str:
    digits = _digits(quantity)
    return f"{quantity.mean:.{digits}f} ± {quantity.se:.{digits}f}"


def _set(truth: Quantities, stated: list[_StatedSet]) -> dict[str, Any]:
    is_share = proportions(truth)
    family, a, b = of_baseline(is_share, truth.baseline)
    # Answers that are all the same leave no spread; a quantile needs one.
    spread = np.where(family == families.BETA, b, np.maximum(b, np.finfo(float).tiny))
    drawn = families.ppf(family[..., None], a[..., None], spread[..., None], np.array(SHOWN))
    means = np.array([quantity.mean for quantity in truth.quantities])[:, None, None]
    baseline_error = np.abs(families.mean(family, a, b) - means).mean(axis=2)
    return {
        "name": truth.task,
        "title": truth.title,
        "survey": truth.survey,
        "vintage": truth.vintage,
        "scored": truth.scored,
        "source": truth.about.get("citation", truth.about.get("source", "")),
        "quantities": [
            _one(truth, place, stated, drawn[place], baseline_error[place])
            for place in range(len(truth.quantities))
        ],
    }


def _one(
    truth: Quantities, place: int, stated: list[_StatedSet], drawn: Array, baseline_error: Array
) -> dict[str, Any]:
    """Return the texts of a quantity, and the rows of the figure `stated`."""
    quantity, digits = truth.quantities[place], _digits(truth.quantities[place])
    ends = dict(zip(("low", "high"), quantity.interval, strict=True))
    rows = [{"who": "truth", "kind": "truth", "place": 0.5, "middle": quantity.mean, **ends}]
    table = []
    for each in stated:
        if (at := each.places.get(quantity.name)) is not None:
            kind = "published" if each.reference else "model"
            rows += _rows(each.name, kind, each.ranges[at])
            table.append([each.name, *_cells(each.known, at, digits)])
    for size, draws in zip(SIZES, drawn, strict=True):
        rows += _rows(f"{size} real answers", "real answers", draws)
    facts = {
        "Truth": f"{_with_error(quantity)} {quantity.unit}".strip(),
        "People in the survey": f"{quantity.n:,}",
        "Spread between people": f"{quantity.sd:.{digits}f}",
        "Everybody's mean": f"{quantity.marginal_mean:.{digits}f}",
        **{
            f"Error of {size} real answers": f"{error:.{digits}f}"
            for size, error in zip(SIZES, baseline_error, strict=True)
        },
    }
    return {
        "name": quantity.name,
        "wording": quantity.wording,
        "family": quantity.family,
        "unit": quantity.unit,
        "difficulty": quantity.difficulty,
        "about": title(quantity),
        "facts": facts,
        "rows": rows,
        "table": table,
    }


def _rows(who: str, kind: str, ranges: Array) -> list[dict[str, Any]]:
    rows = []
    for repeat, ends in enumerate(ranges.tolist()):
        if all(map(math.isfinite, ends)):
            low, middle, high = (float(f"{x:.5g}") for x in ends)
            place = round((repeat + 0.5) / len(ranges), 3)
            shown = {"low": low, "middle": middle, "high": high}
            rows.append({"who": who, "kind": kind, "place": place, **shown})
    return rows


def _cells(known: JudgedTask, at: int, digits: int) -> list[str]:
    """Return the statements about a quantity, with their worth."""
    judged, stated = known.judged, known.stated
    if isinstance(stated, Stated):
        priors = [
            f"{FAMILIES[int(family)]} {a:.4g}, {b:.4g}" if math.isfinite(a) else "not read"
            for family, a, b in zip(*(each[at] for each in stated), strict=True)
        ]
    else:
        priors = [f"{len(stated[at])} numbers scored"]
    centre = judged.centre[at][np.isfinite(judged.centre[at])]
    spread = judged.spread[at][np.isfinite(judged.spread[at])]
    beaten = [str(n) for n, won in zip(SIZES, judged.wins[at], strict=True) if won > 0]
    return [
        "; ".join(priors),
        number(float(centre.mean()), digits) if len(centre) else "",
        number(float(spread.mean()), digits) if len(spread) else "",
        number(float(judged.ratio[at]), 2),
        ", ".join(beaten) or "none",
    ]
