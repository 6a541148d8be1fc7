"""The site's page of interventions: every effect with its graphs, its prompts and the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from markupsafe import Markup

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.benchmarks.intervention import generate
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS, QUERIES, Effect, effects
from lm_eval_epidemia.benchmarks.intervention.questions import Pair, questions
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.findings.interventions import (
    EFFECTS,
    KINDS,
    LARGE,
    SMALL,
    Known,
    findings,
    known,
    labels,
)
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.section import number
from lm_eval_epidemia.report.drawn import drawing
from lm_eval_epidemia.report.output import printed_of
from lm_eval_epidemia.results.entry import Entry


def page(report: Report) -> dict[str, Any]:
    """Return what the page shows."""
    known_by = {
        (entry.name, names, way): one
        for entry in report.runs
        for names, task in SMALL.items()
        for way in EFFECTS
        if (one := known(entry, task, way)) is not None
    }
    shown = [
        {
            "graph": name,
            "effects": [
                _effect(name, one, report.runs, known_by) for one in effects(graph, QUERIES[name])
            ],
        }
        for name, graph in GRAPHS.items()
    ]
    return {
        "graphs": shown,
        "names": list(SMALL),
        "sizes": [_size(n) for n in LARGE if n],
        "kinds": KINDS,
        "large": _large(report.runs),
        "sections": [
            {**one._asdict(), "rows": [{"kind": "", "cells": row} for row in one.rows]}
            for one in printed_of(findings(report.runs), long=True)
        ],
    }


@lru_cache(maxsize=len(EFFECTS) * len(SMALL))
def _prompts(task: str, way: str) -> list[str]:
    return [str(row["prompt"]) for row in WAYS[way].rows(WAYS[way].load(task), Variant())]


def _said(answer: bool) -> str:
    return "yes" if answer else "no"


def _pair(task: str, graph: str, effect: Effect) -> Pair:
    """Return the first sample of an effect."""
    return next(
        one for one in questions(task).pairs if one.scene.shape == graph and one.effect == effect
    )


def _effect(
    graph: str, one: Effect, runs: Sequence[Entry], known_by: dict[tuple[str, str, str], Known]
) -> dict[str, Any]:
    prompts = []
    for names, task in SMALL.items():
        pair = _pair(task, graph, one)
        prompts.append(
            {
                "names": names,
                "before": _prompts(task, "intervention")[pair.base],
                "after": _prompts(task, "intervention")[pair.post],
                "substituted": _prompts(task, "substitution")[pair.post],
            }
        )
    rows = []
    for entry in runs:
        for way in EFFECTS:
            asked = {names: known_by.get((entry.name, names, way)) for names in SMALL}
            if any(asked.values()):
                cells = [_answers(known_one, graph, one) for known_one in asked.values()]
                rows.append({"model": entry.name, "way": way, "cells": cells})
    query = one.cause, one.result
    return {
        "id": f"{graph}-{one.cause}{one.result}-do-{one.intervened}",
        "title": f"do({one.intervened}): does {one.cause} cause {one.result}?",
        "kappa": one.kappa,
        "before": _said(one.before),
        "after": _said(one.after),
        "drawn": Markup(drawing(GRAPHS[graph], None, query)),
        "drawn_after": Markup(drawing(GRAPHS[graph], one.intervened, query)),
        "prompts": prompts,
        "rows": rows,
    }


def _answers(one: Known | None, graph: str, effect: Effect) -> dict[str, str | bool] | None:
    """Say how often an effect's questions were answered yes before and after, and rightly."""
    if one is None:
        return None
    where = np.array(
        [
            one.truth.pairs[n].scene.shape == graph and one.truth.pairs[n].effect == effect
            for n in one.found.numbers
        ]
    )
    if not where.any():
        return None
    pairs = [one.truth.pairs[n] for n in one.found.numbers[where]]
    before = float(np.mean([one.odds[pair.base] > 0 for pair in pairs]))
    after = float(np.mean([one.odds[pair.post] > 0 for pair in pairs]))
    base, post = one.found.base[where].mean(), one.found.post[where].mean()
    return {
        "before": f"{100 * before:.0f} %",
        "before_right": bool(base > 0.5),
        "after": f"{100 * after:.0f} %",
        "after_right": bool(post > 0.5),
        "accuracy": f"{one.found.right[where].mean():.2f}",
    }


def _size(nodes: int) -> dict[str, Any]:
    """Describe the graphs of a size by an example: do(X) inside every path, shapes in turn."""
    task = LARGE[nodes]
    truth = questions(task)
    scene = truth.scenes[nodes % len(generate.SHAPES)]
    pair = next(one for one in truth.pairs if one.scene is scene and one.kind == generate.INSIDE)
    query = pair.effect.cause, pair.effect.result
    kinds = [one.kind for one in truth.pairs]
    return {
        "nodes": nodes,
        "graphs": len(truth.scenes),
        "effects": len(truth.pairs),
        "counts": [kinds.count(kind) for kind in KINDS],
        "title": f"{pair.scene.shape}, do({pair.effect.intervened}): does {query[0]} cause "
        f"{query[1]}? {_said(pair.effect.before)} before, {_said(pair.effect.after)} after",
        "drawn": Markup(drawing(pair.scene.graph, None, query)),
        "drawn_after": Markup(drawing(pair.scene.graph, pair.effect.intervened, query)),
        "before": _prompts(task, "intervention")[pair.base],
        "after": _prompts(task, "intervention")[pair.post],
    }


def _large(runs: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return the accuracy of every model by size and kind of query."""
    rows = []
    for entry in runs:
        for way in EFFECTS:
            for nodes, task in LARGE.items():
                if (one := known(entry, task, way)) is None:
                    continue
                where = labels(one, lambda pair: pair.kind)
                shares = [
                    float(one.found.right[where == kind].mean()) if kind in where else math.nan
                    for kind in KINDS
                ]
                rows.append(
                    {
                        "kind": "",
                        "cells": [
                            entry.name,
                            in_way("large", way),
                            str(nodes),
                            *(number(share, 2) for share in shares),
                            number(float(one.found.right.mean()), 2),
                        ],
                    }
                )
    return rows
