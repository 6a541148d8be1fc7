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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import stdev
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from lm_eval_epidemia.benchmarks import WAYS, in_way, list_groups
from lm_eval_epidemia.benchmarks.observation.measured import Measured
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.cells import collect_answers, join_truth
from lm_eval_epidemia.findings.compare import CONFIDENCE, compare_scores
from lm_eval_epidemia.findings.finding import Finding, make_finding
from lm_eval_epidemia.findings.leaderboard import ordered_groups
from lm_eval_epidemia.findings.mean import add_metrics, average, group_scores, is_silent
from lm_eval_epidemia.findings.references import KNOWS_MARGINAL, score_known
from lm_eval_epidemia.results.card import LOSSES, Tuned, read_card
from lm_eval_epidemia.results.choose import KEY, keep_runs, settings_of_runs
from lm_eval_epidemia.results.decode import LeafKey, leaf, to_printable
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import TaskAnswers
from lm_eval_epidemia.results.tuned import OWN
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.joint import difference, joint_error

#: Parts of what was asked: whole tasks, and cells of tasks that were trained on in part.
ALL, SEEN, HELD_OUT, ELSEWHERE = "all", "trained on", "held out", "not in training"
SEEN_CELLS, HELD_OUT_CELLS = "cells trained on", "held-out cells"

PARTS = (ALL, SEEN, HELD_OUT, ELSEWHERE, SEEN_CELLS, HELD_OUT_CELLS)

#: How many tasks became better, stayed alike, or became worse.
COUNTS = ("wins", "ties", "losses")

#: The verdict on a model that does not answer: its scores say nothing of what it knows.
SILENT = "does not answer"

#: The kinds of datasets that ask, and the way in which they do. The others are texts.
ASKING, ASKED_IN = ("answers", "distributions"), "letters"

#: What is averaged over tasks and over seeds, and what is listed.
MEANS = ("before", "after", "averages", "l1_before", "l1_after", "averages_l1", "people")
LISTS = ("draws", "l1_draws", "places")


def tuning(results: Results) -> Finding:
    """Tuned models before and after: means of tasks and of cells trained on or not, each task."""
    runs = results.runs
    changes, left_out = _changes(results)
    if changes.empty:
        return make_finding("tuning", [], runs, left_out)
    single = _single(results, changes)
    means, again = _over_seeds(results, single)
    if again:
        text = "trainings with the same set-up and seeds are no sample of seeds"
        left_out.append(f"no mean over seeds of {few(again)}: {text}")
    order = ordered_groups([row["group"] for row in single])
    table = pd.DataFrame(sorted([*means, *single], key=lambda row: order.index(row["group"])))
    averages = average(group_scores(results.scores), ["run", "group"])
    mute = averages[is_silent(averages)]
    table = table.assign(
        difference=table["after"] - table["before"],
        error=table["draws"].map(joint_error),
        l1_difference=table["l1_after"] - table["l1_before"],
        l1_error=table["l1_draws"].map(joint_error),
        seeds=table["trainings"].map(len),
    )
    silent = {*mute[["run", "group"]].itertuples(index=False, name=None)}
    cards = table["run"].map(runs["card"])
    table = table.assign(
        verdict=[_verdict(row, silent) for row in table.itertuples()],
        base=table["base"].map(runs["name"]),
        trained_on=[_trained_on(card) if card else "" for card in cards],
        # Texts ask nothing.
        as_trained=[
            ("yes" if way == ASKED_IN else "no") if card and card.dataset.kind in ASKING else ""
            for card, way in zip(cards, table["way"], strict=True)
        ],
    )
    made = make_finding("tuning", table, runs, left_out)
    # Several runs are none of them.
    made.table["model"] += [f", {seeds} seeds" if seeds > 1 else "" for seeds in table["seeds"]]
    return made


