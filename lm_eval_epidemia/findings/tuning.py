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
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from lm_eval_epidemia.benchmarks import WAYS, groups, in_way
from lm_eval_epidemia.benchmarks.observation.measured import Measured
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import answers, beside_truth
from lm_eval_epidemia.findings.finding import WHO, Column, Finding, tabled, who
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

#: The kinds of datasets that ask, and the way in which they do. The others are texts.
ASKING, ASKED_IN = ("answers", "distributions"), "letters"

#: What to do where nothing was tuned.
NOBODY = (
    "no tuned model with its base is among the results. Give the results of both, with the files "
    "of the training (epidemia_finetune.json, losses.csv) in the folder that model_args name or "
    "beside the results; or name the models with --pair BASE=TUNED"
)

TITLE = "Before and after fine-tuning"
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
    "group": Column(),
    "part": Column("tasks or cells"),
    "task": Column(),
    "difference": Column(signed=True, error="error"),
    "verdict": Column("the tuned one is"),
    "before": Column(),
    "after": Column(),
    "tasks": Column(),
    "over_seeds": Column("± over seeds"),
    "averages": Column("averages only"),
    "l1_before": Column("l1 before", digits=4),
    "l1_after": Column("l1 after", digits=4),
    "l1_difference": Column("l1 difference", digits=4, signed=True, error="l1_error"),
    "l1_over_seeds": Column("l1, ± over seeds", digits=4),
    "averages_l1": Column("l1 of averages only", digits=4),
    "people": Column(digits=2),
    **{name: Column(digits=0) for name in ("wins", "ties", "losses")},
    "base": Column("tuned from"),
    "trained_on": Column("trained on"),
    "as_trained": Column("as trained"),
}

#: What is averaged over tasks and over seeds.
MEANS = ("before", "after", "averages", "l1_before", "l1_after", "averages_l1", "people")

#: A task, its cells, or a mean over tasks or seeds, before it is a row of the table: also with
#: ``draws`` of the differences, ``asked``, the ``places`` of its scores, and its ``trainings``.
Change = dict[str, Any]


def tuning(results: Results) -> Finding:
    """Tuned models before and after: means of tasks and of cells trained on or not, each task."""
    by_group, left_out = _changes(results)
    single = [
        change for (_, group), of in by_group.items() for change in _of_group(results, group, of)
    ]
    means, again = _over_seeds(results, single)
    if again:
        text = "trainings with the same set-up and seeds are no sample of seeds"
        left_out.append(f"no mean over seeds of {few(again)}: {text}")
    if not single:
        empty = tabled([], COLUMNS, results.runs, ("seeds",))
        return Finding("tuning", TITLE, empty, COLUMNS, NOTE, left_out=[NOBODY, *left_out])
    order = ordered_groups([change["group"] for change in single])
    changes = sorted([*means, *single], key=lambda change: order.index(change["group"]))
    table = pd.DataFrame(changes)
    over = {
        name: [
            stdev(x[of] for x in trainings) / math.sqrt(len(trainings)) if trainings else math.nan
            for trainings in table["trainings"]
        ]
        for name, of in (("over_seeds", "after"), ("l1_over_seeds", "l1_after"))
    }
    table = table.assign(
        tasks=table["asked"].map(len),
        difference=table["after"] - table["before"],
        error=table["draws"].map(joint_error),
        l1_difference=table["l1_after"] - table["l1_before"],
        l1_error=table["l1_draws"].map(joint_error),
        seeds=table["trainings"].map(len).clip(lower=1),
        **over,
    )
    averages = mean(grouped(results.scores), ["run", "group"])
    mute = averages[is_silent(averages)]
    silent = {*zip(mute["run"], mute["group"], strict=True)}
    cards = table["run"].map(results.runs["card"])
    table = table.assign(
        verdict=[_verdict(row, silent) for row in table.itertuples()],
        base=table["base"].map(results.runs["name"]),
        trained_on=[_trained_on(card) if card else "" for card in cards],
        as_trained=[
            _as_trained(card, asked) for card, asked in zip(cards, table["asked"], strict=True)
        ],
    )
    table = who(table, results.runs)
    # Several runs are none of them.
    table["model"] += [f", {seeds} seeds" if seeds > 1 else "" for seeds in table["seeds"]]
    columns = [*dict.fromkeys([*WHO, "kind", "seeds", *COLUMNS, "error", "l1_error"])]
    return Finding(
        "tuning", TITLE, table[columns], COLUMNS, NOTE, details="task", left_out=left_out
    )


