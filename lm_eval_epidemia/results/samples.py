"""Read lm-eval's sample files: a model's answers in every cell of a task, whole or in parts."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.ask.bounds import is_withheld
from lm_eval_epidemia.ask.variants import MOST_SAMPLES
from lm_eval_epidemia.ask.way import DistributionWay
from lm_eval_epidemia.benchmarks import WAYS, Way, in_way
from lm_eval_epidemia.benchmarks.observation import undated
from lm_eval_epidemia.benchmarks.observation.metrics import DROPPED, compare_task
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.results.decode import LeafKey
from lm_eval_epidemia.score import monte_carlo

#: By how much a probability may be off that was kept to six significant digits, and a little more.
KEPT = 5e-7 + 1e-12


class TaskAnswers(NamedTuple):
    """A model's distributions, from its samples.

    Attributes
    ----------
    cells : list of int
        Numbers of the C' completely answered cells.
    q : ndarray, shape (C', K)
    by_position : ndarray, shape (K,), or None
        Mean probability of each displayed position (for written letters, share); None if the order
        of answers does not change.
    l1 : float
        The distance as the task's metric computes it.
    by_order : ndarray, shape (C', M, K), or None
        The answers under each of M orderings; None if all orderings were asked.
    counts : ndarray of int, shape (C', K + 1), or None
        For drawn answers: the counts of each level and, last, of unreadable answers.
    """

    cells: list[int]
    q: Array
    by_position: Array | None
    l1: float
    by_order: Array | None = None
    counts: NDArray[np.int64] | None = None


def stamp_of(results: Path) -> str:
    """Return the time that ends a result file's name, and those of its samples.

    Of ``results_2026-11-21T15-43-16.265965.json``, as of any other name, ``_2026-11-...``.
    """
    found = re.search(r"_\d{4}-\d\d-\d\dT[\d.:-]+$", results.stem)
    return found[0] if found else results.stem.removeprefix("results")


def sample_file(results: Path, asked: LeafKey) -> Path | None:
    """Return the sample file of a task beside a result file; None if missing."""
    path = results.parent / f"samples_{in_way(*asked)}{stamp_of(results)}.jsonl"
    return path if path.is_file() else None


@lru_cache(maxsize=16)
def _make_line_type(way: Way) -> type[msgspec.Struct]:
    """A line of samples: what is needed of it; the rest is skipped without being built."""
    return msgspec.defstruct("Line", [("doc", way.row), ("filtered_resps", list[Any])])


#: What comes of a line that lm-eval did not write for the task.
NOT_A_SAMPLE = (msgspec.MsgspecError, ValueError, TypeError, IndexError, RecursionError)


def read_lines(path: Path, name: str, read: Callable[[bytes], None]) -> None:
    """Read a file of samples a line at a time: it may be of any size.

    Raises
    ------
    EpidemiaError
        If the file cannot be read, or a line is not one that lm-eval writes for such a task.
    """
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                try:
                    if text.strip():
                        read(text)
                except NOT_A_SAMPLE as error:
                    raise EpidemiaError(
                        f"{path}, line {number} is not a sample of {name} as lm-eval writes it "
                        f"({error}): run it again with --log_samples"
                    ) from None
    except OSError as error:
        raise EpidemiaError(f"{path} cannot be read ({error.strerror or error})") from None


def answers_in(path: Path, asked: LeafKey) -> list[Any]:
    """Read the answers to the prompts of a task; only the parts that scores need."""
    way, answers = WAYS[asked.way], list[Any]()
    truth = way.load(asked.task)
    decoder: Any = msgspec.json.Decoder(_make_line_type(way))

    def read(text: bytes) -> None:
        line = decoder.decode(text)
        if line.doc.task != truth.task:
            raise ValueError(f"it is of {line.doc.task}")
        if not 0 <= line.doc.cell < len(truth.given):
            raise ValueError(f"cell {line.doc.cell} of {len(truth.given)}")
        if not is_withheld(line.filtered_resps):
            answer = way.read(line.doc, line.filtered_resps)
            way.check(answer, answers[0] if answers else answer, truth)
            answers.append(answer)

    read_lines(path, in_way(*asked), read)
    return answers


def read_elicited(path: Path, asked: LeafKey) -> TaskAnswers | None:
    """Return a model's answers in a task, from a file of samples.

    Returns
    -------
    TaskAnswers or None
        None if no cell was answered completely (without a year: if one was not), or answers are
        not finite.

    Raises
    ------
    EpidemiaError
        As for `read_lines`, or if the questions were made from a truth other than the installed
        one.
    """
    way, answers = WAYS[asked.way], answers_in(path, asked)
    if not answers:
        return None
    if not isinstance(way, DistributionWay):  # no answer is the true one
        with notices.block("muted"):  # the metrics gave them during the run
            known = undated.average_answers(answers)
        return None if known is None else _undated(known)
    try:
        with notices.block("muted"):
            measured = compare_task(answers)
    except EpidemiaError as error:
        raise EpidemiaError(f"{path}: {error}") from None
    if measured is None:
        return None
    cells = np.flatnonzero(measured.part.complete).tolist()
    shares = way.by_position(answers)
    q, by_order, counts = measured.elicited.q, measured.elicited.by_order, measured.elicited.counts
    if by_order is not None and by_order.shape[1] >= math.factorial(by_order.shape[2]):
        by_order = None  # nothing was left to chance
    return TaskAnswers(cells, q, shares, measured.l1, by_order, counts)


def _undated(q: Array) -> TaskAnswers:
    """Return answers without a year, which have no distance from a truth."""
    return TaskAnswers([*range(len(q))], q, None, math.nan)


def answers_of(results: Path, asked: LeafKey, kept: Any = None) -> TaskAnswers | None:
    """Return what was answered in a task of a result file; None if that is not known.

    Parameters
    ----------
    results : Path
    asked : LeafKey
    kept : str, optional
        The line that the file keeps. Samples beside the file are read where there is none, or it
        lacks the answers under each ordering.

    Raises
    ------
    ValueError
        If the line is not one for this task, with the reason.
    """
    path = sample_file(results, asked)
    if not isinstance(kept, str) or (path and kept.endswith(DROPPED)):
        return read_elicited(path, asked) if path else None
    way = WAYS[asked.way]
    truth = way.load(asked.task)
    try:
        return _kept_in(kept.removesuffix(DROPPED), way, truth)
    except ValueError as error:
        raise ValueError(
            f"{in_way(*asked)}: the recorded answers are not as a run keeps them ({error})"
        ) from None


def _kept_in(line: str, way: Way, truth: Any) -> TaskAnswers:
    """Read the line that a benchmark of surveys keeps; ValueError if it is another."""
    levels, whole = len(truth.levels), len(truth.given)
    if not isinstance(way, DistributionWay):
        return _undated(_check_shares(np.array(line.split(), float).reshape(whole, levels)))
    counts = by_order = None
    cells, q, shares, chance = (np.array(part.split(), float) for part in line.split(";"))
    here = np.arange(whole)
    if len(cells):
        here = here[np.isin(here, cells)]
        if not np.array_equal(here, cells):
            raise ValueError(f"its cells are not some of {whole}, in order")
    q = known = _check_shares(q.reshape(len(here), levels))
    if len(shares):
        _check_shares(shares.reshape(levels))
    weights, p = truth.weights[here] / truth.weights[here].sum(), truth.p[here]
    if way.drawn:
        chance = chance.reshape(len(here), levels + 1)
        total = chance.sum(axis=1, keepdims=True)
        # Tables of the square of this size are made.
        alike = 1 <= total.min() == total.max() <= MOST_SAMPLES
        if not alike or not np.isin(chance, np.arange(MOST_SAMPLES + 1)).all():
            raise ValueError("its counts are not those of equally many answers in each cell")
        counts = chance.astype(np.int64)
        known = (chance[:, :-1] + chance[:, -1:] / levels) / total
        l1 = monte_carlo.distances(p, counts) @ weights
    else:
        l1 = distance(weights, q, p)
        if len(chance):
            by_order = _check_shares(chance.reshape(len(here), -1, levels))
            known = by_order.mean(axis=1)
    if not (np.abs(known - q) <= 2 * KEPT).all():  # the rounding of both
        raise ValueError("a distribution is not the mean of what it was made of")
    positions = shares if len(shares) else None
    return TaskAnswers(here.tolist(), q, positions, float(l1), by_order, counts)


def _check_shares(q: Array) -> Array:
    """Return distributions as they were kept; ValueError if one is impossible."""
    if not ((q >= 0) & (q <= 1)).all():
        raise ValueError("a probability is not between 0 and 1")
    if not (np.abs(q.sum(axis=-1) - 1) <= q.shape[-1] * KEPT).all():
        raise ValueError("probabilities do not sum to 1")
    return q
