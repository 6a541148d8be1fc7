"""Draw the figures that `figures.yaml` declares, with Vega-Altair (needs the extra ``report``).

Altair's layers and facets have no exported types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from itertools import cycle, pairwise
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import vl_convert

from lm_eval_epidemia.findings.words import name_task, plain_name, reword
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

#: Of a small picture: width and height of the plot, what surrounds it (the same for all, so that
#: the axes of a row are in line), and the width of a letter.
SMALL, AROUND, LETTER = (326, 165), {"left": 40, "right": 12, "top": 6, "bottom": 24}, 6.2

#: The name of the shapes of countries in a chart.
SHAPES = "world"


def draw(chart: Chart, table: pd.DataFrame, colours: Any = None, wide: int = 0) -> Any:
    """Draw a figure from the table of its finding.

    Parameters
    ----------
    chart : Chart
    table : DataFrame
    colours : mapping of str to str, optional
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
            is_kept = table.get("split", pd.Series("", table.index)) == "kept"  # a line across
            table = table[np.isfinite(table[axis].astype(float)) | is_kept]
    ways = {"group": plain_name, "survey": str.upper, "task": name_task}
    table = table.assign(**{of: table[of].map(say) for of, say in ways.items() if of in table})
    if chart.mark != "line" or not chart.colour or table[chart.colour].nunique() > FEW:
        return table
    table = table.assign(label="", at=table[chart.y].astype(float))
    room = float(np.ptp([*table["at"], 0 if chart.axis(chart.y).ends else table["at"].iloc[0]]))
    for _, panel in table.groupby(chart.facet) if chart.facet else [("", table)]:
        named: dict[Any, list[str]] = {}
        for name, rows in panel[panel["at"].notna()].groupby(chart.colour, sort=False):
            # Lines that coincide have one label.
            course = zip(rows[chart.x], (rows["at"] * 60 / (room or 1)).round(), strict=True)
            named.setdefault((*course,), [rows.index[-1]]).append(str(name))
        # From the nearer edge on, so that no label hides another or leaves the panel.
        at = table["at"][[end for end, *_ in named.values()]]
        side, last = 1 if at.mean() < table["at"].mean() else -1, -np.inf
        for end, *names in sorted(named.values(), key=lambda of: side * at[of[0]]):
            last = max(side * at[end], last + room / 14)
            table.loc[end, ["label", "at"]] = ", ".join(names), side * last
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
    table = table.assign(who=_cut_names(who + more), says=SAID + who + more)
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
        limit = 0 if name == "who" else 320
        how = alt.Axis(labelLimit=limit, labelAngle=-40 if long else alt.Undefined)
        return channel(f"{name}:N", title=title, sort=None, axis=how)
    if own.ends == "%":
        how = alt.Axis(format="%", tickCount=5)
        whole = alt.Scale(domain=[0, 1]) if chart.mark != "line" else alt.Scale(nice=5)
        return channel(f"{name}:Q", title=title, axis=how, scale=whole)
    scale = (
        alt.Scale(type="log") if own.ends == "log" else alt.Scale(zero=False, padding=8, nice=False)
    )
    return channel(f"{name}:Q", title=title or name.replace("_", " "), scale=scale)


def _colour(chart: Chart, table: pd.DataFrame, colours: Any) -> dict[str, Any]:
    """Return the encoding of colour: the truth has the text's, known respondents are grey."""
    if not chart.colour:
        return {"color": alt.value(BLUE)}
    names = [*dict.fromkeys(table[chart.colour].astype(str))]
    if len(names) > MANY:
        name = {"detail": f"{chart.colour}:N", "description": "says:N"}
        return {"color": alt.value(GREY), **name}
    is_known = table.reindex(columns=["kind"])["kind"] == "respondent"
    known = table.loc[is_known, chart.colour].astype(str)
    own = (
        {"truth": INK, "run": BLUE} | dict.fromkeys({*known, "respondent"}, GREY) | (colours or {})
    )
    free = cycle([c for c in COLOURS if c not in map(own.get, names)] or COLOURS)
    range_ = [own.get(name) or next(free) for name in names]
    is_told = len(names) > 1 and "label" not in table
    legend = alt.Legend(orient="bottom", columns=2, labelLimit=400) if is_told else None
    colour = alt.Color(f"{chart.colour}:N", title=None, sort=None, legend=legend)
    return {"color": colour.scale(domain=names, range=range_)}


