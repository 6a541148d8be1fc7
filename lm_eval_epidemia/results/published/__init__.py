"""Published scores of other people's runs, as rows of `Results`: other wording, other vintages.

``scores.csv`` has a row per published task (group and number) and a column per model and way of
asking; a blank is a score published as NaN. ``interventions.csv`` has a row per number that the
study on causal graphs prints: table, way of asking, model, source of names, graph, intervened
variable, effects in the mean, accuracy and standard error; a blank is what a table does not
separate or print. ``priors.csv`` has the released results of the study on priors for sets that do
not ship (alanarenda/openestimate, MIT License); its answers to the set that ships are scored here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.variants import BASE
from lm_eval_epidemia.benchmarks import in_way, list_leaves
from lm_eval_epidemia.benchmarks.intervention import INTERVENTION
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS, QUERIES
from lm_eval_epidemia.benchmarks.intervention.questions import TASKS
from lm_eval_epidemia.benchmarks.prior import PRIOR
from lm_eval_epidemia.benchmarks.prior.judged import make_priors
from lm_eval_epidemia.benchmarks.prior.metrics import judge_stated, win_draws, win_rate
from lm_eval_epidemia.benchmarks.prior.quantities import answers, store
from lm_eval_epidemia.results.naming import KNOWN, Weights
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.surveys.catalogue import all_tasks

#: Sets of the study on priors, and the tasks that ask them: two are the user's own, imported.
SETS = {name: f"{store.PREFIX}{name}" for name in ("nhanes", "glassdoor", "pitchbook")}

#: The experiment whose runs stand beside others where they were asked directly.
COMPARED = "model_family_comparison"


def add_published(results: Results) -> Results:
    """Add the published models, with their scores in the tasks that were asked.

    Scores have no errors, except those of priors, whose answers were published.
    """
    asked = {*results.scores[["task", "way"]].itertuples(index=False, name=None)}
    unknown = dict.fromkeys(("draws", "population", "said"))
    rows = [
        {"model": model, "task": task, "way": way, "value": value, **unknown, **more}
        for task, way, model, value, more in (*find_observed(), *_intervened(), *_find_stated())
        if (task, way) in asked
    ]
    if not rows:
        return results
    leaves = [list_leaves()[in_way(row["task"], row["way"])] for row in rows]
    models = sorted({row["model"] for row in rows})
    first = max([*results.runs.index, -1]) + 1
    runs = pd.DataFrame(
        {
            **{"model": models, "name": [f"{model} (published)" for model in models]},
            **{"kind": "published", "settings": "published", "bases": [() for _ in models]},
            "weights": [*map(Weights, models)],
            **dict.fromkeys(("parameters", "date"), math.nan),
            **dict.fromkeys(("card", "card_folder", "base")),
        },
        pd.RangeIndex(first, first + len(models), name="run"),
    ).reindex(columns=[*results.runs], fill_value="")
    scores = pd.DataFrame(rows).assign(
        **{"group": [leaf.group for leaf in leaves], "asked_as": "published", "file": Path()},
        **{"date": math.nan, "task_version": "", "truth": "", "seen": 1.0},
    )
    scores.insert(0, "run", first + scores.pop("model").map(models.index))
    kinds = {leaf.benchmark.name for leaf in leaves}
    texts = [text for name, text in KNOWN["published"].items() if name in kinds]
    told = pd.DataFrame({"run": "published", "kind": "published", "text": texts})
    return results._replace(
        runs=pd.concat([results.runs, runs]),
        scores=pd.concat([results.scores, scores], ignore_index=True),
        notes=pd.concat([results.notes, told], ignore_index=True),
    )


#: Task, way, model, score, and further columns.
Row = tuple[str, str, str, float, dict[str, Any]]


def _load_table(name: str, **how: Any) -> pd.DataFrame:
    with (files(__package__) / name).open(encoding="utf-8") as file:
        return pd.read_csv(file, **how)


def find_observed() -> Iterator[Row]:
    """Yield the published scores in tasks on surveys."""
    tasks = {(task.group, task.number): task.name for task in all_tasks().values() if task.number}
    table = _load_table("scores.csv").melt(["group", "number"]).dropna()
    for group, number, column, value in table.itertuples(index=False):
        model, _, way = column.partition(" | ")
        yield tasks[group, number], way, model, float(value), {}


@lru_cache(maxsize=1)
def load_printed() -> pd.DataFrame:
    """Return every printed number of the study on causal graphs."""
    table = _load_table("interventions.csv", dtype=str, keep_default_na=False)
    error = pd.to_numeric(table["standard_error"])
    return table.assign(accuracy=table["accuracy"].astype(float), error=error)


def way_in_study(way: str) -> str:
    """Return the study's name for a way of asking; it compares with both kinds of answers."""
    way = way.removesuffix("_written")
    return "plain" if way == INTERVENTION.plain.name else way


def _intervened() -> Iterator[Row]:
    """Yield means of printed numbers, weighted by their effects, or by relations."""
    tasks = {task.names: task.name for task in TASKS.values() if task.nodes is None}
    effects = {graph: len(queries) for graph, queries in QUERIES.items()}
    relations = {graph: math.perm(len(of.nodes), 2) for graph, of in GRAPHS.items()}
    table = load_printed()[load_printed()["effects"] == "all"]
    for way in INTERVENTION.ways:
        study = way_in_study(way)
        here = table[(table["way"] == study) & table["names"].isin(tasks)]
        # What was asked without a graph is one number.
        weight = here["graph"].map(relations if study == "retrieval" else effects).fillna(1)
        for (names, model), rows in here.assign(weight=weight).groupby(["names", "model"]):
            mean = math.fsum(rows["weight"] * rows["accuracy"]) / rows["weight"].sum()
            yield tasks[names], way, model, float(mean), {}


def _find_stated() -> Iterator[Row]:
    for name, model, value in _load_table("priors.csv").itertuples(index=False):
        yield SETS[name], PRIOR.plain.name, model, float(value), {}
    truth = store.load_quantities(answers.PUBLISHED)
    everywhere = np.ones(len(truth.quantities), dtype=bool)
    for run in answers.runs(truth):
        way = run.protocol.replace("-", "_")
        # The plain protocol was asked of all models in one experiment, the others in another.
        is_plain = way == PRIOR.plain.name
        if run.system_prompt == BASE and is_plain == (run.experiment == COMPARED):
            known = judge_stated(truth, make_priors(run.priors), everywhere)
            more = {"draws": win_draws(known), "said": known}
            yield answers.PUBLISHED, way, run.model, win_rate(known), more
