"""From a survey to a dataset to tune a model on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lm_eval_epidemia.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.finetune.card import KINDS, DatasetCard
from lm_eval_epidemia.finetune.dataset import FEWEST, check_out, divided, save
from lm_eval_epidemia.finetune.hold_out import NOTHING, HoldOut, hold_out_of, in_training
from lm_eval_epidemia.finetune.prompts import answers, distributions, prompts_of
from lm_eval_epidemia.surveys.record import record
from lm_eval_epidemia.surveys.record import task as declared_task

__all__ = ["ROWS", "make"]

#: Rows, where a number is not given: as many notes as in the study.
ROWS = 2500


def make(
    survey: str,
    kind: str,
    out: Path,
    *,
    n: int | None = None,
    seed: int = 0,
    tasks: Sequence[str] | None = None,
    hold_out: HoldOut = NOTHING,
) -> DatasetCard:
    """Make a dataset and write it.

    Parameters
    ----------
    survey : str
    kind : str
        A key of `card.KINDS`.
    out : Path
        Its folder: a new one, or one that holds such a dataset, which is replaced.
    n : int, optional
        Rows, training and validation together; `ROWS` if not given, or of ``distributions`` every
        prompt.
    seed : int
        The same seed gives the same rows.
    tasks : sequence of str, optional
        What it is about; the survey's tasks of one condition if not given.
    hold_out : HoldOut
        What is left out.

    Returns
    -------
    DatasetCard

    Raises
    ------
    EpidemiaError
        If something of this does not exist or does not fit; nothing is written then.
    """
    record(survey)
    if kind not in KINDS:
        raise EpidemiaError(f"--kind {kind!r} is not known ({nearest(kind, KINDS)})")
    if seed < 0:
        raise EpidemiaError(f"--seed {seed} is negative: give 0 or more")
    if n is not None and n < FEWEST:
        raise EpidemiaError(
            f"--n {n}: at least {FEWEST} rows, so that a tenth can be the validation split"
        )
    check_out(out.resolve())
    truths = _truths(survey, tasks)
    held_out = hold_out_of(hold_out, truths, seed)
    trained = in_training(truths, held_out)
    drawing, dividing = (np.random.default_rng([seed, stream]) for stream in (0, 1))
    by_task = {name: prompts_of(truths[name], held_out.get(name, [])) for name in trained}
    if kind == "answers":
        rows = answers(by_task, n or ROWS, drawing)
    else:
        rows = distributions(by_task, n, drawing)
    if (size := len(rows["prompt"])) < FEWEST:
        raise EpidemiaError(
            f"{size} rows are left, {FEWEST} are needed: hold out less, or give more --tasks"
        )
    splits = divided(rows, dividing)
    truth = truths[trained[0]]
    card = DatasetCard(
        kind=kind,
        survey=survey,
        vintage=truth.vintage,
        fingerprint=truth.fingerprint,
        seed=seed,
        rows={name: len(part) for name, part in splits.items()},
        tasks=trained,
        held_out=held_out,
        counts={"prompts": len(set(rows["prompt"]))},
    )
    save(out, splits, card)
    return card


def _truths(survey: str, tasks: Sequence[str] | None) -> dict[str, store.GroundTruth]:
    """Load what a dataset is about; all of one vintage of one survey."""
    if tasks is None:
        here = [name for name in store.available() if declared_task(name).survey == survey]
        tasks = [name for name in here if declared_task(name).kind == "low"]
        if not tasks:
            raise EpidemiaError(
                f"no task of {survey} with one condition has a ground truth here"
                + (f": choose others with --tasks, as {here[0]}" if here else "")
            )
    if others := [name for name in tasks if declared_task(name).survey != survey]:
        raise EpidemiaError(f"--tasks: {few(others)} is of another survey than {survey}")
    truths = {name: store.load(name) for name in dict.fromkeys(tasks)}
    by_source: dict[tuple[str, str], list[str]] = {}
    for name, truth in truths.items():
        by_source.setdefault((truth.vintage, truth.fingerprint), []).append(name)
    if len(by_source) > 1:
        raise EpidemiaError(
            f"the tasks have their truths from several builds of {survey}: "
            + "; ".join(f"{vintage}: {few(names)}" for (vintage, _), names in by_source.items())
            + ": choose those of one with --tasks"
        )
    return truths
