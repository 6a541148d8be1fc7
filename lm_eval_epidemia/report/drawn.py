"""Causal graphs as pictures: SVG in a page, in the colours of its text."""

from __future__ import annotations

import math
from collections.abc import Sequence

import networkx as nx
from markupsafe import escape

from lm_eval_epidemia.graphs.graph import Graph

__all__ = ["drawing"]

#: Sizes, in pixels: of a node, and from one to the next.
RADIUS, ACROSS, DOWN, MARGIN = 15, 78, 56, 8

Point = tuple[float, float]


def _places(graph: Graph) -> dict[str, Point]:
    """Put causes left of their effects: a column per length of the longest path that leads there.

    Nodes of a column stand around one height, so that a chain is a line.
    """
    network: nx.DiGraph = nx.DiGraph()
    network.add_nodes_from(graph.nodes)
    network.add_edges_from(graph.edges)
    columns: list[list[str]] = [list(found) for found in nx.topological_generations(network)]
    tallest = max(map(len, columns))
    return {
        node: (
            MARGIN + RADIUS + ACROSS * place,
            MARGIN + RADIUS + DOWN * (row + (tallest - len(column)) / 2),
        )
        for place, column in enumerate(columns)
        for row, node in enumerate(column)
    }


def _edge(start: Point, end: Point, bent: bool, kind: str) -> str:
    """Draw an arrow from the rim of one node to the rim of another, past others where `bent`."""
    (x, y), (u, v) = start, end
    length = math.hypot(u - x, v - y)
    # A bend that is this deep clears a node that stands halfway.
    depth = RADIUS + DOWN / 2 if bent else 0.0
    middle = ((x + u) / 2 + (v - y) / length * depth, (y + v) / 2 - (u - x) / length * depth)

    def rim(point: Point, gap: float) -> Point:
        reach = math.dist(point, middle)
        return tuple(p + (m - p) * gap / reach for p, m in zip(point, middle, strict=True))  # type: ignore[return-value]

    first, last = rim(start, RADIUS + 1), rim(end, RADIUS + 8)
    angle = math.degrees(math.atan2(v - middle[1], u - middle[0]))
    return (
        f'<path class="{kind}" d="M{first[0]:.1f} {first[1]:.1f}Q{middle[0]:.1f} {middle[1]:.1f} '
        f'{last[0]:.1f} {last[1]:.1f}"/><path class="{kind} head" d="M0 -4.5L8 0L0 4.5Z" '
        f'transform="translate({last[0]:.1f} {last[1]:.1f})rotate({angle:.1f})"/>'
    )


def drawing(graph: Graph, intervened: str | None = None, query: Sequence[str] = ()) -> str:
    """Draw a graph, or what an intervention leaves of it.

    Parameters
    ----------
    graph : Graph
        Before the intervention.
    intervened : str, optional
        X of do(X): drawn as a square; the edges into it are dashed.
    query : sequence of str
        U and V, which are drawn strong.

    Returns
    -------
    str
        An ``<svg>`` element that says in words what it shows.
    """
    places = _places(graph)
    after = set(graph.edges if intervened is None else graph.after(intervened).edges)
    parts = []
    for cause, result in graph.edges:
        kind = "edge" if (cause, result) in after else "gone"
        # An arrow over more than one column may have a node in its way.
        bent = places[result][0] - places[cause][0] > ACROSS + 1
        parts.append(_edge(places[cause], places[result], bent, kind))
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
    # A bend may reach over the topmost nodes, or below the lowest.
    over = DOWN / 2 if any(places[v][0] - places[u][0] > ACROSS + 1 for u, v in graph.edges) else 0
    width = max(x for x, _ in places.values()) + RADIUS + MARGIN
    height = max(y for _, y in places.values()) + RADIUS + MARGIN + 2 * over
    said = ", ".join(f"{cause} to {result}" for cause, result in graph.edges if
                     (cause, result) in after) or "no edge"  # fmt: skip
    gone = ", ".join(f"{u} to {v}" for u, v in graph.edges if (u, v) not in after)
    if intervened is not None:
        said += f"; deleted by do({intervened}): {gone or 'none'}"
    return (
        f'<svg class="graph" role="img" viewBox="0 {-over:g} {width:g} {height:g}" '
        f'width="{width:g}" height="{height:g}"><title>Graph with edges {escape(said)}</title>'
        f"{''.join(parts)}</svg>"
    )
