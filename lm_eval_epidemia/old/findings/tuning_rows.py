"""The rows of the figures on fine-tuning, and the table of the learning curve."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from lm_eval_epidemia.benchmarks import groups
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.old.findings.data import Rows, as_point, finite, some
from lm_eval_epidemia.old.findings.rows import Column, Finding, Number, Row
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.means import mean_over, shared_tasks
from lm_eval_epidemia.old.findings.reference import KNOWS_MARGINAL, known_over
from lm_eval_epidemia.old.findings.tuned import TunedRun
from lm_eval_epidemia.old.findings.tuning import part_of_task
from lm_eval_epidemia.results.card import LOSSES, Tuned
from lm_eval_epidemia.results.entry import Entry, leaf

#: What to do where nothing was tuned.
NOBODY = (
    "no tuned model with its base is among the results. Give the results of both, with the files "
    "of the training (epidemia_finetune.json, losses.csv) in the folder that model_args name or "
    "beside the results; or name the models with --pair BASE=TUNED"
)


def tuning_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `tuning`: a panel per tuned model and group."""
    rows = [
        {
            **as_point(run.entry, mean_over(run.entry, [asked]), groups()[column]),
            "group": column,
            "panel": f"{run.entry.name}: {column}",
            "task": asked.task.removeprefix(f"{leaf(asked).entry.group}_"),
            "part": part_of_task(run.card, asked) or "not known",
            "before": run.base.scores[asked].value,
            "after": run.entry.scores[asked].value,
            "mean": finite(known_over(run.entry, [asked])[0]),
        }
        for run in report.tuned
        if run.base is not None
        for column in report.columns
        for asked in shared_tasks([run.entry, run.base], column)
    ]
    return some(rows, NOBODY)


def read_losses(folder: Path) -> Rows:
    """Read the losses of a training.

    Parameters
    ----------
    folder : Path
        The folder of an adapter, of tuned weights, or of copies of their files.

    Returns
    -------
    list of dict
        ``step`` (int), ``epoch``, ``split`` (train or validation), ``loss`` (None where it was
        not finite).

    Raises
    ------
    EpidemiaError
        If there are none, or they are not as training writes them.
    """
    path = folder / LOSSES
    try:
        with path.open(encoding="utf-8", newline="") as file:
            losses: Rows = [
                {
                    "step": int(line["step"]),
                    "epoch": float(line["epoch"]),
                    "split": line["split"],
                    "loss": finite(float(line["loss"])),
                }
                for line in csv.DictReader(file)
            ]
    except OSError as error:
        raise EpidemiaError(
            f"{path} cannot be read ({error.strerror or error}): copy it from the folder that "
            "'epidemia finetune train' wrote"
        ) from None
    except (KeyError, TypeError, ValueError, csv.Error) as error:
        raise EpidemiaError(
            f"{path} is not as 'epidemia finetune train' writes it ({type(error).__name__}: "
            f"{error}): expected columns step, epoch, split, loss; copy it again"
        ) from None
    splits = {line["split"] for line in losses}
    if not losses or not splits <= {"train", "validation"}:
        raise EpidemiaError(
            f"{path}: {len(losses)} losses of {sorted(splits)}, expected losses of train or "
            "validation"
        )
    return losses


def rows_of_losses(model: str, card: Tuned, folder: Path) -> Rows:
    """Rows of the figure `losses` for one model."""
    lines = [{"model": model, "kind": "loss", **line} for line in read_losses(folder)]
    return [*lines, {"model": model, "kind": "kept", "step": card.best_step}]