def _shared(results: Results) -> pd.DataFrame:
    """Return the scores of tuned runs beside those of their bases, ``_other``."""
    bases = results.runs.get("base", pd.Series(dtype=float)).dropna().astype(int)
    known = with_columns(results.scores[results.scores["value"].notna()], ("l1",))
    averages = known_scores(known, results.runs).add_prefix("averages_")
    known = known.join(averages).assign(place=known.index)
    tuned = known[known["run"].isin(bases.index)]
    both = tuned.assign(base=tuned["run"].map(bases).astype(int)).merge(
        known.rename(columns={"run": "base"}), on=["base", *KEY], suffixes=("", "_other")
    )
    return both.sort_values(["run", "task", "way"], ignore_index=True)


def _changes(results: Results) -> tuple[dict[tuple[int, str], list[Change]], list[str]]:
    """Return the changes in every task, by tuned run and group; and what is left out."""
    both = _shared(results)
    asked = {*map(Asked, both["task"], both["way"])}
    made, left_out = answers(of_runs(results, [*both["run"], *both["base"]]), asked.__contains__)
    lacking: dict[str, list[str]] = {}
    changes = list[Change]()
    row: Any
    for row in both.itertuples(index=False):
        task, card = Asked(row.task, row.way), results.runs["card"][row.run]
        change = _of_task(row, task, card)
        own = [made[run, task] for run in (row.base, row.run) if (run, task) in made]
        if len(own) == 2 and own[0].cells == own[1].cells:
            old, new = (_l1_draws(Measured(*beside_truth(task, of))) for of in own)
            change["l1_draws"] = [difference(new, old)]
        if change["part"] == SEEN and task.task in card.dataset.held_out:
            why = "" if len(own) == 2 else "that needs the answers of both (lm_eval --log_samples)"
            if store.is_available(task.task):
                # Cell numbers refer to the truth that the dataset was made from.
                made_from, installed = card.dataset.fingerprint, WAYS[task.way].load(task.task)
                if made_from != installed.fingerprint:
                    why = f"the training data come from another truth ({made_from})"
            if not why:
                left = {*card.dataset.held_out[task.task]}
                change["cells"] = [*_of_cells(change, task, own, left)]
            elif WAYS[task.way].distribution is not None:
                name = results.runs["name"][row.run]
                text = printable(f"{name}: held-out cells are not told apart, as {why}")
                lacking.setdefault(text, []).append(in_way(*task))
        changes.append(change)
    left_out += [f"{why}: {few(tasks)}" for why, tasks in lacking.items()]
    by_group: dict[tuple[int, str], list[Change]] = {}
    for row in grouped(both.assign(at=both.index)).itertuples(index=False):
        by_group.setdefault((row.run, row.group), []).append(changes[row.at])
    return by_group, left_out


def _of_task(row: Any, asked: Asked, card: Tuned | None) -> Change:
    """Return the change in a task; the error of its distance, and its cells, are not known yet."""
    part = ""
    if card is not None:
        part = HELD_OUT if asked.task in card.dataset.held_out else ELSEWHERE
        part = SEEN if asked.task in card.dataset.tasks else part
    return {
        "run": row.run,
        "base": row.base,
        "part": part,
        "asked": (asked,),
        "places": [row.place],
        "before": row.value_other,
        "after": row.value,
        "draws": [difference(row.draws, row.draws_other)],
        "averages": row.averages_score,
        "l1_before": row.l1_other,
        "l1_after": row.l1,
        "l1_draws": [None],
        "averages_l1": row.averages_l1,
        "people": 1.0,
        "cells": [],
    }


