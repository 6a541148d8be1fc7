"""The figures of fine-tuning; as in `charts`, each says which fields its rows need."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import altair as alt

from lm_eval_epidemia.report.palette import (
    BELOW,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    PURPLE,
    by_metric,
)

#: Of the parts of `tuning`; an empty one is of a model without a card.
_PARTS = alt.Scale(
    domain=["trained on", "held out", "not in training", "not known"],
    range=["circle", "diamond", "square", "triangle-up"],
)


def tuning(data: Any) -> alt.TopLevelMixin:
    """Rows: model, group, task, part, before, after, low, high (of after), mean (respondent), and
    those of `by_metric`."""

    def draw(rows: Any, says: str, ends: list[float], _models: list[str]) -> alt.TopLevelMixin:
        x = alt.X(
            "after:Q",
            scale=alt.Scale(domain=ends),
            title=f"{says}: before (hollow) and after (± 1.96 standard errors)",
        )
        y = alt.Y("task:N", title=None, sort=None, axis=alt.Axis(labelLimit=320))
        shape = alt.Shape("part:N", title=None, legend=BELOW, scale=_PARTS)
        colour = alt.Color(
            "part:N",
            title=None,
            legend=BELOW,
            scale=alt.Scale(domain=_PARTS.to_dict()["domain"], range=[BLUE, ORANGE, GREY, PURPLE]),
        )
        tooltip = [
            "model:N",
            "task:N",
            "part:N",
            *(alt.Tooltip(f"{part}:Q", format=".4~g") for part in ("before", "after")),
        ]
        base = alt.Chart()
        layers: Any = alt.layer(
            base.transform_filter("isValid(datum.mean)")
            .mark_tick(color=GREEN, thickness=2, opacity=1)
            .encode(x="mean:Q", y=y),
            base.mark_rule(strokeDash=[3, 3]).encode(x="before:Q", x2="after:Q", y=y, color=colour),
            base.mark_rule(opacity=0.6, strokeWidth=3).encode(
                x="low:Q", x2="high:Q", y=y, color=colour
            ),
            base.mark_point(size=45, opacity=1, filled=False).encode(
                x="before:Q", y=y, shape=shape, color=colour, tooltip=tooltip
            ),
            base.mark_point(size=60, opacity=1, filled=True).encode(
                x=x, y=y, shape=shape, color=colour, tooltip=tooltip
            ),
            data=rows,
        ).properties(width=260, height=alt.Step(15))
        found: alt.TopLevelMixin = layers.facet(
            facet=alt.Facet(
                "panel:N",
                title="green: knows P(Y) alone",
                sort=None,
                header=alt.Header(labelLimit=420),
            ),
            columns=2,
        ).resolve_scale(y="independent")
        return found

    return by_metric(data, draw)


def losses(data: Any) -> alt.TopLevelMixin:
    """Rows: model, step, loss, split ("train" or "validation"); kind "kept" instead of "loss" where
    step is that of the checkpoint that was kept."""
    base = alt.Chart()
    x = alt.X("step:Q", title="Optimiser steps", axis=alt.Axis(tickMinStep=1))
    lines = base.transform_filter("datum.kind == 'loss'").mark_line(
        point=alt.OverlayMarkDef(size=18)
    )
    kept = base.transform_filter("datum.kind == 'kept'")
    layers: Any = alt.layer(
        lines.encode(
            x=x,
            y=alt.Y("loss:Q", title="Loss", scale=alt.Scale(zero=False)),
            color=alt.Color(
                "split:N",
                title=None,
                legend=BELOW,
                scale=alt.Scale(domain=["train", "validation"], range=[BLUE, ORANGE]),
            ),
            tooltip=["model:N", "split:N", "step:Q", alt.Tooltip("loss:Q", format=".4~g")],
        ),
        kept.mark_rule(color=GREY, strokeDash=[4, 4], strokeWidth=1.5).encode(
            x=x, tooltip=["model:N", "step:Q"]
        ),
        data=data,
    ).properties(width=380, height=220)
    found: alt.TopLevelMixin = layers.facet(
        facet=alt.Facet(
            "model:N",
            title="vertical: the checkpoint that was kept",
            sort=None,
            header=alt.Header(labelLimit=420),
        ),
        columns=2,
    ).resolve_scale(x="independent", y="independent")
    return found


#: Colours of what a learning curve is to be read beside.
_REFERENCES = {"known": GREEN, "base": GREY}


def learning(data: Any) -> alt.TopLevelMixin:
    """Rows: panel (base and group), kind ("answers" or a reference), who, rows (of a reference
    None), score, low, high, and those of `by_metric`."""

    def draw(rows: Any, says: str, ends: list[float], _models: list[str]) -> alt.TopLevelMixin:
        x = alt.X(
            "rows:Q",
            title="Training rows",
            scale=alt.Scale(type="log"),
            axis=alt.Axis(format="~s", tickCount=5),
        )
        y = alt.Y("score:Q", title=f"{says} (± 1.96 standard errors)", scale=alt.Scale(domain=ends))
        names = {row["who"]: row["kind"] for row in rows.to_dict()["values"]}
        free = cycle(
            one
            for one in dict.fromkeys([BLUE, ORANGE, PURPLE, *PALETTE])
            if one not in _REFERENCES.values()
        )
        colours = [_REFERENCES.get(kind) or next(free) for kind in names.values()]
        who = alt.Color(
            "who:N", title=None, legend=BELOW, scale=alt.Scale(domain=list(names), range=colours)
        )
        base = alt.Chart()
        curve = base.transform_filter("datum.kind == 'answers'")
        others = base.transform_filter("datum.kind != 'answers'")
        tooltip = ["who:N", "rows:Q", alt.Tooltip("score:Q", format=".4~g")]
        layers: Any = alt.layer(
            others.mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(
                y=y, color=who, tooltip=tooltip
            ),
            curve.mark_rule(opacity=0.6).encode(x=x, y="low:Q", y2="high:Q", color=who),
            curve.mark_line(point=True).encode(x=x, y=y, color=who, tooltip=tooltip),
            data=rows,
        ).properties(width=300, height=240)
        found: alt.TopLevelMixin = layers.facet(
            facet=alt.Facet("panel:N", title=None, sort=None, header=alt.Header(labelLimit=420)),
            columns=2,
        )
        return found

    return by_metric(data, draw)
