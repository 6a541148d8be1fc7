"""Figures of countries, years and people: maps, regions, series, guesses."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

import altair as alt

from lm_eval_epidemia.old.report.charts.tasks import distribution
from lm_eval_epidemia.old.report.palette import (
    BLUE,
    COLOURS,
    DIVERGING,
    GREEN,
    GREY,
    LISTED,
    NARROW,
    PERCENT,
    SHADES,
    colour_of,
    facets,
)

#: The name of the shapes where a map gets them by name, as on the site.
SHAPES = "world"

#: Where classes of errors end, in shares: the middle one is as good as right.
ERRORS = [-0.3, -0.15, -0.05, 0.05, 0.15, 0.3]

_SHADES = alt.Scale(type="quantize", range=SHADES, nice=True)


@cache
def shapes() -> list[dict[str, Any]]:
    """Return the countries of the world as GeoJSON, each with its ISO 3166 code.

    Natural Earth, 1:110 million, public domain; see ``benchmarks/world_map.py``.
    """
    text = (files("lm_eval_epidemia.old.report") / "web/world.json").read_text(encoding="utf-8")
    return [
        {"type": "Feature", "id": code, "geometry": {"type": "MultiPolygon", "coordinates": rings}}
        for code, rings in json.loads(text).items()
    ]


def _map(answers: alt.Chart, colour: alt.Color) -> Any:
    """Draw countries in the colours of `colour`; the others are outlines."""
    world = alt.NamedData(SHAPES)
    outlines = alt.Chart(world).mark_geoshape(fill=None, stroke=GREY, strokeWidth=0.3)
    here = answers.transform_lookup(
        lookup="code", from_=alt.LookupData(data=world, key="id", fields=["type", "geometry"])
    ).transform_filter("isValid(datum.type)")
    number = alt.Tooltip(colour.shorthand, format=".1%")
    countries = here.mark_geoshape(stroke=GREY, strokeWidth=0.5).encode(
        color=colour, tooltip=["country:N", number]
    )
    return alt.layer(outlines, countries).project("equalEarth")


def _legend(title: str, **more: Any) -> alt.Legend:
    return alt.Legend(title=title, titleLimit=300, orient="bottom", format=".0%", **more)


def _shares() -> alt.Color:
    return alt.Color("p:Q", scale=_SHADES, legend=_legend("Share of the answer"))


def _errors() -> alt.Color:
    scale = alt.Scale(type="threshold", domain=ERRORS, range=DIVERGING)
    legend = _legend(
        "Percentage points", labelExpr="datum.label ? replace(datum.label, '%', '') : ''"
    )
    return alt.Color("error:Q", scale=scale, legend=legend)


def shares(data: Any) -> Any:
    """Rows: code, country, p, who, chosen (whether it is drawn: the others set the scale)."""
    base, colour = alt.Chart(data), _shares()
    ends = base.mark_point(opacity=0, filled=True).encode(color=alt.Color("ends:Q", scale=_SHADES))
    both = [ends.transform_aggregate(ends=f"{end}(p)") for end in ("min", "max")]
    chosen = _map(base.transform_filter("datum.chosen"), colour)
    return alt.layer(chosen, *both).properties(width=640, height=310)


def errors(data: Any) -> Any:
    """Rows: code, country, error."""
    chart = _map(alt.Chart(data), _errors())
    return chart.properties(width=640, height=310)


def countries(data: Any) -> Any:
    """Rows: who ("truth" or a model), code, country, answer, p, and of models error (p less truth).

    Maps of the truth and of the models' answers on one scale, and below them maps of the errors.
    """
    rows = data.to_dict()["values"]
    told = [row for row in rows if row.get("error") is not None]
    charts = [
        _map(alt.Chart(), colour)
        .properties(width=380, height=185, data=alt.Data(values=of))
        .facet(facet=alt.Facet("who:N", title=title, sort=_names(of)), columns=2)
        for of, colour, title in (
            (rows, _shares(), f"Share of “{rows[0]['answer']}”"),
            (told, _errors(), "Answer minus truth"),
        )
    ]
    both = alt.vconcat(*charts).resolve_scale(color="independent")
    return both.properties(datasets={SHAPES: shapes()})


def _names(rows: Iterable[dict[str, Any]], field: str = "who") -> list[str]:
    return list(dict.fromkeys(row[field] for row in rows))


def regions(data: Any) -> Any:
    """Rows: model, group, kind (of place), place, off (in per cent), low, high."""
    rows = data.to_dict()["values"]
    names = _names(rows, "model")
    order = alt.EncodingSortField("off")
    y = alt.Y("place:N", title=None, sort=order, axis=alt.Axis(labelLimit=220))
    beside = alt.YOffset("model:N", sort=names)
    colour = colour_of(names, legend=LISTED)
    base = alt.Chart()
    tooltip = ["model:N", "place:N", alt.Tooltip("off:Q", format=".1f")]
    x = alt.X("off:Q", title="Probability at wrong answers, %", scale=alt.Scale(domainMin=0))
    chart = alt.layer(
        base.mark_rule().encode(x="low:Q", x2="high:Q", y=y, yOffset=beside, color=colour),
        base.mark_point(filled=True, size=45, opacity=1).encode(
            x=x, y=y, yOffset=beside, color=colour, tooltip=tooltip
        ),
        data=data,
    ).properties(width=NARROW, height=alt.Step(10))
    parts: dict[str, Any] = {"column": alt.Column("kind:N", title=None, sort=None)}
    if len({row["group"] for row in rows}) > 1:
        parts["row"] = alt.Row("group:N", title=None, sort=None)
    return chart.facet(**parts).resolve_scale(y="independent")


def years(data: Any) -> Any:
    """Rows: series (of which one answer is shown), who, year, p, low, high (of the truth)."""
    names = _names(data.to_dict()["values"])
    models = [shade for shade in COLOURS if shade not in (BLUE, GREEN, GREY)]
    scale = alt.Scale(domain=names, range=[BLUE, *models])
    colour = alt.Color("who:N", title=None, sort=None, scale=scale, legend=LISTED)
    close = alt.Scale(zero=False)
    x = alt.X("year:Q", title=None, axis=alt.Axis(format="d", tickCount=5), scale=close)
    y = alt.Y("p:Q", title="Probability of the answer", axis=PERCENT, scale=close)
    base = alt.Chart()
    chart = alt.layer(
        base.mark_rule(strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q", color=colour),
        base.mark_line(point=alt.OverlayMarkDef(size=18)).encode(
            x=x,
            y=y,
            color=colour,
            tooltip=["who:N", "year:Q", alt.Tooltip("p:Q", format=".1%")],
        ),
        data=data,
    ).properties(width=NARROW, height=180)
    return facets(chart, "series", None, 260).resolve_scale(y="independent")


def people(data: Any) -> Any:
    """Rows: answer (a group of people), place, who, p, low, high (where two figures are true)."""
    return distribution(
        data, "Share of the population", "bar: truth; line: to a second true figure"
    )
