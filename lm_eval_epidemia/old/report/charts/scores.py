"""Figures of scores: by group, survey and condition, against size and against other tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import altair as alt

from lm_eval_epidemia.old.report.palette import (
    BELOW,
    BESIDE,
    BLUE,
    DASHED,
    GREEN,
    LISTED,
    MODELS,
    NARROW,
    ORANGE,
    PALETTE,
    SCORE,
    STACKED,
    UPRIGHT,
    Panel,
    by_metric,
    colour_of,
    diagonal,
    facets,
    knows_marginal,
    lines,
    names_at_ends,
    respondent_colour,
    with_ends,
)
from lm_eval_epidemia.results.naming import kind_of

#: What a green mark is.
_KNOWN = "green: knows averages only"


def _dots(
    panel: Panel, title: str, tooltip: list[Any], size: int, colour: Any, **place: Any
) -> tuple[Any, Any, Any]:
    """Draw scores as intervals, and as dots of a size and colour: hollow if published."""
    base = alt.Chart(panel.data).encode(**place, color=colour)
    low = alt.X("low:Q", title=title, scale=panel.scale)
    score = alt.X("score:Q", scale=panel.scale)
    dots = base.encode(x=score, tooltip=tooltip)
    run = "datum.kind != 'published'"
    return (
        base.mark_rule().encode(x=low, x2="high:Q"),
        dots.transform_filter(run).mark_point(filled=True, size=size, opacity=1),
        dots.transform_filter(f"!({run})").mark_point(filled=False, size=size, opacity=1),
    )


def _by_group(channel: Any, panel: Panel, *notes: str) -> Any:
    """Split by group, in order, and explain the marks."""
    by_column = alt.EncodingSortField("column", op="min")
    return channel("group:N", title=panel.says_of(*_known(panel), *notes), sort=by_column)


def _known(panel: Panel) -> list[str]:
    """Explain the green mark, if there is one."""
    return [_KNOWN] if any(row["mean"] is not None for row in panel.rows) else []


@by_metric
def leaderboard(panel: Panel) -> Any:
    """Rows: model, place, group, column (its place), score, low, high, mean (respondent), kind, and
    those of `by_metric`."""
    order = alt.EncodingSortField("place", order="ascending")
    y = alt.Y("model:N", title=None, sort=order, axis=alt.Axis(labelLimit=260))
    tooltip = ["model:N", "group:N", SCORE]
    dots = _dots(panel, panel.with_errors, tooltip, 60, colour_of(panel.models, [BLUE]), y=y)
    known = knows_marginal(alt.Chart(panel.data), size=14).encode(y=y)
    chart = alt.layer(*dots, known).properties(width=260, height=alt.Step(20))
    return chart.facet(column=_by_group(alt.Column, panel))


@by_metric
def surveys(panel: Panel) -> Any:
    """Rows: as for `leaderboard`, and survey: a row of the chart, with every model in it."""
    panel = panel.of_models()
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in panel.rows:
        parts.setdefault((row["group"], row["survey"]), []).append(row)
    # Models of a survey stand below one another, so that no dot hides another's.
    rows = [
        {**row, "survey": row["survey"].upper(), "below": (place + 0.5) / len(part)}
        for part in parts.values()
        for place, row in enumerate(part)
    ]
    panel = panel._replace(data=alt.Data(values=rows))
    y = alt.Y("survey:N", title=None, sort=sorted({row["survey"] for row in rows}))
    below = alt.YOffset("below:Q", scale=alt.Scale(domain=[0, 1]))
    tall = min(24 + 2 * max(map(len, parts.values())), 48)
    tooltip = ["model:N", "survey:N", SCORE, "tasks:Q"]
    colour = colour_of(panel.models, legend=LISTED)
    dots = _dots(panel, panel.with_errors, tooltip, 45, colour, y=y, yOffset=below)
    known = knows_marginal(alt.Chart(panel.data), size=tall - 8).encode(y=y)
    chart = alt.layer(*dots, known).properties(width=NARROW, height=alt.Step(tall))
    asked = {len({row["mean"] for row in part} - {None}) for part in parts.values()}
    notes = ["several green marks: runs were asked different prompts"] * (max(asked) > 1)
    by_group = _by_group(alt.Column, panel, *notes)
    return chart.facet(column=by_group).resolve_scale(y="independent")


@by_metric
def closed(panel: Panel) -> Any:
    """Rows: model, way, place, score, low, high, mean (respondent), kind, those of `by_metric`."""
    panel = panel.of_models()
    y = alt.Y("model:N", title=None, sort=panel.models, axis=STACKED)
    place: dict[str, Any] = {"y": y, "yOffset": alt.YOffset("way:N")}
    colours = {"closed": ORANGE, "likelihood": BLUE}
    ways = [way for way in colours if any(row["way"] == way for row in panel.rows)]
    scale = alt.Scale(domain=ways, range=[colours[way] for way in ways])
    respondents = [name for name in panel.models if respondent_colour(name)]
    colour = alt.condition(
        alt.FieldOneOfPredicate(field="model", oneOf=respondents),
        alt.value(GREEN),
        alt.Color("way:N", title="asked in", legend=BELOW, scale=scale),
    )
    tooltip = ["model:N", "way:N", SCORE, "tasks:Q"]
    dots = _dots(panel, panel.with_errors, tooltip, 70, colour, **place)
    known = knows_marginal(alt.Chart(panel.data), size=12).encode(**place)
    tallest = max(1 + name.count(" (") + name.count(", ") for name in panel.models)
    chart = alt.layer(*dots, known).properties(width=170, height=alt.Step(max(14, 7 * tallest)))
    notes = panel.says_of(*_known(panel))
    return chart.properties(title=alt.Title(notes, fontSize=11)) if notes else chart


@by_metric
def conditions(panel: Panel) -> Any:
    """Rows: model, way, conditions ("d = 2"), score, low, high, kind ("run", "published" or
    "respondent"), and those of `by_metric`."""
    x = alt.X("conditions:O", title="Number of conditions", axis=UPRIGHT)
    tooltip = ["model:N", "conditions:N", SCORE, "tasks:Q"]
    rows = [
        {**row, "kind": "respondent"} if kind_of(row["model"]) == "mean" else row
        for row in panel.rows
    ]
    everybody = alt.Chart(alt.Data(values=rows))
    point = alt.OverlayMarkDef(color=GREEN)
    respondent = everybody.transform_filter("datum.kind == 'respondent'").mark_line(
        color=GREEN, strokeDash=[2, 2], point=point
    )
    models = everybody.transform_filter("datum.kind != 'respondent'")
    answering = dict.fromkeys(row["model"] for row in rows if row["kind"] != "respondent")
    colour = colour_of(list(answering), legend=LISTED)
    intervals, line = lines(models, panel.score, tooltip, x=x, color=colour)
    dashes = alt.Scale(domain=["run", "published"], range=[[1, 0], [6, 3]])
    dash = alt.StrokeDash("kind:N", legend=None, scale=dashes)
    chart = alt.layer(
        respondent.encode(x=x, y=panel.score, tooltip=tooltip, detail="model:N"),
        intervals,
        line.encode(strokeDash=dash),
    ).properties(width=NARROW, height=240)
    title = f"all groups of a way of asking together; {_KNOWN}"
    if any(row["kind"] == "published" for row in panel.rows):
        title += "; long dashes: published"
    return chart.facet(column=alt.Column("way:N", title=title))


def against(
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
        several = facet != "group" and len({row["group"] for row in panel.rows}) > 1
        base, colour = alt.Chart(panel.data), colour_of(panel.models, legend=LISTED)
        layers = [*lines(base, panel.score, tooltip, x=x, xOffset=beside, color=colour)]
        if even is not None:
            layers.insert(0, base.mark_rule(**DASHED).encode(y=alt.YDatum(even)))
        parts: dict[str, Any] = {"column": alt.Column(f"{facet}:N", title=title, sort=None)}
        if several:
            parts["row"] = alt.Row("group:N", title=None, sort=None)
        return alt.layer(*layers).properties(width=NARROW, height=240).facet(**parts)

    return figure


@by_metric
def versions(panel: Panel) -> Any:
    """Rows: pair, group, task, base, instruct, kind ("task", "mean"), and those of `by_metric`."""
    # The name of a pair stands beside the chart, as high as its mean.
    means = [row for row in panel.rows if row["kind"] == "mean"]
    named = with_ends(means, "base", "group", name="pair", value="instruct", ends=panel.ends)
    rows = [row for row in panel.rows if row["kind"] == "task"] + named.to_dict()["values"]
    colour = alt.Color("pair:N", sort=None, legend=None, scale=MODELS)
    base = alt.Chart().encode(
        x=alt.X("base:Q", title=f"Base model: {panel.says}", scale=panel.scale),
        y=alt.Y("instruct:Q", title="Instruct version", scale=panel.scale),
        color=colour,
        tooltip=["pair:N", "task:N", "base:Q", "instruct:Q"],
    )
    tasks = base.transform_filter("datum.kind == 'task'")
    averages = base.transform_filter("datum.kind == 'mean'")
    diamond: dict[str, Any] = {"shape": "diamond", "stroke": "black", "strokeWidth": 1}
    chart = alt.layer(
        diagonal(*panel.ends),
        tasks.mark_point(filled=True, size=25, opacity=0.5),
        averages.mark_point(filled=True, size=160, opacity=1, **diamond),
        names_at_ends(alt.Chart(), colour, x=BESIDE),
        data=alt.Data(values=rows),
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
