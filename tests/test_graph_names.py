"""Names of variables: what the list of pairs holds, and what each benchmark draws from it."""

import re
import runpy
from collections import Counter
from itertools import combinations, permutations, product

import pandas as pd
import pytest
from conftest import REPOSITORY, raw_file

from lm_eval_epidemia.benchmarks.intervention import names as naming
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS
from lm_eval_epidemia.benchmarks.intervention.names import (
    HINGES,
    SAMPLES,
    load_pairs,
    name_nodes,
)

SCRIPT = runpy.run_path(str(REPOSITORY / "benchmarks" / "tuebingen_pairs.py"))
made_from = SCRIPT["made_from"]
LEFT_OUT, SOURCES = SCRIPT["chosen"]()

LISTED = {(pair.cause, pair.effect) for pair in load_pairs()}
FIELDS = {name: pair.field for pair in load_pairs() for name in pair[:2]}
#: Edges of the published graphs, as numbers of nodes.
EDGES = {
    name: [(graph.nodes.index(a), graph.nodes.index(b)) for a, b in graph.edges]
    for name, graph in GRAPHS.items()
}
NODES = {name: len(graph.nodes) for name, graph in GRAPHS.items()}
EVERY = [(benchmark, graph) for benchmark in naming.BENCHMARKS for graph in NODES]


def drawn(benchmark, graph, **options):
    return [name_nodes(benchmark, graph, NODES[graph], i, **options) for i in range(SAMPLES)]


def coverage(graph):
    """Count the list's pairs, forks or chains by the variable they hinge on."""
    return Counter(names[HINGES[graph]] for names in naming._as_in_nature(graph))


def edges(graph, names):
    return [(names[i], names[j]) for i, j in EDGES[graph]]


@pytest.fixture
def parquet():
    return raw_file("tubingen", "tubingen_pairs_direction.parquet")


# -- The list ----------------------------------------------------------------------------------


def test_the_list_is_made_from_its_source(parquet):
    folder = REPOSITORY / "lm_eval_epidemia" / "benchmarks" / "intervention"
    shipped = (folder / "pairs.csv").read_bytes()
    assert made_from(parquet).encode() == shipped, (
        "run: python benchmarks/tuebingen_pairs.py PARQUET"
    )


def test_no_pair_contradicts_the_source(parquet):
    """Neither list of the source states a pair of ours the other way round."""
    frame = pd.read_parquet(parquet)
    frame = frame[~frame["multivariate"]]
    complete = frame[frame["list"] == "complete"].set_index("row")
    short = frame[frame["list"] != "complete"]
    reversed_there = {
        (row.effect.lower(), row.cause.lower()) for row in short.itertuples() if row.cause
    }
    used = [row for pair in load_pairs() for row in pair.rows]
    for row in used:
        cause, effect = complete.loc[row, ["cause", "effect"]]
        assert (cause.lower(), effect.lower()) not in reversed_there, row
    # Rows 84 and 92, which the source flags, are stated the other way round in its short list.
    assert short["reversed_in_other_list"].sum() == 2
    assert {84, 92}.isdisjoint(used)


def test_every_official_pair_is_used_once_or_left_out_with_a_reason():
    used = [row for pair in load_pairs() for row in pair.rows]
    assert sorted(used + [row for rows in LEFT_OUT.values() for row in rows]) == [*range(1, 109)]
    # 108 pairs less 6 + 2 + 9 + 8 left out; merged: indoor temperature 2 into 1, ozone 3, CO2
    # flux 3, life expectancy at a latitude 8, light and productivity 3: 1 + 2 + 2 + 7 + 2 fewer.
    assert len(load_pairs()) == 108 - 25 - 14 == len(LISTED) == 69