def _join_bases(results: Results) -> pd.DataFrame:
    """Return the scores of tuned runs beside those of their bases, ``_other``."""
    bases = results.runs.get("base", pd.Series(dtype=float)).dropna().astype(int)
    known = add_metrics(results.scores[results.scores["value"].notna()], ("l1",))
    averages = score_known(known, results.runs).set_axis(["averages", "averages_l1"], axis=1)
    known = known.join(averages).assign(places=[[place] for place in known.index])
    tuned = known[known["run"].isin(bases.index)]
    both = tuned.assign(base=tuned["run"].map(bases).astype(int)).merge(
        known.rename(columns={"run": "base"}), on=["base", *KEY], suffixes=("", "_other")
    )
    both = both.rename(columns={"value_other": "before", "l1_other": "l1_before", "l1": "l1_after"})
    both = both.assign(after=both["value"], people=1.0)
    return both.sort_values(["run", "task", "way"], ignore_index=True)


def _changes(results: Results) -> tuple[pd.DataFrame, list[str]]:
    """Return the change in every task, by tuned run and group, and in cells; what is left out."""
    both = _join_bases(results)
    asked = {*map(LeafKey, both["task"], both["way"])}
    made, left_out = collect_answers(
        keep_runs(results, [*both["run"], *both["base"]]), asked.__contains__
    )
    lacking: dict[str, list[str]] = {}
    rows, of_cells = [], []
    for row in both.to_dict("records"):
        task, card = LeafKey(row["task"], row["way"]), results.runs["card"][row["run"]]
        row |= {"asked": in_way(*task), "part": _part(card, task.task), "l1_draws": [None]}
        row["draws"] = [difference(row["draws"], row["draws_other"])]
        own = [made[run, task] for run in (row["base"], row["run"]) if (run, task) in made]
        if len(own) == 2 and own[0].cells == own[1].cells:
            old, new = (Measured(*join_truth(task, of)).l1_draws for of in own)
            row["l1_draws"] = [difference(new, old)]
        rows.append(row)
        if row["part"] != SEEN or task.task not in card.dataset.held_out:
            continue
        why = "" if len(own) == 2 else "that needs the answers of both (lm_eval --log_samples)"
        # Cell numbers refer to the truth that the dataset was made from.
        made_from, is_here = card.dataset.fingerprint, store.is_available(task.task)
        if is_here and made_from != WAYS[task.way].load(task.task).fingerprint:
            why = f"the training data come from another truth ({made_from})"
        if not why:
            of_cells += [row | of for of in _of_cells(task, own, card.dataset.held_out[task.task])]
        elif leaf(task).benchmark.of_surveys:
            name = results.runs["name"][row["run"]]
            text = to_printable(f"{name}: held-out cells are not told apart, as {why}")
            lacking.setdefault(text, []).append(in_way(*task))
    left_out += [f"{why}: {few(tasks)}" for why, tasks in lacking.items()]
    tasks = group_scores(pd.DataFrame(rows, columns=None if rows else [*both]))
    cells = pd.DataFrame(of_cells, columns=[*tasks]).drop(columns="group")
    groups_of = tasks[["run", "task", "way", "group"]]
    cells = groups_of.merge(cells, on=["run", "task", "way"])
    return pd.concat([tasks, cells], ignore_index=True) if len(cells) else tasks, left_out


def _part(card: Tuned | None, task: str) -> str:
    """Say whether a task was trained on; nothing is known without a card."""
    if card is None or task in card.dataset.tasks:
        return SEEN if card else ""
    return HELD_OUT if task in card.dataset.held_out else ELSEWHERE


def _of_cells(
    asked: LeafKey, own: Sequence[TaskAnswers], left_out: Sequence[int]
) -> Iterator[dict[str, Any]]:
    """Yield the change in the cells of a task that were trained on, and in those held out."""
    both = {*own[0].cells} & {*own[1].cells}
    parts = {SEEN_CELLS: both - {*left_out}, HELD_OUT_CELLS: both & {*left_out}}
    for part, of_part in parts.items() if all(parts.values()) else ():
        cells = sorted(of_part)
        old, new = (Measured(*join_truth(asked, of, cells)) for of in own)
        truth = new.part.truth
        marginal = WAYS[asked.way].told(scoring.answer_marginal(truth.weights, truth.p)[0])
        averages_l1 = float(new.part.distance(np.broadcast_to(marginal, new.part.p.shape)))
        yield {
            **{"part": part, "places": [], "people": float(truth.weights[cells].sum())},
            **{"before": old.score, "after": new.score, "l1_before": old.l1, "l1_after": new.l1},
            "draws": [difference(new.score_draws, old.score_draws)],
            "l1_draws": [difference(new.l1_draws, old.l1_draws)],
            **{"averages": float(new.part.score_of(averages_l1)), "averages_l1": averages_l1},
        }


