"""Draw the figures that `figures.yaml` declares, with Vega-Altair (needs the extra ``report``).

Altair's layers and facets have no exported types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from itertools import cycle
from types import MappingProxyType
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from lm_eval_epidemia.findings.words import plain_name
from lm_eval_epidemia.report.figures import Axis, Chart
from lm_eval_epidemia.report.render import cut_text

#: Okabe and Ito's colours, but for those of too little contrast with a light page or a dark one:
#: all have 3 and more with both (WCAG 1.4.11).
BLUE, ORANGE, GREEN, GREY, PURPLE = "#0072B2", "#D55E00", "#009E73", "#808080", "#B8639A"
COLOURS = [
    *(BLUE, ORANGE, GREEN, PURPLE, "#8C6D1F", "#6F6BC0", "#1E8A9E", "#C0392B", "#2E8B57"),
    *("#7A7A29", "#5B6EE1", "#B0508A", "#3B86C8", "#A0522D", "#5F8A00"),
]

#: Stands for the colour of the page's text while a figure is drawn.
INK = "#010203"

#: Classes of shares on a map, from low to high, and of errors, from too low to too high (the latter
#: ColorBrewer's PuOr), for people who see colours differently too.
SHADES = ["#d2e3f3", "#9cc7e3", "#5ca3d0", "#2778b9", "#0a4a90"]
DIVERGING = ["#542788", "#998ec3", "#d8daeb", "#e9e9e9", "#fee0b6", "#f1a340", "#b35806"]

#: Where classes of errors end, in shares: the middle one is as good as right.
ERRORS = [-0.3, -0.15, -0.05, 0.05, 0.15, 0.3]

DASHED: dict[str, Any] = {"color": GREY, "strokeDash": [4, 4]}

#: Characters of a name.
LONGEST = 60

#: Of more names no colour is told from another: their marks are grey, named under the pointer. So
#: many lines are named at their ends.
MANY, FEW = 8, 6

#: Widths of the only panel and of one of several, two of which stand beside one another on a page.
WIDE, NARROW = 760, 440

#: The name of the shapes of countries in a chart.
SHAPES = "world"


def draw(
    chart: Chart,
    table: pd.DataFrame,
    colours: Mapping[str, str] = MappingProxyType({}),
    wide: int = 0,
) -> Any:
    """Draw a figure from the table of its finding.

    Parameters
    ----------
    chart : Chart
    table : DataFrame
    colours : mapping of str to str
        By name of a model; others get colours in the order of the rows.
    wide : int
        Pixels of a panel; by default those of a page.
    """
    table = name_in_words(chart, prepare_rows(chart, table))
    place = {axis: _axis(chart, table, axis) for axis in "xy"}
    colour = _colour(chart, table, colours)
    layers = [*_lines(chart, table), *MARKS[chart.mark](chart, table, place, colour)]
    wide = wide or (NARROW if chart.facet else WIDE)
    is_named = chart.y in table and not _is_number(table, chart.y)
    steps = table[chart.y].nunique() if is_named else 0
    tall: Any = alt.Step(24) if steps else wide if chart.diagonal else max(240, wide // 2)
    drawn = alt.layer(*layers, data=_data(table)).properties(width=wide, height=tall)
    if not chart.facet or table[chart.facet].nunique() < 2:
        return drawn
    by = alt.Facet(f"{chart.facet}:N", title=None, sort=[*dict.fromkeys(table[chart.facet])])
    # Groups of several benchmarks have several scales.
    apart = chart.facet == "group" or not _is_number(table, chart.x)
    return drawn.facet(facet=by, columns=2).resolve_scale(
        x="independent" if apart else "shared",
        y="independent" if steps or chart.facet == "group" else "shared",
    )


def name_in_words(chart: Chart, table: pd.DataFrame) -> pd.DataFrame:
    """Put words for codes; of lines, each that has one gets the name at its end.

    Rows without a place are no marks: without them no panel is empty, and no name is without one.
    """
    for axis in (chart.x, chart.y):
        if _is_number(table, axis):
            table = table[np.isfinite(table[axis].astype(float))]
    ways = {"group": plain_name, "survey": str.upper}
    table = table.assign(**{of: table[of].map(say) for of, say in ways.items() if of in table})
    if chart.mark != "line" or not chart.colour or table[chart.colour].nunique() > FEW:
        return table
    table = table.assign(label="", at=table[chart.y].astype(float))
    room = float(np.ptp(table["at"])) or 1.0
    for _, panel in table.groupby(chart.facet) if chart.facet else [("", table)]:
        ends: list[tuple[pd.Series, list[str]]] = []
        for name, rows in panel.groupby(chart.colour, sort=False):
            line = rows.set_index(chart.x)["at"]
            # Lines that coincide have one label.
            alike = (
                names
                for other, names in ends
                if other.index.equals(line.index) and (other - line).abs().max() < room / 100
            )
            if (names := next(alike, None)) is not None:
                names.append(str(name))
                continue
            ends.append((line.set_axis(rows.index), [str(name)]))
        below = -np.inf
        for line, names in sorted(ends, key=lambda end: end[0].iloc[-1]):
            # No label hides another.
            below = max(line.iloc[-1], below + room / 14)
            table.loc[line.index[-1], ["label", "at"]] = ", ".join(names), below
    return table


def _data(table: pd.DataFrame) -> Any:
    return alt.Data(values=json.loads(table.to_json(orient="records", double_precision=12)))


def _cut_names(names: pd.Series) -> pd.Series:
    """Cut long names, as far as they stay different."""
    # Vega would cut at the end, where names differ, and some signs in two.
    wide, own = LONGEST, names.unique()
    while len({cut_text(name, wide) for name in own}) < len(own):
        wide += LONGEST
    return names.map(lambda name: cut_text(name, wide))


def prepare_rows(chart: Chart, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows that are drawn, with the name of whose each is."""
    names = table.reindex(columns=["model", "settings"]).fillna("").astype(str)
    who = names["model"].str.replace(" (baseline)", "", regex=False)
    more = (" (" + names["settings"] + ")").where(names["settings"] != "", "")
    table = table.assign(who=_cut_names(who + more))
    if chart.only_runs and (table["kind"] != "respondent").any():
        table = table[table["kind"] != "respondent"]
    return table.query(chart.where) if chart.where else table


