"""Published scores of other people's runs, as rows of `Results`: other wording, other vintages.

``scores.csv`` has a row per published task (group and number) and a column per model and way of
asking; a blank is a score published as NaN. ``interventions.csv`` has a row per number that the
study on causal graphs prints: table, way of asking, model, source of names, graph, intervened
variable, effects in the mean, accuracy and standard error; a blank is what a table does not
separate or print. ``priors.csv`` has a row per figure of the study on priors: the authors' printed
number, and that of their released results for sets that do not ship (alanarenda/openestimate, MIT
License); their answers to the set that ships are scored here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.variants import BASE
from lm_eval_epidemia.benchmarks import in_way, list_leaves
from lm_eval_epidemia.benchmarks.intervention import INTERVENTION
from lm_eval_epidemia.benchmarks.intervention.graph import GRAPHS, QUERIES
from lm_eval_epidemia.benchmarks.intervention.questions import TASKS
from lm_eval_epidemia.benchmarks.prior import PRIOR
from lm_eval_epidemia.benchmarks.prior.judged import make_priors
from lm_eval_epidemia.benchmarks.prior.metrics import JudgedTask, judge_stated, win_draws, win_rate
from lm_eval_epidemia.benchmarks.prior.quantities import answers, store
from lm_eval_epidemia.benchmarks.prior.quantities.quantity import SIZES
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
    rows = [
        {
            **{"model": model, "task": task, "way": way, "value": value},
            **{"group": list_leaves()[in_way(task, way)].group, "asked_as": "published"},
            **dict.fromkeys(("draws", "population", "said")),
            **{"file": Path(), "date": math.nan, "task_version": "", "truth": "", "seen": 1.0},
            **more,
        }
        for task, way, model, value, more in (*find_observed(), *_intervened(), *_find_stated())
        if (task, way) in asked
    ]
    if not rows:
        return results
    models = sorted({row["model"] for row in rows})
    first = max([*results.runs.index, -1]) + 1
    runs = pd.DataFrame(
        [
            {
                **dict.fromkeys(results.runs, ""),
                **dict.fromkeys(("card", "card_folder", "base")),
                **dict.fromkeys(("parameters", "date"), math.nan),
                **{"model": model, "settings": "published", "name": f"{model} (published)"},
                **{"kind": "published", "weights": Weights(model), "bases": ()},
            }
            for model in models
        ],
        pd.RangeIndex(first, first + len(models), name="run"),
        [*results.runs],
    )
    scores = pd.DataFrame(rows)
    scores.insert(0, "run", first + scores.pop("model").map(models.index))
    kinds = {list_leaves()[in_way(row["task"], row["way"])].benchmark.name for row in rows}
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


@lru_cache(maxsize=1)
def claims() -> pd.DataFrame:
    """Return the figures of the study on priors: measure, set, model, printed, released."""
    return _load_table("priors.csv", dtype=str, keep_default_na=False)


class Stating(NamedTuple):
    """A published run of a model that stated priors: its experiment, settings and answers."""

    experiment: str
    model: str
    settings: dict[str, str]
    known: JudgedTask


def load_stating() -> tuple[Stating, ...]:
    """Return the published runs that stated priors, scored here."""
    return _load_stating(store.load_quantities(answers.PUBLISHED).fingerprint)


@lru_cache(maxsize=1)
def _load_stating(_fingerprint: str) -> tuple[Stating, ...]:
    truth = store.load_quantities(answers.PUBLISHED)
    everywhere = np.ones(len(truth.quantities), dtype=bool)
    runs = []
    for run in answers.runs(truth):
        said = run.temperature_or_effort
        settings = {
            "protocol": run.protocol.replace("-", "_"),
            "system prompt": run.system_prompt,
            "temperature": said if said[0].isdigit() else "",
            "reasoning effort": "" if said[0].isdigit() else said,
        }
        known = judge_stated(truth, make_priors(run.priors), everywhere)
        runs.append(Stating(run.experiment, run.model, settings, known))
    return tuple(runs)


def _find_stated() -> Iterator[Row]:
    for measure, name, model, _, given in claims().itertuples(index=False):
        if measure == f"prior beats {SIZES[0]}" and given:
            yield SETS[name], PRIOR.plain.name, model, float(given), {}
    for run in load_stating():
        way = run.settings["protocol"]
        # The plain protocol was asked of all models in one experiment, the others in another.
        is_plain = way == PRIOR.plain.name
        if run.settings["system prompt"] == BASE and is_plain == (run.experiment == COMPARED):
            more = {"draws": win_draws(run.known), "said": run.known}
            yield answers.PUBLISHED, way, run.model, win_rate(run.known), more
