"""What models know of interventions on causal graphs, from their recorded answers."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import INTERVENTION, WAYS, in_way
from lm_eval_epidemia.benchmarks.intervention import contrasts, generate
from lm_eval_epidemia.benchmarks.intervention.contrasts import known_scenes, noticed, picked, shared
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS, QUERIES, Effect, effects
from lm_eval_epidemia.benchmarks.intervention.metrics import Graded, graded
from lm_eval_epidemia.benchmarks.intervention.questions import TASKS, DoPair, Questions, questions
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.findings.finding import Column, Finding
from lm_eval_epidemia.findings.parts import in_parts, number, part_row
from lm_eval_epidemia.results.published import printed, way_in_study
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.replicates import Said
from lm_eval_epidemia.score.estimates import Estimate, apart, average, paired, pooled

#: The tasks about the graphs of the paper by where names come from, the others by their size.
SMALL = {task.names: name for name, task in TASKS.items() if task.nodes is None}
LARGE = {str(task.nodes): name for name, task in TASKS.items() if task.nodes is not None}

NAMES = {task: names for names, task in SMALL.items()}

#: Ways that ask before and after an intervention.
EFFECTS = tuple(way for way in INTERVENTION.ways if WAYS[way].load is questions)

#: Who finds fewer of the relations that a graph states is no case for the shortcut test.
FOUND = 0.95

#: Where X of do(X) is, in the tasks about larger graphs.
KINDS = (generate.TARGET, generate.INSIDE, generate.YES, generate.BYPASSED, generate.NO)

#: Paths of so many edges or more are counted together: few graphs have them.
LONGEST = 6

#: What happens to an answer yes, by kappa.
BECOMES = ("stays yes", "becomes no")

#: Where nature and the graph are at odds: graph, intervened variable, and the queries U and V. With
#: BA, which is no in the graph before and after, the bivariate one is as the study prints it.
CONTRASTS = (
    ("bivariate", "B", ("AB",)),
    ("bivariate", "B", ("AB", "BA")),
    ("mediation", "B", ("AC",)),
    ("mediation", "C", ("AC",)),
)

#: Names in nature's direction and against it, from the same list.
TURNED = ("tuebingen", "anticommonsense")

#: Whose accuracies are subtracted, and what heads the column.
SUBTRACTED = {
    "t - a": TURNED,
    "t - r": ("tuebingen", "random"),
    "a - r": ("anticommonsense", "random"),
}

#: What is run to get any of these tables.
RUN = "no answers on causal graphs: run lm_eval on epidemia_intervention"

#: What is said of published rows.
PRINTED = (
    " Published models: as printed by the study; means have no error. Its analysis confused the "
    "order of queries with that of interventions, so a number printed for one intervened variable "
    "mixes those of its graph; means over a graph, and over the 22 effects, are right."
)


class Answered(NamedTuple):
    """A model's answers in a task, with the truth.

    Attributes
    ----------
    truth : Questions
    said : Said
    found : Graded
    """

    truth: Questions
    said: Said
    found: Graded


class Asked(NamedTuple):
    """A model's answers in a group and way.

    Attributes
    ----------
    whose : dict
        Run and group, of a row.
    way : str
    parts : dict of str to Answered
        By names or, for larger graphs, by size.
    known : dict of (str, str) to Answered
        Everything that the model was asked, by names (or size) and way.
    """

    whose: dict[str, Any]
    way: str
    parts: dict[str, Answered]
    known: dict[tuple[str, str], Answered]

    def beside(self, names: str, way: str) -> Answered | None:
        """Return another way of asking, in its written form if this one is written."""
        return self.known.get((names, way + ("_written" if WAYS[self.way].generated else "")))


def _asked(results: Results, ways: Iterable[str] = EFFECTS) -> Iterator[Asked]:
    of_task = {task: key for key, task in {**SMALL, **LARGE}.items()}
    for run, of in results.scores.groupby("run", sort=False):
        known = {}
        for task, way, said in zip(of["task"], of["way"], of["said"], strict=True):
            if isinstance(said, Said):
                truth = WAYS[way].load(task)
                known[of_task[task], way] = Answered(truth, said, graded(truth, *said))
        for way in ways:
            for group, tasks in zip(INTERVENTION.groups, (SMALL, LARGE), strict=True):
                parts = {key: known[key, way] for key in tasks if (key, way) in known}
                if parts:
                    yield Asked({"run": run, "group": in_way(group, way)}, way, parts, known)


def _printed(
    results: Results, *tables: str
) -> Iterator[tuple[dict[str, Any], float, pd.DataFrame]]:
    """Yield of a published model in a way whose a row is, its score, and what tables print."""
    table = printed()[printed()["table"].isin(tables)]
    scores = results.scores.assign(names=results.scores["task"].map(NAMES))
    scores = scores[scores["run"].map(results.runs["kind"]) == "published"]
    keys: Any = ["run", "way", "group"]
    for (run, way, group), of in scores.groupby(keys, sort=False):
        is_here = table["model"] == results.runs["model"][run]
        is_here &= table["way"] == way_in_study(way)
        if (rows := table[is_here & table["names"].isin(of["names"])]).size:
            yield {"run": run, "group": group}, math.fsum(of["value"]) / len(of), rows


def _cells_of(rows: pd.DataFrame, *texts: str) -> Iterator[tuple[Any, ...]]:
    """Yield columns of printed numbers, then the number and its error."""
    return rows[[*texts, "accuracy", "error"]].itertuples(index=False)


def labels(run: Answered, of: Callable[[DoPair], str]) -> NDArray[np.str_]:
    """Return the part of a table to which each effect belongs."""
    return np.array([of(run.truth.pairs[number]) for number in run.found.numbers], dtype=str)


def _on(pair: DoPair) -> str:
    return f"{pair.scene.shape}, do({pair.effect.intervened})"


def _over(run: Answered, chosen: Any = None, of: Any = None) -> Estimate:
    """Average over chosen effects (default all); by default of both answers being right."""
    chosen = np.ones(len(run.found.numbers), dtype=bool) if chosen is None else chosen
    of = run.found.right if of is None else of
    return contrasts.mean(run.truth, picked(run.found, chosen), of[chosen])


def _rows(whose: Mapping[str, Any], cells: Mapping[str, Estimate]) -> Iterator[dict[str, Any]]:
    return (part_row(whose, part, of) for part, of in cells.items())


def interventions(results: Results) -> Finding:
    """Accuracy on causal graphs: overall, and by graph, variable, names, size and path length."""
    rows = [row for asked in _asked(results, INTERVENTION.ways) for row in _accuracy(asked)]
    for whose, score, of in _printed(results, "7", "9", "10"):
        rows.append(part_row(whose, "accuracy", number(score)))
        for graph, x, names, value, error in _cells_of(of, "graph", "intervened", "names"):
            about, part = (f"{graph}, do({x})", names) if x else (graph, "accuracy")
            rows.append(part_row(whose | {"asked": about}, part, number(value, error)))
    return in_parts(
        results,
        "interventions",
        "Causal graphs: accuracy (± standard error over samples)",
        rows,
        "An effect of an intervention counts as right if the answers before and after it are both "
        "right. kappa = 0: the intervention changes nothing; kappa = 1: it turns a yes into a no. "
        "before, after: each answer by itself. A model that ignores interventions gets everything "
        "right except kappa = 1. minus plain: the intervention under a made-up name minus the "
        "plain question, paired over the same effects and samples. Larger graphs, by the place of "
        "X in do(X): X is V, or lies inside every path from U to V: yes becomes no; X is "
        "elsewhere, or on a path that another path bypasses: yes stays yes; or there was no path "
        "before. Paths: by the edges of the shortest one from U to V, where the answer before is "
        "yes; graphs of all sizes are the clusters of the error. Retrieval: does U cause V in the "
        "stated graph, for every ordered pair? yes-bias: the share of prompts answered yes minus "
        "the share whose right answer is yes. not read: written replies with neither yes nor no; "
        "they count as wrong.",
        subject="effects",
        details="asked",
        otherwise=RUN,
        printed=PRINTED,
    )


def _accuracy(asked: Asked) -> Iterator[dict[str, Any]]:
    """Yield the accuracy in a group, then its parts."""
    way, several = asked.way, [*asked.parts.values()]
    cells = {"accuracy": [_over(run) for run in several]}
    details: dict[str, dict[str, Estimate]] = {}
    if way in EFFECTS:
        cells |= {
            "kappa = 0": [_over(run, run.found.kappa == 0) for run in several],
            "kappa = 1": [_over(run, run.found.kappa == 1) for run in several],
            "before": [_over(run, of=run.found.base) for run in several],
            "after": [_over(run, of=run.found.post) for run in several],
        }
        kinds = [(run, labels(run, lambda pair: pair.kind)) for run in several]
        for kind in KINDS:
            cells[kind] = [_over(run, of == kind) for run, of in kinds if kind in of]
        details = _details(asked.parts)
    if way.startswith("substitution") and (differences := _robustness(asked)):
        cells["minus plain"] = [*differences.values()]
        details["minus plain"] = differences
    if way.startswith("retrieval"):
        details = _retrieved(asked.parts)
    cells["yes-bias"] = [number(_yes_bias(run)) for run in several]
    if WAYS[way].generated:
        unread = [np.isnan(run.said.odds[run.said.asked]) for run in several]
        cells["not read"] = [number(float(of.mean())) for of in unread]
    yield from _rows(asked.whose, {part: average(means) for part, means in cells.items()})
    for about, of_part in details.items():
        yield from _rows({**asked.whose, "asked": about}, of_part)


def _yes_bias(run: Answered) -> float:
    right = [1 if prompt.right else -1 for prompt in run.truth.prompts]
    yes = np.sign(np.nan_to_num(run.said.odds)) - np.array(right)
    return float(np.mean(yes[run.said.asked]) / 2)


def _details(parts: Mapping[str, Answered]) -> dict[str, dict[str, Estimate]]:
    """Cut graphs of the paper by graph and intervened variable, larger ones by size and path."""
    cells: dict[str, dict[str, Estimate]] = {}
    paths: dict[tuple[int, int], list[tuple[bool, int]]] = {}
    graphs = itertools.count()
    for key, run in parts.items():
        if key in SMALL:
            where = labels(run, _on)
            for about in dict.fromkeys(where.tolist()):
                cells.setdefault(about, {})[key] = _over(run, where == about)
            continue
        kinds = labels(run, lambda pair: pair.kind)
        of_kind = {kind: _over(run, kinds == kind) for kind in KINDS if kind in kinds}
        cells[f"{key} variables"] = {"accuracy": _over(run), **of_kind}
        scenes: dict[int, int] = defaultdict(lambda: next(graphs))
        for place, scene, right in zip(
            run.found.numbers, run.found.scene, run.found.right, strict=True
        ):
            effect, graph = run.truth.pairs[place].effect, run.truth.pairs[place].scene.graph
            if effect.before:
                length = min(graph.distance(effect.cause, effect.result), LONGEST)
                paths.setdefault((length, effect.kappa), []).append((right, scenes[scene]))
    for length, kappa in sorted(paths):
        about = f"path of {length}{'+' if length == LONGEST else ''}"
        mean = pooled(*zip(*paths[length, kappa], strict=True))
        cells.setdefault(about, {})[BECOMES[kappa]] = mean
    return cells


def _retrieved(parts: Mapping[str, Answered]) -> dict[str, dict[str, Estimate]]:
    """Cut stated relations by right answer and by graph; and over random names alone."""
    where = []
    for run in parts.values():
        prompts = [run.truth.prompts[place] for place in run.found.numbers]
        said = ["answer yes" if prompt.right else "answer no" for prompt in prompts]
        where.append((run, np.array([said, [prompt.scene.shape for prompt in prompts]], str)))
    listed = dict.fromkeys(part for _, of in where for part in of.ravel().tolist())
    means = {
        part: average([_over(run, (of == part).any(axis=0)) for run, of in where])
        for part in listed
    }
    # The shortcut test needs it.
    means |= {"random names": _over(parts["random"])} if "random" in parts else {}
    return {part: {"accuracy": mean} for part, mean in means.items()}


def _robustness(asked: Asked) -> dict[str, Estimate]:
    """Subtract the plain question's accuracy, by names."""
    differences = {}
    for names, run in asked.parts.items():
        if plain := asked.beside(names, "intervention"):
            pair = zip((run, plain), shared(run.found, plain.found), strict=True)
            mine, theirs = (contrasts.mean(of.truth, both, both.right) for of, both in pair)
            differences[names] = paired(mine, theirs)
    return differences


