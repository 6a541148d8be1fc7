"""The tasks about causal graphs: named graphs, their questions, and the correct answers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any, NamedTuple

from lm_eval_epidemia.benchmarks.intervention import graph as causal
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS, QUERIES, Effect, Graph, effects
from lm_eval_epidemia.benchmarks.intervention.names import BENCHMARKS, SAMPLES, Named, name_nodes
from lm_eval_epidemia.benchmarks.intervention.names import load_pairs as listed_pairs
from lm_eval_epidemia.core.errors import EpidemiaError, suggest


class GraphTask(NamedTuple):
    """A task about causal graphs.

    Attributes
    ----------
    name : str
    names : str
        Where names come from, one of `names.BENCHMARKS`.
    nodes : int, optional
        Of larger graphs, how many nodes they have; None for the graphs of the paper.
    """

    name: str
    names: str
    nodes: int | None = None


_SMALL = [GraphTask(f"epidemia_intervention_{names}", names) for names in BENCHMARKS]
_LARGE = [GraphTask(f"epidemia_intervention_large_{n:02}", "random", n) for n in causal.SIZES]
TASKS: dict[str, GraphTask] = {task.name: task for task in (*_SMALL, *_LARGE)}


class Scene(NamedTuple):
    """A graph with names; all its questions belong together.

    Attributes
    ----------
    shape : str
        Of the graph: "mediation".
    sample : int
        From 1.
    graph : Graph
        Over letters.
    names : str
        Where its names come from.
    named : Named
        What its nodes are called.
    effects : tuple of Effect
        Between letters.
    kinds : tuple of str
        Why each answer is what it is; empty for the graphs of the paper.
    """

    shape: str
    sample: int
    graph: Graph
    names: str
    named: Named
    effects: tuple[Effect, ...]
    kinds: tuple[str, ...] = ()

    def lettered(self) -> Named:
        """Return other names of the same variables: single letters, where names are random."""
        if self.names != "random":
            return self.named
        nodes = len(self.graph.nodes)
        return name_nodes(
            self.names, f"{self.shape} of {nodes}", nodes, self.sample - 1, letters=True
        )


class CausalQuestion(NamedTuple):
    """One question: does U cause V?

    Attributes
    ----------
    scene : Scene
    cause, result : str
        U and V, letters of the scene's graph.
    intervened : str, optional
        X of do(X); None before any.
    right : bool
        Whether the correct answer is yes.
    """

    scene: Scene
    cause: str
    result: str
    intervened: str | None
    right: bool

    @property
    def described(self) -> list[str]:
        """What it is about, in words."""
        words = [
            f"graph: {self.scene.shape}",
            f"sample: {self.scene.sample}",
            f"does {self.cause} cause {self.result}",
        ]
        return words if self.intervened is None else [*words, f"do({self.intervened})"]


class DoPair(NamedTuple):
    """An effect, and the numbers of the prompts that ask for it.

    Attributes
    ----------
    scene : Scene
    effect : Effect
    base, post : int
        The question without and with the intervention. The first is shared by all interventions.
    kind : str
        Of a larger graph: why the answer is what it is.
    """

    scene: Scene
    effect: Effect
    base: int
    post: int
    kind: str = ""


class GraphQuestions(NamedTuple):
    """A task as it is asked.

    Attributes
    ----------
    task : str
    scenes : tuple of Scene
        Its graphs and names, the same in every way of asking.
    prompts : tuple of CausalQuestion
        Each is a cell.
    pairs : tuple of DoPair
        What is scored together; empty if no intervention is asked about.
    listed : tuple of int
        Of each prompt, the number of the listed pair that it asks about, where there is no graph:
        several samples, of either kind of names, may ask about the same pair.
    """

    task: str
    scenes: tuple[Scene, ...]
    prompts: tuple[CausalQuestion, ...]
    pairs: tuple[DoPair, ...] = ()
    listed: tuple[int, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that change with the graphs, the names, or the effects."""
        return hashlib.sha256(repr(self.scenes).encode()).hexdigest()[:12]

    @property
    def given(self) -> list[list[str]]:
        """What each prompt is about, in words."""
        return [prompt.described for prompt in self.prompts]


