"""Causal graphs and what an intervention does to them: those of the paper, and larger ones.

Larger graphs are drawn from a seed, each with queries that shortcuts answer no better than chance.
Of the queries of one size, a half change from yes to no: half of these because the intervention is
on V itself, half because it is strictly inside every directed path from U to V. A quarter stay yes,
a quarter stay no. So always-yes and always-no are right in a quarter of the queries, and ignoring
the intervention in a half. "Intervened means no" and "only edges count" are further from the truth
than on the graphs of the paper."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, cycle, permutations
from random import Random
from typing import NamedTuple

import networkx as nx


@dataclass(frozen=True)
class Graph:
    """A directed acyclic graph over named variables.

    Attributes
    ----------
    nodes : tuple of str
        Names, in the order in which they are listed.
    edges : tuple of (str, str)
        Cause and effect.
    """

    nodes: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]

    @cached_property
    def _lengths(self) -> dict[str, dict[str, int]]:
        network = nx.DiGraph(self.edges)
        network.add_nodes_from(self.nodes)
        return dict(nx.all_pairs_shortest_path_length(network))

    def distance(self, cause: str, result: str) -> int:
        """Return the number of edges of the shortest directed path; 0 if there is none."""
        return self._lengths[cause].get(result, 0)

    def reaches(self, cause: str, result: str) -> bool:
        """Return whether a directed path leads from one variable to another: C_uv of the paper."""
        return self.distance(cause, result) > 0

    def after(self, intervened: str) -> Graph:
        """Return the graph after do(X): without the edges into X."""
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
        Effect(*query, node, graph.reaches(*query), after[node].reaches(*query))
        for query in queries
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


#: Numbers of nodes.
SIZES = range(3, 13)

#: Graphs of each size.
SAMPLES = 20

#: Shares of all possible edges that random graphs have on average, before those are set aside that
#: cannot be asked every kind of query.
DENSITIES = (0.25, 0.5)

#: After so many graphs, a shape is taken to have none that fits.
TRIES = 100

#: Why an answer is what it is.
TARGET, INSIDE = "do(V)", "do inside every path"
YES, BYPASSED, NO = "stays yes", "stays yes: bypassed", "stays no"

_Edges = list[tuple[int, int]]


class Drawn(NamedTuple):
    """A graph and what is asked of it.

    Attributes
    ----------
    shape : str
        One of `SHAPES`.
    graph : Graph
        Its nodes are letters in an order without meaning.
    effects : tuple of Effect
        Four: two that change, for either reason, one that stays yes, one that stays no.
    kinds : tuple of str
        The reason of each answer.
    """

    shape: str
    graph: Graph
    effects: tuple[Effect, ...]
    kinds: tuple[str, ...]


def _chain(nodes: int, _rng: Random) -> _Edges:
    """One path through all nodes."""
    return [(node, node + 1) for node in range(nodes - 1)]


def _fork(nodes: int, rng: Random) -> _Edges:
    """Chains that leave a common cause; a single chain has no fork."""
    ends, edges = [0, 0], []
    for node in range(1, nodes):
        # The first two nodes begin two chains; each later one prolongs a chain or begins another.
        end = node - 1 if node <= 2 else rng.randrange(len(ends) + 1)
        if end == len(ends):
            ends.append(0)
        edges.append((ends[end], node))
        ends[end] = node
    return edges


def _collider(nodes: int, rng: Random) -> _Edges:
    """Chains that meet in a common effect."""
    return [(result, cause) for cause, result in _fork(nodes, rng)]


def _diamond(nodes: int, rng: Random) -> _Edges:
    """Chains from a common cause to a common effect; of three nodes, one of them is an edge."""
    if nodes == 3:
        return [(0, 1), (1, 2), (0, 2)]
    edges, last = _fork(nodes - 1, rng), nodes - 1
    ends = set(range(1, last)) - {cause for cause, _ in edges}
    return edges + [(end, last) for end in sorted(ends)]


def _random(nodes: int, rng: Random) -> _Edges:
    """Each pair in a random order of the nodes is an edge with the same probability."""
    density = rng.choice(DENSITIES)
    return [pair for pair in combinations(range(nodes), 2) if rng.random() < density]


SHAPES: dict[str, Callable[[int, Random], _Edges]] = {
    "chain": _chain,
    "fork": _fork,
    "collider": _collider,
    "diamond": _diamond,
    "random": _random,
}


def draw_shape(shape: str, nodes: int, rng: Random) -> Graph:
    """Draw a graph of a shape.

    Parameters
    ----------
    shape : str
        One of `SHAPES`.
    nodes : int
        From 3 to 12.
    rng : random.Random

    Returns
    -------
    Graph
        Over the first letters; which of them causes which is random, and edges are sorted by
        letter, so that neither order says what comes first.
    """
    names = list(string.ascii_uppercase[:nodes])
    edges = SHAPES[shape](nodes, rng)
    place = rng.sample(names, nodes)
    named_edges = sorted((place[cause], place[result]) for cause, result in edges)
    return Graph(tuple(names), tuple(named_edges))


def _candidates(graph: Graph) -> dict[str, list[Effect]]:
    """Sort every effect of a graph by why its answer is what it is."""
    by_kind: dict[str, list[Effect]] = {kind: [] for kind in (TARGET, INSIDE, YES, BYPASSED, NO)}
    for effect in effects(graph, permutations(graph.nodes, 2)):
        u, v, x, before, _after = effect
        if not before:
            kind = NO
        elif effect.kappa:
            kind = TARGET if x == v else INSIDE
        else:
            kind = BYPASSED if graph.reaches(u, x) and graph.reaches(x, v) else YES
        by_kind[kind].append(effect)
    return by_kind


def _least_asked(
    graph: Graph, candidates: list[Effect], kind: str, asked: Counter[tuple[str, int]], rng: Random
) -> Effect:
    """Choose among the effects of a kind one of the path length that was asked least, and count."""
    lengths = [graph.distance(effect.cause, effect.result) for effect in candidates]
    fewest = min(asked[kind, length] for length in lengths)
    fit = [
        (effect, length)
        for effect, length in zip(candidates, lengths, strict=True)
        if asked[kind, length] == fewest
    ]
    effect, length = rng.choice(fit)
    asked[kind, length] += 1
    return effect


@lru_cache(maxsize=len(SIZES))
def draw_graphs(nodes: int) -> tuple[Drawn, ...]:
    """Draw the graphs of one size and their queries.

    Parameters
    ----------
    nodes : int
        From 3 to 12.

    Returns
    -------
    tuple of Drawn
        `SAMPLES` of them, shapes in turn. A shape in which not every kind of query can be asked is
        left out: of three nodes, only a chain has one inside every path. Among a graph's queries of
        a kind, one whose path from U to V has the length that was asked least so far.
    """
    rng = Random(f"lm-eval-epidemia graphs of {nodes} nodes")
    asked: Counter[tuple[str, int]] = Counter()
    samples: list[Drawn] = []
    for shape in cycle(SHAPES):
        if len(samples) == SAMPLES:
            break
        if shape == "random" and nodes == 3:  # would be a chain by another name
            continue
        for _ in range(TRIES):
            graph = draw_shape(shape, nodes, rng)
            candidates = _candidates(graph)
            either = candidates[YES] or candidates[BYPASSED]
            if either and all(candidates[kind] for kind in (TARGET, INSIDE, NO)):
                break
        else:  # the shape has no graph that can be asked every kind of query
            continue
        times = Counter(kind for graph in samples for kind in graph.kinds)
        rarer = BYPASSED if times[BYPASSED] <= times[YES] else YES
        other = YES if rarer == BYPASSED else BYPASSED
        kinds = (TARGET, INSIDE, rarer if candidates[rarer] else other, NO)
        chosen = [_least_asked(graph, candidates[kind], kind, asked, rng) for kind in kinds]
        samples.append(Drawn(shape, graph, tuple(chosen), kinds))
    return tuple(samples)