def shortcut(results: Results) -> Finding:
    """Whether models that retrieve what a graph states also reason about interventions."""
    rows: list[dict[str, Any]] = []
    left_out = []
    for asked in _asked(results):
        whose, run = asked.whose, asked.parts.get("random")
        if run is None:
            continue
        facts = asked.beside("random", "retrieval")
        share = float(facts.found.right.mean()) if facts else math.nan
        if not share >= FOUND:
            ask = "the relations: run the same way of epidemia_intervention_retrieval"
            why = (
                f"it was not asked {ask}" if facts is None else f"it retrieves {share:.3f} of them"
            )
            left_out.append(f"{results.runs['name'][whose['run']]} in {whose['group']}: {why}")
            continue
        where, kappa = labels(run, _on), run.found.kappa
        # do(A) changes nothing in any of the graphs.
        abouts = [about for about in dict.fromkeys(where.tolist()) if not about.endswith("do(A)")]
        for about in (*abouts, ""):
            chosen = np.isin(where, [about] if about else abouts)
            same, changed = (_over(run, chosen & (kappa == k)) for k in (0, 1))
            cells = {"kappa = 0": same, "kappa = 1": changed, "difference": paired(changed, same)}
            rows += _rows({**whose, "asked": about}, cells)
    for whose, _, of in _printed(results, "3"):
        for about, cells in _abouts(of, "effects").items():
            cells |= _subtracted(cells, {"difference": ("kappa = 1", "kappa = 0")})
            rows += _rows({**whose, "asked": about}, cells)
    finding = in_parts(
        results,
        "shortcut",
        "Shortcut test, random names: accuracy (± standard error)",
        rows,
        f"Only models that retrieve at least {FOUND:.2f} of the relations on random names; do(A) "
        "changes nothing and is left out. Difference: kappa = 1 minus kappa = 0, paired over the "
        "same samples. A difference well below 0 means that the model retrieves what was stated "
        "instead of reasoning about it.",
        printed=PRINTED,
        subject="effects",
        details="asked",
        otherwise=RUN if not left_out else "",
    )
    return Finding(**{**vars(finding), "left_out": [*finding.left_out, *left_out]})


