"""The figures of fine-tuning; as in `scores`, each docstring lists the fields of its rows."""

from __future__ import annotations

import math
from itertools import cycle
from typing import Any

import altair as alt

from lm_eval_epidemia.old.report.palette import (
    BELOW,
    BESIDE,
    BLUE,
    DASHED,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    PURPLE,
    SCORE,
    Panel,
    by_metric,
    facets,
    knows_marginal,
    lines,
    names_at_ends,
    with_ends,
)

#: Of the parts of `tuning`, with their shapes and colours; an empty one is of a model without a
#: card.
_PARTS = ["trained on", "held out", "not in training", "not known"]
_SHAPES = alt.Scale(domain=_PARTS, range=["circle", "diamond", "square", "triangle-up"])
_COLOURS = alt.Scale(domain=_PARTS, range=[BLUE, ORANGE, GREY, PURPLE])

#: How many losses of a curve are drawn at most, or nearly.
MOST = 50

#: How many pixels the name of a model may take above its chart.
_WIDE = 420


@by_metric
def tuning(panel: Panel) -> Any:
    """Rows: model, group, task, part, before, after, low, high (of after), mean (respondent), and
    those of `by_metric`."""
    title = f"{panel.says}: before (hollow) and after (± 1.96 standard errors)"
    after = alt.X("after:Q", scale=panel.scale, title=title, axis=alt.Axis(tickCount=5))
    y = alt.Y("task:N", title=None, sort=None, axis=alt.Axis(labelLimit=320, ticks=False))
    base = alt.Chart().encode(y=y)
    colour = alt.Color("part:N", title=None, legend=BELOW, scale=_COLOURS)
    values = (alt.Tooltip(f"{part}:Q", format=".4~g") for part in ("before", "after"))
    told: dict[str, Any] = {
        "shape": alt.Shape("part:N", title=None, legend=BELOW, scale=_SHAPES),
        "color": colour,
        "tooltip": ["model:N", "task:N", "part:N", *values],
    }
    way = base.mark_rule(strokeDash=[3, 3])
    interval = base.mark_rule(opacity=0.6, strokeWidth=3)
    chart = alt.layer(
        knows_marginal(base, opacity=1),
        way.encode(x="before:Q", x2="after:Q", color=colour),
        interval.encode(x="low:Q", x2="high:Q", color=colour),
        base.mark_point(size=45, opacity=1, filled=False).encode(x="before:Q", **told),
        base.mark_point(size=60, opacity=1, filled=True).encode(x=after, **told),
        data=panel.data,
    ).properties(width=260, height=alt.Step(15))
    faceted = facets(chart, "panel", "green: knows averages only", _WIDE, columns=2)
    return faceted.resolve_scale(y="independent")


def _thinned(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep evenly chosen steps of every curve, and its last."""
    curves: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        curves.setdefault((row["model"], row["split"]), []).append(row)
    return [
        row
        for curve in curves.values()
        for place, row in enumerate(curve)
        if place % math.ceil(len(curve) / MOST) == 0 or row is curve[-1]
    ]


def losses(data: Any) -> Any:
    """Rows: model, step, loss, split ("train" or "validation"); kind "kept" instead of "loss" where
    step is that of the checkpoint that was kept."""
    x = alt.X("step:Q", title="Optimiser steps", axis=alt.Axis(tickMinStep=1, tickCount=5))
    curved = _thinned([row for row in data.to_dict()["values"] if row["kind"] == "loss"])
    named = with_ends(curved, "step", "model", name="split", value="loss").to_dict()["values"]
    rows = [row for row in data.to_dict()["values"] if row["kind"] != "loss"] + named
    base = alt.Chart().encode(x=x)
    splits = alt.Scale(domain=["train", "validation"], range=[BLUE, ORANGE])
    colour = alt.Color("split:N", title=None, legend=None, scale=splits)
    loss = base.transform_filter("datum.kind == 'loss'")
    curves = loss.encode(
        y=alt.Y("loss:Q", title="Loss", scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=5)),
        color=colour,
        tooltip=["model:N", "split:N", "step:Q", alt.Tooltip("loss:Q", format=".4~g")],
    )
    kept = base.transform_filter("datum.kind == 'kept'").mark_rule(**DASHED, strokeWidth=1.5)
    chart = alt.layer(
        curves.mark_line(),
        # Of the validation rows, there is a loss at few steps.
        curves.transform_filter("datum.split == 'validation'").mark_point(filled=True, size=18),
        kept.encode(tooltip=["model:N", "step:Q"]),
        names_at_ends(loss, colour),
        data=alt.Data(values=rows),
    ).properties(width=380, height=220)
    faceted = facets(chart, "model", "vertical: the checkpoint that was kept", _WIDE, columns=2)
    return faceted.resolve_scale(x="independent", y="independent")


#: Colours of what a learning curve is to be read beside.
_REFERENCES = {"known": GREEN, "base": GREY}


@by_metric
def learning(panel: Panel) -> Any:
    """Rows: panel (base and group), kind ("answers" or a reference), who, rows (of a reference
    None), score, low, high, and those of `by_metric`."""
    axis = alt.Axis(format="~s", tickCount=5)
    x = alt.X("rows:Q", title="Training rows", scale=alt.Scale(type="log"), axis=axis)
    names = {row["who"]: row["kind"] for row in panel.rows}
    colours = dict.fromkeys([BLUE, ORANGE, PURPLE, *PALETTE])
    free = cycle(colour for colour in colours if colour not in _REFERENCES.values())
    shades = [_REFERENCES.get(kind) or next(free) for kind in names.values()]
    scale = alt.Scale(domain=list(names), range=shades)
    who = alt.Color("who:N", title=None, legend=None, scale=scale)
    named = with_ends(panel.rows, "rows", "panel", name="who", ends=panel.ends)
    base, tooltip = alt.Chart(), ["who:N", "rows:Q", SCORE]
    answers = base.transform_filter("datum.kind == 'answers'")
    others = base.transform_filter("datum.kind != 'answers'").mark_rule(
        strokeDash=[5, 4], strokeWidth=1.5
    )
    chart = alt.layer(
        others.encode(y=panel.score, color=who, tooltip=tooltip),
        *lines(answers, panel.score, tooltip, x=x, color=who),
        names_at_ends(base, who, x=BESIDE),
        data=named,
    ).properties(width=300, height=240)
    return facets(chart, "panel", None, _WIDE, columns=2)
