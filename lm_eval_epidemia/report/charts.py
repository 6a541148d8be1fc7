"""The figures as Vega-Lite, which takes the extra ``report``; `figures` lists and saves them.

Each function takes the data, inline or by name, and returns a chart; it says which fields the rows
need. Colours are Okabe and Ito's, which people who see colours differently can tell apart.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import altair as alt
import vl_convert

from lm_eval_epidemia.findings.model_rows import plain_name
from lm_eval_epidemia.report.charts_tilt import tilt
from lm_eval_epidemia.report.charts_tuned import learning, losses, tuning
from lm_eval_epidemia.report.palette import (
    BELOW,
    BLUE,
    DASHED,
    GREEN,
    GREY,
    KINDS,
    MODELS,
    ORANGE,
    PALETTE,
    PERCENT,
    PURPLE,
    SCORE,
    SHAPE,
    UPRIGHT,
    Panel,
    by_metric,
    diagonal,
    facets,
    knows_marginal,
    lines,
    names_at_ends,
    with_ends,
)

#: The name under which the site hands its rows to a figure.
ROWS = "rows"

#: What a green mark is.
_KNOWN = "green: knows P(Y) alone"


def _dots(
    panel: Panel, title: str, tooltip: list[Any], size: int, colour: Any, **place: Any
) -> tuple[Any, Any]:
    """Draw scores as intervals, and as dots of a size and colour, whose shape is of their kind."""
    base = alt.Chart(panel.data).encode(**place, color=colour)
    low = alt.X("low:Q", title=title, scale=panel.scale)
    score = alt.X("score:Q", scale=panel.scale)
    dots = base.mark_point(filled=True, size=size, opacity=1)
    return (
        base.mark_rule().encode(x=low, x2="high:Q"),
        dots.encode(x=score, shape=SHAPE, tooltip=tooltip),
    )


def _by_group(channel: Any, panel: Panel) -> Any:
    """Part by group, in order, and say what the green mark is where there is one."""
    known = any(row["mean"] is not None for row in panel.data.to_dict()["values"])
    by_column = alt.EncodingSortField("column", op="min")
    return channel("group:N", title=_KNOWN if known else None, sort=by_column)


@by_metric
def leaderboard(panel: Panel) -> Any:
    """Rows: model, place, group, column (its place), score, low, high, mean (respondent), kind, and
    those of `by_metric`."""
    order = alt.EncodingSortField("place", order="ascending")
    y = alt.Y("model:N", title=None, sort=order, axis=alt.Axis(labelLimit=260))
    tooltip = ["model:N", "group:N", SCORE]
    dots = _dots(panel, panel.with_errors, tooltip, 60, alt.value(BLUE), y=y)
    known = knows_marginal(alt.Chart(panel.data), size=14).encode(y=y)
    chart = alt.layer(*dots, known).properties(width=260, height=alt.Step(20))
    return chart.facet(column=_by_group(alt.Column, panel))


@by_metric
def surveys(panel: Panel) -> Any:
    """Rows: as of `leaderboard`, and survey."""
    rows = panel.data.to_dict()["values"]
    parted = [{**row, "panel": f"{plain_name(row['group'])}: {row['survey']}"} for row in rows]
    panel = panel._replace(data=alt.Data(values=parted))
    y = alt.Y("model:N", title=None, sort=panel.models, axis=alt.Axis(labelLimit=200))
    tooltip = ["model:N", "survey:N", SCORE, "tasks:Q"]
    dots = _dots(panel, panel.says, tooltip, 45, alt.value(BLUE), y=y)
    known = knows_marginal(alt.Chart(panel.data), size=12).encode(y=y)
    chart = alt.layer(*dots, known).properties(width=150, height=alt.Step(16))
    title = _KNOWN if any(row["mean"] is not None for row in rows) else None
    return facets(chart, "panel", title, 260).resolve_scale(y="independent")


@by_metric
def closed(panel: Panel) -> Any:
    """Rows: model, way, place, score, low, high, mean (respondent), kind, those of `by_metric`."""
    y = alt.Y("model:N", title=None, sort=panel.models, axis=alt.Axis(labelLimit=260))
    place: dict[str, Any] = {"y": y, "yOffset": alt.YOffset("way:N")}
    colours = alt.Scale(domain=["closed", "likelihood"], range=[ORANGE, BLUE])
    colour = alt.Color("way:N", title="asked in", legend=BELOW, scale=colours)
    tooltip = ["model:N", "way:N", SCORE, "tasks:Q"]
    dots = _dots(panel, f"{panel.with_errors}; {_KNOWN}", tooltip, 70, colour, **place)
    known = knows_marginal(alt.Chart(panel.data), size=12).encode(**place)
    return alt.layer(*dots, known).properties(width=380, height=alt.Step(14))


@by_metric
def conditions(panel: Panel) -> Any:
    """Rows: model, way, conditions ("d = 2"), score, low, high, kind ("run", "published" or
    "respondent"), and those of `by_metric`."""
    x = alt.X("conditions:O", title="Number of conditions", axis=UPRIGHT)
    tooltip = ["model:N", "conditions:N", SCORE, "tasks:Q"]
    everybody = alt.Chart(with_ends(panel, "conditions", "way"))
    point = alt.OverlayMarkDef(color=GREY)
    respondent = everybody.transform_filter("datum.kind == 'respondent'").mark_line(
        color=GREY, strokeDash=[2, 2], point=point
    )
    models = everybody.transform_filter("datum.kind != 'respondent'")
    intervals, line = lines(models, panel.score, tooltip, x=x, color=panel.colour)
    dashes = alt.Scale(domain=KINDS, range=[[1, 0], [6, 3]])
    dash = alt.StrokeDash("kind:N", title=None, legend=BELOW, scale=dashes)
    chart = alt.layer(
        respondent.encode(x=x, y=panel.score, tooltip=tooltip, detail="model:N"),
        intervals,
        line.encode(strokeDash=dash),
        names_at_ends(models, panel.colour, x=x),
    ).properties(width=260, height=240)
    title = "all groups of a way of asking together; grey: knows P(Y) alone"
    return chart.facet(column=alt.Column("way:N", title=title))


def _against(
    field: str, says: str, facet: str = "group", title: str | None = None, even: float | None = None
) -> Callable[[Any], Any]:
    """Return a figure of a line per model against a whole number, a row of charts per group.

    Rows: model, the field, group, the facet, score, low, high, and those of `by_metric`. A dashed
    line stands at `even`, where that is given.
    """

    @by_metric
    def figure(panel: Panel) -> Any:
        x = alt.X(f"{field}:O", title=says, axis=UPRIGHT)
        # Models stand beside one another, so that no error bar hides another's.
        beside = alt.XOffset("model:N", sort=panel.models)
        tooltip = ["model:N", f"{field}:O", alt.Tooltip("score:Q", format=".3f")]
        several = facet != "group" and len({r["group"] for r in panel.data.to_dict()["values"]}) > 1
        base = alt.Chart(with_ends(panel, field, facet, *["group"] * several))
        layers = [*lines(base, panel.score, tooltip, x=x, xOffset=beside, color=panel.colour)]
        layers.append(names_at_ends(base, panel.colour, x=x, xOffset=beside))
        if even is not None:
            layers.insert(0, base.mark_rule(**DASHED).encode(y=alt.YDatum(even)))
        parts: dict[str, Any] = {"column": alt.Column(f"{facet}:N", title=title, sort=None)}
        if several:
            parts["row"] = alt.Row("group:N", title=None, sort=None)
        return alt.layer(*layers).properties(width=360, height=240).facet(**parts)

    return figure


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
    return facets(square, "model", "dashed: as wrong as stated", 230)


def stated(data: Any) -> Any:
    """Rows: who, kind ("model", "published", "real answers", "truth"), place (from 0 to 1, within
    who), low, middle, high."""
    says = (
        "5 %, median and 95 % of what was stated; line and band: the truth and its interval of 95 %"
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


@by_metric
def versions(panel: Panel) -> Any:
    """Rows: pair, group, task, base, instruct, kind ("task", "mean"), and those of `by_metric`."""
    below = alt.Legend(orient="bottom", labelLimit=400, columns=1)
    base = alt.Chart().encode(
        x=alt.X("base:Q", title=f"Base model: {panel.says}", scale=panel.scale),
        y=alt.Y("instruct:Q", title="Instruct version", scale=panel.scale),
        color=alt.Color("pair:N", title=None, sort=None, legend=below, scale=MODELS),
        tooltip=["pair:N", "task:N", "base:Q", "instruct:Q"],
    )
    tasks, means = (base.transform_filter(f"datum.kind == '{kind}'") for kind in ("task", "mean"))
    diamond: dict[str, Any] = {"shape": "diamond", "stroke": "black", "strokeWidth": 1}
    chart = alt.layer(
        diagonal(*panel.ends),
        tasks.mark_point(filled=True, size=25, opacity=0.5),
        means.mark_point(filled=True, size=160, opacity=1, **diamond),
        data=panel.data,
    ).properties(width=260, height=260)
    return facets(chart, "group", "diamonds: means")


def size(data: Any) -> Any:
    """Rows: model, parameters, group, score, low, high, metric."""
    log: dict[str, Any] = {"scale": alt.Scale(type="log"), "axis": alt.Axis(format="~s")}
    base = alt.Chart(data).encode(
        x=alt.X("parameters:Q", title="Parameters", **log),
        color=alt.Color("group:N", title=None, scale=alt.Scale(range=PALETTE)),
    )
    points = base.mark_point(filled=True, size=60)
    chart = alt.layer(
        base.mark_rule().encode(y=alt.Y("low:Q", title=None), y2="high:Q"),
        points.encode(y="score:Q", tooltip=["model:N", "group:N", "score:Q"]),
    ).properties(width=420, height=280)
    return chart.facet(row=alt.Row("metric:N", title=None)).resolve_scale(y="independent")


def beside(data: Any) -> Any:
    """Rows: model, group, score, metric, other (name of the other task), value."""
    base = alt.Chart(data).encode(
        x=alt.X("value:Q", title="Other task", scale=alt.Scale(zero=False)),
        y=alt.Y("score:Q", title=None),
    )
    points = base.mark_point(filled=True, size=60).encode(
        color=alt.Color("group:N", title=None, scale=alt.Scale(range=PALETTE)),
        tooltip=["model:N", "group:N", "score:Q", "other:N", "value:Q"],
    )
    names = base.mark_text(align="left", dx=7, fontSize=10).encode(text="model:N")
    chart = alt.layer(points, names).properties(width=300, height=240)
    parts: dict[str, Any] = {
        "column": alt.Column("other:N", title=None),
        "row": alt.Row("metric:N", title=None),
    }
    return chart.facet(**parts).resolve_scale(x="independent", y="independent")


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


#: Axes of probabilities, from 0 to 1.
_SHARES: dict[str, Any] = {"axis": PERCENT, "scale": alt.Scale(domain=[0, 1])}


def cells(data: Any) -> Any:
    """Rows: given, answer, p, q, weight: every cell of a task, one model."""
    shades = alt.Scale(range=[ORANGE, BLUE, GREEN])
    points = (
        alt.Chart(data)
        .mark_point(filled=True, opacity=0.6)
        .encode(
            x=alt.X("q:Q", title="Elicited", **_SHARES),
            y=alt.Y("p:Q", title="True", **_SHARES),
            size=alt.Size("weight:Q", legend=None),
            color=alt.Color("answer:N", title=None, scale=shades),
            tooltip=["given:N", "answer:N", "p:Q", "q:Q"],
        )
    )
    return alt.layer(diagonal(), points).properties(width=300, height=300)


def calibration(data: Any) -> Any:
    """Rows: model, kind ("density": q, q2, p, p2, share; "curve": q, p), over cells and answers."""
    # The data stands at the facets: a layer with data of its own would show all of it in each.
    base, shades = alt.Chart(), alt.Scale(type="sqrt", range=[0.05, 1])
    density = (
        base.transform_filter("datum.kind == 'density'")
        .mark_rect()
        .encode(
            x=alt.X("q:Q", title="Elicited probability", **_SHARES),
            x2="q2:Q",
            y=alt.Y("p:Q", title="True probability", **_SHARES),
            y2="p2:Q",
            opacity=alt.Opacity("share:Q", legend=None, scale=shades),
            color=alt.value("#56B4E9"),
        )
    )
    curve = base.transform_filter("datum.kind == 'curve'").mark_line(point=True, color=ORANGE)
    line = curve.encode(x="q:Q", y="p:Q", order="q:Q", tooltip=["model:N", "q:Q", "p:Q"])
    chart = alt.layer(density, diagonal(), line, data=data).properties(width=260, height=260)
    return facets(chart, "model", None, 250)


def order_bias(data: Any) -> Any:
    """Rows: model, answers (how many were shown), position (letter), times (1: as often as any)."""
    base, wide = alt.Chart(data), alt.Legend(labelLimit=250)
    shades = alt.Scale(range=PALETTE)
    times = alt.Tooltip("times:Q", format=".2f")
    curves = base.mark_line(point=True).encode(
        x=alt.X("position:N", title="Displayed as", axis=UPRIGHT),
        y=alt.Y("times:Q", title="Probability, times uniform"),
        color=alt.Color("model:N", title=None, sort=None, scale=shades, legend=wide),
        strokeDash=alt.StrokeDash("model:N", title=None, sort=None),
        tooltip=["model:N", "answers:N", "position:N", times],
    )
    even = base.mark_rule(**DASHED).encode(y=alt.YDatum(1))
    chart = alt.layer(even, curves).properties(width=230, height=180)
    faceted = chart.facet(facet=alt.Facet("answers:N", title=None), columns=3)
    return faceted.resolve_scale(x="independent")


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


#: The figures that `figures.FIGURES` lists, by name.
CHARTS: dict[str, Callable[[Any], Any]] = {
    "leaderboard": leaderboard,
    "size": size,
    "beside": beside,
    "surveys": surveys,
    "conditions": conditions,
    "nodes": _against("nodes", "Number of variables"),
    "paths": _against(
        "length",
        "Edges on the shortest path from U to V",
        "becomes",
        "the answer before is yes, and after",
    ),
    "wins": _against(
        "size",
        "Number of real answers",
        "what",
        "beaten by what; dashed: no better, no worse",
        0.5,
    ),
    "quartiles": _against(
        "quartile", "Quartile of the stated prior", title="dashed: calibrated", even=0.25
    ),
    "uncertainty": uncertainty,
    "versions": versions,
    "tuning": tuning,
    "losses": losses,
    "learning": learning,
    "closed": closed,
    "calibration": calibration,
    "order_bias": order_bias,
    "tilt": tilt,
    "distribution": distribution,
    "curve": curve,
    "cells": cells,
    "bootstrap": bootstrap,
}

#: The one that only the site draws.
STATED = "stated"

#: From a specification to a file, by its ending.
WRITTEN: dict[str, Callable[[str], bytes]] = {
    ".svg": lambda text: vl_convert.vegalite_to_svg(text).encode(),
    ".png": lambda text: bytes(vl_convert.vegalite_to_png(text, ppi=300)),
    ".pdf": lambda text: bytes(vl_convert.vegalite_to_pdf(text)),
    ".json": str.encode,
}


@lru_cache
def specification(name: str) -> dict[str, Any]:
    """Return a figure's Vega-Lite specification, its rows to be given as the dataset ``rows``."""
    draw = stated if name == STATED else CHARTS[name]
    chart: dict[str, Any] = draw(alt.NamedData(name=ROWS)).to_dict()
    # Colours of text and axes are the page's.
    chart.pop("config", None)
    return chart
