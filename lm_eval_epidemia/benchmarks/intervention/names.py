"""Names for the variables of a graph: random letters, nature's own, and nature turned round.

``random``
    3 to 5 capitals without a meaning.
``tuebingen``
    Variables of the Tübingen pairs, so that every edge of the graph is in the list.
``anticommonsense``
    Variables of the same list, so that no edge of the graph is in it, while one of its pairs is
    among the variables.

A model that answers from what it knows of the world instead of the graph does well with the
second kind and badly with the third.

The Tübingen cause-effect pairs are in ``pairs.csv``, made by ``benchmarks/tuebingen_pairs.py`` from
a list of the database's 108 pairs. Source: J. M. Mooij, J. Peters, D. Janzing, J. Zscheischler and
B. Schölkopf, "Distinguishing Cause from Effect Using Observational Data: Methods and Benchmarks",
Journal of Machine Learning Research 17(32), 2016, whose appendix describes the pairs. The list is
that of the repository tejaskasetty/interventional-reasoning-llms (MIT License, copyright 2024 Tejas
Kasetty, Divyat Mahajan, Gintare Karolina Dziugaite, Alexandre Drouin, Dhanya Sridhar). Only names
and directions are taken from it; no measurement of the database, whose pairs have terms of their
own, is here.

Names belong to a (benchmark, graph, sample): queries, interventions and variants share them.
"""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import combinations, permutations
from typing import NamedTuple

BENCHMARKS = ("random", "tuebingen", "anticommonsense")

#: Names per graph, of the two benchmarks that are drawn from the list.
SAMPLES = 15

#: The variable that pairs, forks and chains hinge on: the cause, or the one in the middle.
HINGES = {"bivariate": 0, "confounding": 0, "mediation": 1}

#: Random names have neither vowels nor Y. Every English word of a prompt, and every word for yes
#: and no, has one: so no name is such a word or contains it.
CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"

#: Single letters that are no short answer either (no, true, false).
LETTERS = "BCDGHJKLMPQRSVWXZ"

Names = tuple[str, ...]


class Pair(NamedTuple):
    """One relation of the list.

    Attributes
    ----------
    cause, effect : str
        Noun phrases that read well in "X causes Y."; in lower case except for proper names.
    rows : tuple of int
        Official numbers of the pairs merged, 1 to 108.
    field : str
        What it is about; both variables are in this field only.
    """

    cause: str
    effect: str
    rows: tuple[int, ...]
    field: str


@lru_cache
def load_pairs() -> tuple[Pair, ...]:
    """Return the pairs that ship, in the order of their first official number."""
    text = (files(__package__) / "pairs.csv").read_text(encoding="utf-8")
    return tuple(
        Pair(row["cause"], row["effect"], tuple(map(int, row["rows"].split(";"))), row["field"])
        for row in csv.DictReader(text.splitlines())
    )


class Named(NamedTuple):
    """What the variables of a graph are called in one sample.

    Attributes
    ----------
    names : tuple of str
        In the order of the graph's nodes.
    values : tuple of str
        What do(X = x) sets each of them to.
    pairs : tuple of (int, int)
        Pairs of the list among these names, as in nature: (cause, effect) as numbers of nodes.
        Empty for random names.
    operation : str
        What the substitution variant calls its operation: 3 to 5 random lowercase letters.
    """

    names: Names
    values: Names
    pairs: tuple[tuple[int, int], ...]
    operation: str


def name_nodes(benchmark: str, graph: str, nodes: int, sample: int, letters: bool = False) -> Named:
    """Return the names of one sample, the same on every call and in every process.

    Parameters
    ----------
    benchmark : str
        One of `BENCHMARKS`.
    graph : str
        A graph of `graph.GRAPHS`; for random names any text, which is part of their seed.
    nodes : int
        How many names: 2 to 12; that of the graph.
    sample : int
        From 0; below `SAMPLES` except for random names.
    letters : bool
        Whether random names are single capitals; the list's names stay as they are.
    """
    single = letters and benchmark == "random"
    rng = random.Random(f"{'one letter' if single else benchmark}/{graph}/{sample}")
    if benchmark == "random":
        names = _lettered(graph, nodes, sample) if single else _random(nodes, rng)
        values = tuple(name.lower() for name in names)
        relations: tuple[tuple[int, int], ...] = ()
    else:
        names = _drawn(benchmark, graph)[sample]
        values = ("x0",) * nodes
        relations = tuple(
            (i, j)
            for i, j in permutations(range(nodes), 2)
            if (names[i], names[j]) in _list_edges()
        )
    return Named(names, values, relations, _apart(names, rng).lower())


