"""Figures of single tasks: what is true, and what models answer."""

from __future__ import annotations

from typing import Any, Literal

import altair as alt

from lm_eval_epidemia.report.palette import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    PERCENT,
    SHARES,
    diagonal,
)


def _who(channel: Any, title: str | None, colours: list[str] | None = None) -> Any:
    """Tell respondents apart, in the order of the rows; colours and shapes share one legend."""
    scale = {"scale": alt.Scale(range=colours)} if colours else {}
    legend = alt.Legend(labelLimit=300, orient="bottom", direction="vertical")
    return channel("who:N", title=title, sort=None, legend=legend, **scale)


#: In the order of the cells or answers.
_IN_PLACE = alt.EncodingSortField("place", op="min")


def distribution(data: Any) -> Any:
    """Rows: who (truth, a respondent or a model), answer, place, p, low, high (of the truth)."""
    y = alt.Y("answer:N", title=None, sort=_IN_PLACE, axis=alt.Axis(labelLimit=160))
    x = alt.X("p:Q", title="Probability of the answer", axis=PERCENT)
    base = alt.Chart(data)
    truth = base.transform_filter("datum.who == 'truth'")
    others = base.transform_filter("datum.who != 'truth'")
    return alt.layer(
        truth.mark_bar(color=BLUE, opacity=0.35).encode(x=x, y=y, tooltip=["answer:N", "p:Q"]),
        truth.mark_rule(color=BLUE, strokeWidth=2).encode(x="low:Q", x2="high:Q", y=y),
        others.mark_point(filled=True, size=70, opacity=0.9).encode(
            x=x,
            y=y,
            tooltip=["who:N", "answer:N", "p:Q"],
            color=_who(alt.Color, "bar: truth", [GREEN, ORANGE, *PALETTE[2:]]),
            shape=_who(alt.Shape, "bar: truth"),
        ),
    ).properties(width=320, height=alt.Step(26))


#: Who answers the same in every condition.
_SAME = (
    "indexof(['knows P(Y) alone', 'uniform', 'knows averages only', 'guesses uniformly'], "
    "datum.who) >= 0"
)


def curve(data: Any) -> Any:
    """Rows: condition, place, who, p, low, high (of the truth): one answer over one condition."""
    slanted = alt.Axis(labelAngle=-40, labelLimit=160)
    x = alt.X("condition:N", title=None, sort=_IN_PLACE, axis=slanted)
    base = alt.Chart(data)
    truth = base.transform_filter("datum.who == 'truth'")
    y = alt.Y("p:Q", title="Probability of the answer", axis=PERCENT)
    colour = alt.Color(
        "who:N", sort=None, legend=None, scale=alt.Scale(range=[BLUE, GREEN, GREY, *PALETTE])
    )
    # Lines say on themselves what they are, each in a place of its own, and dashes differ as well
    # as colours: the truth at its end, what is the same everywhere in the middle, models in front.
    ends = base.transform_joinaggregate(
        last="max(place)", first="min(place)", groupby=["who"]
    ).encode(x=x, y=y, color=colour)
    middle = "datum.place == floor((datum.first + datum.last) / 2)"
    places: tuple[tuple[str, str, Literal["left", "center", "right"], int, int], ...] = (
        ("datum.who == 'truth'", "datum.place == datum.last", "right", 0, -8),
        (_SAME, middle, "center", 0, 10),
        (f"datum.who != 'truth' && !({_SAME})", "datum.place == datum.first", "left", 4, -8),
    )
    names = [
        ends.mark_text(align=align, dx=dx, dy=dy, fontSize=11, limit=200).encode(
            text=alt.condition(f"{who} && {where}", alt.Text("who:N"), alt.value(""))
        )
        for who, where, align, dx, dy in places
    ]
    return alt.layer(
        truth.mark_rule(color=BLUE, strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q"),
        base.mark_line(point=True).encode(
            x=x,
            y=y,
            tooltip=["who:N", "condition:N", "p:Q"],
            color=colour,
            strokeDash=alt.StrokeDash("who:N", sort=None, legend=None),
        ),
        *names,
    ).properties(width=420, height=260)


def cells(data: Any) -> Any:
    """Rows: given, answer, p, q, weight: every cell of a task, one model."""
    shades = alt.Scale(range=[ORANGE, BLUE, GREEN])
    points = (
        alt.Chart(data)
        .mark_point(filled=True, opacity=0.6)
        .encode(
            x=alt.X("q:Q", title="Elicited", **SHARES),
            y=alt.Y("p:Q", title="True", **SHARES),
            size=alt.Size("weight:Q", legend=None),
            color=alt.Color("answer:N", title=None, scale=shades),
            tooltip=["given:N", "answer:N", "p:Q", "q:Q"],
        )
    )
    return alt.layer(diagonal(), points).properties(width=300, height=300)


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
