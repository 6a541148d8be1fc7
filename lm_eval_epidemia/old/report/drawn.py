"""Causal graphs as pictures: SVG in a page, in the colours of its text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import escape

from lm_eval_epidemia.benchmarks.intervention.graph import Graph

#: Sizes, in pixels: of a node, and from one to the next.
RADIUS, ACROSS, DOWN, MARGIN = 15, 78, 56, 8

#: How far arrows may bend, in radii of a node; the straightest that is free is taken.
BENDS = (0, 2, -2, 3, -3, 4, -4, 5, -5, 6.5, -6.5, 8, -8, 10, -10)

Point = tuple[float, float]


def _places(graph: Graph) -> dict[str, Point]:
    """Put causes left of their effects: a column per length of the longest path to a node.

    Nodes of a column are centred on one height, so that a chain is a line.
    """
    columns = graph.generations()
    tallest = max(map(len, columns))
    return {
        node: (
            MARGIN + RADIUS + ACROSS * place,
            MARGIN + RADIUS + DOWN * (row + (tallest - len(column)) / 2),
        )
        for place, column in enumerate(columns)
        for row, node in enumerate(column)
    }


def _curve(start: Point, end: Point, depth: float) -> list[Point]:
    """Return points of the arc between two nodes that bends by `depth`, the middle one first."""
    (x, y), (u, v) = start, end
    length = math.hypot(u - x, v - y)
    bend = (x + u) / 2 + (v - y) / length * depth, (y + v) / 2 - (u - x) / length * depth
    shares = [place / 20 for place in range(21)]
    return [bend] + [
        (
            (1 - s) ** 2 * x + 2 * s * (1 - s) * bend[0] + s * s * u,
            (1 - s) ** 2 * y + 2 * s * (1 - s) * bend[1] + s * s * v,
        )
        for s in shares
    ]


def _clear(start: Point, end: Point, others: Sequence[Point]) -> list[Point]:
    """Return the straightest arc that avoids the other nodes, else the one farthest from them."""
    arcs = [_curve(start, end, depth * RADIUS) for depth in BENDS]
    room = [
        min((math.dist(p, o) for p in arc[1:] for o in others), default=math.inf) for arc in arcs
    ]
    return next(
        (arc for arc, free in zip(arcs, room, strict=True) if free > RADIUS + 4),
        arcs[room.index(max(room))],
    )


def _towards(point: Point, other: Point, gap: float) -> Point:
    """Go from a point towards another."""
    share = gap / math.dist(point, other)
    return point[0] + (other[0] - point[0]) * share, point[1] + (other[1] - point[1]) * share


def _edge(start: Point, end: Point, bend: Point, kind: str) -> str:
    """Draw an arrow from the rim of one node to the rim of another."""
    first, last = _towards(start, bend, RADIUS + 1), _towards(end, bend, RADIUS + 8)
    angle = math.degrees(math.atan2(end[1] - bend[1], end[0] - bend[0]))
    return (
        f'<path class="{kind}" d="M{first[0]:.1f} {first[1]:.1f}Q{bend[0]:.1f} {bend[1]:.1f} '
        f'{last[0]:.1f} {last[1]:.1f}"/><path class="{kind} head" d="M0 -4.5L8 0L0 4.5Z" '
        f'transform="translate({last[0]:.1f} {last[1]:.1f})rotate({angle:.1f})"/>'
    )


def drawing(graph: Graph, intervened: str | None = None, query: Sequence[str] = ()) -> str:
    """Draw a graph, before or after an intervention.

    Parameters
    ----------
    graph : Graph
        Before the intervention.
    intervened : str, optional
        X of do(X): drawn as a square; the edges into it are dashed.
    query : sequence of str
        U and V, drawn bold.

    Returns
    -------
    str
        An ``<svg>`` element with a description in words.
    """
    places = _places(graph)
    after = set(graph.edges if intervened is None else graph.after(intervened).edges)
    parts, reached = [], list(places.values())
    for cause, result in graph.edges:
        others = [place for node, place in places.items() if node not in (cause, result)]
        bend, *points = _clear(places[cause], places[result], others)
        kind = "edge" if (cause, result) in after else "gone"
        parts.append(_edge(places[cause], places[result], bend, kind))
        reached += points
    for node, (x, y) in places.items():
        kinds = ["node", *(["asked"] if node in query else [])]
        if node == intervened:
            side = 2 * RADIUS
            shape = (
                f'<rect class="{" ".join([*kinds, "set"])}" x="{x - RADIUS:.1f}" '
                f'y="{y - RADIUS:.1f}" width="{side}" height="{side}"/>'
            )
        else:
            shape = f'<circle class="{" ".join(kinds)}" cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}"/>'
        parts.append(f'{shape}<text x="{x:.1f}" y="{y:.1f}">{escape(node)}</text>')
    top = min(y for _, y in reached) - RADIUS - MARGIN
    width = max(x for x, _ in reached) + RADIUS + MARGIN
    height = max(y for _, y in reached) + RADIUS + MARGIN - top
    title = (
        ", ".join(
            f"{cause} to {result}" for cause, result in graph.edges if (cause, result) in after
        )
        or "no edge"
    )
    gone = ", ".join(f"{u} to {v}" for u, v in graph.edges if (u, v) not in after)
    if intervened is not None:
        title += f"; deleted by do({intervened}): {gone or 'none'}"
    return (
        f'<svg class="graph" role="img" viewBox="0 {top:.0f} {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}"><title>Graph with edges {escape(title)}</title>'
        f"{''.join(parts)}</svg>"
    )