def _is_number(table: pd.DataFrame, name: str) -> bool:
    return name in table and pd.api.types.is_numeric_dtype(table[name])


def _axis(chart: Chart, table: pd.DataFrame, axis: str, name: str = "") -> Any:
    """Return an encoding of a column: a scale of numbers, or texts in their order."""
    channel = alt.X if axis == "x" else alt.Y
    own: Axis = chart.axis(getattr(chart, axis))
    name, title = name or getattr(chart, axis), own.title or None
    if not _is_number(table, name):
        long = axis == "x" and table[name].astype(str).str.len().max() > 3
        limit = 0 if name == "who" else 200
        how = alt.Axis(labelLimit=limit, labelAngle=-40 if long else alt.Undefined)
        return channel(f"{name}:N", title=title, sort=None, axis=how)
    if own.ends == "%":
        how = alt.Axis(format="%", tickCount=5)
        whole = alt.Scale(domain=[0, 1]) if chart.mark != "line" else alt.Scale(nice=5)
        return channel(f"{name}:Q", title=title, axis=how, scale=whole)
    scale = alt.Scale(type="log") if own.ends == "log" else alt.Scale(zero=False, padding=8)
    return channel(f"{name}:Q", title=title or name.replace("_", " "), scale=scale)


def _colour(chart: Chart, table: pd.DataFrame, colours: Mapping[str, str]) -> dict[str, Any]:
    """Return the encoding of colour: the truth has the text's, known respondents are grey."""
    if not chart.colour:
        return {"color": alt.value(BLUE)}
    names = [*dict.fromkeys(table[chart.colour].astype(str))]
    if len(names) > MANY:
        return {"color": alt.value(GREY), "detail": f"{chart.colour}:N"}
    is_known = table.reindex(columns=["kind"])["kind"] == "respondent"
    known = table.loc[is_known, chart.colour].astype(str)
    own = {"truth": INK, "run": BLUE} | dict.fromkeys({*known, "respondent"}, GREY) | dict(colours)
    free = iter([c for c in COLOURS if c not in own.values()] * 40)
    range_ = [own.get(name) or next(free) for name in names]
    legend = alt.Legend(orient="bottom", columns=2, labelLimit=400) if len(names) > 1 else None
    colour = alt.Color(f"{chart.colour}:N", title=None, sort=None)
    colour = colour.legend(None if "label" in table else legend)
    return {"color": colour.scale(domain=names, range=range_)}


