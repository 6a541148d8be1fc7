"""Adjusted weights, where a file holds only part of the population it speaks for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate.sampling import Codes
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata, joint_levels
from lm_eval_epidemia.surveys.record import Task
from lm_eval_epidemia.surveys.variable import Adjustment, Margin, Rake, Rescale

#: Raking stops when no cell of a margin is further off than this (as a share of the population);
#: margins written in a record are rounded to six decimals and so contradict each other by less.
TOLERANCE = 1e-5
ROUNDS = 500


class Target(NamedTuple):
    """A margin to meet: which of its cells each record is in, and the share of each cell."""

    cell: Codes  # shape (n,), MISSING where a record lacks one of the variables
    shares: Array  # shape (cells,), sums to 1


class Adjusted(NamedTuple):
    """Weights of a task after an adjustment.

    Attributes
    ----------
    weight : ndarray, shape (n,)
        For P(Y | X).
    cell_weight : ndarray, shape (n,)
        For P(X).
    notes : list of dict
        What was done, for the registry and the data card; plain JSON values.
    """

    weight: Array
    cell_weight: Array
    notes: list[dict[str, Any]]


def rake(weight: Array, targets: Sequence[Target]) -> Array:
    """Rake weights to known margins (iterative proportional fitting).

    Parameters
    ----------
    weight : ndarray, shape (n,)
        Start weights.
    targets : sequence of Target
        Records that lack a variable of any margin keep their weight, and the others meet the
        shares among themselves. A cell of a margin without any record cannot be met: its share is
        spread over the others in proportion.

    Returns
    -------
    ndarray, shape (n,)
        With the sum of `weight`.

    Raises
    ------
    EpidemiaError
        If the margins contradict each other (no convergence).
    """
    complete = np.all([target.cell != MISSING for target in targets], axis=0)
    raked = weight.astype(np.float64).copy()
    inside = raked[complete]
    cells = [target.cell[complete] for target in targets]
    for _ in range(ROUNDS):
        worst = 0.0
        for target, cell in zip(targets, cells, strict=True):
            totals = np.bincount(cell, weights=inside, minlength=len(target.shares))
            reachable = np.where(totals > 0, target.shares, 0.0)
            aim = reachable / reachable.sum() * totals.sum()
            worst = max(worst, float(np.abs(aim - totals).max() / totals.sum()))
            inside = inside * np.divide(aim, totals, out=np.ones_like(aim), where=totals > 0)[cell]
        if worst < TOLERANCE:
            raked[complete] = inside
            return raked
    raise EpidemiaError(f"raking did not converge: the margins contradict each other ({worst:.0e})")


def _margin(
    data: Microdata, margin: Margin, weight: Array, population: NDArray[np.bool_]
) -> Target:
    """Return the margin of all records; its shares, where none are written, are of the population.

    Raises
    ------
    EpidemiaError
        If it has another number of shares than its levels make cells.
    """
    sizes = [len(data.variables[name].levels) for name in margin.variables]
    cell, cells = joint_levels([data.levels[x] for x in margin.variables], sizes), math.prod(sizes)
    if margin.shares is None:
        inside = population & (cell != MISSING)
        shares = np.bincount(cell[inside], weights=weight[inside], minlength=cells).astype(float)
    else:
        shares = np.asarray(margin.shares, dtype=np.float64).ravel()
    if len(shares) != cells:
        raise EpidemiaError(
            f"{data.record.survey}: the margin of {' x '.join(margin.variables)} has "
            f"{len(shares)} shares, its levels make {cells}"
        )
    return Target(cell, shares / shares.sum())


def _rake(data: Microdata, rule: Rake, weight: Array) -> tuple[Array, dict[str, Any]]:
    population = np.all([np.ones(len(data), bool), *map(data.within, rule.among)], axis=0)
    known = population
    if rule.known is not None:
        known = population & ~np.isnan(data.columns[rule.known])
    targets, met = [], []
    for margin in rule.margins:
        cell, shares = _margin(data, margin, weight, population)
        targets.append(Target(cell[known], shares))
        without = np.bincount(cell[known & (cell != MISSING)], minlength=len(shares)) == 0
        of = {"variables": list(margin.variables), "cells": int((shares > 0).sum())}
        met.append(of | {"share_in_cells_without_a_record": float(shares[without].sum())})
    note = _note(rule) | {"records": int(known.sum()), "population": int(population.sum())}
    note["margins"] = met
    if rule.known is not None and (known == population).all():
        return weight, {**note, "applied": False}
    raked = rake(weight[known], targets)
    adjusted = np.where(population, 0.0, weight)
    adjusted[known] = raked * (weight[population].sum() / raked.sum())
    squares = float((raked**2).sum() / raked.sum() ** 2 * known.sum())
    return adjusted, {**note, "applied": True, "weight_effect": squares}


def _note(rule: Adjustment) -> dict[str, Any]:
    return {"method": rule.method, "reason": " ".join(rule.reason.split())}


def adjust(data: Microdata, rules: Sequence[Adjustment], task: Task) -> Adjusted:
    """Apply the adjustments of a vintage that concern a task.

    Parameters
    ----------
    data : Microdata
    rules : sequence of Rake or Rescale
    task : Task

    Returns
    -------
    Adjusted
    """
    weight = cell_weight = data.weight
    notes: list[dict[str, Any]] = []
    concerned = {task.outcome, *data.record.parts(task.outcome)}
    for rule in rules:
        if isinstance(rule, Rescale):
            factor = rule.total / weight.sum()
            together = cell_weight is weight
            weight = weight * factor
            cell_weight = weight if together else cell_weight * factor
            notes.append({**_note(rule), "factor": float(factor), "applied": True})
        elif not rule.outcomes or concerned & {*rule.outcomes}:
            before, (cell_weight, note) = cell_weight, _rake(data, rule, cell_weight)
            # Without conditions there is no cell whose respondents could count alike.
            if rule.cells_only and task.given:
                notes.append({**note, "for": "P(X)"})
            elif before is weight:
                weight = cell_weight
                notes.append({**note, "for": "P(X) and P(Y | X)" if task.given else "P(Y)"})
            else:
                # An earlier rule was for P(X) alone: P(Y | X) is raked from its own weight.
                weight, own = _rake(data, rule, weight)
                notes += [{**note, "for": "P(X)"}, {**own, "for": "P(Y | X)"}]
    return Adjusted(weight, cell_weight, notes)