def _of_cells(
    change: Change, asked: Asked, own: Sequence[TaskAnswers], left_out: set[int]
) -> Iterator[Change]:
    """Yield the change in the cells of a task that were trained on, and in those held out."""
    both = sorted({*own[0].cells} & {*own[1].cells})
    parts = {
        SEEN_CELLS: [cell for cell in both if cell not in left_out],
        HELD_OUT_CELLS: [cell for cell in both if cell in left_out],
    }
    for part, cells in parts.items() if all(parts.values()) else ():
        old, new = (Measured(*beside_truth(asked, of, cells)) for of in own)
        truth = new.part.truth
        marginal = WAYS[asked.way].told(scoring.mean(truth.weights, truth.p)[0])
        averages_l1 = float(new.part.distance(np.broadcast_to(marginal, new.part.p.shape)))
        yield {
            **change,
            "part": part,
            "places": [],
            "before": old.score,
            "after": new.score,
            "draws": [difference(new.score_draws, old.score_draws)],
            "averages": float(new.part.score_of(averages_l1)),
            "l1_before": old.l1,
            "l1_after": new.l1,
            "l1_draws": [difference(_l1_draws(new), _l1_draws(old))],
            "averages_l1": averages_l1,
            "people": float(truth.weights[cells].sum()),
        }


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


def _mean(several: Sequence[Change]) -> Change:
    """Average over tasks, or over seeds."""
    means = {name: math.fsum(of[name] for of in several) / len(several) for name in MEANS}
    listed = ("draws", "l1_draws", "places")
    lists = {name: [each for of in several for each in of[name]] for name in listed}
    return {**several[0], **means, **lists}


def _of_group(results: Results, group: str, changes: Sequence[Change]) -> Iterator[Change]:
    """Yield the means of a run over the tasks of a group and parts of them, and each task."""
    every = [*changes, *(cell for change in changes for cell in change["cells"])]
    parts = (SEEN, HELD_OUT, ELSEWHERE) if len({of["part"] for of in changes}) > 1 else ()
    rows = [(ALL, "", changes)]
    rows += [
        (part, "", [change for change in every if change["part"] == part])
        for part in (*parts, SEEN_CELLS, HELD_OUT_CELLS)
    ]
    rows += [(change["part"], in_way(*change["asked"][0]), [change]) for change in every]
    scores = results.scores
    theirs = scores[scores["run"] == changes[0]["base"]]
    for part, task, of in rows:
        if of:
            row = {**_mean(of), "group": group, "part": part, "task": task, "trainings": []}
            row["asked"] = tuple(asked for change in of for asked in change["asked"])
            compared = None
            if row["places"] and not groups()[group].predicted:
                compared = compare(scores.loc[row["places"]], theirs)
            counts = {
                name: getattr(compared, name, math.nan) for name in ("wins", "ties", "losses")
            }
            yield {**row, **counts, "compared": compared}


def _over_seeds(results: Results, changes: Sequence[Change]) -> tuple[list[Change], list[str]]:
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
    set_ups: dict[Hashable, list[Change]] = {}
    trained = {run: _but_for_seeds(results, run) for run in {of["run"] for of in changes}}
    for of in changes:
        what = (of[name] for name in ("base", "group", "part", "task", "asked"))
        set_ups.setdefault((trained[of["run"]], *what), []).append(of)
    means, again = list[Change](), set[str]()
    for several in set_ups.values():
        cards = [results.runs["card"][of["run"]] for of in several]
        seeds = {(card.dataset.seed, card.settings.get("seed")) if card else () for card in cards}
        if len(seeds) < len(several):
            again |= {results.runs["name"][of["run"]] for of in several}
        elif len(several) > 1:
            unknown = dict.fromkeys(("wins", "ties", "losses"), math.nan)
            means.append({**_mean(several), **unknown, "trainings": several})
    return means, sorted(again)


