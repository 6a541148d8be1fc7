"""Figures of answers against the truth, and against their displayed position."""

from __future__ import annotations

from typing import Any

import altair as alt

from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.old.report.palette import (
    DASHED,
    GREEN,
    GREY,
    LISTED,
    MODELS,
    NARROW,
    ORANGE,
    SHARES,
    UPRIGHT,
    colour_of,
    diagonal,
    facets,
    is_called,
    names_at_ends,
    own_colour,
    with_ends,
)


def calibration(data: Any) -> Any:
    """Rows: model, kind ("density": q, q2, p, p2, share; "curve": q, p), over cells and answers."""
    # The data stands at the facets: a layer with data of its own would show all of it in each.
    base, shades = alt.Chart(), alt.Scale(type="sqrt", range=[0.05, 1])
    density = (
        base.transform_filter("datum.kind == 'density'")
        .mark_rect()
        .encode(
            x=alt.X("q:Q", title="The model's answer", **SHARES),
            x2="q2:Q",
            y=alt.Y("p:Q", title="The survey", **SHARES),
            y2="p2:Q",
            opacity=alt.Opacity("share:Q", legend=None, scale=shades),
            color=alt.value("#56B4E9"),
        )
    )
    curve = base.transform_filter("datum.kind == 'curve'").mark_line(point=True)
    colour = own_colour(alt.Color("kind:N", legend=None, scale=alt.Scale(range=[ORANGE])))
    tooltip = ["model:N", "q:Q", "p:Q"]
    line = curve.encode(x="q:Q", y="p:Q", order="q:Q", color=colour, tooltip=tooltip)
    chart = alt.layer(density, diagonal(), line, data=data).properties(width=NARROW, height=NARROW)
    return facets(chart, "model", None, 250)


def order_bias(data: Any) -> Any:
    """Rows: model, answers (number shown), position (letter), times (relative to uniform)."""
    # The site hands its rows on by name, and one model at a time: its name is not written.
    rows = data.to_dict().get("values", ())
    ends = (0, max((row["times"] for row in rows), default=1))
    base = alt.Chart(
        with_ends(rows, "position", "answers", value="times", ends=ends) if rows else data
    )
    colour = own_colour(alt.Color("model:N", sort=None, legend=None, scale=MODELS))
    x = alt.X("position:N", title="Displayed as", axis=UPRIGHT)
    times = alt.Tooltip("times:Q", format=".2f")
    curves = base.mark_line(point=True).encode(
        x=x,
        y=alt.Y("times:Q", title="Probability relative to uniform"),
        color=colour,
        strokeDash=alt.StrokeDash("model:N", sort=None, legend=None),
        tooltip=["model:N", "answers:N", "position:N", times],
    )
    even = base.mark_rule(**DASHED).encode(y=alt.YDatum(1))
    names = [names_at_ends(base, colour, x=x)] if rows else []
    chart = alt.layer(even, curves, *names).properties(width=230, height=180)
    faceted = chart.facet(facet=alt.Facet("answers:N", title=None), columns=3)
    return faceted.resolve_scale(x="independent")


def tilt(data: Any) -> Any:
    """Rows: model, kind ("run" or "respondent"), group, tilt, slope, and their _low and _high."""
    values = [alt.Tooltip(f"{key}:Q", format=".3f") for key in ("tilt", "slope")]
    room = alt.Scale(padding=15)
    apart = alt.Axis(labelFlush=False, tickCount=6)
    x = alt.X("tilt:Q", title="Tilt, in log-odds (0: to neither side)", scale=room, axis=apart)
    y = alt.Y("slope:Q", title="Slope (below 1: differences understated)", scale=room)
    rows = data.to_dict()["values"]
    names = list(dict.fromkeys(row["model"] for row in rows if row["kind"] == "run"))
    base = alt.Chart()
    models = base.transform_filter("datum.kind == 'run'")
    known = base.transform_filter("datum.kind == 'respondent'")
    colour = colour_of(names, legend=LISTED)
    shade = alt.condition(is_called(RESPONDENTS["mean"]), alt.value(GREEN), alt.value(GREY))
    shapes = alt.Scale(range=["cross", "square", "triangle-up"])
    shape = alt.Shape(
        "respondent:N",
        title=None,
        sort=None,
        legend=alt.Legend(orient="top", columns=1, labelLimit=300),
        scale=shapes,
    )
    chart = alt.layer(
        base.mark_rule(**DASHED).encode(y=alt.YDatum(1)),
        base.mark_rule(**DASHED).encode(x=alt.XDatum(0)),
        known.transform_calculate(respondent="datum.model")
        .mark_point(size=90, strokeWidth=2, opacity=1)
        .encode(x=x, y=y, shape=shape, color=shade, tooltip=["model:N", *values]),
        models.mark_rule(opacity=0.6).encode(x="tilt_low:Q", x2="tilt_high:Q", y=y, color=colour),
        models.mark_rule(opacity=0.6).encode(x=x, y="slope_low:Q", y2="slope_high:Q", color=colour),
        models.mark_point(filled=True, size=60, opacity=1).encode(
            x=x, y=y, color=colour, tooltip=["model:N", *values]
        ),
        data=alt.Data(values=rows),
    ).properties(width=NARROW, height=NARROW)
    return facets(chart, "group", None)
