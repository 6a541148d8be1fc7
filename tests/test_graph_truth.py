"""What interventions change, against two other routes: d-connection by y0, and a walk of all paths.

U causes V after do(X) if and only if they are d-connected in the graph without the edges into X
and into U: all that leaves U then leaves it forwards, and a path without a collider stays so.
"""

from itertools import permutations
from random import Random

import pytest

from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS, SHAPES, Effect, effects, shaped

#: Random graphs, twenty of each number of nodes.
DAGS = [shaped("random", 3 + i % 10, Random(f"truth {i}")) for i in range(200)]


def walked(edges, cause):
    """Everything at the end of a path from `cause`: every path is walked to its end."""
    ends = {result for start, result in edges if start == cause}
    return ends.union(*(walked(edges, end) for end in ends))


def test_a_walk_of_all_paths_agrees_on_every_effect():
    for graph in DAGS:
        kept = {x: [edge for edge in graph.edges if edge[1] != x] for x in graph.nodes}
        before = {u: walked(graph.edges, u) for u in graph.nodes}
        after = {(u, x): walked(kept[x], u) for u in graph.nodes for x in graph.nodes}
        assert effects(graph, permutations(graph.nodes, 2)) == [
            Effect(u, v, x, v in before[u], v in after[u, x])
            for u, v in permutations(graph.nodes, 2)
            for x in graph.nodes
        ]


def chosen(graph, rng):
    """Choose effects of a graph: one that changes, one that a bypass keeps, and any one.

    A mediator is bypassed if it is on a path from U to V and another path goes round it.
    """
    found = effects(graph, permutations(graph.nodes, 2))
    changed = [one for one in found if one.kappa]
    kept = [
        one
        for one in found
        if one.after
        and graph.reaches(one.cause, one.intervened)
        and graph.reaches(one.intervened, one.result)
    ]
    return [rng.choice(some) if some else None for some in (changed, kept, found)]


def test_d_connection_agrees():
    pytest.importorskip("y0")
    from y0.algorithm.conditional_independencies import are_d_separated
    from y0.dsl import Variable
    from y0.graph import NxMixedGraph

    def connected(graph, u, v, *intervened):
        edges = [edge for edge in graph.edges if edge[1] not in intervened]
        mixed = NxMixedGraph.from_str_edges(nodes=graph.nodes, directed=edges)
        return not are_d_separated(mixed, Variable(u), Variable(v)).separated

    rng = Random("effects")
    asked = [(graph, chosen(graph, rng)) for graph in DAGS]
    counts = [sum(map(bool, some)) for some in zip(*(few for _, few in asked), strict=True)]
    assert counts[0] >= 60 and counts[1] >= 20 and counts[2] == len(DAGS)
    for graph, few in asked:
        for u, v, x, before, after in filter(None, few):
            assert before == connected(graph, u, v, u), (graph, u, v, x)
            assert after == connected(graph, u, v, u, x), (graph, u, v, x)

    # The other shapes that are drawn, and the graphs of the paper, in every effect
    shapes = [shaped(shape, 5, Random(shape)) for shape in SHAPES if shape != "random"]
    for graph in (*shapes, *GRAPHS.values()):
        for u, v, x, *answers in effects(graph, permutations(graph.nodes, 2)):
            assert answers == [connected(graph, u, v, u), connected(graph, u, v, u, x)]
