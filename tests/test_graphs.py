"""Causal graphs, what an intervention changes in them, and the larger ones from a seed."""

import itertools
import string
from collections import Counter
from random import Random

import pytest

from lm_eval_epidemia.benchmarks.intervention import graph as causal
from lm_eval_epidemia.benchmarks.intervention.graph import (
    BYPASSED,
    GRAPHS,
    INSIDE,
    NO,
    QUERIES,
    TARGET,
    YES,
    Graph,
    effects,
)
from lm_eval_epidemia.benchmarks.intervention.questions import (
    TASKS,
    knowledge,
    questions,
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


def test_the_order_of_nodes_and_edges_changes_no_effect():
    graph = Graph(("A", "B", "C", "D"), (("A", "B"), ("B", "D"), ("A", "C"), ("C", "D")))
    other = Graph(graph.nodes[::-1], graph.edges[::-1])
    queries = [(one, two) for one in "ABCD" for two in "ABCD" if one != two]
    assert set(effects(graph, queries)) == set(effects(other, queries))
    # A diamond: neither branch alone is missed.
    after = {(one.intervened): one.after for one in effects(graph, [("A", "D")])}
    assert after == {"A": True, "B": True, "C": True, "D": False}
    assert graph.distance("A", "D") == 2
    assert graph.distance("D", "A") == 0


@pytest.mark.parametrize("nodes", causal.SIZES)
def test_larger_graphs_are_asked_in_the_stated_proportions(nodes):
    graphs = causal.drawn(nodes)
    assert len(graphs) == causal.SAMPLES
    for drawn in graphs:
        assert len(drawn.graph.nodes) == nodes
        assert drawn.kinds[:2] == (TARGET, INSIDE)
        assert drawn.kinds[2] in (YES, BYPASSED)
        assert drawn.kinds[3] == NO
        assert len(set(drawn.effects)) == 4
        for kind, effect in zip(drawn.kinds, drawn.effects, strict=True):
            before, after = kind != NO, kind in (YES, BYPASSED)
            assert (effect.before, effect.after) == (before, after)
            assert (kind == TARGET) <= (effect.intervened == effect.result)
            assert (kind == INSIDE) <= (effect.intervened not in (effect.cause, effect.result))


def test_larger_graphs_have_every_shape_and_bypassed_mediators():
    graphs = [drawn for nodes in causal.SIZES for drawn in causal.drawn(nodes)]
    assert {drawn.shape for drawn in graphs} == set(causal.SHAPES)
    # Of three nodes only a chain has a node inside every path.
    assert {drawn.shape for drawn in causal.drawn(3)} == {"chain"}
    kinds = Counter(kind for drawn in graphs for kind in drawn.kinds)
    assert kinds[BYPASSED] >= 50
    # Lengths are spread, as far as short paths are not all there are.
    lengths = Counter(
        drawn.graph.distance(effect.cause, effect.result)
        for drawn in graphs
        if len(drawn.graph.nodes) >= 10
        for kind, effect in zip(drawn.kinds, drawn.effects, strict=True)
        if kind == INSIDE
    )
    assert max(lengths.values()) <= sum(lengths.values()) / 3
    assert max(lengths) >= 9


def test_shapes_begin_and_end_as_they_are_called():
    """In how many nodes without a cause, and without an effect; None is any number."""
    ends = {"chain": (1, 1), "fork": (1, None), "collider": (None, 1), "diamond": (1, 1)}
    for nodes, (shape, expected) in itertools.product(range(3, 12), ends.items()):
        graph = causal.shaped(shape, nodes, Random(nodes))
        causes, results = ({edge[side] for edge in graph.edges} for side in (0, 1))
        for side, number in zip((results, causes), expected, strict=True):
            assert number in (None, len({*graph.nodes} - side)), (shape, nodes)


@pytest.mark.parametrize("shape", causal.SHAPES)
def test_the_order_of_names_says_nothing(shape):
    """In half of the edges, give or take 5 standard deviations, the earlier letter is the cause."""
    rng = Random(1)
    graphs = [causal.shaped(shape, 8, rng) for _ in range(200)]
    edges = [edge for graph in graphs for edge in graph.edges]
    assert all(graph.nodes == tuple(string.ascii_uppercase[:8]) for graph in graphs)
    earlier = sum(cause < result for cause, result in edges)
    # Edges of a graph are not independent; at most all 200 graphs' edges lean one way together.
    most = max(len(graph.edges) for graph in graphs)
    assert abs(earlier - len(edges) / 2) < 5 * (200 * most) ** 0.5 * most / 2


def test_questions_of_the_published_graphs():
    asked = questions("epidemia_intervention_random")
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
        assert questions(task).fingerprint == retrieval(task).fingerprint
    assert len({questions(task).fingerprint for task in TASKS}) == len(TASKS)