@cache
def _lettered(graph: str, nodes: int, sample: int) -> Names:
    """Draw single letters that no earlier sample has in this order."""
    earlier = {_lettered(graph, nodes, before) for before in range(sample)}
    rng = random.Random(f"one letter/{graph}/{sample}")
    while (names := tuple(rng.sample(LETTERS, nodes))) in earlier:
        pass
    return names


def _random(nodes: int, rng: random.Random) -> Names:
    names: Names = ()
    while len(names) < nodes:
        names += (_apart(names, rng),)
    return names


def _apart(names: Names, rng: random.Random) -> str:
    """Draw 3 to 5 capitals that are no part of a name, and no name a part of them."""
    while True:
        drawn = "".join(rng.choice(CONSONANTS) for _ in range(rng.choice((3, 4, 5))))
        if not any(drawn in name.upper() or name.upper() in drawn for name in names):
            return drawn


@lru_cache
def _drawn(benchmark: str, graph: str) -> tuple[Names, ...]:
    """Draw the samples of a benchmark: no two of the same variables, shape (SAMPLES, nodes)."""
    if benchmark == "tuebingen":
        return _spread(_as_in_nature(graph), HINGES[graph], f"{benchmark}/{graph}")
    if graph == "bivariate":
        # The same pairs, turned round: their contrast is one of direction alone.
        return tuple((effect, cause) for cause, effect in _drawn("tuebingen", graph))
    order = {"confounding": (2, 0, 1), "mediation": (0, 2, 1)}[graph]
    fields = {name: pair.field for pair in load_pairs() for name in pair[:2]}
    # A variable of another field has no listed relation to the pair, and hardly one in nature.
    strange = [
        (*pair, third)
        for pair in _list_edges()
        for third in fields
        if fields[third] != fields[pair[0]]
    ]
    drawn = _spread(strange, 0, f"{benchmark}/{graph}")
    return tuple(tuple(names[i] for i in order) for names in drawn)


@lru_cache
def _list_edges() -> tuple[tuple[str, str], ...]:
    return tuple((pair.cause, pair.effect) for pair in load_pairs())


def _as_in_nature(graph: str) -> list[Names]:
    """Every choice of variables for which the graph's edges are all the list says of them.

    In a chain A -> B -> C of which the list also has A -> C, nature would keep an effect of A on C
    that the graph loses when B is set; in a fork, the list relates neither effect to the other.
    """
    listed = _list_edges()
    if graph == "bivariate":
        return list(listed)
    if graph == "confounding":
        choices: list[Names] = [
            (a, b, c) for (a, b), (other, c) in combinations(listed, 2) if a == other
        ]
        ends = 1, 2
    else:
        choices = [(a, b, c) for a, b in listed for middle, c in listed if b == middle]
        ends = 0, 2
    return [
        names
        for names in choices
        if not {(names[ends[0]], names[ends[1]]), (names[ends[1]], names[ends[0]])} & {*listed}
    ]


def _spread(options: Sequence[Names], hinge: int, seed: str) -> tuple[Names, ...]:
    """Draw `SAMPLES` options as evenly as there are over the variable at `hinge`, then over all.

    Each draw is of those whose hinge was drawn least so far, among them of those whose variables
    were, among them at random.
    """
    left = sorted(options)
    random.Random(seed).shuffle(left)
    hinges: Counter[str] = Counter()
    used: Counter[str] = Counter()
    drawn: list[Names] = []
    for _ in range(SAMPLES):
        names = min(left, key=lambda row: (hinges[row[hinge]], sum(used[name] for name in row)))
        left = [row for row in left if {*row} != {*names}]
        hinges[names[hinge]] += 1
        used.update(names)
        drawn.append(names)
    return tuple(drawn)
