"""What the figures share: colours, legends, and how they keep scales apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt

BLUE, ORANGE, GREEN, GREY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#888888", "#CC79A7"
BLACK = "#000000"
PALETTE = [ORANGE, GREEN, PURPLE, "#56B4E9", "#E69F00", BLUE, "#F0E442", BLACK]

#: Of rows.
KIND = alt.Scale(domain=["run", "published"], range=["circle", "diamond"])
#: With more than eight models, eight more colours.
MODELS = alt.Scale(
    range=[
        *PALETTE,
        "#882255",
        "#44AA99",
        "#999933",
        "#332288",
        "#AA4499",
        "#88CCEE",
        "#117733",
        "#661100",
    ]
)
BELOW = alt.Legend(orient="bottom", labelLimit=260, columns=3)


#: What rows may hold that stands on the scale of their metric.
SHOWN = ("low", "high", "mean", "base", "instruct", "before", "after")


def by_metric(
    data: alt.Data, draw: Callable[[alt.Data, str, list[float], list[str]], Any]
) -> alt.TopLevelMixin:
    """Draw one below the other what is on different scales.

    Parameters
    ----------
    data : altair.Data
        Inline, of rows with metric (what the values are), lowest and highest (None: unbounded).
    draw : callable
        From the rows of one metric, what its axis says, from where to where it goes, and the models
        in order.
    """
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in data.to_dict()["values"]:
        parts.setdefault(row["metric"], []).append(row)
    charts: list[Any] = []
    for says, rows in parts.items():
        values = [row[key] for row in rows for key in SHOWN if row.get(key) is not None]
        bounds = [rows[0]["lowest"], rows[0]["highest"]]
        ends = [
            end if end is not None else pick(values)
            for end, pick in zip(bounds, (min, max), strict=True)
        ]
        models = list(dict.fromkeys(row["model"] for row in rows if "model" in row))
        charts.append(draw(alt.Data(values=rows), says, ends, models))
    if len(charts) == 1:
        only: alt.TopLevelMixin = charts[0]
        return only
    both: alt.TopLevelMixin = alt.vconcat(*charts).resolve_scale(color="independent")
    return both
