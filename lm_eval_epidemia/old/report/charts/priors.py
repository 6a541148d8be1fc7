"""Figures of stated priors."""

from __future__ import annotations

from typing import Any

import altair as alt

from lm_eval_epidemia.old.report.palette import (
    BELOW,
    BLUE,
    GREY,
    ORANGE,
    PALETTE,
    PURPLE,
    diagonal,
    facets,
)


def uncertainty(data: Any) -> Any:
    """Rows: model, quantity, difficulty, stated, error (both over the error that 5 real answers
    leave, above 0)."""
    log: dict[str, Any] = {
        "scale": alt.Scale(type="log"),
        "axis": alt.Axis(format="~g", tickCount=6, grid=False),
    }
    stated, error = (alt.Tooltip(f"{key}:Q", format=".3~g") for key in ("stated", "error"))
    shades = alt.Scale(range=PALETTE)
    points = (
        alt.Chart()
        .mark_point(filled=True, size=36, opacity=0.75)
        .encode(
            x=alt.X("stated:Q", title="Stated sd (5 answers' error = 1)", **log),
            y=alt.Y("error:Q", title="Error ratio", **log),
            color=alt.Color("difficulty:N", title=None, sort=None, legend=BELOW, scale=shades),
            tooltip=["model:N", "quantity:N", stated, error],
        )
    )
    shown = (row[key] for row in data.to_dict()["values"] for key in ("stated", "error"))
    values = [value for value in shown if value is not None]
    chart = alt.layer(diagonal(min(values), max(values)), points, data=data)
    square = chart.properties(width=230, height=230)
    return facets(square, "model", "dashed: error as stated", 230)


def stated(data: Any) -> Any:
    """Rows: who, kind ("model", "published", "real answers", "truth"), place (from 0 to 1, within
    who), low, middle, high."""
    says = (
        "5 %, median and 95 % of the stated prior; line and band: the truth with its 95 % interval"
    )
    x = alt.X("middle:Q", title=says, scale=alt.Scale(zero=False))
    y = alt.Y("who:N", title=None, sort=None, axis=alt.Axis(labelLimit=260))
    offset = alt.YOffset("place:Q", scale=alt.Scale(domain=[-0.15, 1.15]))
    kinds = alt.Scale(domain=["model", "published", "real answers"], range=[ORANGE, PURPLE, GREY])
    colour = alt.Color("kind:N", title=None, scale=kinds, legend=alt.Legend(orient="bottom"))
    numbers = (alt.Tooltip(f"{part}:Q", format=".5~g") for part in ("low", "middle", "high"))
    tooltip = ["who:N", *numbers]
    base = alt.Chart(data)
    truth = base.transform_filter("datum.kind == 'truth'")
    others = base.transform_filter("datum.kind != 'truth'")
    return alt.layer(
        truth.mark_rect(color=BLUE, opacity=0.2).encode(x="low:Q", x2="high:Q"),
        truth.mark_rule(color=BLUE, strokeWidth=2).encode(x=x, tooltip=tooltip),
        others.mark_rule(opacity=0.7).encode(
            x="low:Q", x2="high:Q", y=y, yOffset=offset, color=colour, tooltip=tooltip
        ),
        others.mark_point(filled=True, size=18, opacity=1).encode(
            x=x, y=y, yOffset=offset, color=colour, tooltip=tooltip
        ),
    ).properties(width=520, height=alt.Step(46))