def _lines(chart: Chart, table: pd.DataFrame) -> list[Any]:
    """Draw dashed lines."""
    layers = []
    for axis, datum in (("x", alt.XDatum), ("y", alt.YDatum)):
        if (at := chart.axis(getattr(chart, axis)).line) is not None:
            line = alt.Chart(alt.Data(values=[{}])).mark_rule(**DASHED)
            layers.append(line.encode(**{axis: datum(at)}))
    if chart.diagonal:
        both = table[[chart.x, chart.y]].to_numpy(float)
        is_share = chart.axis(chart.x).ends == "%"
        ends = [0, 1] if is_share else [float(both.min()), float(both.max())]
        rows = alt.Data(values=[{chart.x: end, chart.y: end} for end in ends])
        line = alt.Chart(rows).mark_line(**DASHED)
        layers.append(line.encode(x=f"{chart.x}:Q", y=f"{chart.y}:Q"))
    return layers


def _intervals(chart: Chart, table: pd.DataFrame, **more: Any) -> list[Any]:
    """Draw intervals along an axis; of points with two, as their columns are named, along both."""
    ends: dict[str, tuple[str, ...]] = {
        axis: (f"{name}_low", f"{name}_high") for axis, name in (("x", chart.x), ("y", chart.y))
    }
    if chart.interval and {*chart.interval} <= {*table}:
        ends = {"y" if chart.y == "value" else "x": chart.interval}
    layers = []
    for axis, columns in ends.items():
        if {*columns} <= {*table}:
            rest = "y" if axis == "x" else "x"
            place = {rest: _axis(chart, table, rest), axis: _axis(chart, table, axis, columns[0])}
            rule = alt.Chart().mark_rule(strokeWidth=1.5)
            layers.append(rule.encode(**place, **{f"{axis}2": f"{columns[1]}:Q"}, **more))
    return layers


def _tooltip(chart: Chart, table: pd.DataFrame) -> list[Any]:
    shown = dict.fromkeys(["who", chart.facet, "task", chart.x, chart.y])
    return [
        alt.Tooltip(f"{name}:Q", format=".4~g") if _is_number(table, name) else f"{name}:N"
        for name in shown
        if name and name in table
    ]


def _dots(chart: Chart, table: pd.DataFrame, place: Any, more: dict[str, Any]) -> list[Any]:
    """A mark per row, hollow if published, with its interval, and a tick for a reference."""
    if (
        not _is_number(table, chart.y)
        and chart.colour not in ("kind", "")
        and chart.y != "who"
        and "detail" not in more
    ):
        # Models of a row stand below one another, so that no dot hides another's.
        more["yOffset"] = alt.YOffset(f"{chart.colour}:N", sort=None)
    base = alt.Chart().encode(**place, **more, tooltip=_tooltip(chart, table), description="who:N")
    run = "datum.kind != 'published'"
    layers = [
        *_intervals(chart, table, **more),
        base.transform_filter(run).mark_point(filled=True, size=60, opacity=1),
        base.transform_filter(f"!({run})").mark_point(filled=False, size=60, opacity=1),
    ]
    if chart.tick in table:
        tick = alt.Chart().mark_tick(color=GREY, thickness=2, size=16)
        layers.append(tick.encode(x=f"{chart.tick}:Q", y=place["y"]))
    return layers


def _line(chart: Chart, table: pd.DataFrame, place: Any, colour: dict[str, Any]) -> list[Any]:
    """A line per model, with marks and intervals; where a training was kept, a dashed line."""
    line, name = alt.Chart().mark_line(point=True), alt.Chart()
    drawn = line.encode(**place, **colour, tooltip=_tooltip(chart, table), description="who:N")
    kept = _only("split == 'kept'").mark_rule(strokeDash=[4, 4]).encode(x=place["x"], **colour)
    layers = [*_intervals(chart, table, **colour), drawn, *([kept] if "split" in table else [])]
    if "label" in table:
        at = {"x": place["x"], "y": _axis(chart, table, "y", "at"), "text": "label:N"}
        layers.append(name.mark_text(align="left", dx=8, limit=260).encode(**at, **colour))
    return layers


def _only(condition: str) -> Any:
    return alt.Chart().transform_filter(f"datum.{condition}")