def _but_for_seeds(results: Results, run: int) -> Hashable:
    """Return the set-up of a training and of asking, without seeds and their consequences."""
    if (card := results.runs["card"][run]) is None:
        return run
    data = card.dataset
    made = sum(data.rows.values()) + data.counts.get("dropped", 0), data.counts.get("people")
    data = replace(data, seed=0, rows={}, counts={})
    settings = sorted((key, value) for key, value in card.settings.items() if key != "seed")
    asked = settings_of_runs(results.runs).loc[run].drop([*OWN], errors="ignore")
    return repr((card.base, card.how, settings, data, made, asked.to_dict()))


def _verdict(row: Any, silent: set[tuple[int, str]]) -> str:
    """Return the verdict on a tuned model, or on several that differ in their seeds."""
    if row.compared is None:
        return ""
    if any((of["run"], row.group) in silent for of in row.trainings or [{"run": row.run}]):
        return SILENT
    is_better = (row.difference > 0) == groups()[row.group].measure.higher_is_better
    if is_better != (row.l1_after < row.l1_before) and not math.isnan(row.l1_after):
        return "not shown"
    if not row.trainings:
        return str(row.compared.verdict)
    # Student's t of both errors, with Satterthwaite's degrees of freedom: infinite for the
    # survey's error.
    error = math.hypot(row.error, row.over_seeds)
    freedom = (row.seeds - 1) * (error / row.over_seeds) ** 4 if row.over_seeds else math.inf
    if not abs(row.difference) > special.stdtrit(freedom, (1 + CONFIDENCE) / 2) * error:
        return "not shown"
    return "better here" if is_better else "worse here"


def _trained_on(card: Tuned) -> str:
    """Describe a training: "answers, lora"; less informed runs are another line of a figure."""
    left_out = ", part held out" if card.dataset.held_out else ""
    return printable(f"{card.dataset.kind}, {card.how}{left_out}")


def _as_trained(card: Tuned | None, asked: Sequence[Asked]) -> str:
    """Say whether a training used this way of asking; nothing of texts, which ask nothing."""
    if card is None or card.dataset.kind not in ASKING:
        return ""
    return "yes" if asked[0].way == ASKED_IN else "no"


def trained(results: Results) -> Finding:
    """How models were tuned: data, settings, steps and validation losses, from their cards."""
    rows = []
    for model, card in dict(zip(results.runs["model"], results.runs["card"], strict=True)).items():
        if card is None:
            continue
        of, apart = card.dataset, card.dataset.held_out
        settings = ", ".join(f"{name}={value}" for name, value in card.settings.items())
        rows.append(
            {
                "model": model,
                "tuned from": printable(card.base),
                "data": of.kind,
                "survey": printable(f"{of.survey} {of.vintage}"),
                "written by": printable(of.writer) if of.facts else "",
                "rows": of.rows.get("train", math.nan),
                "of validation": of.rows.get("validation", math.nan),
                "people": of.counts.get("people", math.nan),
                "sentence forms": of.counts.get("sentence forms", math.nan),
                "tasks": len(of.tasks),
                "tasks held out": len([task for task in apart if task not in of.tasks]),
                "cells held out": sum(len({*apart[task]}) for task in apart if task in of.tasks),
                "seed of data": of.seed,
                "how": printable(card.how),
                "settings of training": printable(settings),
                "steps": card.steps,
                "kept step": card.best_step,
                "its loss": card.best_loss,
                "the last loss": card.last_loss,
            }
        )
    table = pd.DataFrame(rows, columns=None if rows else ["model"])
    columns = {str(name): Column(digits=4 if "loss" in str(name) else 0) for name in table}
    note = "From the cards of the tuned models (epidemia_finetune.json). Losses: of validation."
    title, left_out = "Fine-tuning: what was trained", [] if rows else [NOBODY]
    return Finding("trained", title, table, columns, note, left_out=left_out)


