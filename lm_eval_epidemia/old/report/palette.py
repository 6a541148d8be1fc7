"""Shared parts of figures: colours, encodings, layers, and separation of scales.

Drawing functions return Altair's layers and facets, which have no exported types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import cycle
from typing import Any, NamedTuple

import altair as alt

from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.results.naming import kind_of

#: Okabe and Ito's, but for those of too little contrast with a light page or a dark one: all have 3
#: and more with both (WCAG 1.4.11).
BLUE, ORANGE, GREEN, GREY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#808080", "#B8639A"
PALETTE = [ORANGE, BLUE, GREEN, PURPLE, "#8C6D1F", "#6F6BC0", GREY, "#1E8A9E"]

#: More colours, where there are more than eight models.
_MORE = ["#C0392B", "#2E8B57", "#7A7A29", "#5B6EE1", "#B0508A", "#3B86C8", "#A0522D", "#5F8A00"]

COLOURS = [*PALETTE, *_MORE]

#: Classes of shares on a map, from low to high, and of errors, from too low to too high (the latter
#: ColorBrewer's PuOr), for people who see colours differently too; outlines have the contrast.
SHADES = ["#d2e3f3", "#9cc7e3", "#5ca3d0", "#2778b9", "#0a4a90"]
DIVERGING = ["#542788", "#998ec3", "#d8daeb", "#e9e9e9", "#fee0b6", "#f1a340", "#b35806"]
MODELS = alt.Scale(range=COLOURS)
BELOW = alt.Legend(orient="bottom", labelLimit=260, columns=3)

#: Models in a list below, settings under names: beside its axis, a chart of `NARROW` fits a phone.
LISTED = alt.Legend(
    orient="bottom",
    columns=1,
    labelLimit=290,
    labelExpr=r"split(datum.label, / (?=\()/)",
    symbolOpacity=1,
    symbolStrokeWidth=0,
)
NARROW = 270

#: Names beside rows, in as many lines as they have settings: a phone has no room for one line.
STACKED = alt.Axis(labelLimit=150, labelExpr=r"split(datum.label, / (?=\()|(?<=,) /)")

#: The colours of reference respondents, by their kinds; models have the others.
_RESPONDENTS = {"mean": GREEN, "uniform": GREY}

#: Of a mark that somebody points at.
SCORE = alt.Tooltip("score:Q", format=".4~g")

#: Where names stand that belong to no line: at the right edge of a chart.
BESIDE = alt.XValue("width")

DASHED: dict[str, Any] = {"color": GREY, "strokeDash": [4, 4]}
PERCENT = alt.Axis(format="%", tickCount=5, labelFlush=False)
UPRIGHT = alt.Axis(labelAngle=0)

#: Axes of probabilities, from 0 to 1.
SHARES: dict[str, Any] = {"axis": PERCENT, "scale": alt.Scale(domain=[0, 1])}

#: What rows may hold that stands on the scale of their metric.
SHOWN = ("low", "high", "mean", "base", "instruct", "before", "after")


class Panel(NamedTuple):
    """The rows of one metric.

    Attributes
    ----------
    data : altair.Data
    says : str
        Meaning of the values.
    ends : list of float
        Ends of the axis.
    models : list of str
        In order.
    """

    data: alt.Data
    says: str
    ends: list[float]
    models: list[str]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows themselves."""
        rows: list[dict[str, Any]] = self.data.to_dict()["values"]
        return rows

    @property
    def scale(self) -> alt.Scale:
        """Axis of the values."""
        return alt.Scale(domain=self.ends)

    @property
    def with_errors(self) -> str:
        """Title of an axis for marks with intervals."""
        return f"{self.says} (± 1.96 standard errors)"

    @property
    def score(self) -> alt.Y:
        """The score, upwards."""
        return alt.Y("score:Q", title=self.with_errors, scale=self.scale)

    @property
    def colour(self) -> alt.Color:
        """A colour per model, the same in every panel; lines have names at their ends."""
        return colour_of(self.models)

    def of_models(self) -> Panel:
        """Leave out knowing averages only (a green mark beside others), unless alone."""
        rows = [row for row in self.rows if kind_of(row["model"]) != "mean"] or self.rows
        models = list(dict.fromkeys(row["model"] for row in rows))
        return self._replace(data=alt.Data(values=rows), models=models)

    def says_of(self, *notes: str) -> str | None:
        """Join the notes on marks, with one on hollow marks if any score is published."""
        hollow = any(row.get("kind") == "published" for row in self.rows)
        return "; ".join([*notes, *["hollow: published"] * hollow]) or None


def respondent_colour(name: str) -> str | None:
    """Return the colour of a reference respondent; None for a model."""
    return _RESPONDENTS.get(kind_of(name) or "")


