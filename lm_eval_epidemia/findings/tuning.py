"""Before and after fine-tuning: changes in trained and untrained tasks and cells.

A task's number is compared with that of the base, asked in the same way. Errors of differences are
joint: for the score from the draws in the result files, for a distance from the answers of both
runs and the survey's replicates.

For held-out cells, and for the others, distance and score are computed from these cells alone, with
shares rescaled to sum to 1, as if a ``--limit`` cut the task (`part_of`). Zero becomes the better
of the answers without knowledge of these cells. D_perfect is that of surveys drawn cell by cell,
because the stored distances cover whole tasks.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from lm_eval_epidemia.benchmarks import WAYS, groups, in_way
from lm_eval_epidemia.benchmarks.observation.measured import Measured
from lm_eval_epidemia.core.errors import EpidemiaError, few, plural
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import answers, beside_truth
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, who
from lm_eval_epidemia.findings.leaderboard import ordered_groups
from lm_eval_epidemia.findings.mean import grouped, is_silent, mean, with_columns
from lm_eval_epidemia.findings.references import KNOWS_MARGINAL, known_scores
from lm_eval_epidemia.results.card import LOSSES, Tuned, read_tuned
from lm_eval_epidemia.results.choose import of_runs, settings_of_runs
from lm_eval_epidemia.results.compare import CONFIDENCE, KEY, compare
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.results.protocol import printable
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.results.tuned import OWN
from lm_eval_epidemia.score import monte_carlo
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.joint import Draws, difference, joint_error
from lm_eval_epidemia.score.score import ordering_error

#: Parts of what was asked: whole tasks, and cells of tasks that were trained on in part.
ALL, SEEN, HELD_OUT, ELSEWHERE = "all", "trained on", "held out", "not in training"
SEEN_CELLS, HELD_OUT_CELLS = "cells trained on", "held-out cells"

#: The verdict on a model that does not answer: its scores say nothing of what it knows.
SILENT = "does not answer"

#: The ways in which a kind of dataset asks, of those that have prompts of ours.
TRAINED_WAYS = {"answers": "letters", "distributions": "letters"}

#: What to do where nothing was tuned.
NOBODY = (
    "no tuned model with its base is among the results. Give the results of both, with the files "
    "of the training (epidemia_finetune.json, losses.csv) in the folder that model_args name or "
    "beside the results; or name the models with --pair BASE=TUNED"
)

NOTE = (
    "The tuned model minus its base, over the tasks that both were asked in the same way. ± is the "
    "joint standard error of the difference; that of l1 needs the answers of both. Averages only: "
    "the respondent that knows how common each answer is in the whole task, but not how it differs "
    "between people. A model at or below it has not been shown to know more. 'as trained': "
    "training used prompts of this way of asking. Verdicts as in comparisons of two models; a "
    "single training does not show how another seed would differ. A row of several seeds is their "
    "mean; 'over seeds' is its standard error due to differences between trainings (people, "
    "sentences, order of rows). It is better or worse 'here' if the difference exceeds Student's t "
    "of this error and the survey's together, and l1 agrees. Cells: of tasks with some cells held "
    "out of training, on their own scale: their shares sum to 1; 0 is the better of the answers "
    "without knowledge of them; 100 is what surveys drawn cell by cell reach. 'people' is the "
    "share of the population in these cells."
)

COLUMNS = {
    **WHO,
    "seeds": Column(digits=0),
    "group": Column(),
    "part": Column("tasks or cells"),
    "task": Column(),
    "tasks": Column(),
    "before": Column(),
    "after": Column(),
    "difference": Column(signed=True, error="error"),
    "verdict": Column("the tuned one is"),
    "over_seeds": Column("± over seeds"),
    "averages": Column("averages only"),
    "l1_before": Column("l1 before", digits=4),
    "l1_after": Column("l1 after", digits=4),
    "l1_difference": Column("l1 difference", digits=4, signed=True, error="l1_error"),
    "l1_over_seeds": Column("l1, ± over seeds", digits=4),
    "averages_l1": Column("l1 of averages only", digits=4),
    "people": Column(digits=2),
    "wins": Column(digits=0),
    "ties": Column(digits=0),
    "losses": Column(digits=0),
    "base": Column("tuned from"),
    "data": Column("trained on"),
    "rows": Column(digits=0),
    "how": Column(),
    "as_trained": Column("as trained"),
}

#: What is averaged over tasks and over seeds.
MEANS = ("before", "after", "averages", "l1_before", "l1_after", "averages_l1", "people")

#: A task, its cells, or a mean over tasks, in making.
Row = dict[str, Any]


def tuning(results: Results) -> Finding:
    """Tuned models before and after: means of tasks and of cells trained on or not, each task."""
    changes, left_out = _changes(results)
    rows = [
        row for (run, group), of in changes.items() for row in _of_group(results, run, group, of)
    ]
    means, again = _over_seeds(results, rows)
    silent = _silent(results)
    order = {group: place for place, group in enumerate(ordered_groups([r["group"] for r in rows]))}
    made = [_finished(row, results, silent) for row in [*means, *rows]]
    table = pd.DataFrame(made, columns=None if made else ["run", *COLUMNS])
    table = table.sort_values("group", key=lambda of: of.map(order), kind="stable")
    if again:
        left_out.append(
            f"no mean over seeds of {few(again)}: trainings with the same set-up and seeds are no "
            "sample of seeds"
        )
    left_out = left_out if made else [NOBODY, *left_out]
    title = "Before and after fine-tuning"
    table = who(table, results.runs)
    return Finding("tuning", title, table, COLUMNS, NOTE, details="task", left_out=left_out)


def _card(results: Results, run: Any) -> Tuned | None:
    card: Tuned | None = results.runs["card"][run]
    return card


def _shared(results: Results) -> pd.DataFrame:
    """Return the scores of tuned runs beside those of their bases, ``_other``, in every group."""
    bases = results.runs["base"].dropna().astype(int)
    known = with_columns(results.scores[results.scores["value"].notna()], ("l1",))
    averages = known_scores(known, results.runs)
    known = known.assign(averages=averages["score"], averages_l1=averages["l1"], at=known.index)
    tuned = known[known["run"].isin(bases.index)]
    both = tuned.assign(base=tuned["run"].map(bases).astype(int)).merge(
        known.rename(columns={"run": "base"}), on=["base", *KEY], suffixes=("", "_other")
    )
    return both.sort_values(["run", "task", "way"], ignore_index=True)


def _changes(results: Results) -> tuple[dict[tuple[int, str], list[Row]], list[str]]:
    """Return the changes in every task, with those in its cells, by tuned run and group."""
    both = _shared(results)
    of = of_runs(results, [*both["run"], *both["base"]])
    asked = {*zip(both["task"], both["way"], strict=True)}
    made, notes = answers(of, lambda each: each in asked)
    changes = [_of_task(row, _card(results, row.run), made) for row in both.itertuples(index=False)]
    by_group: dict[tuple[int, str], list[Row]] = {}
    for run, group, place in grouped(both.assign(place=both.index))[
        ["run", "group", "place"]
    ].itertuples(index=False):
        by_group.setdefault((run, group), []).append(changes[place])
    return by_group, [*notes, *_lacking(results, both, made)]


def _of_task(row: Any, card: Tuned | None, made: Mapping[tuple[int, Asked], TaskAnswers]) -> Row:
    """Return the change in a task, and under ``cells`` those in cells trained on and held out."""
    asked = Asked(row.task, row.way)
    part = ""
    if card is not None:
        held_out = HELD_OUT if row.task in card.dataset.held_out else ELSEWHERE
        part = SEEN if row.task in card.dataset.tasks else held_out
    change = {
        "run": row.run,
        "base": row.base,
        "part": part,
        "asked": (asked,),
        "scores": [row.at],
        "before": row.value_other,
        "after": row.value,
        "draws": [difference(row.draws, row.draws_other)],
        "averages": row.averages,
        "l1_before": row.l1_other,
        "l1_after": row.l1,
        "l1_draws": [None],
        "averages_l1": row.averages_l1,
        "people": 1.0,
        "cells": [],
    }
    before, after = made.get((row.base, asked)), made.get((row.run, asked))
    if before is None or after is None:
        return change
    if before.cells == after.cells:
        old, new = (_l1_draws(Measured(*beside_truth(asked, own))) for own in (before, after))
        change["l1_draws"] = [difference(new, old)]
    parts = _held_out(card, asked, sorted({*before.cells} & {*after.cells}))
    for name, cells in parts.items() if all(parts.values()) else ():
        first, second = (Measured(*beside_truth(asked, own, cells)) for own in (before, after))
        of = second.part
        marginal = WAYS[asked.way].told(scoring.mean(of.truth.weights, of.truth.p)[0])
        averages_l1 = float(of.distance(np.broadcast_to(marginal, of.p.shape)))
        measured = {
            "part": name,
            "before": first.score,
            "after": second.score,
            "draws": [difference(second.score_draws, first.score_draws)],
            "averages": float(of.score_of(averages_l1)),
            "l1_before": first.l1,
            "l1_after": second.l1,
            "l1_draws": [difference(_l1_draws(second), _l1_draws(first))],
            "averages_l1": averages_l1,
            "people": float(of.truth.weights[cells].sum()),
        }
        change["cells"].append({**change, **measured, "scores": [], "cells": []})
    return change


def _l1_draws(measured: Measured) -> Draws | None:
    """Return the distance at each replicate of the survey, with the error of asking."""
    if measured.l1_at is None:
        return None
    part, answered = measured.part, measured.elicited
    orders = drawn = 0.0
    if answered.by_order is not None:
        orders = ordering_error(answered.by_order, part.distance)
    if answered.counts is not None:
        drawn = monte_carlo.distance_error(part.weights, part.p, answered.counts)
    return Draws(part.truth.sample or "", measured.l1_at, math.hypot(orders, drawn))


def _held_out(card: Tuned | None, asked: Asked, cells: Sequence[int]) -> dict[str, list[int]]:
    """Split cells into trained and held-out ones; none if unknown.

    Cell numbers refer to the truth that the dataset was made from.
    """
    parts: dict[str, list[int]] = {SEEN_CELLS: [], HELD_OUT_CELLS: []}
    if card and asked.task in card.dataset.tasks and _is_of_card(card, asked):
        left_out = {*card.dataset.held_out.get(asked.task, ())}
        for cell in cells:
            parts[HELD_OUT_CELLS if cell in left_out else SEEN_CELLS].append(cell)
    return parts


def _is_of_card(card: Tuned, asked: Asked) -> bool:
    """Whether the data of a training were made from the installed truth of a task."""
    made_from: str = WAYS[asked.way].load(asked.task).fingerprint
    return made_from == card.dataset.fingerprint


def _lacking(
    results: Results, both: pd.DataFrame, made: Mapping[tuple[int, Asked], TaskAnswers]
) -> Iterator[str]:
    """Say in which tasks held-out cells cannot be separated from the others."""
    for run, of in both.groupby("run", sort=False):
        if (card := _card(results, run)) is None:
            continue
        base = of["base"].iloc[0]
        partly = [
            asked
            for asked in map(Asked, of["task"], of["way"])
            if asked.task in card.dataset.tasks
            and card.dataset.held_out.get(asked.task)
            and store.is_available(asked.task)
            and WAYS[asked.way].distribution is not None
        ]
        other = [in_way(*asked) for asked in partly if not _is_of_card(card, asked)]
        unknown = [
            in_way(*asked)
            for asked in partly
            if _is_of_card(card, asked) and not {(run, asked), (base, asked)} <= made.keys()
        ]
        name = results.runs["name"][run]
        if other:
            yield (
                f"{name}: held-out cells of {plural(len(other), 'task')} ({few(other)}) are not "
                "separated from the others: the training data come from another truth "
                f"({printable(card.dataset.fingerprint)}) than the installed one"
            )
        if unknown:
            yield (
                f"{name}: held-out cells of {plural(len(unknown), 'task')} ({few(unknown)}) cannot "
                "be separated from the others without answers: run lm_eval with --log_samples, "
                "also for the base"
            )


def _mean(several: Sequence[Row]) -> Row:
    """Average over tasks, or over seeds."""
    first = several[0]
    means = {name: math.fsum(of[name] for of in several) / len(several) for name in MEANS}
    lists = {
        name: [each for of in several for each in of[name]]
        for name in ("draws", "l1_draws", "scores")
    }
    return {**first, **means, **lists}


def _of_group(results: Results, run: int, group: str, changes: Sequence[Row]) -> Iterator[Row]:
    """Yield the means of a run over the tasks of a group and parts of them, and each task."""
    cells = [cell for change in changes for cell in change["cells"]]
    parts = {ALL: [*changes]}
    if len({change["part"] for change in changes}) > 1:
        parts |= {
            part: [change for change in changes if change["part"] == part]
            for part in (SEEN, HELD_OUT, ELSEWHERE)
        }
    for part in (SEEN_CELLS, HELD_OUT_CELLS):
        parts[part] = [cell for cell in cells if cell["part"] == part]
    rows = [
        {
            **_mean(of),
            "part": part,
            "task": "",
            "asked": tuple(asked for each in of for asked in each["asked"]),
        }
        for part, of in parts.items()
        if of
    ]
    rows += [{**change, "task": in_way(*change["asked"][0])} for change in [*changes, *cells]]
    scores = results.scores
    theirs = scores[scores["run"] == changes[0]["base"]]
    for row in rows:
        made = None
        if row["scores"] and not groups()[group].predicted:
            made = compare(scores.loc[row["scores"]], theirs)
        yield {**row, "group": group, "compared": made, "trainings": []}


def _over_seeds(results: Results, rows: Sequence[Row]) -> tuple[list[Row], list[str]]:
    """Average trainings that differ only in their seeds.

    Seeds are the training's (order of rows, an adapter's first weights) and the dataset's (which
    people, which sentences, which rows are validation).

    Returns
    -------
    list of dict
        The means.
    list of str
        Runs of trainings with the same set-up and seeds as another, which have no mean.
    """
    set_ups: dict[Hashable, list[Row]] = {}
    trained = {run: _but_for_seeds(results, run) for run in {row["run"] for row in rows}}
    for row in rows:
        of = (row["base"], row["group"], row["part"], row["task"], row["asked"])
        set_ups.setdefault((trained[row["run"]], *of), []).append(row)
    means, again = [], set[str]()
    for several in set_ups.values():
        cards = [_card(results, row["run"]) for row in several]
        seeds = {(card.dataset.seed, card.settings.get("seed")) if card else () for card in cards}
        if len(seeds) < len(several):
            again |= {results.runs["name"][row["run"]] for row in several}
        elif len(several) > 1:
            means.append({**_mean(several), "compared": None, "trainings": several})
    return means, sorted(again)


def _but_for_seeds(results: Results, run: int) -> Hashable:
    """Return the set-up of a training and of asking, without seeds and their consequences."""
    if (card := _card(results, run)) is None:
        return run
    data = card.dataset
    made = sum(data.rows.values()) + data.counts.get("dropped", 0), data.counts.get("people")
    data = replace(data, seed=0, rows={}, counts={})
    settings = sorted((key, value) for key, value in card.settings.items() if key != "seed")
    asked = settings_of_runs(results.runs).loc[run].drop([*OWN], errors="ignore")
    return repr((card.base, card.how, settings, data, made, asked.to_dict()))


def _silent(results: Results) -> set[tuple[int, str]]:
    means = mean(grouped(results.scores), ["run", "group"])
    return {*means[is_silent(means)][["run", "group"]].itertuples(index=False, name=None)}


def _finished(row: Row, results: Results, silent: set[tuple[int, str]]) -> Row:
    """Return a row of the table."""
    runs, trainings = results.runs, row["trainings"]
    card, compared = _card(results, row["run"]), row["compared"]
    told: Row = {"run": row["run"], "seeds": math.nan}
    if trainings:
        # Several runs are none of them.
        named = {name: runs[name][row["run"]] for name in ("model", "settings", "kind")}
        number = len(trainings)
        told = {"run": -1, **named, "seeds": number}
        told["model"] = f"{named['model']}, {number} seeds"
        compared = trainings[0]["compared"]
    over = {
        name: stdev(each[name] for each in trainings) / math.sqrt(len(trainings))
        if trainings
        else math.nan
        for name in ("after", "l1_after")
    }
    change = row["after"] - row["before"]
    error = joint_error(row["draws"])
    as_trained = ""
    if card and card.dataset.kind in TRAINED_WAYS:
        is_so = TRAINED_WAYS[card.dataset.kind] == row["asked"][0].way
        as_trained = "yes" if is_so else "no"
    verdict = ""
    if compared:
        is_better = (change > 0) == groups()[row["group"]].measure.higher_is_better
        is_nearer = row["l1_after"] < row["l1_before"]
        verdict = "better here" if is_better else "worse here"
        if not trainings:
            verdict = compared.verdict
        elif not _is_beyond(change, error, over["after"], len(trainings)):
            verdict = "not shown"
        if is_better != is_nearer and not math.isnan(row["l1_after"]):
            verdict = "not shown"
        if any((each["run"], row["group"]) in silent for each in trainings or [row]):
            verdict = SILENT
    is_shown = compared and not trainings
    return {
        **told,
        "group": row["group"],
        "part": row["part"],
        "task": row["task"],
        "tasks": len(row["asked"]),
        **{name: row[name] for name in MEANS},
        "difference": change,
        "error": error,
        "over_seeds": over["after"],
        "l1_difference": row["l1_after"] - row["l1_before"],
        "l1_error": joint_error(row["l1_draws"]),
        "l1_over_seeds": over["l1_after"],
        "verdict": verdict,
        **{
            name: getattr(compared, name) if is_shown else math.nan
            for name in ("wins", "ties", "losses")
        },
        "base": runs["name"][row["base"]],
        "data": card.dataset.kind if card else "",
        "rows": card.dataset.rows.get("train", math.nan) if card else math.nan,
        "how": printable(card.how) if card else "",
        "as_trained": as_trained,
    }


def _is_beyond(change: float, survey: float, over_seeds: float, seeds: int) -> bool:
    """Whether a mean over seeds differs from the base by more than both errors together.

    Student's t, with Satterthwaite's degrees of freedom, infinite for the survey's error.
    """
    error = math.hypot(survey, over_seeds)
    freedom = (seeds - 1) * (error / over_seeds) ** 4 if over_seeds else math.inf
    return bool(abs(change) > stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * error)


def trained(results: Results) -> Finding:
    """How models were tuned: data, settings, steps and validation losses, from their cards."""
    rows = []
    for model, run in {model: run for run, model in results.runs["model"].items()}.items():
        if (card := _card(results, run)) is None:
            continue
        of, apart = card.dataset, card.dataset.held_out
        rows.append(
            {
                "model": model,
                "base": printable(card.base),
                "data": of.kind,
                "survey": printable(f"{of.survey} {of.vintage}"),
                "writer": printable(of.writer) if of.facts else "",
                **{name: of.rows.get(name, math.nan) for name in ("train", "validation")},
                "people": of.counts.get("people", math.nan),
                "forms": of.counts.get("sentence forms", math.nan),
                "tasks": len(of.tasks),
                "held_out_tasks": len([task for task in apart if task not in of.tasks]),
                "held_out_cells": sum(len({*apart[task]}) for task in apart if task in of.tasks),
                "how": printable(card.how),
                "settings_of_training": printable(
                    ", ".join(f"{name}={value}" for name, value in sorted(card.settings.items()))
                ),
                "data_seed": of.seed,
                "steps": card.steps,
                "best_step": card.best_step,
                "best_loss": card.best_loss,
                "last_loss": card.last_loss,
            }
        )
    columns = {
        "model": Column(),
        "base": Column("tuned from"),
        "data": Column(),
        "survey": Column(),
        "writer": Column(),
        "train": Column("rows", digits=0),
        "validation": Column("rows of validation", digits=0),
        "people": Column(digits=0),
        "forms": Column("sentence forms", digits=0),
        "tasks": Column(),
        "held_out_tasks": Column("tasks held out"),
        "held_out_cells": Column("cells held out"),
        "how": Column(),
        "settings_of_training": Column("settings"),
        "steps": Column(),
        "best_step": Column("kept step"),
        "best_loss": Column("its validation loss", digits=4),
        "last_loss": Column("the last", digits=4),
    }
    return Finding(
        "trained",
        "Fine-tuning: what was trained",
        pd.DataFrame(rows, columns=None if rows else [*columns]),
        columns,
        "From the cards of the tuned models (epidemia_finetune.json).",
        left_out=[] if rows else [NOBODY],
    )


def learning(results: Results) -> Finding:
    """Score against the number of answers trained on, over the tasks that all of a curve share."""
    runs, shared = results.runs, _shared(results)
    scores = grouped(results.scores)
    scores = scores[scores["value"].notna()]
    cards = {run: card for run, card in runs["card"].items() if card is not None}
    tables = []
    for base, of in shared.groupby("base", sort=False):
        own = [run for run in dict.fromkeys(of["run"]) if run in cards]
        rows = {
            run: cards[run].dataset.rows["train"]
            for run in own
            if cards[run].dataset.kind == "answers" and cards[run].dataset.rows.get("train")
        }
        if len({*rows.values()}) < 2:
            continue
        soft = [run for run in own if cards[run].dataset.kind == "distributions"]
        curve = sorted(rows, key=lambda run: (_trained_on(cards[run]), rows[run]))
        ordered = [*curve, base, *soft]
        here = scores[scores["run"].isin(ordered)]
        common = here.groupby(["group", *KEY])["run"].transform("size") == len(ordered)
        means = mean(here[common], ["run", "group"])
        means["trained_on"] = means["run"].map(
            lambda run: _trained_on(cards[run]) if run != base else "base"
        )
        asked = here[common & (here["run"] == base)]
        known = known_scores(asked, runs)["score"].groupby(asked["group"], sort=False)
        beside = pd.DataFrame({"value": known.agg(lambda of: of.sum(skipna=False) / len(of))})
        beside = beside.assign(tasks=known.size()).reset_index().dropna(subset="value")
        respondent = {"run": -1, "model": f"{KNOWS_MARGINAL} (baseline)", "kind": "respondent"}
        beside = beside.assign(**respondent, trained_on=KNOWS_MARGINAL)
        table = pd.concat([means, beside], ignore_index=True)
        place = {run: place for place, run in enumerate([*curve, base, -1, *soft])}
        table = table.sort_values("run", key=lambda of: of.map(place), kind="stable")
        tables.append(
            table.assign(base=runs["name"][base], rows=table["run"].map(rows).astype(float))
        )
    columns = {
        **WHO,
        "base": Column("tuned from"),
        "group": Column(),
        "trained_on": Column("trained on"),
        "rows": Column(digits=0),
        "tasks": Column(),
        "value": Column("score", error="error"),
    }
    empty = pd.DataFrame(columns=["run", *columns])
    table = pd.concat(tables, ignore_index=True) if tables else empty
    return Finding(
        "learning",
        "Learning curve",
        who(table.drop(columns=["choice_mass", "answered"], errors="ignore"), runs),
        columns,
        "Over the tasks that all models of a curve share. Added: the base, the respondent that "
        "knows P(Y) alone, and training on the distributions themselves.",
        left_out=[]
        if tables
        else [
            "no learning curve: it needs two or more models tuned from one base on different "
            "numbers of answers ('epidemia finetune notes --kind answers')"
        ],
    )


def _trained_on(card: Tuned) -> str:
    """Describe a training: "answers, lora"; less informed runs are another line."""
    left_out = ", part held out" if card.dataset.held_out else ""
    return printable(f"{card.dataset.kind}, {card.how}{left_out}")


def losses(results: Results) -> Finding:
    """Losses of each training, step by step, with the kept checkpoint."""
    runs = results.runs
    folders = {folder: run for run, folder in reversed([*runs["card_folder"].items()]) if folder}
    tables, problems = [], []
    for folder, run in reversed(folders.items()):
        try:
            tables.append(losses_of(folder).assign(model=runs["model"][run]))
        except EpidemiaError as error:
            problems.append(str(error))
    columns = {"model": Column(), "step": Column(digits=0), "epoch": Column(digits=2)}
    columns |= {"split": Column(), "loss": Column(digits=4)}
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*columns])
    left_out = problems if tables else ["no losses of a tuned model were found", *problems]
    return Finding("losses", "Losses of fine-tuning", table, columns, left_out=left_out)


def losses_of(folder: Path) -> pd.DataFrame:
    """Read the losses of a training.

    Parameters
    ----------
    folder : Path
        The folder of an adapter, of tuned weights, or of copies of their files.

    Returns
    -------
    DataFrame
        ``model`` (the folder's name), ``step``, ``epoch``, ``split`` (train or validation; kept at
        the step of the kept checkpoint, without a loss), ``loss`` (NaN where it was not finite).

    Raises
    ------
    EpidemiaError
        If there are none, or they are not as training writes them, or there is no card.
    """
    path, best = folder / LOSSES, read_tuned(folder).best_step
    try:
        with path.open(encoding="utf-8", newline="") as file:
            table = pd.read_csv(file)[["step", "epoch", "split", "loss"]]
        table = table.astype({"step": int, "epoch": float, "split": str, "loss": float})
    except OSError as error:
        raise EpidemiaError(
            f"{path} cannot be read ({error.strerror or error}): copy it from the folder that "
            "'epidemia finetune train' wrote"
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        raise EpidemiaError(
            f"{path} is not as 'epidemia finetune train' writes it ({type(error).__name__}: "
            f"{error}): expected columns step, epoch, split, loss; copy it again"
        ) from None
    splits = {*table["split"]}
    if not splits or not splits <= {"train", "validation"}:
        raise EpidemiaError(
            f"{path}: {len(table)} losses of {sorted(splits)}, expected losses of train or "
            "validation"
        )
    table["loss"] = table["loss"].where(np.isfinite(table["loss"]))
    kept = pd.DataFrame([{"step": best, "split": "kept"}])
    table = pd.concat([table, kept], ignore_index=True)
    table.insert(0, "model", folder.resolve().name)
    return table