def _bars(chart: Chart, table: pd.DataFrame, place: Any, colour: dict[str, Any]) -> list[Any]:
    """The truth as bars with intervals, everybody else as marks."""
    truth, (low, high) = _only("kind == 'survey'"), chart.interval
    both = {"x": _axis(chart, table, "x", low), "x2": f"{high}:Q", "y": place["y"]}
    others = _only("kind != 'survey'").mark_point(filled=True, size=70, opacity=0.9)
    return [
        truth.mark_bar(color=GREY, opacity=0.35).encode(**place),
        truth.mark_rule(color=INK, strokeWidth=2).encode(**both),
        others.encode(**place, **colour, tooltip=_tooltip(chart, table)),
    ]


def _area(chart: Chart, table: pd.DataFrame, place: Any, _: dict[str, Any]) -> list[Any]:
    """The distribution of replicates, with labelled anchors."""
    y = alt.Y("density:Q", title="Bootstrap samples", axis=alt.Axis(labels=False))
    drawn = _only("mark == 'replicate'").transform_density(chart.x, as_=[chart.x, "density"])
    anchors = _only("mark == 'anchor'").encode(x=place["x"])
    text: Any = {"angle": 270, "align": "right", "baseline": "bottom", "dy": -3, "dx": -4}
    return [
        drawn.mark_area(color=BLUE, opacity=0.35).encode(x=place["x"], y=y),
        anchors.mark_rule(color=ORANGE, strokeWidth=2),
        anchors.mark_text(**text, color=ORANGE).encode(text="label:N", y=alt.YValue(4)),
    ]


def _arrow(chart: Chart, table: pd.DataFrame, place: Any, colour: dict[str, Any]) -> list[Any]:
    """A line per row from the hollow mark, before, to the filled one, after."""
    after = chart.interval[1]
    tip = [*_tooltip(chart, table), f"{after}:Q"]
    base = alt.Chart().encode(y=place["y"], **colour, tooltip=tip)
    end = _axis(chart, table, "x", after)
    return [
        base.mark_rule().encode(x=place["x"], x2=f"{after}:Q"),
        base.mark_point(filled=False, size=40).encode(x=place["x"]),
        base.mark_point(filled=True, size=40, opacity=1).encode(x=end),
    ]


@cache
def shapes() -> list[dict[str, Any]]:
    """Return the countries of the world as GeoJSON, each with its ISO 3166 code.

    Natural Earth, 1:110 million, public domain; see ``benchmarks/world_map.py``.
    """
    text = (files("lm_eval_epidemia.report") / "web/world.json").read_text(encoding="utf-8")
    return [
        {"type": "Feature", "id": code, "geometry": {"type": "MultiPolygon", "coordinates": rings}}
        for code, rings in json.loads(text).items()
    ]


def shade_map(colour: str) -> Any:
    """Draw countries in shades of ``p``, or of ``error``; the others are outlines."""
    world = alt.NamedData(SHAPES)
    legend: dict[str, Any] = {"titleLimit": 300, "orient": "bottom", "format": ".0%"}
    if colour == "p":
        scale = alt.Scale(type="quantize", range=SHADES, nice=True)
        legend["title"] = "Share of the answer"
    else:
        scale = alt.Scale(type="threshold", domain=ERRORS, range=DIVERGING)
        legend["title"] = "Percentage points"
        legend["labelExpr"] = "datum.label ? replace(datum.label, '%', '') : ''"
    shade = alt.Color(f"{colour}:Q", scale=scale, legend=alt.Legend(**legend))
    outlines = alt.Chart(world).mark_geoshape(fill=None, stroke=GREY, strokeWidth=0.3)
    lookup = alt.LookupData(data=world, key="id", fields=["type", "geometry"])
    here = alt.Chart().transform_lookup(lookup="code", from_=lookup)
    countries = here.transform_filter("isValid(datum.type)")
    countries = countries.mark_geoshape(stroke=GREY, strokeWidth=0.5)
    tooltip = ["country:N", alt.Tooltip(f"{colour}:Q", format=".1%")]
    return alt.layer(outlines, countries.encode(color=shade, tooltip=tooltip)).project("equalEarth")


