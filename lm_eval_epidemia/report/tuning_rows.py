"""The rows behind the figures of fine-tuning, and the table of the learning curve."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.findings.data import as_point
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.means import Mean, mean_over, shared_tasks
from lm_eval_epidemia.findings.pairs import TunedRun
from lm_eval_epidemia.findings.reference import KNOWS_MARGINAL, known_over
from lm_eval_epidemia.findings.section import Section
from lm_eval_epidemia.report.tuning import part_of_task
from lm_eval_epidemia.results.card import LOSSES, Tuned
from lm_eval_epidemia.results.entry import Entry, leaf

Rows = list[dict[str, Any]]

#: What to do where nothing was tuned.
NOBODY = (
    "no tuned model among the results, with its base: give the results of both, with the files of "
    "the adapter or weights (epidemia_finetune.json, losses.csv) where model_args name them or "
    "copied beside the results, or name the models with --pair BASE=TUNED"
)


def tuning_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `tuning`: a panel per tuned model and group."""
    made: Rows = []
    for run in report.tuned:
        if run.base is None:
            continue
        for column in report.columns:
            for asked in shared_tasks([run.entry, run.base], column):
                after = run.entry.scores[asked]
                point = as_point(run.entry, Mean(after.value, after.error, 1), groups()[column])
                known = known_over(run.entry, [asked])[0]
                made.append(
                    {
                        **point,
                        "group": column,
                        "panel": f"{run.entry.name}: {column}",
                        "task": asked.task.removeprefix(f"{leaf(asked).entry.group}_"),
                        "part": part_of_task(run.card, asked) or "not known",
                        "before": run.base.scores[asked].value,
                        "after": after.value,
                        "mean": None if math.isnan(known) else known,
                    }
                )
    if not made:
        raise EpidemiaError(NOBODY)
    return made


def read_losses(folder: Path) -> Rows:
    """Read the losses of a training.

    Parameters
    ----------
    folder : Path
        Of an adapter, of tuned weights, or where its files were copied.

    Returns
    -------
    list of dict
        ``step`` (int), ``epoch``, ``split`` (train or validation), ``loss`` (None where it was
        not finite).

    Raises
    ------
    EpidemiaError
        If there are none, or they are not what training writes.
    """
    path = folder / LOSSES
    try:
        with path.open(encoding="utf-8", newline="") as file:
            found: Rows = [
                {
                    "step": int(one["step"]),
                    "epoch": float(one["epoch"]),
                    "split": one["split"],
                    "loss": loss if math.isfinite(loss := float(one["loss"])) else None,
                }
                for one in csv.DictReader(file)
            ]
    except OSError as error:
        raise EpidemiaError(
            f"{path} cannot be read ({error.strerror or error}): copy it from the folder that "
            "'epidemia finetune train' wrote"
        ) from None
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise EpidemiaError(
            f"{path} is not what 'epidemia finetune train' writes ({type(error).__name__}: "
            f"{error}): expected columns step, epoch, split, loss; copy it again"
        ) from None
    splits = {one["split"] for one in found}
    if not found or not splits <= {"train", "validation"}:
        raise EpidemiaError(
            f"{path}: {len(found)} losses of {sorted(splits)}, expected some of train or validation"
        )
    return found


def rows_of_losses(model: str, card: Tuned, folder: Path) -> Rows:
    """Rows of the figure `losses` for one model."""
    lines = [{"model": model, "kind": "loss", **one} for one in read_losses(folder)]
    return [*lines, {"model": model, "kind": "kept", "step": card.best_step}]


def loss_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `losses`: of every tuned model whose folder is here, once."""
    made: Rows = []
    done, problems = set(), []
    for run in report.tuned:
        if run.card is None or run.folder is None or run.folder in done:
            continue
        done.add(run.folder)
        try:
            made += rows_of_losses(run.entry.model, run.card, run.folder)
        except EpidemiaError as error:
            problems.append(str(error))
    if not made:
        raise EpidemiaError("\n".join(["no losses of a tuned model are here", *problems]))
    return made


def _curves(report: Report) -> dict[str, list[TunedRun]]:
    """Return the runs tuned on answers, by base; only where their numbers of rows differ."""
    found: dict[str, list[TunedRun]] = {}
    for run in report.tuned:
        card = run.card
        if run.base and card and card.dataset.kind == "answers" and card.dataset.rows.get("train"):
            found.setdefault(run.base.name, []).append(run)
    return {
        base: sorted(runs, key=lambda run: (_who(run), _trained(run)))
        for base, runs in found.items()
        if len({_trained(run) for run in runs}) > 1
    }


def _who(run: TunedRun) -> str:
    """Say what a run was trained on and how: "answers, lora"; what knew less is another line."""
    assert run.card is not None
    left_out = ", part held out" if run.card.dataset.held_out else ""
    return f"{run.card.dataset.kind}, {run.card.how}{left_out}"


def _trained(run: TunedRun) -> int:
    assert run.card is not None
    return run.card.dataset.rows["train"]


def learning_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `learning`, over the tasks that all runs of a curve share."""
    made: Rows = []
    for base_name, runs in _curves(report).items():
        base = runs[0].base
        assert base is not None
        soft = [
            one
            for one in report.tuned
            if one.base is base and one.card and one.card.dataset.kind == "distributions"
        ]
        for column in report.columns:
            tasks = shared_tasks([base, *(run.entry for run in [*runs, *soft])], column)
            if not tasks:
                continue
            knows = Mean(known_over(base, tasks)[0], math.nan, len(tasks))
            points: list[tuple[str, str, int | None, Entry, Mean]] = [
                *(
                    ("answers", _who(run), _trained(run), run.entry, mean_over(run.entry, tasks))
                    for run in runs
                ),
                ("base", "base", None, base, mean_over(base, tasks)),
                ("known", KNOWS_MARGINAL, None, Entry(KNOWS_MARGINAL), knows),
                *(
                    ("distributions", _who(run), None, run.entry, mean_over(run.entry, tasks))
                    for run in soft
                ),
            ]
            made += [
                {
                    **as_point(entry, mean, groups()[column]),
                    "base": base_name,
                    "group": column,
                    "panel": f"{base_name}: {column}",
                    "rows": trained,
                    "kind": kind,
                    "who": who,
                    "error": None if math.isnan(mean.error) else mean.error,
                }
                for kind, who, trained, entry, mean in points
                if not math.isnan(mean.value)
            ]
    if not made:
        raise EpidemiaError(
            "no learning curve: it takes two or more models tuned from one base on different "
            "numbers of answers ('epidemia finetune notes --kind answers')"
        )
    return made


def learning_table(report: Report) -> list[Section]:
    """Return the learning curves as a table."""
    try:
        found = learning_rows(report)
    except EpidemiaError:
        return []
    cells = []
    for one in found:
        digits = groups()[one["group"]].digits
        error = "" if one["error"] is None else f" ± {one['error']:.{digits}f}"
        cells.append(
            [
                one["model"],
                one["base"],
                one["group"],
                one["who"],
                "" if one["rows"] is None else f"{one['rows']:,}",
                str(one["tasks"]),
                f"{one['score']:.{digits}f}{error}",
            ]
        )
    header = ("model", "base", "group", "trained on", "rows", "tasks", "value")
    return [
        Section(
            "Learning curve",
            header,
            cells,
            "Over the tasks that all of a curve share, with "
            "the base, the respondent that knows P(Y) alone, and training on the "
            "distributions themselves.",
            3,
        )
    ]
