"""The figure of calibration lines; as in `charts`, it says which fields its rows need."""

from __future__ import annotations

from typing import Any

import altair as alt

from lm_eval_epidemia.report.palette import BELOW, DASHED, GREY, MODELS, facets


def tilt(data: Any) -> Any:
    """Rows: model, kind ("run" or "respondent"), group, tilt, slope, and their _low and _high."""
    values = [alt.Tooltip(f"{key}:Q", format=".3f") for key in ("tilt", "slope")]
    room = alt.Scale(padding=15)
    apart = alt.Axis(labelFlush=False, tickCount=6)
    x = alt.X("tilt:Q", title="Tilt, in log-odds (0: to neither side)", scale=room, axis=apart)
    y = alt.Y("slope:Q", title="Slope (below 1: differences understated)", scale=room)
    base = alt.Chart()
    models = base.transform_filter("datum.kind == 'run'")
    known = base.transform_filter("datum.kind == 'respondent'")
    colour = alt.Color("model:N", title=None, sort=None, legend=BELOW, scale=MODELS)
    # Names beside the marks would hide each other. A field of its own has a legend of its own.
    shapes = alt.Scale(range=["cross", "square", "triangle-up"])
    shape = alt.Shape(
        "respondent:N", title=None, sort=None, legend=alt.Legend(orient="top"), scale=shapes
    )
    chart = alt.layer(
        base.mark_rule(**DASHED).encode(y=alt.YDatum(1)),
        base.mark_rule(**DASHED).encode(x=alt.XDatum(0)),
        known.transform_calculate(respondent="datum.model")
        .mark_point(size=90, strokeWidth=2, color=GREY, opacity=1)
        .encode(x=x, y=y, shape=shape, tooltip=["model:N", *values]),
        models.mark_rule(opacity=0.6).encode(x="tilt_low:Q", x2="tilt_high:Q", y=y, color=colour),
        models.mark_rule(opacity=0.6).encode(x=x, y="slope_low:Q", y2="slope_high:Q", color=colour),
        models.mark_point(filled=True, size=60, opacity=1).encode(
            x=x, y=y, color=colour, tooltip=["model:N", *values]
        ),
        data=data,
    ).properties(width=300, height=300)
    return facets(chart, "group", None)