def test_names_of_the_list():
    names = sorted(FIELDS)
    proper = {"CO2", "GNI", "CPU", "HTTP", "HSBC", "Holdings", "Hang", "Seng", "Bank", "Cheung"}
    proper |= {"Kong", "Hutchison", "Sun", "Hung", "Kai", "Properties"}
    for name in names:
        assert all(word.islower() or word in proper for word in name.split()), name
        assert name == name.strip() and "," not in name and "(" not in name
    for one, other in combinations(names, 2):
        assert one.casefold() != other.casefold()
        assert one not in other and other not in one, (one, other)
    # A variable is of one field, so that those of another have no listed relation to it.
    assert {(name, pair.field) for pair in load_pairs() for name in pair[:2]} == {*FIELDS.items()}
    # Nothing is its own cause, at any distance.
    reached = LISTED
    while further := {(a, c) for a, b in reached for d, c in LISTED if b == d} - reached:
        reached = reached | further
    assert all(a != b for a, b in reached)


# -- What is drawn -----------------------------------------------------------------------------


def test_samples():
    """15 samples of other variables each; distinct names; an operation that is none of them; the
    pairs of the list among them."""
    for benchmark, graph in EVERY:
        samples, nodes = drawn(benchmark, graph), NODES[graph]
        assert len({frozenset(sample.names) for sample in samples}) == SAMPLES == 15
        assert len({sample.operation for sample in samples}) == SAMPLES
        for number, sample in enumerate(samples):
            assert sample == name_nodes(benchmark, graph, nodes, number)
            assert len(sample.names) == len(sample.values) == len({*sample.names}) == nodes
            assert 3 <= len(sample.operation) <= 5
            assert sample.operation.isalpha() and sample.operation.islower()
            for text in (*sample.names, *sample.values):
                assert sample.operation not in text.lower() and text.lower() not in sample.operation
            if benchmark == "random":
                assert sample.pairs == ()
                continue
            assert sample.values == ("x0",) * nodes
            everywhere = permutations(range(nodes), 2)
            assert [*sample.pairs] == [
                (i, j) for i, j in everywhere if (sample.names[i], sample.names[j]) in LISTED
            ]


def test_in_nature_every_edge_is_listed_and_nothing_else():
    for graph, causes in EDGES.items():
        assert all([*sample.pairs] == causes for sample in drawn("tuebingen", graph))


def test_against_nature():
    """One pair of the list is among the variables, where the specification puts it; no edge is."""
    where = {"bivariate": (1, 0), "confounding": (1, 2), "mediation": (0, 2)}
    for graph, place in where.items():
        for sample in drawn("anticommonsense", graph):
            assert sample.pairs == (place,)
            assert LISTED.isdisjoint(edges(graph, sample.names))
            if graph != "bivariate":
                (third,) = {0, 1, 2} - {*place}
                assert FIELDS[sample.names[third]] != FIELDS[sample.names[place[0]]]
    # The bivariate pairs are those of `tuebingen`, turned round: only the direction differs.
    natural = [sample.names for sample in drawn("tuebingen", "bivariate")]
    assert [sample.names[::-1] for sample in drawn("anticommonsense", "bivariate")] == natural


