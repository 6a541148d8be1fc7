"""The figures in Vega-Lite (needs the extra ``report``); `figures` lists and saves them.

Each function takes the data, inline or by name, and returns a chart; its docstring lists the fields
of the rows. Colours are Okabe and Ito's, which colour-blind people can distinguish.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import altair as alt
import vl_convert

# By name: a function `calibration` here would hide the module.
from lm_eval_epidemia.old.report.charts import calibration, world
from lm_eval_epidemia.old.report.charts.priors import stated, uncertainty
from lm_eval_epidemia.old.report.charts.scores import (
    against,
    beside,
    closed,
    conditions,
    leaderboard,
    size,
    surveys,
    versions,
)
from lm_eval_epidemia.old.report.charts.tasks import bootstrap, cells, curve, distribution, truth
from lm_eval_epidemia.old.report.charts.tuned import learning, losses, tuning

__all__ = ["CHARTS", "ON_MAP", "ROWS", "STATED", "WRITTEN", "specification", "truth", "world"]


#: The name under which the site hands its rows to a figure.
ROWS = "rows"

#: The figures that `figures.FIGURES` lists, by name.
CHARTS: dict[str, Callable[[Any], Any]] = {
    "leaderboard": leaderboard,
    "size": size,
    "beside": beside,
    "surveys": surveys,
    "conditions": conditions,
    "nodes": against("nodes", "Number of variables"),
    "paths": against(
        "length",
        "Edges on the shortest path from U to V",
        "becomes",
        "the answer before is yes, and after",
    ),
    "wins": against(
        "size",
        "Number of real answers",
        "what",
        "beaten by; dashed: equally good",
        0.5,
    ),
    "quartiles": against(
        "quartile", "Quartile of the stated prior", title="dashed: calibrated", even=0.25
    ),
    "uncertainty": uncertainty,
    "versions": versions,
    "tuning": tuning,
    "losses": losses,
    "learning": learning,
    "closed": closed,
    "calibration": calibration.calibration,
    "order_bias": calibration.order_bias,
    "tilt": calibration.tilt,
    "distribution": distribution,
    "curve": curve,
    "cells": cells,
    "bootstrap": bootstrap,
    "map": world.countries,
    "regions": world.regions,
    "years": world.years,
    "people": world.people,
}

#: Those that only the site draws.
STATED = "stated"
ON_MAP: dict[str, Callable[[Any], Any]] = {"shares": world.shares, "errors": world.errors}
_ON_SITE = {STATED: stated, **ON_MAP}


def svg(text: str) -> str:
    """Draw a specification, without invisible parts: words on marks, defaults, tiny fractions."""
    drawn = vl_convert.vegalite_to_svg(text)
    unseen = r' (role|aria-[a-z]+|pointer-events)="[^"]*"| (opacity|stroke-width)="1"'
    drawn = re.sub(rf'{unseen}|<path class="foreground" d=""[^>]*/>', "", drawn)
    return re.sub(r"(\.\d\d)\d+", r"\1", drawn)


#: From a specification to a file, by its ending.
WRITTEN: dict[str, Callable[[str], bytes]] = {
    ".svg": lambda text: svg(text).encode(),
    ".png": lambda text: bytes(vl_convert.vegalite_to_png(text, ppi=300)),
    ".pdf": lambda text: bytes(vl_convert.vegalite_to_pdf(text)),
    ".json": str.encode,
}


@lru_cache
def specification(name: str) -> dict[str, Any]:
    """Return a figure's Vega-Lite specification, which takes its rows as the dataset ``rows``."""
    draw = _ON_SITE.get(name) or CHARTS[name]
    chart: dict[str, Any] = draw(alt.NamedData(name=ROWS)).to_dict()
    # Colours of text and axes are the page's.
    chart.pop("config", None)
    return chart