def _abouts(rows: pd.DataFrame, part: str) -> dict[str, dict[str, Estimate]]:
    """Return printed numbers by graph and intervened variable, then by part."""
    cells: dict[str, dict[str, Estimate]] = {}
    for graph, x, name, value, error in _cells_of(rows, "graph", "intervened", part):
        about = cells.setdefault(f"{graph}, do({x})", {})
        about[name.replace("=", " = ")] = number(value, error)
    return cells


def _subtracted(
    cells: Mapping[str, Estimate], sides: Mapping[str, tuple[str, str]]
) -> dict[str, Estimate]:
    """Return differences of printed numbers, whose errors are not known."""
    return {
        title: number(cells[first].value - cells[second].value)
        for title, (first, second) in sides.items()
        if {first, second} <= cells.keys()
    }


def memorisation(results: Results) -> Finding:
    """Accuracy where names agree with nature, contradict it, or mean nothing."""
    rows: list[dict[str, Any]] = []
    for asked in _asked(results):
        if asked.parts.keys().isdisjoint(TURNED):
            continue
        has_facts = any(asked.beside(names, "knowledge") for names in SMALL)
        for pairs in ("", "known pairs") if has_facts else ("",):
            for graph, intervened, queries in CONTRASTS:
                cells = _sides(asked, graph, intervened, queries, only_known=pairs != "")
                for title, (first, second) in SUBTRACTED.items():
                    if {first, second} <= cells.keys():
                        alike = graph == "bivariate" and (first, second) == TURNED
                        minus = paired if alike else apart
                        cells[title] = minus(cells[first], cells[second])
                about = f"{graph}, do({intervened}), {' and '.join(queries)}"
                about += f"; {pairs}" if pairs else ""
                rows += _rows({**asked.whose, "asked": about, "pairs": pairs}, cells)
    for whose, _, of in _printed(results, "8"):
        for about, cells in _abouts(of, "names").items():
            asks = "AB and BA" if about.startswith("bivariate") else "AC"
            of_about = {**whose, "asked": f"{about}, {asks}"}
            rows += _rows(of_about, cells | _subtracted(cells, SUBTRACTED))
    return in_parts(
        results,
        "memorisation",
        "Memorisation: accuracy where names meet nature (± standard error, samples)",
        rows,
        "Accuracy with names that match nature (tuebingen), contradict it (anticommonsense) or "
        "mean nothing (random); t - a, t - r and a - r are the differences. Bivariate tuebingen "
        "and anticommonsense use the same pairs in opposite directions, so their error is paired "
        "over samples; everywhere else samples differ, and errors are added in quadrature. In the "
        "bivariate graph only AB contradicts nature; published numbers are for AB and BA. Known "
        "pairs: the same over the samples whose pairs the model knows, as it answered every "
        "question of the knowledge task rightly, in both directions; random names have no such "
        "questions, so all their samples count.",
        printed=PRINTED,
        subject="effect",
        written=Column("", 3, error="error", count="samples"),
        details="pairs",
        otherwise=RUN,
    )