def draw_map(table: pd.DataFrame) -> Any:
    """Draw maps of the truth and of the answers on one scale, and below them maps of the errors."""
    table, parts = table.rename(columns={"value": "p"}), []
    for colour, rows, title in (
        ("p", table, "Share of the answer"),
        ("error", table[table["error"].notna()], "Answer minus truth"),
    ):
        by = alt.Facet("who:N", title=title, sort=None)
        one = shade_map(colour).properties(width=380, height=185, data=_data(rows))
        parts.append(one.facet(facet=by, columns=2))
    both = alt.vconcat(*parts).resolve_scale(color="independent")
    return both.properties(datasets={SHAPES: shapes()})


def draw_curves() -> Any:
    """Draw an answer over a question's conditions, in their order: rows come from a page's script.

    Each line is the survey's with its band, a reference's, a model's, or a model's without a colour
    of its own (``ghost``), whose name the pointer tells.
    """
    base = alt.Chart(alt.NamedData(name="rows"))
    axis = alt.Axis(labelAngle=0, labelOverlap="greedy", labelLimit=110, grid=False)
    x = alt.X("condition:N", sort=None, title=None, axis=axis)
    y = alt.Y(
        "value:Q", title=None, axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(nice=5)
    )
    share = alt.Tooltip("value:Q", format=".1%", title="share")
    seen: list[Any] = ["who:N", "condition:N", share]
    lines = base.encode(x=x, y=y, detail="who:N", color=_own_colour(), tooltip=seen)
    one = alt.selection_point(name="over", on="pointerover", fields=["who"], empty=False)
    ghosts = lines.transform_filter("datum.kind == 'ghost'")
    survey = lines.transform_filter("datum.kind == 'survey'")
    named = base.transform_filter("datum.kind == 'name'")
    named = named.mark_text(align="left", dx=10, fontSize=12, fontWeight=600)
    here = base.transform_filter("datum.kind == 'chosen'").mark_rule(color=GREY, opacity=0.6)
    return alt.layer(
        survey.mark_area(opacity=0.18).encode(y="low:Q", y2="high:Q"),
        # Wide and unseen, so that a pointer meets it.
        ghosts.mark_line(opacity=0, strokeWidth=10).add_params(one),
        ghosts.mark_line(strokeWidth=1.5).encode(
            opacity=alt.condition(one, alt.value(1), alt.value(0.35))
        ),
        lines.transform_filter("datum.kind == 'reference'").mark_line(strokeDash=[4, 4]),
        lines.transform_filter("datum.kind == 'model'").mark_line(point=True, strokeWidth=2.5),
        survey.mark_line(point=True, strokeWidth=3),
        here.encode(x=x),
        named.encode(x=x, y="at:Q", text="label:N", color=_own_colour()),
    ).properties(height=340)


def draw_points() -> Any:
    """Draw answers against the survey, where conditions have no order; rows as of `draw_curves`."""
    base = alt.Chart(alt.NamedData(name="rows"))
    how: dict[str, Any] = {"axis": alt.Axis(format="%", tickCount=5), "scale": alt.Scale(nice=5)}
    x = alt.X("truth:Q", title="The survey", **how)
    y = alt.Y("value:Q", title="The answer", **how)
    seen: list[Any] = ["who:N", "condition:N"]
    seen += [alt.Tooltip(f"{name}:Q", format=".1%") for name in ("truth", "value")]
    points = base.encode(x=x, y=y, color=_own_colour(), tooltip=seen)
    alike = base.transform_filter("datum.kind == 'alike'").mark_line(**DASHED)
    models = points.transform_filter("datum.kind == 'model'")
    return alt.layer(
        alike.encode(x=x, y=y),
        points.transform_filter("datum.kind == 'ghost'").mark_point(filled=True, opacity=0.35),
        points.transform_filter("datum.kind == 'reference'").mark_line(strokeDash=[1, 3]),
        models.mark_rule(strokeWidth=1, opacity=0.5).encode(x="low:Q", x2="high:Q"),
        models.mark_point(filled=True, opacity=0.9).encode(size=alt.Size("size:Q", scale=None)),
        models.mark_text(align="left", dx=8, angle=330, limit=130).encode(text="label:N"),
    ).properties(height=400)


def colour_names(runs: pd.DataFrame) -> dict[str, str]:
    """Return one colour for every model, the same in each figure: grey for who is no model."""
    # What was tuned or published comes later: the first colours are the best told apart.
    order = runs.assign(later=runs["card"].notna() | (runs["kind"] != "run"))
    free = cycle(COLOURS)
    return {
        row["name"]: GREY if row["kind"] == "respondent" else next(free)
        for row in order.sort_values("later", kind="stable").to_dict("records")
    }