@lru_cache(maxsize=len(TASKS))
def _scenes(task: str) -> tuple[Scene, ...]:
    if task not in TASKS:
        raise EpidemiaError(f"{task!r} is not a task about causal graphs ({suggest(task, TASKS)})")
    _, names, nodes = TASKS[task]
    of_size = "" if nodes is None else f" of {nodes}"
    if nodes is None:
        graphs = [
            (sample, causal.Drawn(shape, graph, tuple(effects(graph, QUERIES[shape])), ()))
            for shape, graph in GRAPHS.items()
            for sample in range(1, SAMPLES + 1)
        ]
    else:
        graphs = [*enumerate(causal.draw_graphs(nodes), start=1)]
    scenes = []
    for sample, (shape, graph, asked, kinds) in graphs:
        called = name_nodes(names, shape + of_size, len(graph.nodes), sample - 1)
        scenes.append(Scene(shape, sample, graph, names, called, asked, kinds))
    return tuple(scenes)


@lru_cache(maxsize=len(TASKS))
def make_questions(task: str) -> GraphQuestions:
    """Return every effect of a task: its question before the intervention and after it.

    Parameters
    ----------
    task : str
        One of `TASKS`.

    Returns
    -------
    Questions
        Scene by scene; of each query first the base prompt, then its interventions. 30 prompts for
        the 22 effects of a sample of the paper's graphs.
    """
    prompts: list[CausalQuestion] = []
    pairs: list[DoPair] = []
    for scene in _scenes(task):
        base: dict[tuple[str, str], int] = {}
        for place, effect in enumerate(scene.effects):
            query = effect.cause, effect.result
            if query not in base:
                base[query] = len(prompts)
                prompts.append(CausalQuestion(scene, *query, None, effect.before))
            kind = scene.kinds[place] if scene.kinds else ""
            pairs.append(DoPair(scene, effect, base[query], len(prompts), kind))
            prompts.append(CausalQuestion(scene, *query, effect.intervened, effect.after))
    return GraphQuestions(task, _scenes(task), tuple(prompts), tuple(pairs))


@lru_cache(maxsize=len(TASKS))
def retrieval(task: str) -> GraphQuestions:
    """Return the questions whether a model finds the relations of a graph: all ordered pairs."""
    prompts = [
        CausalQuestion(scene, *query, None, scene.graph.reaches(*query))
        for scene in _scenes(task)
        for query in permutations(scene.graph.nodes, 2)
    ]
    return GraphQuestions(task, _scenes(task), tuple(prompts))


@lru_cache(maxsize=len(TASKS))
def knowledge(task: str) -> GraphQuestions:
    """Return the questions whether a model knows, without a graph, which of a pair is the cause.

    Of every listed pair among the names of a sample, in both directions.
    """
    numbers = {pair[:2]: number for number, pair in enumerate(listed_pairs())}
    prompts, asked = [], []
    for scene in _scenes(task):
        nodes, names = scene.graph.nodes, scene.named.names
        for cause, result in scene.named.pairs:
            for u, v in ((cause, result), (result, cause)):
                prompts.append(CausalQuestion(scene, nodes[u], nodes[v], None, u == cause))
                asked.append(numbers[names[cause], names[result]])
    return GraphQuestions(task, _scenes(task), tuple(prompts), listed=tuple(asked))


def cells_of(truth: GraphQuestions) -> dict[str, Sequence[Any]]:
    """Return the correct answer of each cell, for export.

    Returns
    -------
    dict of str to list
        ``right``, "Yes" or "No"; ``sample``, the number of the graph with its names (what errors
        are over, see `metrics.clusters`); and where interventions are asked about, of a question
        after one, ``base``, the cell of the same question before it, and ``kappa``, 1 where the
        answer changes. An effect is known by who answers both rightly.
    """
    numbers = {id(scene): number for number, scene in enumerate(truth.scenes)}
    columns: dict[str, Sequence[Any]] = {
        "right": ["Yes" if prompt.right else "No" for prompt in truth.prompts],
        "sample": [numbers[id(prompt.scene)] for prompt in truth.prompts],
    }
    if truth.pairs:
        pairs = {pair.post: pair for pair in truth.pairs}
        asked = [pairs.get(cell) for cell in range(len(truth.prompts))]
        columns["base"] = [pair and pair.base for pair in asked]
        columns["kappa"] = [pair and pair.effect.kappa for pair in asked]
    return columns