def _sides(
    asked: Asked, graph: str, intervened: str, queries: Sequence[str], only_known: bool
) -> dict[str, Estimate]:
    """Return the accuracy on one of `CONTRASTS` by names, over all samples or the known ones."""
    scenes: dict[str, NDArray[np.int64]] = {}
    for names, run in asked.parts.items():
        scenes[names] = np.arange(len(run.truth.scenes))
        if only_known and names != "random":
            facts = asked.beside(names, "knowledge")
            scenes[names] = known_scenes(facts.found) if facts else scenes[names][:0]
    if graph == "bivariate" and scenes.keys() >= {*TURNED}:
        # The same pairs turned round, under the same numbers: those that both have are paired.
        first, second = (
            np.intersect1d(scenes[names], asked.parts[names].found.scene) for names in TURNED
        )
        scenes |= dict.fromkeys(TURNED, np.intersect1d(first, second))
    listed = [f"{graph}, do({intervened}) {query}" for query in queries]
    return {
        names: _over(
            run,
            np.isin(labels(run, lambda p: f"{_on(p)} {p.effect.cause}{p.effect.result}"), listed)
            & np.isin(run.found.scene, scenes[names]),
        )
        for names, run in asked.parts.items()
    }


def notices(results: Results) -> Finding:
    """How an intervention changes the log-odds of yes, even where the answer stays the same."""
    rows: list[dict[str, Any]] = []
    for whose, _, by_names, _ in _asked(results, [w for w in EFFECTS if not WAYS[w].generated]):
        moved = {
            names: noticed(run.truth, run.found, run.said.odds) for names, run in by_names.items()
        }
        together = [average(means) for means in zip(*moved.values(), strict=True)]
        cells = dict(zip(("kappa = 0", "kappa = 1", "difference"), together, strict=True))
        cells |= {f"difference, {names}": of[2] for names, of in moved.items() if names in SMALL}
        rows += _rows(whose, cells)
    return in_parts(
        results,
        "notices",
        "Does it notice? Change of the log-odds of yes, after minus before (interval of 95 %)",
        rows,
        "In nats, where the intervention changes nothing (kappa = 0) and where it turns a yes into "
        "a no (kappa = 1). Difference: the second minus the first. Intervals by Student's t, "
        "clustered by sample. Below 0, the model notices the intervention even if its answer stays "
        "the same. A bias to yes or no cancels out.",
        written=Column("", 3, signed=True, interval=("low", "high")),
        otherwise=RUN,
    )