def _average_changes(several: pd.DataFrame) -> dict[str, Any]:
    """Average over tasks, or over seeds."""
    means = {name: math.fsum(several[name]) / len(several) for name in MEANS}
    lists = {name: [x for of in several[name] for x in of] for name in LISTS}
    return {**several.iloc[0], **means, **lists}


def _single(results: Results, changes: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the means of each run over the tasks of groups and parts of them, and each task."""
    by, scores, rows = ["run", "group"], results.scores, []
    is_task = changes["places"].map(bool)
    of_part = changes.assign(task="")
    tasks = of_part[is_task]
    has_parts = tasks.groupby(by)["part"].transform("nunique") > 1
    every = [tasks.assign(part=ALL), tasks[has_parts], of_part[~is_task]]
    listed = pd.concat([*every, changes.assign(task=changes["asked"])])
    for _, of in listed.groupby([*by, "task", "part"], sort=False):
        row = {**_average_changes(of), "asked": " ".join(of["asked"]), "tasks": len(of)}
        compared = None
        if row["places"] and not list_groups()[row["group"]].predicts:
            compared = compare_scores(
                scores.loc[row["places"]], scores[scores["run"] == row["base"]]
            )
        counts = {name: getattr(compared, name, math.nan) for name in COUNTS}
        rows.append({**row, **counts, "compared": compared, "trainings": [row["run"]]})
    # Means first, part by part.
    return sorted(
        rows, key=lambda row: (row["run"], len(PARTS) if row["task"] else PARTS.index(row["part"]))
    )


def _over_seeds(
    results: Results, single: Sequence[Mapping[str, Any]]
) -> tuple[list[dict[str, Any]], list[str]]:
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
    table, cards = pd.DataFrame(single), results.runs["card"]
    trained = {run: _but_for_seeds(results, run) for run in table["run"].unique()}
    means, again = [], set[str]()
    by = [table["run"].map(trained), "base", "group", "part", "task", "asked"]
    for _, several in table.groupby(by, sort=False):
        of = [card for card in cards[several["run"]] if card]
        seeds = {(card.dataset.seed, card.settings.get("seed")) for card in of}
        if 1 < len(several) == len(seeds):
            root = math.sqrt(len(several))
            runs = {"trainings": [*several["run"]], **dict.fromkeys(COUNTS, math.nan)}
            over = {f"{of}over_seeds": stdev(several[f"{of}after"]) / root for of in ("", "l1_")}
            means.append({**_average_changes(several), **runs, **over})
        elif len(several) > 1:
            again |= {*results.runs["name"][several["run"]]}
    return means, sorted(again)


def _but_for_seeds(results: Results, run: int) -> str:
    """Return the set-up of a training and of asking, without seeds and their consequences."""
    if (card := results.runs["card"][run]) is None:
        return str(run)
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
    if any((run, row.group) in silent for run in row.trainings):
        return SILENT
    is_better = (row.difference > 0) == list_groups()[row.group].lead.higher_is_better
    if is_better != (row.l1_after < row.l1_before) and not math.isnan(row.l1_after):
        return "not shown"
    if row.seeds == 1:
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
    return to_printable(f"{card.dataset.kind}, {card.how}{left_out}")


def trained(results: Results) -> Finding:
    """How models were tuned: data, settings, steps and validation losses, from their cards."""
    rows = []
    for model, card in dict(zip(results.runs["model"], results.runs["card"], strict=True)).items():
        if card is None:
            continue
        of, apart = card.dataset, card.dataset.held_out
        settings = ", ".join(f"{name}={value}" for name, value in card.settings.items())
        cells = [cell for task in of.tasks for cell in {*apart.get(task, ())}]
        rows.append(
            {
                **{"model": model, "tuned from": to_printable(card.base), "data": of.kind},
                "survey": to_printable(f"{of.survey} {of.vintage}"),
                "written by": to_printable(of.writer) if of.facts else "",
                "rows": of.rows.get("train", math.nan),
                "of validation": of.rows.get("validation", math.nan),
                **{name: of.counts.get(name, math.nan) for name in ("people", "sentence forms")},
                "tasks": len(of.tasks),
                "tasks held out": len(apart.keys() - {*of.tasks}),
                **{"cells held out": len(cells), "seed of data": of.seed},
                **{"how": to_printable(card.how), "settings of training": to_printable(settings)},
                **{"steps": card.steps, "kept step": card.best_step},
                **{"its loss": card.best_loss, "the last loss": card.last_loss},
            }
        )
    return make_finding("trained", rows, results.runs)


def learning(results: Results) -> Finding:
    """Score against the number of answers trained on, over the tasks that all of a curve share."""
    runs, scores = results.runs, group_scores(results.scores)
    scores = scores[scores["value"].notna()]
    cards = runs["card"].dropna()
    kinds = cards.map(lambda card: card.dataset.kind)
    said = {**cards.map(_trained_on), -1: KNOWS_MARGINAL}
    number = cards.map(lambda card: card.dataset.rows.get("train", 0)).where(kinds == "answers")
    tables = []
    for base, of in _join_bases(results).groupby("base", sort=False):
        tuned = [run for run in of["run"].unique() if run in cards]
        curve = [run for run in tuned if number[run] > 0]
        if number[curve].nunique() < 2:
            continue
        soft = [run for run in tuned if kinds[run] == "distributions"]
        curve.sort(key=lambda run: (said[run], number[run]))
        ordered = [*curve, base, *soft, -1]
        here = scores[scores["run"].isin(ordered)]
        asked = here.groupby(["group", *KEY])["run"].transform("size")
        here = here[asked == len(ordered) - 1]
        known = here[here["run"] == base]
        known = known.assign(run=-1, value=score_known(known, runs)["score"], draws=None)
        means = average(pd.concat([here, known], ignore_index=True), ["run", "group"])
        # One who is not known in every task has no mean.
        means = means[means["tasks"] == means.groupby("group")["tasks"].transform("max")]
        means = means.assign(
            trained_on=means["run"].map({**said, base: "base"}),
            base=runs["name"][base],
            rows=means["run"].map(number[curve]),
        )
        tables.append(means.iloc[means["run"].map(ordered.index).argsort(kind="stable")])
    if not tables:
        return make_finding("learning", [], runs)
    table = pd.concat(tables, ignore_index=True).drop(columns=["choice_mass", "answered"])
    table["model"] = np.where(table["run"] < 0, f"{KNOWS_MARGINAL} (baseline)", "")
    table["kind"] = np.where(table["run"] < 0, "respondent", "")
    return make_finding("learning", table, runs)


def losses(results: Results) -> Finding:
    """Losses of each training, step by step, with the kept checkpoint."""
    tables, left_out = [], []
    here = results.runs.reindex(columns=["card_folder", "model"]).dropna()
    for folder, model in here.drop_duplicates("card_folder").itertuples(index=False):
        try:
            tables.append(losses_of(folder).assign(model=model))
        except EpidemiaError as error:
            left_out.append(str(error))
    rows = pd.concat(tables, ignore_index=True) if tables else []
    return make_finding("losses", rows, results.runs, left_out)


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
    path, best = folder / LOSSES, read_card(folder, Tuned).best_step
    try:
        of = {"step": int, "epoch": float, "split": str, "loss": float}
        table = pd.read_csv(path)[[*of]].astype(of)
        if table.empty or {*table["split"]} - {"train", "validation"}:
            raise ValueError(f"{len(table)} losses of {sorted({*table['split']})}")
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise EpidemiaError(
            f"{path} is not as 'epidemia finetune train' writes it ({type(error).__name__}: "
            f"{error}): expected columns step, epoch, split (train or validation), loss; copy it "
            "again from the folder that this command wrote"
        ) from None
    table["loss"] = table["loss"].where(np.isfinite(table["loss"]))
    kept = table[table["step"] == best][:1].assign(split="kept", loss=math.nan)
    table = pd.concat([table, kept], ignore_index=True)
    table.insert(0, "model", folder.resolve().name)
    return table
