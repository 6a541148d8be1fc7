"""Hold tasks and cells out of training, to separate seen from unseen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.core.console import split_names
from lm_eval_epidemia.core.errors import EpidemiaError, few, suggest
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task

#: Among the seeds of a dataset, so that the cells do not depend on what else is drawn.
_STREAM = 3

_EXPECTED = "expected cells=SHARE, conditions=NAME,... or tasks=NAME,..."


class HoldOut(NamedTuple):
    """A request to hold out cells, conditions or tasks.

    Attributes
    ----------
    cells : float
        Share of the cells of each task, in [0, 1); 0 for none.
    conditions : tuple of str
        Variables: tasks with one of these conditions are held out completely.
    tasks : tuple of str
        Names of tasks.
    """

    cells: float = 0.0
    conditions: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()

    @classmethod
    def parse(cls, given: Sequence[str]) -> HoldOut:
        """Read ``cells=0.25``, ``conditions=race`` and ``tasks=A,B``.

        Several texts are combined: names of a repeated key are joined, repeated shares are refused.

        Raises
        ------
        EpidemiaError
            If a text has another form.
        """
        cells, names = 0.0, {"conditions": list[str](), "tasks": list[str]()}
        for text in given:
            key, _, value = text.partition("=")
            if not value or key not in ("cells", *names):
                raise EpidemiaError(f"--hold-out {text!r}: {_EXPECTED}")
            if key != "cells":
                names[key] += split_names([value])
            elif cells:
                raise EpidemiaError(
                    f"--hold-out cells= is given twice, {cells:g} and {value}: give one share"
                )
            else:
                cells = _share(text, value)
        return cls(cells, *(tuple(dict.fromkeys(listed)) for listed in names.values()))


#: All is trained on.
NOTHING = HoldOut()


def _share(text: str, value: str) -> float:
    try:
        share = float(value)
    except ValueError:
        share = float("nan")
    if not 0 < share < 1:
        raise EpidemiaError(f"--hold-out {text!r}: expected a share between 0 and 1, as cells=0.25")
    return share


def hold_out_of(
    asked: HoldOut, truths: Mapping[str, GroundTruth], seed: int
) -> dict[str, list[int]]:
    """Return the numbers of the held-out cells, by task.

    A share of cells is drawn once for all tasks with the same conditions, so that a held-out group
    of people is new to the model for every outcome. Tasks with other conditions draw separately:
    people held out by age and sex may be seen by age.

    Parameters
    ----------
    asked : HoldOut
    truths : mapping of str to GroundTruth
        Truths of the tasks that the dataset would be about, by name.
    seed : int

    Returns
    -------
    dict of str to list of int
        Sorted; only tasks with held-out cells.

    Raises
    ------
    EpidemiaError
        If a name is not one of these tasks or their conditions, or if no cell is left to train on,
        in total or in a task that is not named.
    """
    given = {name: declared_task(name).given for name in truths}
    conditions = {condition for names in given.values() for condition in names}
    for name in (name for name in asked.conditions if name not in conditions):
        raise EpidemiaError(
            f"--hold-out conditions={name}: no task in the dataset has this condition "
            f"({suggest(name, conditions)})"
        )
    for name in (name for name in asked.tasks if name not in truths):
        raise EpidemiaError(
            f"--hold-out tasks={name}: the dataset has no such task "
            f"({suggest(name, truths)}); --tasks chooses its tasks"
        )
    drawn = _draw_cells(asked.cells, truths, given, seed) if asked.cells else {}
    held_out: dict[str, list[int]] = {}
    for name, truth in truths.items():
        if name in asked.tasks or set(given[name]) & set(asked.conditions):
            held_out[name] = list(range(len(truth.given)))
        elif asked.cells:
            out = [cell for cell, labels in enumerate(truth.given) if labels in drawn[given[name]]]
            if len(out) == len(truth.given):
                raise EpidemiaError(
                    f"--hold-out cells={asked.cells:g} leaves none of the {len(out)} cells of "
                    f"{name}: give a smaller share"
                )
            if out:
                held_out[name] = out
    if not list_trained(truths, held_out):
        raise EpidemiaError(
            f"--hold-out leaves nothing to train on: all of {few(list(truths))} are held out"
        )
    return held_out


def hold_out_of_people(
    asked: HoldOut, truths: Mapping[str, GroundTruth], seed: int
) -> tuple[dict[str, list[int]], dict[str, list[str]]]:
    """As `hold_out_of`, for texts that state all conditions of a person together.

    Cells come from the tasks with one condition. For people in a held-out cell the condition is not
    stated, which also holds out all cells of several conditions that contain it.

    Returns
    -------
    dict of str to list of int
        Numbers of cells, by task.
    dict of str to list of str
        Labels not stated, by condition.

    Raises
    ------
    EpidemiaError
        As for `hold_out_of`, or if a share of cells is requested and no task has exactly one
        condition.
    """
    held_out = hold_out_of(asked._replace(cells=0.0), truths, seed)
    if not asked.cells:
        return held_out, {}
    given = {name: declared_task(name).given for name in truths if name not in held_out}
    single = {name: truths[name] for name, names in given.items() if len(names) == 1}
    if not single:
        raise EpidemiaError(
            f"--hold-out cells={asked.cells:g}: people are held out by one condition, but no "
            "task of the notes has exactly one: choose such tasks with --tasks, or give "
            "conditions= or tasks="
        )
    unsaid: dict[str, set[str]] = {}
    for name, cells in hold_out_of(HoldOut(asked.cells), single, seed).items():
        labels = {truths[name].given[cell][0] for cell in cells}
        unsaid.setdefault(given[name][0], set()).update(labels)
    for name, names in given.items():
        is_out = [
            any(label in unsaid.get(of, ()) for label, of in zip(labels, names, strict=True))
            for labels in truths[name].given
        ]
        if any(is_out):
            held_out[name] = np.flatnonzero(is_out).tolist()
    in_order = {name: held_out[name] for name in truths if name in held_out}
    return in_order, {name: sorted(labels) for name, labels in unsaid.items()}


def _draw_cells(
    share: float, truths: Mapping[str, GroundTruth], given: Mapping[str, tuple[str, ...]], seed: int
) -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Draw cells for each set of conditions, at least one."""
    cells: dict[tuple[str, ...], dict[tuple[str, ...], None]] = {}
    for name, truth in truths.items():
        cells.setdefault(given[name], {}).update(dict.fromkeys(truth.given))
    drawn = {}
    for names, labels in sorted(cells.items()):
        listed = sorted(labels)
        # By the names, so that what one set of conditions draws does not depend on the others.
        rng = np.random.default_rng([seed, _STREAM, *"\0".join(names).encode()])
        chosen = rng.permutation(len(listed))[: max(1, round(share * len(listed)))]
        drawn[names] = {listed[k] for k in chosen}
    return drawn


def list_trained(truths: Mapping[str, GroundTruth], held_out: Mapping[str, list[int]]) -> list[str]:
    """Return the tasks with a cell to train on."""
    return [name for name, of in truths.items() if len(held_out.get(name, ())) < len(of.given)]