def examples(results: Results) -> dict[str, Any]:
    """Return every effect with its graph, prompts and answers, and an example of every size."""
    asked = [
        (results.runs["name"][whose["run"]], way, [by_names.get(names) for names in SMALL])
        for whose, way, by_names, _ in _asked(results)
        if whose["group"] == in_way(INTERVENTION.groups[0], way)
    ]
    return {
        "graphs": [
            {
                "graph": name,
                "effects": [_example(name, of, asked) for of in effects(graph, QUERIES[name])],
            }
            for name, graph in GRAPHS.items()
        ],
        "names": list(SMALL),
        "sizes": [_size(int(nodes), task) for nodes, task in LARGE.items()],
        "kinds": KINDS,
    }


@lru_cache(maxsize=len(EFFECTS) * len(TASKS))
def _prompts(task: str, way: str) -> list[str]:
    return [str(row["prompt"]) for row in WAYS[way].rows(WAYS[way].load(task), Variant())]


def _said(answer: bool) -> str:
    return "yes" if answer else "no"


def _example(
    graph: str, effect: Effect, asked: Sequence[tuple[str, str, list[Answered | None]]]
) -> dict[str, Any]:
    def fits(pair: DoPair) -> bool:
        return pair.scene.shape == graph and pair.effect == effect

    prompts = []
    for names, task in SMALL.items():
        first = next(pair for pair in questions(task).pairs if fits(pair))
        plain, substituted = _prompts(task, "intervention"), _prompts(task, "substitution")
        asks = {"before": plain[first.base], "after": plain[first.post]}
        prompts.append({"names": names, **asks, "substituted": substituted[first.post]})
    return {
        "id": f"{graph}-{effect.cause}{effect.result}-do-{effect.intervened}",
        "title": f"do({effect.intervened}): does {effect.cause} cause {effect.result}?",
        "kappa": effect.kappa,
        "before": _said(effect.before),
        "after": _said(effect.after),
        "graph": GRAPHS[graph],
        "intervened": effect.intervened,
        "query": (effect.cause, effect.result),
        "prompts": prompts,
        "rows": [
            {"model": model, "way": way, "cells": [run and _answers(run, fits) for run in runs]}
            for model, way, runs in asked
        ],
    }