def is_called(who: str, field: str = "model") -> str:
    """Return Vega's test for a name, alone or followed by settings in brackets."""
    return f"(datum.{field} == '{who}' || indexof(datum.{field}, '{who} (') == 0)"


def colour_of(
    models: Sequence[str], shades: Sequence[str] = COLOURS, legend: alt.Legend | None = None
) -> alt.Color:
    """Give each model a colour different from those of reference respondents."""
    free = cycle(shade for shade in shades if shade not in _RESPONDENTS.values())
    colours = [respondent_colour(name) or next(free) for name in models]
    scale = alt.Scale(domain=models, range=colours)
    return alt.Color("model:N", title=None, sort=models, legend=legend, scale=scale)


def own_colour(otherwise: alt.Color, field: str = "model") -> alt.Color:
    """Give reference respondents their own colours in a chart with named data."""
    own: list[Any] = [
        {"test": is_called(RESPONDENTS[kind], field), "value": shade}
        for kind, shade in _RESPONDENTS.items()
    ]
    colour: alt.Color = otherwise.condition(own)
    return colour


def by_metric(draw: Callable[[Panel], Any]) -> Callable[[Any], Any]:
    """Draw metrics on different scales below one another.

    Its rows have metric, lowest and highest (None: unbounded), as an inline ``altair.Data``.
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
    """Draw a green mark at the score of the respondent that knows P(Y) alone, except in its row."""
    known = base.transform_filter(f"isValid(datum.mean) && !{is_called(RESPONDENTS['mean'])}")
    return known.mark_tick(color=GREEN, thickness=2, **look).encode(x="mean:Q")


def with_ends(
    rows: Sequence[Mapping[str, Any]],
    x: str,
    *facets: str,
    name: str = "model",
    value: str = "score",
    ends: Sequence[float] = (),
) -> alt.Data:
    """Add to the last row of every line its name and the name's place (see `apart`).

    Parameters
    ----------
    rows : sequence of dict
    x : str
        The field along which lines run.
    *facets : str
        The fields that separate charts.
    name, value : str
        The fields with a line's name and its values.
    ends : sequence of float
        Ends of the axis; by default those of a facet's values.
    """
    copies = [dict(row) for row in rows]
    panels: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in copies:
        if row[value] is not None:
            panels.setdefault(tuple(row[facet] for facet in facets), []).append(row)
    for panel in panels.values():
        last: dict[Any, dict[str, Any]] = {}
        for place, row in enumerate(panel):
            # A level that goes through all of a chart is a line of its own.
            line = row[name] if row[x] is not None else place
            if line not in last or row[x] >= last[line][x]:
                last[line] = row
        values = [row[value] for row in panel]
        named = sorted(last.values(), key=lambda row: row[value])
        places = apart([row[value] for row in named], *(ends or (min(values), max(values))))
        for row, at in zip(named, places, strict=True):
            row["end"], row["end_at"] = row[name], at
    return alt.Data(values=copies)


def apart(values: Sequence[float], low: float, high: float) -> list[float]:
    """Spread rising values within a scale, to make room for names."""
    gap = (high - low) / max(18, len(values))
    places: list[float] = []
    for value in values:
        places.append(max(value, places[-1] + gap) if places else value)
    # Those that were moved beyond the end of the scale go back.
    above = max(high, *values) + gap if values else high
    for i in reversed(range(len(places))):
        above = places[i] = min(places[i], above - gap)
    return places


def names_at_ends(base: alt.Chart, colour: Any, **place: Any) -> Any:
    """Write the names that `with_ends` added at the ends of lines."""
    chosen = base.transform_filter("isValid(datum.end)")
    text = chosen.mark_text(align="left", dx=8, fontSize=11, limit=220)
    return text.encode(y=alt.Y("end_at:Q"), text="end:N", color=colour, **place)


def lines(base: alt.Chart, y: alt.Y, tooltip: list[Any], **place: Any) -> tuple[Any, Any]:
    """Draw scores as intervals, with a line through those of one colour."""
    intervals = base.mark_rule(opacity=0.6).encode(y="low:Q", y2="high:Q", **place)
    return intervals, base.mark_line(point=True).encode(y=y, tooltip=tooltip, **place)


def diagonal(low: float = 0, high: float = 1) -> alt.Chart:
    """Draw the line of equality."""
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
        Pixels for the names of the values, if not the usual number.
    columns : int
    """
    header: dict[str, Any] = {"header": alt.Header(labelLimit=limit)} if limit else {}
    facet = alt.Facet(f"{field}:N", title=title, sort=None, **header)
    return chart.facet(facet=facet, columns=columns)