def learning(results: Results) -> Finding:
    """Score against the number of answers trained on, over the tasks that all of a curve share."""
    runs, shared, scores = results.runs, _shared(results), grouped(results.scores)
    scores = scores[scores["value"].notna()]
    tables = []
    for base, of in shared.groupby("base", sort=False):
        cards = {run: card for run in of["run"].unique() if (card := runs["card"][run])}
        said = {run: _trained_on(card) for run, card in cards.items()}
        kinds = {run: card.dataset.kind for run, card in cards.items()}
        rows = {
            run: number
            for run, card in cards.items()
            if kinds[run] == "answers" and (number := card.dataset.rows.get("train"))
        }
        if len({*rows.values()}) < 2:
            continue
        soft = [run for run, kind in kinds.items() if kind == "distributions"]
        ordered = [*sorted(rows, key=lambda run: (said[run], rows[run])), base, *soft]
        here = scores[scores["run"].isin(ordered)]
        number = here.groupby(["group", *KEY])["run"].transform("size")
        here = here[number == len(ordered)]
        known = here[here["run"] == base]
        known = known.assign(run=-1, value=known_scores(known, runs)["score"], draws=None)
        means = mean(pd.concat([here, known], ignore_index=True), ["run", "group"])
        # One who is not known in every task has no mean.
        means = means[means["tasks"] == means.groupby("group")["tasks"].transform("max")]
        said |= {base: "base", -1: KNOWS_MARGINAL}
        told = means["run"].map(said).rename("trained_on")
        means = means.join(told).assign(base=runs["name"][base], rows=means["run"].map(rows))
        order = [*ordered, -1].index
        tables.append(means.sort_values("run", key=lambda of: of.map(order), kind="stable"))
    names = ("model", "settings", "base", "group", "trained_on", "tasks")
    columns = {name: COLUMNS[name] for name in names}
    columns |= {"rows": Column(digits=0), "value": Column("score", error="error")}
    note = (
        "Over the tasks that all models of a curve share. Added: the base, the respondent that "
        "knows P(Y) alone, and training on the distributions themselves."
    )
    why = (
        "no learning curve: it needs two or more models tuned from one base on different numbers "
        "of answers ('epidemia finetune notes --kind answers')"
    )
    table = pd.DataFrame(columns=["run", *columns, "error"])
    if tables:
        table = pd.concat(tables, ignore_index=True).drop(columns=["choice_mass", "answered"])
        table["model"] = np.where(table["run"] < 0, f"{KNOWS_MARGINAL} (baseline)", "")
        table["kind"] = np.where(table["run"] < 0, "respondent", "")
    left_out = [] if tables else [why]
    table = who(table, runs)
    return Finding("learning", "Learning curve", table, columns, note, left_out=left_out)


def losses(results: Results) -> Finding:
    """Losses of each training, step by step, with the kept checkpoint."""
    folders: dict[Path, str] = {}
    here = results.runs.get("card_folder", [None] * len(results.runs))
    for model, folder in zip(results.runs["model"], here, strict=True):
        if folder:
            folders.setdefault(folder, model)
    tables, left_out = [], []
    for folder, model in folders.items():
        try:
            tables.append(losses_of(folder).assign(model=model))
        except EpidemiaError as error:
            left_out.append(str(error))
    columns = {"model": Column(), "step": Column(), "epoch": Column(digits=2)}
    columns |= {"split": Column(), "loss": Column(digits=4)}
    if not tables:
        left_out.insert(0, f"no losses of a tuned model were found: {NOBODY}")
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=[*columns])
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
            table = pd.read_csv(file)
        of = {"step": int, "epoch": float, "split": str, "loss": float}
        table = table[[*of]].astype(of)
        if not {*table["split"]} or not {*table["split"]} <= {"train", "validation"}:
            raise ValueError(f"{len(table)} losses of {sorted({*table['split']})}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise EpidemiaError(
            f"{path} is not as 'epidemia finetune train' writes it ({type(error).__name__}: "
            f"{error}): expected columns step, epoch, split (train or validation), loss; copy it "
            "again from the folder that this command wrote"
        ) from None
    table["loss"] = table["loss"].where(np.isfinite(table["loss"]))
    table = pd.concat([table, pd.DataFrame([{"step": best, "split": "kept"}])], ignore_index=True)
    table.insert(0, "model", folder.resolve().name)
    return table
