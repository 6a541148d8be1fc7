"""What models know of interventions on causal graphs, from their recorded answers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.benchmarks import in_way
from lm_eval_epidemia.benchmarks.intervention import INTERVENTION, metrics
from lm_eval_epidemia.benchmarks.intervention import graph as causal
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS, QUERIES, Effect, effects
from lm_eval_epidemia.benchmarks.intervention.metrics import GradedTask
from lm_eval_epidemia.benchmarks.intervention.questions import TASKS, DoPair, make_questions
from lm_eval_epidemia.benchmarks.intervention.ways import WAYS
from lm_eval_epidemia.findings.finding import Finding, in_parts, part_rows, to_estimate
from lm_eval_epidemia.results.published import load_printed, way_in_study
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.score import estimates
from lm_eval_epidemia.score.estimates import Estimate

#: The tasks about the graphs of the paper by where names come from, the others by their size.
SMALL = {task.names: name for name, task in TASKS.items() if task.nodes is None}
LARGE = {str(task.nodes): name for name, task in TASKS.items() if task.nodes is not None}

#: Ways that ask before and after an intervention.
EFFECTS = tuple(name for name, way in WAYS.items() if way.intervenes)

#: Who finds fewer of the relations that a graph states is no case for the shortcut test.
FOUND = 0.95

#: Where X of do(X) is, in the tasks about larger graphs.
KINDS = (causal.TARGET, causal.INSIDE, causal.YES, causal.BYPASSED, causal.NO)

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

#: Numbers by what they are about, then by part.
Cells = dict[str, dict[str, Estimate]]


class GroupAnswers(NamedTuple):
    """A model's answers in a group and way.

    Attributes
    ----------
    whose : dict
        Run and group, of a row.
    way : str
    parts : dict of str to GradedTask
        By names or, for larger graphs, by size.
    known : dict of (str, str) to GradedTask
        Everything that the model was asked, by names (or size) and way.
    """

    whose: dict[str, Any]
    way: str
    parts: dict[str, GradedTask]
    known: dict[tuple[str, str], GradedTask]

    def beside(self, names: str, way: str) -> GradedTask | None:
        """Return another way of asking, in its written form if this one is written."""
        return self.known.get((names, way + ("_written" if WAYS[self.way].generated else "")))


def _read_asked(results: Results, ways: Iterable[str] = EFFECTS) -> Iterator[GroupAnswers]:
    of_task = {task: key for key, task in {**SMALL, **LARGE}.items()}
    for run, of in results.scores.groupby("run", sort=False):
        known = {}
        for task, way, said in of[["task", "way", "said"]].itertuples(index=False):
            if isinstance(said, GradedTask):
                known[of_task[task], way] = said
        for way in ways:
            for group, tasks in zip(INTERVENTION.groups, (SMALL, LARGE), strict=True):
                parts = {key: known[key, way] for key in tasks if (key, way) in known}
                if parts:
                    whose = {"run": run, "group": in_way(group, way)}
                    yield GroupAnswers(whose, way, parts, known)


def _printed(
    results: Results, part: str, tables: Iterable[str], sides: Mapping[str, tuple[str, str]]
) -> Iterator[tuple[dict[str, Any], float, Cells]]:
    """Yield whose a row of a published model is, its score, and its numbers with differences."""
    table = load_printed()[load_printed()["table"].isin(tables)]
    names_of = {task: names for names, task in SMALL.items()}
    scores = results.scores[results.scores["run"].map(results.runs["kind"]) == "published"]
    keys: Any = ["run", "way", "group"]
    for (run, way, group), of in scores.groupby(keys, sort=False):
        is_here = table["model"] == results.runs["model"][run]
        is_here &= table["way"] == way_in_study(way)
        is_here &= table["names"].isin(of["task"].map(names_of))
        abouts: Cells = {}
        listed = table.loc[is_here, ["graph", "intervened", part, "accuracy", "error"]]
        for graph, x, name, value, error in listed.itertuples(index=False):
            about, title = (f"{graph}, do({x})", name) if x else (graph, "accuracy")
            abouts.setdefault(about, {})[title.replace("=", " = ")] = to_estimate(value, error)
        for cells in abouts.values():
            for title, (first, second) in sides.items():
                if {first, second} <= cells.keys():
                    # The errors of printed differences are not known.
                    cells[title] = to_estimate(cells[first].value - cells[second].value)
        if abouts:
            yield {"run": run, "group": group}, math.fsum(of["value"]) / len(of), abouts


def _on(pair: DoPair) -> str:
    return f"{pair.scene.shape}, do({pair.effect.intervened})"


def _effect(pair: DoPair) -> str:
    return f"{_on(pair)} {pair.effect.cause}{pair.effect.result}"


def interventions(results: Results) -> Finding:
    """Accuracy on causal graphs: overall, and by graph, variable, names, size and path length."""
    rows = [row for asked in _read_asked(results, INTERVENTION.ways) for row in _accuracy(asked)]
    for whose, score, abouts in _printed(results, "names", ("7", "9", "10"), {}):
        rows += part_rows(whose, {"": {"accuracy": to_estimate(score)}, **abouts})
    return in_parts("interventions", rows, results.runs)


def _accuracy(asked: GroupAnswers) -> list[dict[str, Any]]:
    """Return the accuracy in a group, then its parts."""
    details = _details(asked)
    cells: dict[str, list[Estimate]] = defaultdict(list)
    for names, run in asked.parts.items():
        of_run = {"accuracy": run.over()}
        if asked.way in EFFECTS:
            of_run |= {f"kappa = {kappa}": run.over(run.grades.kappa == kappa) for kappa in (0, 1)}
            of_run |= {"before": run.over(right="base"), "after": run.over(right="post")}
            of_run |= run.cut(attrgetter("kind"), KINDS)
        if names in details["minus plain"]:
            of_run["minus plain"] = details["minus plain"][names]
        said = run.odds[run.asked]
        right = np.array([prompt.right for prompt in run.truth.prompts])[run.asked]
        yes_bias = np.sign(np.nan_to_num(said)) / 2 - right + 0.5
        of_run["yes-bias"] = to_estimate(float(np.mean(yes_bias)))
        if WAYS[asked.way].generated:
            of_run["not read"] = to_estimate(float(np.isnan(said).mean()))
        for part, mean in of_run.items():
            cells[part] += [] if math.isnan(mean.value) else [mean]
    return part_rows(
        asked.whose, {"": {part: estimates.average(of) for part, of in cells.items()}, **details}
    )


def _details(asked: GroupAnswers) -> Cells:
    """Cut graphs of the paper by graph and variable, larger ones by size and path; relations."""
    cells: Cells = defaultdict(dict)
    if asked.way.startswith("retrieval"):
        cuts = [
            run.cut(lambda of: f"answer {_to_words(of.right)}") | run.cut(lambda of: of.scene.shape)
            for run in asked.parts.values()
        ]
        for part in dict.fromkeys(part for cut in cuts for part in cut):
            cells[part]["accuracy"] = estimates.average([cut[part] for cut in cuts if part in cut])
        if "random" in asked.parts:  # The shortcut test needs it.
            cells["random names"]["accuracy"] = asked.parts["random"].over()
    paths = []
    for key, run in asked.parts.items() if asked.way in EFFECTS else ():
        if key in SMALL:
            for about, mean in run.cut(_on).items():
                cells[about][key] = mean
            continue
        cells[f"{key} variables"] = {"accuracy": run.over(), **run.cut(attrgetter("kind"), KINDS)}
        found = run.grades
        for place, scene, right in zip(found.numbers, found.scene, found.right, strict=True):
            effect, graph = run.truth.pairs[place].effect, run.truth.pairs[place].scene.graph
            if effect.before:
                length = min(graph.distance(effect.cause, effect.result), LONGEST)
                paths.append((length, effect.kappa, right, int(key), scene))
    columns = ["length", "kappa", "right", "nodes", "scene"]
    table = pd.DataFrame(paths, columns=columns).groupby(["length", "kappa"])
    for (length, kappa), of in table:
        about = f"path of {length}{'+' if length == LONGEST else ''}"
        graphs = of.groupby(["nodes", "scene"]).ngroup()
        cells[about][BECOMES[kappa]] = estimates.pool_clusters(of["right"], graphs)
    for names, run in asked.parts.items() if asked.way.startswith("substitution") else ():
        if plain := asked.beside(names, "intervention"):
            sides = zip((run, plain), metrics.match_effects(run.grades, plain.grades), strict=True)
            means = (metrics.average_effects(of.truth, both, both.right) for of, both in sides)
            cells["minus plain"][names] = estimates.subtract_paired(*means)
    return cells


def shortcut(results: Results) -> Finding:
    """Whether models that retrieve what a graph states also reason about interventions."""
    rows: list[dict[str, Any]] = []
    left_out = []
    for asked in _read_asked(results):
        if (run := asked.parts.get("random")) is None:
            continue
        facts = asked.beside("random", "retrieval")
        share = float(facts.grades.right.mean()) if facts else math.nan
        if not share >= FOUND:
            ask = "it was not asked them: run the same way of epidemia_intervention_retrieval"
            why = f"it retrieves {share:.3f} of them" if facts else ask
            name = results.runs["name"][asked.whose["run"]]
            left_out.append(f"{name} in {asked.whose['group']}: {why}")
            continue
        where, kappa = run.labels(_on), run.grades.kappa
        # do(A) changes nothing in any of the graphs.
        every = [about for about in dict.fromkeys(where.tolist()) if not about.endswith("do(A)")]
        cells: Cells = {}
        chosen = {about: where == about for about in every} | {"": np.isin(where, every)}
        for about, here in chosen.items():
            same, changed = (run.over(here & (kappa == k)) for k in (0, 1))
            minus = estimates.subtract_paired(changed, same)
            cells[about] = {"kappa = 0": same, "kappa = 1": changed, "difference": minus}
        rows += part_rows(asked.whose, cells)
    sides = {"difference": ("kappa = 1", "kappa = 0")}
    for whose, _, abouts in _printed(results, "effects", ("3",), sides):
        rows += part_rows(whose, abouts)
    return in_parts("shortcut", rows, results.runs, left_out)


def memorisation(results: Results) -> Finding:
    """Accuracy where names agree with nature, contradict it, or mean nothing."""
    rows: list[dict[str, Any]] = []
    for asked in _read_asked(results):
        if asked.parts.keys().isdisjoint(TURNED):
            continue
        has_facts = any(asked.beside(names, "knowledge") for names in SMALL)
        for pairs in ("", "known pairs") if has_facts else ("",):
            for graph, intervened, queries in CONTRASTS:
                on = f"{graph}, do({intervened})"
                cells = _by_names(asked, [f"{on} {query}" for query in queries], bool(pairs))
                about = f"{on}, {' and '.join(queries)}" + (f"; {pairs}" if pairs else "")
                rows += part_rows({**asked.whose, "pairs": pairs}, {about: cells})
    for whose, _, abouts in _printed(results, "names", ("8",), SUBTRACTED):
        asks = {about: "AB and BA" if about.startswith("bivariate") else "AC" for about in abouts}
        rows += part_rows(whose, {f"{about}, {asks[about]}": of for about, of in abouts.items()})
    return in_parts("memorisation", rows, results.runs)


def _by_names(asked: GroupAnswers, effects_of: list[str], only_known: bool) -> dict[str, Estimate]:
    """Return the accuracy on some effects by names, over all samples or known ones; differences."""
    scenes: dict[str, NDArray[np.int64]] = {}
    for names, run in asked.parts.items():
        scenes[names] = np.arange(len(run.truth.scenes))
        if only_known and names != "random":
            facts = asked.beside(names, "knowledge")
            scenes[names] = metrics.known_scenes(facts.grades) if facts else scenes[names][:0]
    is_turned = effects_of[0].startswith("bivariate")
    if is_turned and scenes.keys() >= {*TURNED}:
        # The same pairs turned round, under the same numbers: those that both have are paired.
        here = [np.intersect1d(scenes[name], asked.parts[name].grades.scene) for name in TURNED]
        scenes |= dict.fromkeys(TURNED, np.intersect1d(here[0], here[1]))
    cells = {}
    for names, run in asked.parts.items():
        is_known = np.isin(run.grades.scene, scenes[names])
        cells[names] = run.over(np.isin(run.labels(_effect), effects_of) & is_known)
    for title, (first, second) in SUBTRACTED.items():
        if {first, second} <= cells.keys():
            is_paired = is_turned and (first, second) == TURNED
            minus = estimates.subtract_paired if is_paired else estimates.subtract_unpaired
            cells[title] = minus(cells[first], cells[second])
    return cells


def notices(results: Results) -> Finding:
    """How an intervention changes the log-odds of yes, even where the answer stays the same."""
    rows: list[dict[str, Any]] = []
    for asked in _read_asked(results, [way for way in EFFECTS if not WAYS[way].generated]):
        runs = asked.parts.items()
        moved = {
            names: metrics.measure_change(run.truth, run.grades, run.odds) for names, run in runs
        }
        together = [estimates.average(means) for means in zip(*moved.values(), strict=True)]
        cells = dict(zip(("kappa = 0", "kappa = 1", "difference"), together, strict=True))
        cells |= {f"difference, {names}": of[2] for names, of in moved.items() if names in SMALL}
        rows += part_rows(asked.whose, {"": cells})
    return in_parts("notices", rows, results.runs)


def examples(results: Results) -> dict[str, Any]:
    """Return every effect with its graph, prompts and answers, and an example of every size."""
    asked = [
        (results.runs["name"][of.whose["run"]], of.way, [of.parts.get(names) for names in SMALL])
        for of in _read_asked(results)
        if of.whose["group"] == in_way(INTERVENTION.groups[0], of.way)
    ]
    graphs = [
        {
            "graph": name,
            "effects": [_example(name, of, asked) for of in effects(graph, QUERIES[name])],
        }
        for name, graph in GRAPHS.items()
    ]
    sizes = [_size(int(nodes), task) for nodes, task in LARGE.items()]
    return {"graphs": graphs, "names": list(SMALL), "sizes": sizes, "kinds": KINDS}


@lru_cache(maxsize=len(EFFECTS) * len(TASKS))
def _prompts(task: str, way: str) -> list[str]:
    return [str(row["prompt"]) for row in WAYS[way].rows(WAYS[way].load(task), Variant())]


def _asks(task: str, pair: DoPair) -> dict[str, str]:
    prompts = _prompts(task, "intervention")
    return {"before": prompts[pair.base], "after": prompts[pair.post]}


def _to_words(answer: bool) -> str:
    return "yes" if answer else "no"


def _described(effect: Effect) -> dict[str, Any]:
    query = effect.cause, effect.result
    title = f"do({effect.intervened}): does {' cause '.join(query)}?"
    return {"title": title, "intervened": effect.intervened, "query": query}


def _example(
    graph: str, effect: Effect, asked: Sequence[tuple[str, str, list[GradedTask | None]]]
) -> dict[str, Any]:
    name = f"{graph}, do({effect.intervened}) {effect.cause}{effect.result}"
    prompts = []
    for names, task in SMALL.items():
        first = next(pair for pair in make_questions(task).pairs if _effect(pair) == name)
        substituted = _prompts(task, "substitution")[first.post]
        prompts.append({"names": names, **_asks(task, first), "substituted": substituted})
    rows = [
        {"model": model, "way": way, "cells": [run and _count_answers(run, name) for run in runs]}
        for model, way, runs in asked
    ]
    return {
        **{"id": f"{graph}-{effect.cause}{effect.result}-do-{effect.intervened}", "rows": rows},
        **{"kappa": effect.kappa, "graph": GRAPHS[graph], "prompts": prompts},
        **{
            "before": _to_words(effect.before),
            "after": _to_words(effect.after),
            **_described(effect),
        },
    }


def _count_answers(run: GradedTask, effect: str) -> dict[str, Any] | None:
    """Return how often an effect was answered yes before and after, and rightly."""
    here = metrics.pick_effects(run.grades, run.labels(_effect) == effect)
    if not len(here.numbers):
        return None
    pairs = [run.truth.pairs[number] for number in here.numbers]
    before = (run.odds[[pair.base for pair in pairs]] > 0).mean()
    after = (run.odds[[pair.post for pair in pairs]] > 0).mean()
    return {
        **{"before": f"{100 * before:.0f} %", "before_right": bool(here.base.mean() > 0.5)},
        **{"after": f"{100 * after:.0f} %", "after_right": bool(here.post.mean() > 0.5)},
        "accuracy": f"{here.right.mean():.2f}",
    }


def _size(nodes: int, task: str) -> dict[str, Any]:
    """Describe the graphs of a size with an example: do(X) inside every path, shapes in turn."""
    truth = make_questions(task)
    scene = truth.scenes[nodes % len(causal.SHAPES)]
    pair = next(p for p in truth.pairs if p.scene is scene and p.kind == causal.INSIDE)
    kinds, about = [p.kind for p in truth.pairs], _described(pair.effect)
    said = f"{_to_words(pair.effect.before)} before, {_to_words(pair.effect.after)} after"
    about |= {"title": f"{scene.shape}, {about['title']} {said}", "graph": scene.graph}
    counts = [kinds.count(kind) for kind in KINDS]
    numbers = {"graphs": len(truth.scenes), "effects": len(truth.pairs), "counts": counts}
    return {"nodes": nodes, **about, **_asks(task, pair), **numbers}
