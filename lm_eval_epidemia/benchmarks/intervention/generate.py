"""Larger graphs from a seed, each with queries that shortcuts answer no better than chance.

Of the queries of one size, a half change from yes to no: half of these because the intervention is
on V itself, half because it is strictly inside every directed path from U to V. A quarter stay yes,
a quarter stay no. So always-yes and always-no are right in a quarter of the queries, and ignoring
the intervention in a half. "Intervened means no" and "only edges count" are further from the truth
than on the graphs of the paper.
"""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from itertools import combinations, cycle, permutations
from random import Random
from typing import NamedTuple

from lm_eval_epidemia.benchmarks.intervention.graph import Effect, Graph, effects
from lm_eval_epidemia.core.errors import EpidemiaError

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
TARGET, INSIDE, YES, BYPASSED, NO = (
    "do(V)",
    "do inside every path",
    "stays yes",
    "stays yes: bypassed",
    "stays no",
)

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


def shaped(shape: str, nodes: int, rng: Random) -> Graph:
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
    if nodes not in SIZES:
        raise EpidemiaError(
            f"a graph of {nodes} nodes: expected {SIZES.start} to {SIZES.stop - 1} of them"
        )
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


def _with_all_kinds(
    shape: str, nodes: int, rng: Random
) -> tuple[Graph | None, dict[str, list[Effect]]]:
    """Draw a graph that can be asked every kind of query; None if the shape has none."""
    for _ in range(TRIES):
        graph = shaped(shape, nodes, rng)
        asked = _candidates(graph)
        if asked[TARGET] and asked[INSIDE] and (asked[YES] or asked[BYPASSED]) and asked[NO]:
            return graph, asked
    return None, {}


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
def drawn(nodes: int) -> tuple[Drawn, ...]:
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

    Raises
    ------
    EpidemiaError
        If `nodes` is outside its range.
    """
    rng = Random(f"lm-eval-epidemia graphs of {nodes} nodes")
    asked: Counter[tuple[str, int]] = Counter()
    samples: list[Drawn] = []
    for shape in cycle(SHAPES):
        if len(samples) == SAMPLES:
            break
        if shape == "random" and nodes == 3:  # would be a chain by another name
            continue
        graph, candidates = _with_all_kinds(shape, nodes, rng)
        if graph is None:
            continue
        times = Counter(kind for graph in samples for kind in graph.kinds)
        rarer = BYPASSED if times[BYPASSED] <= times[YES] else YES
        other = YES if rarer == BYPASSED else BYPASSED
        kinds = (TARGET, INSIDE, rarer if candidates[rarer] else other, NO)
        chosen = [_least_asked(graph, candidates[kind], kind, asked, rng) for kind in kinds]
        samples.append(Drawn(shape, graph, tuple(chosen), kinds))
    return tuple(samples)