def test_coverage_and_how_evenly_it_is_used():
    """Pairs, forks and chains counted anew, by loops; the samples take turns over the hinges."""
    among = sorted(FIELDS)
    related = LISTED | {(b, a) for a, b in LISTED}
    forks = [
        a
        for a in among
        for b, c in combinations(among, 2)
        if (a, b) in LISTED and (a, c) in LISTED and (b, c) not in related
    ]
    chains = [
        b
        for a, b, c in product(among, repeat=3)
        if (a, b) in LISTED and (b, c) in LISTED and (a, c) not in related
    ]
    assert (len(LISTED), len(forks), len(chains)) == (69, 103, 32)
    assert sum(coverage("bivariate").values()) == 69 and len(coverage("bivariate")) == 38
    assert coverage("confounding") == Counter(forks)
    # Most chains of nature pass through the weather: 29 of 32, and three variables stand between.
    rare = {"precipitation": 2, "stock return of Cheung Kong": 1}
    assert coverage("mediation") == Counter(chains) == {"outdoor temperature": 29, **rare}

    def used(benchmark, graph, node):
        return Counter(sample.names[node] for sample in drawn(benchmark, graph))

    # 15 of 38 causes once each; nine common causes, of which four have one fork and altitude, with
    # the four others, shares the 11 that remain; all three middles, as far as their chains go.
    assert {*used("tuebingen", "bivariate", 0).values()} == {1}
    common = used("tuebingen", "confounding", 0)
    assert common.keys() == coverage("confounding").keys()
    assert sorted(common.values()) == [1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert used("tuebingen", "mediation", 1) == {"outdoor temperature": 12, **rare}
    # Around the temperature, its six causes and five effects take turns.
    around = [one.names for one in drawn("tuebingen", "mediation") if "outdoor" in one.names[1]]
    assert len({names[0] for names in around}) == 6 and len({names[2] for names in around}) == 5
    assert {*used("anticommonsense", "confounding", 1).values()} == {1}
    assert {*used("anticommonsense", "mediation", 0).values()} == {1}


# -- Random names ------------------------------------------------------------------------------

#: What a reader could take for an answer, and the words of the prompts.
WORDS = re.findall(
    r"\w+",
    """
yes no yep yeah yup nope not nay aye true false none never okay affirmative negative
there is are a causal graphical model directed acyclic with variables named causes cause these all
the relations suppose that perfect intervention was performed on in this intervened does answer or
do set sets value operation deletes incoming edges leaves rest apply an and if of to
""",
)


def test_no_random_name_is_or_contains_a_word():
    names = [name for graph in NODES for one in drawn("random", graph) for name in one.names]
    names += [name for i in range(40) for name in name_nodes("random", f"large/{i}", 12, 0).names]
    operations = [one.operation for pair in EVERY for one in drawn(*pair)]
    assert len(names) > 500
    for name in (*names, *operations):
        assert 3 <= len(name) <= 5 and name.isascii() and name.isalpha()
        assert not any(word in name.lower() for word in WORDS), name
        assert {*name.lower()}.isdisjoint("aeiouy")
    # Every word of a prompt has a vowel or Y, which is why none can come up.
    assert all({*word} & {*"aeiouy"} for word in WORDS)


def test_no_random_name_is_part_of_another():
    for nodes, sample in product(range(2, 13), range(30)):
        one = name_nodes("random", "any graph", nodes, sample)
        assert one.values == tuple(name.lower() for name in one.names)
        assert all(name.isupper() for name in one.names)
        for a, b in permutations((*one.values, one.operation), 2):
            assert a not in b


def test_random_names_do_not_come_back():
    """Another graph, size or sample: other names; the lengths are all used."""
    seen = [name_nodes("random", f"dag/{i}", 4, j).names for i in range(20) for j in range(5)]
    assert len({*seen}) == 100
    assert {len(name) for names in seen for name in names} == {3, 4, 5}


def test_single_letters():
    for graph, nodes in NODES.items():
        samples = drawn("random", graph, letters=True)
        assert len({frozenset(sample.names) for sample in samples}) == SAMPLES
        for sample in samples:
            assert len({*sample.names}) == nodes and {*sample.names} <= {*naming.LETTERS}
            assert sample.values == tuple(name.lower() for name in sample.names)
            assert not {*sample.operation} & {*sample.values}
    assert {*naming.LETTERS}.isdisjoint("YNTFAI")
    # The same in every process; all other names are part of the prompts in prompt_hashes.json.
    assert "".join(name_nodes("random", "large", 12, 3, letters=True).names) == "SWJRVCQPKZBL"
    natural = name_nodes("tuebingen", "bivariate", 2, 0)
    assert name_nodes("tuebingen", "bivariate", 2, 0, letters=True) == natural