def find_grey(chart: Chart, table: pd.DataFrame, colours: Mapping[str, str]) -> dict[str, str]:
    """Return the models whose marks are grey since they are many, each with its own colour."""
    rows = prepare_rows(chart, table)
    if chart.colour != "who" or rows["who"].nunique() <= MANY:
        return {}
    names = {*rows["says"].str.removeprefix(SAID)}
    return {name: colour for name, colour in colours.items() if name in names and colour != GREY}


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
    is_alone = chart.y == "who" or chart.colour in ("kind", "") or "detail" in more
    if not _is_number(table, chart.y) and not is_alone:
        # Models of a row stand below one another, so that no dot hides another's.
        more["yOffset"] = alt.YOffset(f"{chart.colour}:N", sort=None)
    base = alt.Chart().encode(**place, **more, tooltip=_tooltip(chart, table))
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
    line, name = alt.Chart().mark_line(point=True), _only("at != null")
    drawn = line.encode(**place, **colour, tooltip=_tooltip(chart, table))
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
    drawn = _only("label == null").transform_density(chart.x, as_=[chart.x, "density"])
    anchors = _only("label != null").encode(x=place["x"])
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
        by = alt.Facet("who:N", title=title, sort=[*dict.fromkeys(rows["who"])])
        one = shade_map(colour).properties(width=380, height=185, data=_data(rows))
        parts.append(one.facet(facet=by, columns=2))
    both = alt.vconcat(*parts).resolve_scale(color="independent")
    return both.properties(datasets={SHAPES: shapes()})


def colour_names(runs: pd.DataFrame, first: Sequence[int] = ()) -> dict[str, str]:
    """Return one colour for every model, the same in each figure: grey for who is no model."""
    # What was tuned or published comes later: the first colours are the best told apart.
    later = 1 + ((runs["kind"] != "run") | runs["card"].notna())
    order = runs.assign(later=later.where(~runs.index.isin(first), 0))
    order = order.loc[[*first, *order.index.difference(first, sort=False)]]
    free = cycle(COLOURS)
    return {
        row["name"]: GREY if row["kind"] == "respondent" else next(free)
        for row in order.sort_values("later", kind="stable").to_dict("records")
    }


def draw_small(cells: pd.DataFrame, answers: pd.DataFrame) -> Any:
    """Draw a survey's curve, its band, and models over one condition, small and without a script.

    Parameters
    ----------
    cells : DataFrame
        As of `findings.start.Question`, with what is said of each on hover (``says``).
    answers : DataFrame
        ``given``, ``who`` ("best", "middle" or ""), ``run``, ``value`` and whether it is its
        ``worst``: all models are lines, of which the sheet of the page shows those that are chosen.
    """
    look: dict[str, Any] = {"title": None, "domain": False, "ticks": False, "labelAngle": 0}
    look |= {"labelOverlap": False, "labelPadding": 7}
    labels = {level: reword(level, "labels") for level in cells["given"]}
    # The last one has room as far as the picture's edge.
    most = int((SMALL[0] / len(cells) + 2 * AROUND["right"]) / LETTER)
    labels[[*labels][-1]] = cut_text([*labels.values()][-1], most)
    kept = [[*labels][at] for at in _choose_labels([*labels.values()])]
    how = alt.Axis(values=kept, labelExpr=f"({json.dumps(labels)})[datum.value]", **look)
    x = alt.X("given:N", sort=[*labels], axis=how, scale=alt.Scale(padding=0.2))
    top = min(1.08 * max(answers["value"].max(), cells["high"].max()), 1)
    scale = alt.Scale(domain=[0, top], nice=False)
    share = alt.Axis(format="%", tickCount=3, **look)
    low, average, truth, value = (
        alt.Y(f"{name}:Q", scale=scale, axis=share) for name in ("low", "average", "truth", "value")
    )
    base = alt.Chart(_data(cells), width=SMALL[0], height=SMALL[1]).encode(x=x)
    lines = alt.Chart(_data(answers)).encode(x=x, y=value)
    own = [
        lines.transform_filter(f"datum.who == '{who}'").mark_line(color=colour, strokeWidth=2)
        for who, colour in (("middle", ORANGE), ("best", BLUE))
    ]
    worst = lines.transform_filter("datum.worst")
    dots: Any = alt.OverlayMarkDef(color=INK, size=18) if len(cells) < 20 else False
    layers = [
        base.mark_area(color=GREY, opacity=0.3).encode(y=low, y2="high:Q"),
        base.mark_line(**DASHED).encode(y=average),
        lines.mark_line(color=PURPLE).encode(detail="run:N").properties(name="every"),
        *own,
        base.mark_line(color=INK, strokeWidth=2.5, point=dots).encode(y=truth),
        base.mark_rule(opacity=0, strokeWidth=SMALL[0] / len(cells)).encode(description="says:N"),
        worst.mark_circle(color=PURPLE, size=70, opacity=1).properties(name="worst"),
        worst.transform_filter("datum.who == 'best'").mark_circle(color=BLUE, size=70, opacity=1),
    ]
    return alt.layer(*layers, autosize="none", padding=AROUND)


