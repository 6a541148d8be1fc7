"""Causal graphs, what an intervention changes in them, and the larger ones from a seed."""

import itertools
import string
from collections import Counter
from itertools import permutations
from random import Random

import pytest

from lm_eval_epidemia.benchmarks.intervention import graph as causal
from lm_eval_epidemia.benchmarks.intervention.graph import (
    GRAPHS,
    QUERIES,
    Effect,
    draw_shape,
    effects,
)
from lm_eval_epidemia.benchmarks.intervention.questions import (
    TASKS,
    knowledge,
    make_questions,
    retrieval,
)

#: The table of the specification: by graph, C before any intervention and after do(A), do(B), ...
TABLE = {
    "bivariate": ("10", "10", "00"),
    "confounding": ("110", "110", "010", "100"),
    "mediation": ("111", "111", "001", "100"),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_published_effects(name):
    graph, queries = GRAPHS[name], QUERIES[name]
    stated, *after = TABLE[name]
    assert "".join(str(int(graph.reaches(*query))) for query in queries) == stated
    for node, expected in zip(graph.nodes, after, strict=True):
        changed = graph.after(node)
        assert "".join(str(int(changed.reaches(*query))) for query in queries) == expected


@pytest.mark.parametrize("nodes", causal.SIZES)
def test_larger_graphs_are_asked_in_the_stated_proportions(nodes):
    graphs = causal.draw_graphs(nodes)
    assert len(graphs) == causal.SAMPLES
    for drawn in graphs:
        assert len(drawn.graph.nodes) == nodes
        assert drawn.kinds[:2] == (causal.TARGET, causal.INSIDE)
        assert drawn.kinds[2] in (causal.YES, causal.BYPASSED)
        assert drawn.kinds[3] == causal.NO
        assert len(set(drawn.effects)) == 4
        for kind, effect in zip(drawn.kinds, drawn.effects, strict=True):
            before, after = kind != causal.NO, kind in (causal.YES, causal.BYPASSED)
            assert (effect.before, effect.after) == (before, after)
            assert (kind == causal.TARGET) <= (effect.intervened == effect.result)
            between = effect.intervened not in (effect.cause, effect.result)
            assert (kind == causal.INSIDE) <= between


def test_larger_graphs_have_every_shape_and_bypassed_mediators():
    graphs = [drawn for nodes in causal.SIZES for drawn in causal.draw_graphs(nodes)]
    assert {drawn.shape for drawn in graphs} == set(causal.SHAPES)
    # Of three nodes only a chain has a node inside every path.
    assert {drawn.shape for drawn in causal.draw_graphs(3)} == {"chain"}
    kinds = Counter(kind for drawn in graphs for kind in drawn.kinds)
    assert kinds[causal.BYPASSED] >= 50
    # Lengths are spread, as far as short paths are not all there are.
    lengths = Counter(
        drawn.graph.distance(effect.cause, effect.result)
        for drawn in graphs
        if len(drawn.graph.nodes) >= 10
        for kind, effect in zip(drawn.kinds, drawn.effects, strict=True)
        if kind == causal.INSIDE
    )
    assert max(lengths.values()) <= sum(lengths.values()) / 3
    assert max(lengths) >= 9


def test_shapes_begin_and_end_as_they_are_called():
    """In how many nodes without a cause, and without an effect; None is any number."""
    ends = {"chain": (1, 1), "fork": (1, None), "collider": (None, 1), "diamond": (1, 1)}
    for nodes, (shape, expected) in itertools.product(range(3, 12), ends.items()):
        graph = causal.draw_shape(shape, nodes, Random(nodes))
        causes, results = ({edge[side] for edge in graph.edges} for side in (0, 1))
        for side, number in zip((results, causes), expected, strict=True):
            assert number in (None, len({*graph.nodes} - side)), (shape, nodes)


@pytest.mark.parametrize("shape", causal.SHAPES)
def test_the_order_of_names_says_nothing(shape):
    """In half of the edges, give or take 5 standard deviations, the earlier letter is the cause."""
    rng = Random(1)
    graphs = [causal.draw_shape(shape, 8, rng) for _ in range(200)]
    edges = [edge for graph in graphs for edge in graph.edges]
    assert all(graph.nodes == tuple(string.ascii_uppercase[:8]) for graph in graphs)
    earlier = sum(cause < result for cause, result in edges)
    # Edges of a graph are not independent; at most all 200 graphs' edges lean one way together.
    most = max(len(graph.edges) for graph in graphs)
    assert abs(earlier - len(edges) / 2) < 5 * (200 * most) ** 0.5 * most / 2


def test_questions_of_the_published_graphs():
    asked = make_questions("epidemia_intervention_random")
    # 15 samples of 22 effects, of which 7 change an answer; of 8 queries before any intervention.
    assert len(asked.pairs) == 15 * 22
    assert len(asked.prompts) == 15 * (22 + 8)
    assert sum(pair.effect.kappa for pair in asked.pairs) == 15 * 7
    for pair in asked.pairs:
        base, post = asked.prompts[pair.base], asked.prompts[pair.post]
        assert base.scene is post.scene is pair.scene
        assert (base.intervened, post.intervened) == (None, pair.effect.intervened)
        assert base[1:3] == post[1:3] == pair.effect[:2]
        assert (base.right, post.right) == (pair.effect.before, pair.effect.after)


def test_questions_without_an_intervention():
    """Retrieval asks of every ordered pair of variables; knowledge of listed pairs, both ways."""
    for asks, names, prompts, right in (
        (retrieval, "random", 2 + 6 + 6, 6),
        (knowledge, "tuebingen", 2 * (1 + 2 + 2), 1 + 2 + 2),
        (knowledge, "anticommonsense", 2 * (1 + 1 + 1), 1 + 1 + 1),
    ):
        asked = asks(f"epidemia_intervention_{names}").prompts
        assert len(asked) == 15 * prompts
        assert sum(prompt.right for prompt in asked) == 15 * right


def test_all_ways_share_one_fingerprint():
    for task in TASKS:
        assert make_questions(task).fingerprint == retrieval(task).fingerprint
    assert len({make_questions(task).fingerprint for task in TASKS}) == len(TASKS)


# Two other routes: d-connection by y0, and a walk of all paths. U causes V after do(X) if and only
# if they are d-connected in the graph without the edges into X and into U: all that leaves U then
# leaves it forwards, and a path without a collider stays so.

#: Random graphs, twenty of each number of nodes.
DAGS = [draw_shape("random", 3 + i % 10, Random(f"truth {i}")) for i in range(200)]


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


def test_d_connection_agrees():
    pytest.importorskip("y0")
    from y0.algorithm.conditional_independencies import are_d_separated
    from y0.dsl import Variable
    from y0.graph import NxMixedGraph

    def connected(graph, u, v, *intervened):
        edges = [edge for edge in graph.edges if edge[1] not in intervened]
        mixed = NxMixedGraph.from_str_edges(nodes=graph.nodes, directed=edges)
        return not are_d_separated(mixed, Variable(u), Variable(v)).separated

    # Small random graphs, the other shapes that are drawn, and the graphs of the paper.
    shapes = [draw_shape(shape, 5, Random(shape)) for shape in causal.SHAPES if shape != "random"]
    for graph in (*DAGS[:20:3], *shapes, *GRAPHS.values()):
        for u, v, x, *answers in effects(graph, permutations(graph.nodes, 2)):
            assert answers == [connected(graph, u, v, u), connected(graph, u, v, u, x)]
