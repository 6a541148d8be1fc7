"""Causal graphs, what an intervention does to them, and the graphs and effects of the paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import networkx as nx

from lm_eval_epidemia.core.errors import EpidemiaError

#: A variable called so cannot be distinguished from an answer.
ANSWERS = ("yes", "no")


@dataclass(frozen=True)
class Graph:
    """A directed acyclic graph over named variables.

    Attributes
    ----------
    nodes : tuple of str
        Names, in the order in which they are listed.
    edges : tuple of (str, str)
        Cause and effect.

    Raises
    ------
    EpidemiaError
        If a name is empty, given twice, or an answer; or an edge is given twice, is a loop, has a
        node that is not listed, or closes a cycle.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        # Lists, as from JSON, are as good as tuples.
        object.__setattr__(self, "nodes", tuple(self.nodes))
        edges = (tuple(pair) if isinstance(pair, list) else pair for pair in self.edges)
        object.__setattr__(self, "edges", tuple(edges))
        for name in self.nodes:
            if not isinstance(name, str) or name != name.strip():
                raise EpidemiaError(
                    f"the variable name {name!r}: expected a text without spaces around it"
                )
        for pair in self.edges:
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise EpidemiaError(f"the edge {pair!r}: expected a pair (cause, effect)")
        for name, times in Counter(self.nodes).items():
            if times > 1:
                raise EpidemiaError(f"the variable {name!r} is listed {times} times; list it once")
            if not name or name.lower() in ANSWERS:
                raise EpidemiaError(
                    f"the variable name {name!r}: expected a name that is neither empty nor an "
                    f"answer ({' or '.join(ANSWERS)})"
                )
        for (cause, result), times in Counter(self.edges).items():
            edge = f"the edge {cause} -> {result}"
            if unknown := [name for name in (cause, result) if name not in self.nodes]:
                raise EpidemiaError(
                    f"{edge} names the unknown variable {unknown[0]!r}: expected one of "
                    f"{', '.join(self.nodes)}"
                )
            if cause == result:
                raise EpidemiaError(f"{edge} is a loop: a variable does not cause itself")
            if times > 1:
                raise EpidemiaError(f"{edge} is given {times} times; give it once")
        if not nx.is_directed_acyclic_graph(self._network):
            cycle = [cause for cause, _ in nx.find_cycle(self._network)]
            raise EpidemiaError(
                f"the edges {' -> '.join([*cycle, cycle[0]])} are a cycle: expected a directed "
                "acyclic graph; leave one of them out"
            )

    @cached_property
    def _network(self) -> nx.DiGraph:
        network = nx.DiGraph()
        network.add_nodes_from(self.nodes)
        network.add_edges_from(self.edges)
        return network

    @cached_property
    def _descendants(self) -> dict[str, set[str]]:
        return {node: nx.descendants(self._network, node) for node in self.nodes}

    def reaches(self, cause: str, result: str) -> bool:
        """Return whether a directed path leads from one variable to another: C_uv of the paper.

        Raises
        ------
        EpidemiaError
            If the graph has no such variable; also in the methods below.
        """
        below = self._descendants
        if cause not in below or result not in below:
            unknown = result if cause in below else cause
            raise self._unknown(f"does {cause} cause {result}?", unknown)
        return result in below[cause]

    def _unknown(self, asked: str, name: str) -> EpidemiaError:
        return EpidemiaError(
            f"{asked}: the graph has no variable {name}; expected one of {', '.join(self.nodes)}"
        )

    def distance(self, cause: str, result: str) -> int:
        """Return the number of edges of the shortest directed path; 0 if there is none."""
        if not self.reaches(cause, result):
            return 0
        return int(nx.shortest_path_length(self._network, cause, result))

    def after(self, intervened: str) -> Graph:
        """Return the graph after do(X): without the edges into X."""
        if intervened not in self.nodes:
            raise self._unknown(f"do({intervened})", intervened)
        return Graph(self.nodes, tuple(edge for edge in self.edges if edge[1] != intervened))


class Effect(NamedTuple):
    """The effect of an intervention on the answer to "does U cause V?".

    Attributes
    ----------
    cause, result : str
        U and V.
    intervened : str
        X.
    before, after : bool
        Whether U causes V in the graph, and in the graph after do(X).
    """

    cause: str
    result: str
    intervened: str
    before: bool
    after: bool

    @property
    def kappa(self) -> int:
        """The intervention effect C_uv(G) - C_uv(G after do(X)): 1 where a yes becomes a no.

        Deleting edges creates no path, so it is 0 or 1.
        """
        return int(self.before) - int(self.after)


def effects(graph: Graph, queries: Iterable[tuple[str, str]]) -> list[Effect]:
    """Compute, by reachability, how every intervention changes the answers to queries.

    Parameters
    ----------
    graph : Graph
    queries : iterable of (str, str)
        U and V of "does U cause V?".

    Returns
    -------
    list of Effect
        By query, then by node.
    """
    after = {node: graph.after(node) for node in graph.nodes}
    return [
        Effect(
            cause, result, node, graph.reaches(cause, result), after[node].reaches(cause, result)
        )
        for cause, result in queries
        for node in graph.nodes
    ]


#: The graphs of the paper, over A, B and C in this order.
GRAPHS: dict[str, Graph] = {
    "bivariate": Graph(("A", "B"), (("A", "B"),)),
    "confounding": Graph(("A", "B", "C"), (("A", "B"), ("A", "C"))),
    "mediation": Graph(("A", "B", "C"), (("A", "B"), ("B", "C"))),
}

#: What is asked of each.
QUERIES: dict[str, tuple[tuple[str, str], ...]] = {
    "bivariate": (("A", "B"), ("B", "A")),
    "confounding": (("A", "B"), ("A", "C"), ("B", "C")),
    "mediation": (("A", "B"), ("A", "C"), ("B", "C")),
}
