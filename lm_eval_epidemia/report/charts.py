"""The figures as Vega-Lite, which takes the extra ``report``; `figures` lists and saves them.

Each function takes the data, inline or by name, and returns a chart; it says which fields the rows
need. Colours are Okabe and Ito's, which people who see colours differently can tell apart.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt
import vl_convert

from lm_eval_epidemia.report.charts_tuned import learning, losses, tuning
from lm_eval_epidemia.report.palette import (
    BELOW,
    BLUE,
    GREEN,
    GREY,
    KIND,
    MODELS,
    ORANGE,
    PALETTE,
    PURPLE,
    by_metric,
)

#: The name under which the site hands its rows to a figure.
ROWS = "rows"

_PERCENT = alt.Axis(format="%")


def leaderboard(data: Any) -> alt.TopLevelMixin:
    """Rows: model, place, group, column (its place), score, low, high, mean (respondent), kind, and
    those of `by_metric`."""

    def draw(rows: Any, says: str, ends: list[float], _models: list[str]) -> alt.TopLevelMixin:
        scale = alt.Scale(domain=ends)
        order = alt.EncodingSortField("place", order="ascending")
        y = alt.Y("model:N", title=None, sort=order, axis=alt.Axis(labelLimit=260))
        base = alt.Chart(rows)
        bars = base.mark_rule(color=BLUE).encode(
            x=alt.X("low:Q", title=f"{says} (± 1.96 standard errors)", scale=scale),
            x2="high:Q",
            y=y,
        )
        points = base.mark_point(filled=True, size=60, color=BLUE, opacity=1).encode(
            x=alt.X("score:Q", scale=scale),
            y=y,
            shape=alt.Shape("kind:N", title=None, legend=BELOW, scale=KIND),
            tooltip=["model:N", "group:N", alt.Tooltip("score:Q", format=".4~g")],
        )
        line = (
            base.transform_filter("isValid(datum.mean)")
            .mark_tick(color=GREEN, thickness=2, size=14)
            .encode(x="mean:Q", y=y)
        )
        found: alt.TopLevelMixin = (
            alt.layer(bars, points, line)
            .properties(width=260, height=alt.Step(20))
            .facet(column=_groups(alt.Column, rows, "green"))
        )
        return found

    return by_metric(data, draw)


def _groups(channel: Any, rows: Any, line: str) -> Any:
    """Part by group, in order, and say what the line is where there is one."""
    known = any(row["mean"] is not None for row in rows.to_dict()["values"])
    title = f"{line}: knows P(Y) alone" if known else None
    return channel("group:N", title=title, sort=alt.EncodingSortField("column", op="min"))


def surveys(data: Any) -> alt.TopLevelMixin:
    """Rows: as of `leaderboard`, and survey."""

    def draw(rows: Any, says: str, ends: list[float], models: list[str]) -> alt.TopLevelMixin:
        scale, title = alt.Scale(domain=ends), f"{says} (± 1.96 standard errors)"
        y = alt.Y("survey:N", title=None)
        offset = alt.YOffset("model:N", sort=models)
        colour = alt.Color("model:N", title=None, sort=models, legend=BELOW, scale=MODELS)
        base = alt.Chart(rows)
        means = (
            base.transform_filter("isValid(datum.mean)")
            .mark_tick(color=GREEN, thickness=2, opacity=1)
            .encode(x="mean:Q", y=y, yOffset=offset)
        )
        found: alt.TopLevelMixin = (
            alt.layer(
                base.mark_rule().encode(
                    x=alt.X("low:Q", title=title, scale=scale),
                    x2="high:Q",
                    y=y,
                    yOffset=offset,
                    color=colour,
                ),
                base.mark_point(filled=True, size=45, opacity=1).encode(
                    x=alt.X("score:Q", scale=scale),
                    y=y,
                    yOffset=offset,
                    color=colour,
                    shape=alt.Shape("kind:N", title=None, legend=BELOW, scale=KIND),
                    tooltip=[
                        "model:N",
                        "survey:N",
                        alt.Tooltip("score:Q", format=".4~g"),
                        "tasks:Q",
                    ],
                ),
                means,
            )
            .properties(width=240, height=alt.Step(9))
            .facet(facet=_groups(alt.Facet, rows, "green"), columns=3)
            .resolve_scale(y="independent")
        )
        return found

    return by_metric(data, draw)


def conditions(data: Any) -> alt.TopLevelMixin:
    """Rows: model, way, conditions ("d = 2"), score, low, high, kind ("run", "published" or
    "respondent"), and those of `by_metric`."""

    def draw(rows: Any, says: str, ends: list[float], models: list[str]) -> alt.TopLevelMixin:
        x = alt.X("conditions:O", title="Number of conditions", axis=alt.Axis(labelAngle=0))
        y = alt.Y("score:Q", title=f"{says} (± 1.96 standard errors)", scale=alt.Scale(domain=ends))
        tooltip = ["model:N", "conditions:N", alt.Tooltip("score:Q", format=".4~g"), "tasks:Q"]
        everybody = alt.Chart(rows)
        respondent = everybody.transform_filter("datum.kind == 'respondent'")
        base = everybody.transform_filter("datum.kind != 'respondent'")
        colour = alt.Color("model:N", title=None, sort=models, legend=BELOW, scale=MODELS)
        dash = alt.StrokeDash(
            "kind:N",
            title=None,
            legend=BELOW,
            scale=alt.Scale(domain=KIND.to_dict()["domain"], range=[[1, 0], [6, 3]]),
        )
        found: alt.TopLevelMixin = (
            alt.layer(
                respondent.mark_line(
                    color=GREY, strokeDash=[2, 2], point=alt.OverlayMarkDef(color=GREY)
                ).encode(x=x, y=y, tooltip=tooltip, detail="model:N"),
                base.mark_rule(opacity=0.6).encode(x=x, y="low:Q", y2="high:Q", color=colour),
                base.mark_line(point=True).encode(
                    x=x, y=y, color=colour, strokeDash=dash, tooltip=tooltip
                ),
            )
            .properties(width=260, height=240)
            .facet(
                column=alt.Column(
                    "way:N", title="all groups of a way of asking together; grey: knows P(Y) alone"
                )
            )
        )
        return found

    return by_metric(data, draw)


def nodes(data: Any) -> alt.TopLevelMixin:
    """Rows: model, nodes, group, score, low, high, and those of `by_metric`."""
    return _against(data, "nodes", "Number of variables", "group", None)


def paths(data: Any) -> alt.TopLevelMixin:
    """Rows: as of `nodes`, but length (of the path) and becomes (of the answer)."""
    says = "Edges on the shortest path from U to V"
    return _against(data, "length", says, "becomes", "the answer before is yes, and after")


def wins(data: Any) -> alt.TopLevelMixin:
    """Rows: as of `nodes`, but size (how many real answers) and what (beats them)."""
    says = "Number of real answers"
    return _against(data, "size", says, "what", "beaten by what; dashed: no better, no worse", 0.5)


def quartiles(data: Any) -> alt.TopLevelMixin:
    """Rows: as of `nodes`, but quartile (of the stated prior)."""
    says = "Quartile of the stated prior"
    return _against(data, "quartile", says, "group", "dashed: calibrated", 0.25)


def _against(
    data: Any, field: str, says: str, facet: str, title: str | None, even: float | None = None
) -> alt.TopLevelMixin:
    """Draw a line per model against a whole number, a row of charts per group.

    A dashed line stands at `even`, where that is given.
    """

    def draw(rows: Any, metric: str, ends: list[float], models: list[str]) -> alt.TopLevelMixin:
        x = alt.X(f"{field}:O", title=says, axis=alt.Axis(labelAngle=0))
        # Models stand beside one another, so that no error bar hides another's.
        beside = alt.XOffset("model:N", sort=models)
        y = alt.Y(
            "score:Q", title=f"{metric} (± 1.96 standard errors)", scale=alt.Scale(domain=ends)
        )
        colour = alt.Color("model:N", title=None, sort=models, legend=BELOW, scale=MODELS)
        tooltip = ["model:N", f"{field}:O", alt.Tooltip("score:Q", format=".3f")]
        base = alt.Chart(rows)
        line = (
            []
            if even is None
            else [base.mark_rule(color=GREY, strokeDash=[4, 4]).encode(y=alt.YDatum(even))]
        )
        layers: Any = alt.layer(
            *line,
            base.mark_rule(opacity=0.6).encode(
                x=x, xOffset=beside, y="low:Q", y2="high:Q", color=colour
            ),
            base.mark_line(point=True).encode(
                x=x, xOffset=beside, y=y, color=colour, tooltip=tooltip
            ),
        ).properties(width=360, height=240)
        parts: dict[str, Any] = {"column": alt.Column(f"{facet}:N", title=title, sort=None)}
        if facet != "group" and len({row["group"] for row in rows.to_dict()["values"]}) > 1:
            parts["row"] = alt.Row("group:N", title=None, sort=None)
        found: alt.TopLevelMixin = layers.facet(**parts)
        return found

    return by_metric(data, draw)


def uncertainty(data: Any) -> alt.TopLevelMixin:
    """Rows: model, quantity, difficulty, stated, error (both over the error that 5 real answers
    leave, above 0)."""
    scale = alt.Scale(type="log")
    x = alt.X(
        "stated:Q",
        title="Stated sd (5 answers' error = 1)",
        scale=scale,
        axis=alt.Axis(format="~g", tickCount=6, grid=False),
    )
    y = alt.Y(
        "error:Q",
        title="Error ratio",
        scale=scale,
        axis=alt.Axis(format="~g", tickCount=6, grid=False),
    )
    shown = (row[key] for row in data.to_dict()["values"] for key in ("stated", "error"))
    values = [value for value in shown if value is not None]
    points = (
        alt.Chart()
        .mark_point(filled=True, size=36, opacity=0.75)
        .encode(
            x=x,
            y=y,
            color=alt.Color(
                "difficulty:N", title=None, sort=None, legend=BELOW, scale=alt.Scale(range=PALETTE)
            ),
            tooltip=[
                "model:N",
                "quantity:N",
                alt.Tooltip("stated:Q", format=".3~g"),
                alt.Tooltip("error:Q", format=".3~g"),
            ],
        )
    )
    found: alt.TopLevelMixin = (
        alt.layer(_diagonal(min(values), max(values)), points, data=data)
        .properties(width=230, height=230)
        .facet(
            facet=alt.Facet(
                "model:N",
                title="dashed: as wrong as stated",
                sort=None,
                header=alt.Header(labelLimit=230),
            ),
            columns=3,
        )
    )
    return found


#: Which rows of `stated` are which.
_SAID = alt.Scale(domain=["model", "published", "real answers"], range=[ORANGE, PURPLE, GREY])


def stated(data: Any) -> alt.TopLevelMixin:
    """Rows: who, kind ("model", "published", "real answers", "truth"), place (from 0 to 1, within
    who), low, middle, high."""
    base = alt.Chart(data)
    x = alt.X(
        "middle:Q",
        title="5 %, median and 95 % of what was stated; line and band: the truth "
        "and its interval of 95 %",
        scale=alt.Scale(zero=False),
    )
    y = alt.Y("who:N", title=None, sort=None, axis=alt.Axis(labelLimit=260))
    offset = alt.YOffset("place:Q", scale=alt.Scale(domain=[-0.15, 1.15]))
    colour = alt.Color("kind:N", title=None, scale=_SAID, legend=alt.Legend(orient="bottom"))
    truth = base.transform_filter("datum.kind == 'truth'")
    said = base.transform_filter("datum.kind != 'truth'")
    tooltip = [
        "who:N",
        *(alt.Tooltip(f"{part}:Q", format=".5~g") for part in ("low", "middle", "high")),
    ]
    return alt.layer(
        truth.mark_rect(color=BLUE, opacity=0.2).encode(x="low:Q", x2="high:Q"),
        truth.mark_rule(color=BLUE, strokeWidth=2).encode(x=x, tooltip=tooltip),
        said.mark_rule(opacity=0.7).encode(
            x="low:Q", x2="high:Q", y=y, yOffset=offset, color=colour, tooltip=tooltip
        ),
        said.mark_point(filled=True, size=18, opacity=1).encode(
            x=x, y=y, yOffset=offset, color=colour, tooltip=tooltip
        ),
    ).properties(width=520, height=alt.Step(46))


def versions(data: Any) -> alt.TopLevelMixin:
    """Rows: pair, group, task, base, instruct, kind ("task", "mean"), and those of `by_metric`."""

    def draw(rows: Any, says: str, ends: list[float], _models: list[str]) -> alt.TopLevelMixin:
        scale = alt.Scale(domain=ends)
        x = alt.X("base:Q", title=f"Base model: {says}", scale=scale)
        y = alt.Y("instruct:Q", title="Instruct version", scale=scale)
        below = alt.Legend(orient="bottom", labelLimit=400, columns=1)
        colour = alt.Color("pair:N", title=None, sort=None, legend=below, scale=MODELS)
        tooltip = ["pair:N", "task:N", "base:Q", "instruct:Q"]
        base = alt.Chart()
        tasks, means = (base.transform_filter(f"datum.kind == '{k}'") for k in ("task", "mean"))
        found: alt.TopLevelMixin = (
            alt.layer(
                _diagonal(*ends),
                tasks.mark_point(filled=True, size=25, opacity=0.5).encode(
                    x=x, y=y, color=colour, tooltip=tooltip
                ),
                means.mark_point(
                    filled=True, size=160, shape="diamond", opacity=1, stroke="black", strokeWidth=1
                ).encode(x=x, y=y, color=colour, tooltip=tooltip),
                data=rows,
            )
            .properties(width=260, height=260)
            .facet(facet=alt.Facet("group:N", title="diamonds: means", sort=None), columns=3)
        )
        return found

    return by_metric(data, draw)


def closed(data: Any) -> alt.TopLevelMixin:
    """Rows: model, way, place, score, low, high, mean (respondent), kind, those of `by_metric`."""

    def draw(rows: Any, says: str, ends: list[float], models: list[str]) -> alt.TopLevelMixin:
        y = alt.Y("model:N", title=None, sort=models, axis=alt.Axis(labelLimit=260))
        scale = alt.Scale(domain=ends)
        colours = alt.Scale(domain=["closed", "likelihood"], range=[ORANGE, BLUE])
        colour = alt.Color("way:N", title="asked in", legend=BELOW, scale=colours)
        offset = alt.YOffset("way:N")
        base = alt.Chart(rows)
        found: alt.TopLevelMixin = alt.layer(
            base.mark_rule().encode(
                x=alt.X(
                    "low:Q",
                    title=f"{says} (± 1.96 standard errors); green: knows P(Y) alone",
                    scale=scale,
                ),
                x2="high:Q",
                y=y,
                yOffset=offset,
                color=colour,
            ),
            base.mark_point(filled=True, size=70, opacity=1).encode(
                x=alt.X("score:Q", scale=scale),
                y=y,
                yOffset=offset,
                color=colour,
                shape=alt.Shape("kind:N", title=None, legend=BELOW, scale=KIND),
                tooltip=["model:N", "way:N", alt.Tooltip("score:Q", format=".4~g"), "tasks:Q"],
            ),
            base.transform_filter("isValid(datum.mean)")
            .mark_tick(color=GREEN, thickness=2, size=12)
            .encode(x="mean:Q", y=y, yOffset=offset),
        ).properties(width=380, height=alt.Step(14))
        return found

    return by_metric(data, draw)


def size(data: Any) -> alt.TopLevelMixin:
    """Rows: model, parameters, group, score, low, high, metric."""
    x = alt.X(
        "parameters:Q", title="Parameters", scale=alt.Scale(type="log"), axis=alt.Axis(format="~s")
    )
    base = alt.Chart(data)
    colour = alt.Color("group:N", title=None, scale=alt.Scale(range=PALETTE))
    return (
        alt.layer(
            base.mark_rule().encode(x=x, y=alt.Y("low:Q", title=None), y2="high:Q", color=colour),
            base.mark_point(filled=True, size=60).encode(
                x=x, y="score:Q", color=colour, tooltip=["model:N", "group:N", "score:Q"]
            ),
        )
        .properties(width=420, height=280)
        .facet(row=alt.Row("metric:N", title=None))
        .resolve_scale(y="independent")
    )


def beside(data: Any) -> alt.TopLevelMixin:
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
    return (
        alt.layer(points, names)
        .properties(width=300, height=240)
        .facet(column=alt.Column("other:N", title=None), row=alt.Row("metric:N", title=None))
        .resolve_scale(x="independent", y="independent")
    )


def _who(channel: Any, title: str | None, colours: list[str] | None = None) -> Any:
    """Tell respondents apart, in the order of the rows; colours and shapes share one legend."""
    scale = {"scale": alt.Scale(range=colours)} if colours else {}
    legend = alt.Legend(labelLimit=300)
    return channel("who:N", title=title, sort=None, legend=legend, **scale)


def distribution(data: Any) -> alt.TopLevelMixin:
    """Rows: who (truth, a respondent or a model), answer, place, p, low, high (of the truth)."""
    y = alt.Y(
        "answer:N",
        title=None,
        sort=alt.EncodingSortField("place", op="min"),
        axis=alt.Axis(labelLimit=220),
    )
    x = alt.X("p:Q", title="Probability of the answer", axis=_PERCENT)
    base = alt.Chart(data)
    truth, others = (
        base.transform_filter("datum.who == 'truth'"),
        base.transform_filter("datum.who != 'truth'"),
    )
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
    ).properties(width=380, height=alt.Step(26))


def curve(data: Any) -> alt.TopLevelMixin:
    """Rows: condition, place, who, p, low, high (of the truth): one answer over one condition."""
    x = alt.X(
        "condition:N",
        title=None,
        sort=alt.EncodingSortField("place", op="min"),
        axis=alt.Axis(labelAngle=-40, labelLimit=160),
    )
    y = alt.Y("p:Q", title="Probability of the answer", axis=_PERCENT)
    base = alt.Chart(data)
    truth = base.transform_filter("datum.who == 'truth'")
    # Widths differ as well as colours, and the legend names everybody.
    return alt.layer(
        truth.mark_rule(color=BLUE, strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q"),
        base.mark_line(point=True).encode(
            x=x,
            y=y,
            tooltip=["who:N", "condition:N", "p:Q"],
            color=_who(alt.Color, None, [BLUE, GREEN, GREY, ORANGE, *PALETTE[2:]]),
            strokeDash=_who(alt.StrokeDash, None),
        ),
    ).properties(width=420, height=260)


def cells(data: Any) -> alt.TopLevelMixin:
    """Rows: given, answer, p, q, weight: every cell of a task, one model."""
    base = alt.Chart(data)
    points = base.mark_point(filled=True, opacity=0.6).encode(
        x=alt.X("q:Q", title="Elicited", axis=_PERCENT, scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("p:Q", title="True", axis=_PERCENT, scale=alt.Scale(domain=[0, 1])),
        size=alt.Size("weight:Q", legend=None),
        color=alt.Color("answer:N", title=None, scale=alt.Scale(range=[ORANGE, BLUE, GREEN])),
        tooltip=["given:N", "answer:N", "p:Q", "q:Q"],
    )
    return alt.layer(_diagonal(), points).properties(width=300, height=300)


def calibration(data: Any) -> alt.TopLevelMixin:
    """Rows: model, kind ("density": q, q2, p, p2, share; "curve": q, p), over cells and answers."""
    # The data stands at the facets: a layer with data of its own would show all of it in each.
    base, percent = alt.Chart(), alt.Scale(domain=[0, 1])
    density = (
        base.transform_filter("datum.kind == 'density'")
        .mark_rect()
        .encode(
            x=alt.X("q:Q", title="Elicited probability", axis=_PERCENT, scale=percent),
            x2="q2:Q",
            y=alt.Y("p:Q", title="True probability", axis=_PERCENT, scale=percent),
            y2="p2:Q",
            opacity=alt.Opacity(
                "share:Q", legend=None, scale=alt.Scale(type="sqrt", range=[0.05, 1])
            ),
            color=alt.value("#56B4E9"),
        )
    )
    line = (
        base.transform_filter("datum.kind == 'curve'")
        .mark_line(point=True, color=ORANGE)
        .encode(x="q:Q", y="p:Q", order="q:Q", tooltip=["model:N", "q:Q", "p:Q"])
    )
    layered: alt.TopLevelMixin = (
        alt.layer(density, _diagonal(), line, data=data)
        .properties(width=260, height=260)
        .facet(
            facet=alt.Facet("model:N", title=None, sort=None, header=alt.Header(labelLimit=250)),
            columns=3,
        )
    )
    return layered


def _diagonal(low: float = 0, high: float = 1) -> alt.Chart:
    ends = alt.Data(values=[{"a": low, "b": low}, {"a": high, "b": high}])
    return alt.Chart(ends).mark_line(color=GREY, strokeDash=[4, 4]).encode(x="a:Q", y="b:Q")


def order_bias(data: Any) -> alt.TopLevelMixin:
    """Rows: model, answers (how many were shown), position (letter), times (1: as often as any)."""
    base = alt.Chart(data)
    lines = base.mark_line(point=True).encode(
        x=alt.X("position:N", title="Displayed as", axis=alt.Axis(labelAngle=0)),
        y=alt.Y("times:Q", title="Probability, times uniform"),
        color=alt.Color(
            "model:N",
            title=None,
            sort=None,
            scale=alt.Scale(range=PALETTE),
            legend=alt.Legend(labelLimit=250),
        ),
        strokeDash=alt.StrokeDash("model:N", title=None, sort=None),
        tooltip=["model:N", "answers:N", "position:N", alt.Tooltip("times:Q", format=".2f")],
    )
    even = base.mark_rule(color=GREY, strokeDash=[4, 4]).encode(y=alt.YDatum(1))
    return (
        alt.layer(even, lines)
        .properties(width=230, height=180)
        .facet(facet=alt.Facet("answers:N", title=None), columns=3)
        .resolve_scale(x="independent")
    )


def bootstrap(data: Any) -> alt.TopLevelMixin:
    """Rows: kind ("replicate" or "anchor"), distance, label (of an anchor)."""
    base = alt.Chart(data)
    x = alt.X("distance:Q", title="Distance from the truth")
    density = (
        base.transform_filter("datum.kind == 'replicate'")
        .transform_density("distance", as_=["distance", "density"])
        .mark_area(color=BLUE, opacity=0.35)
        .encode(x=x, y=alt.Y("density:Q", title="Bootstrap samples", axis=alt.Axis(labels=False)))
    )
    anchors = base.transform_filter("datum.kind == 'anchor'").encode(x=x)
    return alt.layer(
        density,
        anchors.mark_rule(color=ORANGE, strokeWidth=2),
        anchors.mark_text(
            angle=270, align="right", baseline="bottom", dy=-3, dx=-4, color=ORANGE
        ).encode(text="label:N", y=alt.YValue(4)),
    ).properties(width=420, height=220)


def truth(data: Any, conditions: list[str]) -> alt.TopLevelMixin:
    """Rows: the conditions, place (of the cell), answer, p, low, high, weight: a task's truth."""
    several = len(conditions) > 1
    tooltip = [*(f"{name}:N" for name in conditions), "answer:N", "p:Q", "low:Q", "high:Q"]
    x = alt.X(
        "place:O" if several else f"{conditions[0]}:N",
        title="Cells, by probability" if several else conditions[0],
        sort=None if several else alt.EncodingSortField("place", op="min"),
        axis=alt.Axis(labels=not several, ticks=not several, labelAngle=-40, labelLimit=160),
    )
    y = alt.Y("p:Q", title="Probability of the answer", axis=_PERCENT)
    colour = alt.Color(
        f"{conditions[0]}:N" if several else "answer:N",
        sort=None,
        scale=alt.Scale(scheme="turbo") if several else alt.Scale(range=PALETTE),
    )
    base = alt.Chart(data).encode(x=x, color=colour, tooltip=tooltip)
    return alt.layer(
        base.mark_rule(opacity=0.6).encode(y=alt.Y("low:Q"), y2="high:Q"),
        base.mark_point(filled=True, opacity=0.9).encode(
            y=y, size=alt.Size("weight:Q", legend=None)
        ),
    ).properties(width=480, height=280)


#: The figures that `figures.FIGURES` lists, by name.
CHARTS: dict[str, Callable[[Any], alt.TopLevelMixin]] = {
    chart.__name__: chart
    for chart in (
        leaderboard,
        size,
        beside,
        surveys,
        conditions,
        nodes,
        paths,
        wins,
        quartiles,
        uncertainty,
        versions,
        tuning,
        losses,
        learning,
        closed,
        calibration,
        order_bias,
        distribution,
        curve,
        cells,
        bootstrap,
    )
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


def specification(name: str) -> dict[str, Any]:
    """Return a figure's Vega-Lite specification, its rows to be given as the dataset ``rows``."""
    draw = stated if name == STATED else CHARTS[name]
    found: dict[str, Any] = draw(alt.NamedData(name=ROWS)).to_dict()
    # Colours of text and axes are the page's.
    found.pop("config", None)
    return found
