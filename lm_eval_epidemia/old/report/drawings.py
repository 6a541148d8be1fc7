"""Figures of `charts` as SVG in a page: a picture per panel, so that they go below one another on a
narrow screen."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import altair as alt
from markupsafe import escape

from lm_eval_epidemia.old.report.charts import svg

#: Stands for the colour of the page's text while a figure is drawn.
INK = "#010203"

#: What surrounds the marks has the colours of the page's text, and can be read on a phone.
CONFIG = {
    "background": "transparent",
    "axis": {
        "labelColor": INK,
        "titleColor": INK,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "gridColor": "#88888855",
        "domainColor": "#888888",
    },
    "legend": {"labelColor": INK, "titleColor": INK, "labelFontSize": 11},
    "header": {"labelColor": INK, "titleColor": INK},
    "view": {"stroke": "#88888855"},
    "text": {"color": INK},
}


#: What a specification says of its facets together.
_OF_FACETS = ("facet", "spec", "columns", "resolve")


class Panel(NamedTuple):
    """A picture of a figure.

    Attributes
    ----------
    title : str
        Title of the panel; empty if the figure has one picture.
    svg : str
    width : int
        In pixels, as drawn.
    note : str
        The figure's note on all panels.
    """

    title: str
    svg: str
    width: int
    note: str


def drawings(chart: alt.TopLevelMixin, says: str) -> list[Panel]:
    """Draw a figure, panel by panel.

    Parameters
    ----------
    chart : altair.Chart
        Its facets and concatenated parts become separate pictures.
    says : str
        Content of the figure; with the panel's title, the picture's text alternative.
    """
    panels = []
    for title, note, specification in _parts(chart.to_dict()):
        text = svg(json.dumps({**specification, "config": CONFIG}))
        said = escape(f"{says}: {title}" if title else says)
        # The picture as a whole says in words what it shows.
        text = text.replace(INK, "currentColor")
        text = text.replace("<svg ", f'<svg role="img" aria-label="{said}" ', 1)
        width = re.search(r' width="(\d+)', text)
        panels.append(Panel(title, text, int(width[1]) if width else 300, note))
    return panels


def _parts(whole: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Split a specification into title, note and specification of each panel."""
    for key in ("vconcat", "hconcat"):
        if key in whole:
            shared: dict[str, Any] = {
                name: whole[name] for name in ("datasets", "data") if name in whole
            }
            for part in whole[key]:
                yield from _parts({**shared, **part})
            return
    if "facet" not in whole:
        yield "", "", whole
        return
    rest = {key: value for key, value in whole.items() if key not in _OF_FACETS}
    facet, rows = whole["facet"], _rows_of(whole)
    fields = [facet] if "field" in facet else [facet[k] for k in ("row", "column") if k in facet]
    names = [field["field"] for field in fields]
    note = "; ".join(field["title"] for field in fields if field.get("title"))
    for values in dict.fromkeys(tuple(row.get(name) for name in names) for row in rows):
        chosen = [
            {"filter": {"field": name, "equal": value}}
            for name, value in zip(names, values, strict=True)
        ]
        inner = whole["spec"]
        own = {**rest, **inner, "transform": [*chosen, *inner.get("transform", [])]}
        yield ", ".join(str(value) for value in values), note, own


def _rows_of(whole: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a specification."""
    given = whole["data"]
    rows: list[dict[str, Any]] = (
        given["values"] if "values" in given else whole["datasets"][given["name"]]
    )
    return rows
