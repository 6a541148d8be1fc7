"""Every effect of an intervention, with its graph, prompts and answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.benchmarks.intervention import generate
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS, QUERIES, Effect, effects
from lm_eval_epidemia.benchmarks.intervention.questions import questions
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.old.findings.rows import Column, Finding, Row
from lm_eval_epidemia.old.findings.interventions import (
    EFFECTS,
    KINDS,
    LARGE,
    SMALL,
    AnsweredTask,
    known,
    labels,
)
from lm_eval_epidemia.results.entry import Entry


def shown(runs: Sequence[Entry]) -> dict[str, Any]:
    """Return the contents of the site's page of interventions, without the tables."""
    answered = [
        (entry.name, way, asked)
        for entry in runs
        for way in EFFECTS
        if any(asked := [known(entry, task, way) for task in SMALL.values()])
    ]
    return {
        "graphs": [
            {
                "graph": name,
                "effects": [_effect(name, e, answered) for e in effects(graph, QUERIES[name])],
            }
            for name, graph in GRAPHS.items()
        ],
        "names": list(SMALL),
        "sizes": [_size(nodes, task) for nodes, task in LARGE.items() if nodes],
        "kinds": KINDS,
    }


@lru_cache(maxsize=len(EFFECTS) * len(SMALL))
def _prompts(task: str, way: str) -> list[str]:
    return [str(row["prompt"]) for row in WAYS[way].rows(WAYS[way].load(task), Variant())]


def _said(answer: bool) -> str:
    return "yes" if answer else "no"


def _effect(
    graph: str, effect: Effect, answered: Sequence[tuple[str, str, list[AnsweredTask | None]]]
) -> dict[str, Any]:
    prompts = []
    for names, task in SMALL.items():
        first = next(
            pair
            for pair in questions(task).pairs
            if pair.scene.shape == graph and pair.effect == effect
        )
        plain, substituted = _prompts(task, "intervention"), _prompts(task, "substitution")
        prompts.append(
            {
                "names": names,
                "before": plain[first.base],
                "after": plain[first.post],
                "substituted": substituted[first.post],
            }
        )
    rows = [
        {"model": model, "way": way, "cells": [_answers(run, graph, effect) for run in asked]}
        for model, way, asked in answered
    ]
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
        "rows": rows,
    }


def _answers(run: AnsweredTask | None, graph: str, effect: Effect) -> dict[str, str | bool] | None:
    """Return how often an effect was answered yes before and after, and rightly."""
    pairs = [run.truth.pairs[number] for number in run.found.numbers] if run else []
    here = [
        place
        for place, pair in enumerate(pairs)
        if pair.scene.shape == graph and pair.effect == effect
    ]
    if run is None or not here:
        return None
    before = (run.odds[[pairs[place].base for place in here]] > 0).mean()
    after = (run.odds[[pairs[place].post for place in here]] > 0).mean()
    return {
        "before": f"{100 * before:.0f} %",
        "before_right": bool(run.found.base[here].mean() > 0.5),
        "after": f"{100 * after:.0f} %",
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


def by_size(runs: Sequence[Entry]) -> Finding:
    """Return the accuracy of every model by size and kind of query."""
    shares = [Column(name, digits=2, form="plain") for name in (*KINDS, "all")]
    return Finding(
        "size",
        "Accuracy by size and kind of query",
        [Column("model"), Column("asked"), Column("variables"), *shares],
        list(_by_size(runs)),
        leading=3,
    )


def _by_size(runs: Sequence[Entry]) -> Iterator[Row]:
    for entry in runs:
        for way in EFFECTS:
            for nodes, task in LARGE.items():
                if (run := known(entry, task, way)) is None:
                    continue
                kinds, right = labels(run, lambda pair: pair.kind), run.found.right
                shares = {
                    kind: float(right[kinds == kind].mean()) if kind in kinds else math.nan
                    for kind in KINDS
                }
                asked = {"asked": in_way("large", way), "variables": str(nodes)}
                yield Row({**asked, **shares, "all": float(right.mean())}, entry)
