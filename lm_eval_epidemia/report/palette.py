"""What the figures share: colours, encodings, layers, and how they keep scales apart.

The functions that draw return what Altair makes of layers and facets, whose types it does not tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import altair as alt

#: Okabe and Ito's, but for those of too little contrast with a light page or a dark one: all have 3
#: and more with both (WCAG 1.4.11).
BLUE, ORANGE, GREEN, GREY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#808080", "#B8639A"
PALETTE = [ORANGE, BLUE, GREEN, PURPLE, "#8C6D1F", "#6F6BC0", GREY, "#1E8A9E"]

#: More colours, where there are more than eight models.
_MORE = ["#C0392B", "#2E8B57", "#7A7A29", "#5B6EE1", "#B0508A", "#3B86C8", "#A0522D", "#5F8A00"]

COLOURS = [*PALETTE, *_MORE]
MODELS = alt.Scale(range=COLOURS)
BELOW = alt.Legend(orient="bottom", labelLimit=260, columns=3)

#: What rows are of, by the shape of their marks.
KINDS = ["run", "published"]
SHAPE = alt.Shape(
    "kind:N", title=None, legend=BELOW, scale=alt.Scale(domain=KINDS, range=["circle", "diamond"])
)

#: Of a mark that somebody points at.
SCORE = alt.Tooltip("score:Q", format=".4~g")

DASHED: dict[str, Any] = {"color": GREY, "strokeDash": [4, 4]}
PERCENT = alt.Axis(format="%")
UPRIGHT = alt.Axis(labelAngle=0)

#: What rows may hold that stands on the scale of their metric.
SHOWN = ("low", "high", "mean", "base", "instruct", "before", "after")


class Panel(NamedTuple):
    """The rows of one metric.

    Attributes
    ----------
    data : altair.Data
    says : str
        What the values are.
    ends : list of float
        From where to where the axis goes.
    models : list of str
        In order.
    """

    data: alt.Data
    says: str
    ends: list[float]
    models: list[str]

    @property
    def scale(self) -> alt.Scale:
        """Of the values."""
        return alt.Scale(domain=self.ends)

    @property
    def with_errors(self) -> str:
        """Title of an axis whose marks have lines around them."""
        return f"{self.says} (± 1.96 standard errors)"

    @property
    def score(self) -> alt.Y:
        """The score, upwards."""
        return alt.Y("score:Q", title=self.with_errors, scale=self.scale)

    @property
    def colour(self) -> alt.Color:
        """A colour per model, the same in every panel; lines say at their ends whose they are."""
        scale = alt.Scale(domain=self.models, range=COLOURS)
        return alt.Color("model:N", title=None, sort=self.models, legend=None, scale=scale)


def by_metric(draw: Callable[[Panel], Any]) -> Callable[[Any], Any]:
    """Draw one below the other what is on different scales.

    The figure takes rows with metric (what the values are), lowest and highest (None: unbounded),
    as an inline ``altair.Data``.
    """

    @wraps(draw)
    def figure(data: Any) -> Any:
        parts: dict[str, list[dict[str, Any]]] = {}
        for row in data.to_dict()["values"]:
            parts.setdefault(row["metric"], []).append(row)
        charts = []
        for says, rows in parts.items():
            values = [row[key] for row in rows for key in SHOWN if row.get(key) is not None]
            low, high = rows[0]["lowest"], rows[0]["highest"]
            ends = [min(values) if low is None else low, max(values) if high is None else high]
            models = list(dict.fromkeys(row["model"] for row in rows if "model" in row))
            charts.append(draw(Panel(alt.Data(values=rows), says, ends, models)))
        if len(charts) == 1:
            return charts[0]
        return alt.vconcat(*charts).resolve_scale(color="independent")

    return figure


def knows_marginal(base: alt.Chart, **look: Any) -> Any:
    """Draw a green mark where the respondent stands that knows P(Y) alone."""
    known = base.transform_filter("isValid(datum.mean)")
    return known.mark_tick(color=GREEN, thickness=2, **look).encode(x="mean:Q")


def with_ends(panel: Panel, x: str, *facets: str) -> alt.Data:
    """Return a panel's rows, the last of every line with its model's name and where it is written.

    Names at the ends of lines of one facet are kept apart by a twentieth of the scale.

    Parameters
    ----------
    panel : Panel
    x : str
        The field along which lines go.
    *facets : str
        The fields that charts are parted by.
    """
    last: dict[tuple[Any, ...], dict[str, Any]] = {}
    rows = [dict(row) for row in panel.data.to_dict()["values"]]
    for row in rows:
        key = (*(row[facet] for facet in facets), row["model"])
        if key not in last or row[x] >= last[key][x]:
            last[key] = row
    below: dict[tuple[Any, ...], float] = {}
    gap = (panel.ends[1] - panel.ends[0]) / 18
    for (*facet, model), row in sorted(last.items(), key=lambda item: item[1]["score"]):
        at = max(row["score"], below.get(tuple(facet), -math.inf) + gap)
        row["end"], row["end_at"] = model, at
        below[tuple(facet)] = at
    return alt.Data(values=rows)


def names_at_ends(base: alt.Chart, colour: Any, **place: Any) -> Any:
    """Write the names that `with_ends` has put to the ends of lines."""
    chosen = base.transform_filter("isValid(datum.end)")
    text = chosen.mark_text(align="left", dx=8, fontSize=11, limit=220)
    return text.encode(y=alt.Y("end_at:Q"), text="end:N", color=colour, **place)


def lines(base: alt.Chart, y: alt.Y, tooltip: list[Any], **place: Any) -> tuple[Any, Any]:
    """Draw scores as intervals, and as a line through all of one colour."""
    intervals = base.mark_rule(opacity=0.6).encode(y="low:Q", y2="high:Q", **place)
    return intervals, base.mark_line(point=True).encode(y=y, tooltip=tooltip, **place)


def diagonal(low: float = 0, high: float = 1) -> alt.Chart:
    """Draw where both axes say the same."""
    ends = alt.Data(values=[{"a": low, "b": low}, {"a": high, "b": high}])
    return alt.Chart(ends).mark_line(**DASHED).encode(x="a:Q", y="b:Q")


def facets(chart: Any, field: str, title: str | None, limit: int = 0, columns: int = 3) -> Any:
    """Repeat a chart for every value of a field, in the order of the rows.

    Parameters
    ----------
    chart : altair.LayerChart
    field : str
    title : str or None
    limit : int
        How many pixels the names of the values may take, if not as many as usual.
    columns : int
    """
    header: dict[str, Any] = {"header": alt.Header(labelLimit=limit)} if limit else {}
    facet = alt.Facet(f"{field}:N", title=title, sort=None, **header)
    return chart.facet(facet=facet, columns=columns)
