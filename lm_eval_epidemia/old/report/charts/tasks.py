"""Figures of single tasks: the truth, and models' answers."""

from __future__ import annotations

from typing import Any

import altair as alt

from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.old.report.palette import (
    BESIDE,
    BLUE,
    GREEN,
    GREY,
    NARROW,
    ORANGE,
    PALETTE,
    PERCENT,
    PURPLE,
    SHARES,
    diagonal,
    is_called,
    own_colour,
)


def _who(channel: Any, title: str | None, colours: list[str] | None = None) -> Any:
    """Distinguish respondents, in the order of the rows; colours and shapes share one legend."""
    scale = {"scale": alt.Scale(range=colours)} if colours else {}
    legend = alt.Legend(labelLimit=300, titleLimit=300, orient="bottom", direction="vertical")
    return channel("who:N", title=title, sort=None, legend=legend, **scale)


#: In the order of the cells or answers.
_IN_PLACE = alt.EncodingSortField("place", op="min")


def distribution(
    data: Any, says: str = "Probability of the answer", title: str = "bar: truth"
) -> Any:
    """Rows: who (truth, a respondent or a model), answer, place, p, low, high (of the truth)."""
    y = alt.Y("answer:N", title=None, sort=_IN_PLACE, axis=alt.Axis(labelLimit=160))
    x = alt.X("p:Q", title=says, **SHARES)
    # Of two answers the second mirrors the first.
    base = alt.Chart(data).transform_joinaggregate(last="max(place)")
    base = base.transform_filter("datum.last != 1 || datum.place == 0")
    truth = base.transform_filter("datum.who == 'truth'")
    others = base.transform_filter("datum.who != 'truth'")
    return alt.layer(
        truth.mark_bar(color=BLUE, opacity=0.35).encode(x=x, y=y, tooltip=["answer:N", "p:Q"]),
        truth.mark_rule(color=BLUE, strokeWidth=2).encode(x="low:Q", x2="high:Q", y=y),
        others.mark_point(filled=True, size=70, opacity=0.9).encode(
            x=x,
            y=y,
            tooltip=["who:N", "answer:N", "p:Q"],
            color=own_colour(_who(alt.Color, title, [GREEN, ORANGE, *PALETTE[2:]]), "who"),
            shape=_who(alt.Shape, title),
        ),
    ).properties(width=320, height=alt.Step(26))


#: Who stands in a chart with the models, with a colour and dashes.
_KNOWN = (
    ("truth", BLUE, [1, 0]),
    (RESPONDENTS["mean"], GREEN, [4, 3]),
    (RESPONDENTS["uniform"], GREY, [1, 3]),
)