def _answers(run: Answered, fits: Callable[[DoPair], bool]) -> dict[str, Any] | None:
    """Return how often effects were answered yes before and after, and rightly."""
    pairs = [run.truth.pairs[place] for place in run.found.numbers]
    here = [place for place, pair in enumerate(pairs) if fits(pair)]
    if not here:
        return None
    yes = {
        "before": run.said.odds[[pairs[place].base for place in here]] > 0,
        "after": run.said.odds[[pairs[place].post for place in here]] > 0,
    }
    return {
        **{when: f"{100 * of.mean():.0f} %" for when, of in yes.items()},
        "before_right": bool(run.found.base[here].mean() > 0.5),
        "after_right": bool(run.found.post[here].mean() > 0.5),
        "accuracy": f"{run.found.right[here].mean():.2f}",
    }


def _size(nodes: int, task: str) -> dict[str, Any]:
    """Describe the graphs of a size with an example: do(X) inside every path, shapes in turn."""
    truth = questions(task)
    scene = truth.scenes[nodes % len(generate.SHAPES)]
    pair = next(p for p in truth.pairs if p.scene is scene and p.kind == generate.INSIDE)
    effect, kinds = pair.effect, [p.kind for p in truth.pairs]
    return {
        "nodes": nodes,
        "graphs": len(truth.scenes),
        "effects": len(truth.pairs),
        "counts": [kinds.count(kind) for kind in KINDS],
        "title": f"{scene.shape}, do({effect.intervened}): does {effect.cause} cause "
        f"{effect.result}? {_said(effect.before)} before, {_said(effect.after)} after",
        "graph": scene.graph,
        "intervened": effect.intervened,
        "query": (effect.cause, effect.result),
        "before": _prompts(task, "intervention")[pair.base],
        "after": _prompts(task, "intervention")[pair.post],
    }