def _own_colour() -> Any:
    return alt.Color("colour:N", scale=None, legend=None)


def draw_stated() -> Any:
    """Draw what was stated of a quantity: an interval per prior, the truth, real answers."""
    base = alt.Chart(alt.NamedData(name="rows"))
    y = alt.Y("who:N", title=None, sort=None, axis=alt.Axis(labelLimit=0))
    beside = alt.YOffset("place:Q", scale=alt.Scale(domain=[0, 1]))
    scale = alt.Scale(
        domain=["truth", "model", "published", "real answers"], range=[BLUE, ORANGE, PURPLE, GREY]
    )
    colour = alt.Color("kind:N", scale=scale, legend=None)
    x = alt.X("low:Q", title=None, scale=alt.Scale(zero=False))
    both = base.encode(y=y, yOffset=beside, color=colour)
    return alt.layer(
        both.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q"),
        both.mark_tick(thickness=2).encode(x="middle:Q"),
    ).properties(width=420, height=alt.Step(26))


def draw_truth(frame: pd.DataFrame, conditions: list[str]) -> Any:
    """Draw a task's truth over its condition; of several, the cells in the order of the rows."""
    data = _data(frame.assign(place=range(len(frame))))
    if len(conditions) > 1:
        x = alt.X("place:O", title="Cells, by probability", axis=None)
        colour = alt.Color(f"{conditions[0]}:N", sort=None, scale=alt.Scale(scheme="turbo"))
    else:
        x = alt.X(f"{conditions[0]}:N", title=conditions[0], sort=None)
        colour = alt.Color("answer:N", sort=None, scale=alt.Scale(range=COLOURS))
    tooltip = [*(f"{name}:N" for name in conditions), "answer:N", "p:Q", "low:Q", "high:Q"]
    base = alt.Chart(data).encode(x=x, color=colour, tooltip=tooltip)
    p = alt.Y("p:Q", title="Probability of the answer", axis=alt.Axis(format="%"))
    size = alt.Size("weight:Q", legend=None)
    return alt.layer(
        base.mark_rule(opacity=0.6).encode(y="low:Q", y2="high:Q"),
        base.mark_point(filled=True, opacity=0.9).encode(y=p, size=size),
    ).properties(width=480, height=280)


#: By name: a function of the declaration, the rows and their places, which returns layers.
MARKS = {"dot": _dots, "line": _line, "bar": _bars, "area": _area, "arrow": _arrow}

#: What surrounds the marks has the colours of the page's text, and can be read on a phone.
WORDS = {"labelColor": INK, "titleColor": INK}
LINES = {"gridColor": "#88888855", "domainColor": "#888888"}
CONFIG = {
    "background": "transparent",
    "axis": {**WORDS, **LINES, "labelFontSize": 12, "titleFontSize": 12},
    "legend": {**WORDS, "labelFontSize": 11},
    "header": WORDS,
    "view": {"stroke": "#88888855"},
    "text": {"color": INK},
}


def svg(drawn: Any) -> str:
    """Write a figure as SVG, without invisible parts."""
    text = vl_convert.vegalite_to_svg(json.dumps(drawn.to_dict()))
    unseen = r' (role|aria-[a-z]+|pointer-events)="[^"]*"| (opacity|stroke-width)="1"'
    text = re.sub(rf'{unseen}|<path class="foreground" d=""[^>]*/>', "", text)
    return re.sub(r"(\.\d\d)\d+", r"\1", text)


def to_page_svg(drawn: Any, says: str) -> str:
    """Write a figure as SVG for a page, in the colours of its text; `says` is its alternative."""
    text = svg(drawn.configure(**CONFIG)).replace(INK, "currentColor")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(says)}" ', 1)


#: From a figure to the bytes of a file, by the file's ending.
WRITTEN: dict[str, Callable[[Any], bytes]] = {
    ".svg": lambda drawn: svg(drawn).encode(),
    ".png": lambda drawn: bytes(vl_convert.vegalite_to_png(json.dumps(drawn.to_dict()), ppi=300)),
    ".pdf": lambda drawn: bytes(vl_convert.vegalite_to_pdf(json.dumps(drawn.to_dict()))),
    ".json": lambda drawn: json.dumps(drawn.to_dict()).encode(),
}