def curve(data: Any) -> Any:
    """Rows: condition, place, who, p, low, high (of the truth): one answer over one condition."""
    slanted = alt.Axis(labelAngle=-40, labelLimit=160)
    x = alt.X("condition:N", title=None, sort=_IN_PLACE, axis=slanted)
    y = alt.Y("p:Q", title="Probability of the answer", axis=PERCENT, scale=alt.Scale(nice=5))
    base = alt.Chart(data)
    # Names stand right of the plot, as high as the ends of their lines or, where these are close, a
    # line of text higher: each at least as high as all below it, and a gap for each between.
    ends = (
        base.transform_joinaggregate(top="max(p)")
        .transform_joinaggregate(last="max(place)", groupby=["who"])
        .transform_filter("datum.place == datum.last")
        .transform_window(rank="row_number()", sort=[alt.SortField("p")])
        .transform_calculate(free="datum.p - datum.rank * datum.top / 16")
        .transform_window(highest="max(free)", sort=[alt.SortField("p")])
        .transform_calculate(end_at="datum.highest + datum.rank * datum.top / 16")
    )
    # Models have what is left: the place of one is fourth or, beside the truth alone, second.
    free = [colour for colour in PALETTE if colour not in (BLUE, GREEN, GREY)]
    scale = alt.Scale(range=[BLUE, ORANGE, GREY, *free])
    tests = [(is_called(who, "who"), shade, dashes) for who, shade, dashes in _KNOWN]
    colour: Any = alt.Color("who:N", sort=None, legend=None, scale=scale)
    colour = colour.condition([{"test": test, "value": shade} for test, shade, _ in tests])
    dash = alt.StrokeDash(condition=[{"test": test, "value": dashes} for test, _, dashes in tests])
    truth = base.transform_filter("datum.who == 'truth'")
    return alt.layer(
        truth.mark_rule(color=BLUE, strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q"),
        base.mark_line(point=True).encode(
            x=x,
            y=y,
            tooltip=["who:N", "condition:N", "p:Q"],
            color=colour,
            strokeDash=dash,
        ),
        ends.mark_text(align="left", dx=6, fontSize=11, limit=130).encode(
            x=BESIDE, y="end_at:Q", text="who:N", color=colour
        ),
    ).properties(width=420, height=260)


def cells(data: Any) -> Any:
    """Rows: given, answer, p, q, weight: every cell of a task, one model."""
    shades = alt.Scale(range=[ORANGE, BLUE, PURPLE])
    above = alt.Legend(orient="top", columns=2, labelLimit=140)
    points = (
        alt.Chart(data)
        .mark_point(filled=True, opacity=0.6)
        .encode(
            x=alt.X("q:Q", title="The model's answer", **SHARES),
            y=alt.Y("p:Q", title="The survey", **SHARES),
            size=alt.Size("weight:Q", legend=None),
            color=alt.Color("answer:N", title=None, scale=shades, legend=above),
            tooltip=["given:N", "answer:N", "p:Q", "q:Q"],
        )
    )
    return alt.layer(diagonal(), points).properties(width=NARROW, height=NARROW)


def bootstrap(data: Any) -> Any:
    """Rows: kind ("replicate" or "anchor"), distance, label (of an anchor)."""
    base = alt.Chart(data)
    x = alt.X("distance:Q", title="Distance from the truth")
    y = alt.Y("density:Q", title="Bootstrap samples", axis=alt.Axis(labels=False))
    replicates = base.transform_filter("datum.kind == 'replicate'")
    density = replicates.transform_density("distance", as_=["distance", "density"])
    anchors = base.transform_filter("datum.kind == 'anchor'").encode(x=x)
    upwards: dict[str, Any] = {
        "angle": 270,
        "align": "right",
        "baseline": "bottom",
        "dy": -3,
        "dx": -4,
    }
    return alt.layer(
        density.mark_area(color=BLUE, opacity=0.35).encode(x=x, y=y),
        anchors.mark_rule(color=ORANGE, strokeWidth=2),
        anchors.mark_text(**upwards, color=ORANGE).encode(text="label:N", y=alt.YValue(4)),
    ).properties(width=420, height=220)


def truth(data: Any, conditions: list[str]) -> Any:
    """Rows: the conditions, place (of the cell), answer, p, low, high, weight: a task's truth."""
    several = len(conditions) > 1
    slanted = alt.Axis(labels=not several, ticks=not several, labelAngle=-40, labelLimit=160)
    if several:
        x = alt.X("place:O", title="Cells, by probability", sort=None, axis=slanted)
        colour = alt.Color(f"{conditions[0]}:N", sort=None, scale=alt.Scale(scheme="turbo"))
    else:
        x = alt.X(f"{conditions[0]}:N", title=conditions[0], sort=_IN_PLACE, axis=slanted)
        colour = alt.Color("answer:N", sort=None, scale=alt.Scale(range=PALETTE))
    tooltip = [*(f"{name}:N" for name in conditions), "answer:N", "p:Q", "low:Q", "high:Q"]
    base = alt.Chart(data).encode(x=x, color=colour, tooltip=tooltip)
    p = alt.Y("p:Q", title="Probability of the answer", axis=PERCENT)
    weight = alt.Size("weight:Q", legend=None)
    return alt.layer(
        base.mark_rule(opacity=0.6).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(filled=True, opacity=0.9).encode(y=p, size=weight),
    ).properties(width=480, height=280)