def _choose_labels(labels: Sequence[str]) -> list[int]:
    """Choose every, every second, ... label that fits under a plot, with the first and the last."""
    last, step = len(labels) - 1, SMALL[0] / len(labels)
    half = [LETTER * len(label) / 2 + 2 for label in labels]
    for every in range(1, last):
        at = [i for i in range(0, last, every) if half[i] + half[-1] <= step * (last - i)] + [last]
        if not at[0] and all(half[a] + half[b] <= step * (b - a) for a, b in pairwise(at)):
            return at
    return [0, last]


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

#: Begins what a mark says on hover.
SAID = "On hover: "

#: What surrounds the marks has the colours of the page's text, and can be read on a phone.
WORDS = {"labelColor": INK, "titleColor": INK}
LINES = {"gridColor": "#88888855", "domainColor": "#888888"}
CONFIG = {
    "background": "transparent",
    "axis": {**WORDS, **LINES, "labelFontSize": 12, "titleFontSize": 12},
    "legend": {**WORDS, "labelFontSize": 12},
    "header": {**WORDS, "labelFontSize": 12},
    "view": {"stroke": "#88888855"},
    "text": {"color": INK},
}


def svg(drawn: Any) -> str:
    """Write a figure as SVG, without invisible parts."""
    text = vl_convert.vegalite_to_svg(json.dumps(drawn.to_dict()))
    hover = rf'<(line|path) aria-label="{SAID}([^"]*)"([^>]*)/>'
    text = re.sub(hover, r"<\1\3><title>\2</title></\1>", text)
    unseen = r' (role|aria-[a-z]+|pointer-events)="[^"]*"| (opacity|stroke-width)="1"'
    text = re.sub(unseen, "", text)
    text = re.sub(r'<path class="(fore|back)ground" d="(M0,0h0v0h0Z)?"[^>]*/>', "", text)
    return re.sub(r"(\.\d\d)\d+", r"\1", text)


def to_page_svg(drawn: Any, says: str) -> str:
    """Write a figure as SVG for a page, in the colours of its text; `says` is its alternative."""
    text = svg(drawn.configure(**CONFIG)).replace(INK, "currentColor")
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(says)}" ', 1)


def fit(drawn: Any, width: float, unit: str = "", size: float = 12, again: int = 3) -> str:
    """Write a figure as SVG of a width in points, at which its letters have 8 points."""
    both = {"labelFontSize": size, "titleFontSize": size}
    text = svg(drawn.configure(axis=both, legend=both, header=both, text={"fontSize": size}))
    wide, high = map(float, re.findall(r'(?:width|height)="([\d.]+)"', text)[:2])
    if again:  # names beside the marks are part of the width
        return fit(drawn, width, unit, 8 * wide / width, again - 1)
    sized = f'width="{width:g}{unit}" height="{width * high / wide:.1f}{unit}"'
    return re.sub(r'width="[\d.]+" height="[\d.]+"', sized, text, count=1)


#: From a figure and its width to the bytes of a file, by the file's ending.
WRITTEN: dict[str, Callable[[Any, float], bytes]] = {
    ".svg": lambda drawn, width: fit(drawn, width, "pt").encode(),
    ".png": lambda drawn, width: bytes(vl_convert.svg_to_png(fit(drawn, width), ppi=300)),
    ".pdf": lambda drawn, width: bytes(vl_convert.svg_to_pdf(fit(drawn, width))),
    ".json": lambda drawn, width: json.dumps(drawn.to_dict()).encode(),
}