def loss_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `losses`, once for every tuned model whose folder is here."""
    folders: dict[Path, tuple[str, Tuned]] = {}
    for run in report.tuned:
        if run.card and run.folder:
            folders.setdefault(run.folder, (run.entry.model, run.card))
    rows: Rows = []
    problems = ["no losses of a tuned model were found"]
    for folder, (model, card) in folders.items():
        try:
            rows += rows_of_losses(model, card, folder)
        except EpidemiaError as error:
            problems.append(str(error))
    return some(rows, "\n".join(problems))


def _curves(report: Report) -> Iterator[list[TunedRun]]:
    """Yield the runs tuned on answers, base by base, if their numbers of rows differ."""
    by_base: dict[str, list[TunedRun]] = {}
    for run in report.tuned:
        card = run.card
        if run.base and card and card.dataset.kind == "answers" and card.dataset.rows.get("train"):
            by_base.setdefault(run.base.name, []).append(run)
    for runs in by_base.values():
        if len({_trained(run) for run in runs}) > 1:
            yield sorted(runs, key=lambda run: (_who(run), _trained(run)))


def _who(run: TunedRun) -> str:
    """Describe the training of a run: "answers, lora"; less informed runs are another line."""
    assert run.card is not None
    left_out = ", part held out" if run.card.dataset.held_out else ""
    return f"{run.card.dataset.kind}, {run.card.how}{left_out}"


def _told_apart(runs: Sequence[TunedRun]) -> list[str]:
    """Describe the training of each run, with the settings that distinguish similar ones."""
    said = []
    for run in runs:
        alike = [other for other in runs if _who(other) == _who(run)]
        settings = [other.card.settings for other in alike if other.card]
        own = run.card.settings if run.card else {}
        differ = [
            f"{key} {value:g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in own.items()
            if any(other.get(key) != value for other in settings)
        ]
        more = differ or [run.entry.name] * (len(alike) > 1)
        said.append(", ".join([_who(run), *more]))
    return said


def _trained(run: TunedRun) -> int:
    assert run.card is not None
    return run.card.dataset.rows["train"]


def learning_rows(report: Report, _task: str | None = None) -> Rows:
    """Rows of the figure `learning`, over the tasks that all runs of a curve share."""
    rows: Rows = []
    for runs in _curves(report):
        base = runs[0].base
        assert base is not None
        soft = [
            run
            for run in report.tuned
            if run.base is base and run.card and run.card.dataset.kind == "distributions"
        ]
        for column in report.columns:
            if not (tasks := shared_tasks([base, *(run.entry for run in [*runs, *soft])], column)):
                continue
            knows = Number(known_over(base, tasks)[0], tasks=len(tasks))
            points: list[tuple[str, str, int | None, Entry, Number]] = [
                *(
                    ("answers", _who(run), _trained(run), run.entry, mean_over(run.entry, tasks))
                    for run in runs
                ),
                ("base", "base", None, base, mean_over(base, tasks)),
                ("known", KNOWS_MARGINAL, None, Entry(KNOWS_MARGINAL), knows),
                *(
                    ("distributions", who, None, run.entry, mean_over(run.entry, tasks))
                    for who, run in zip(_told_apart(soft), soft, strict=True)
                ),
            ]
            rows += [
                {
                    **as_point(entry, mean, groups()[column]),
                    "base": base.name,
                    "group": column,
                    "panel": f"{base.name}: {column}",
                    "rows": trained,
                    "kind": kind,
                    "who": who,
                    "error": finite(mean.error),
                }
                for kind, who, trained, entry, mean in points
                if not math.isnan(mean.value)
            ]
    return some(
        rows,
        "no learning curve: it needs two or more models tuned from one base on different numbers "
        "of answers ('epidemia finetune notes --kind answers')",
    )


def learning_table(report: Report) -> list[Finding]:
    """Return the learning curves as a table."""
    try:
        points = learning_rows(report)
    except EpidemiaError:
        return []
    columns = ("model", "base", "group", "trained on", "rows", "tasks", "value")
    rows = [
        Row(
            {
                **point,
                "trained on": point["who"],
                "value": Number(point["score"], math.nan if error is None else error),
            },
            group=point["group"],
        )
        for point in points
        for error in (point["error"],)
    ]
    note = (
        "Over the tasks that all models of a curve share. Added: the base, the respondent that "
        "knows P(Y) alone, and training on the distributions themselves."
    )
    return [Finding("learning", "Learning curve", [*map(Column, columns)], rows, note, 3)]
