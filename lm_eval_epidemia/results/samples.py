"""Read lm-eval's sample files: a model's answers in every cell of a task."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks import WAYS, Way, in_way
from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.benchmarks.observation.metrics import against_truth
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.elicit.within import is_withheld
from lm_eval_epidemia.results.entry import Asked

#: By how much a probability may be off that was kept to six significant digits: the last of up to
#: 26 is 1 less the others.
KEPT = 26 * 5e-7


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


def sample_file(results: Path, asked: Asked) -> Path | None:
    """Return the sample file of a task beside a result file; None if missing."""
    # results_2026-11-21T15-43-16.265965.json: samples carry the same stamp.
    stamp = results.stem.removeprefix("results")
    path = results.parent / f"samples_{in_way(*asked)}{stamp}.jsonl"
    return path if path.is_file() else None


@lru_cache(maxsize=16)
def _line(way: Way) -> type[msgspec.Struct]:
    """A line of samples: what is needed of it; the rest is skipped without being built."""
    return msgspec.defstruct("Line", [("doc", way.row), ("filtered_resps", list[Any])])


#: What comes of a line that lm-eval did not write for the task.
NOT_A_SAMPLE = (msgspec.DecodeError, ValueError, TypeError, IndexError, RecursionError)


def answers_in(path: Path, asked: Asked) -> list[Any]:
    """Read the answers to the prompts of a task, a line at a time.

    Parameters
    ----------
    path : Path
        May be of any size: lines are read one by one, and only the parts that scores need.
    asked : Asked

    Raises
    ------
    EpidemiaError
        If the file cannot be read, or a line is not one that lm-eval writes for such a task.
    """
    way = WAYS[asked.way]
    truth = way.load(asked.task)
    answers: list[Any] = []
    decoder: Any = msgspec.json.Decoder(_line(way))
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                if not text.strip():
                    continue
                try:
                    line = decoder.decode(text)
                    if line.doc.task != truth.task:
                        raise ValueError(f"it is of {line.doc.task}")
                    if not 0 <= line.doc.cell < len(truth.given):
                        raise ValueError(f"cell {line.doc.cell} of {len(truth.given)}")
                    if is_withheld(line.filtered_resps):
                        continue
                    answer = way.read(line.doc, line.filtered_resps)
                    way.check(answer, answers[0] if answers else answer, truth)
                    answers.append(answer)
                except NOT_A_SAMPLE as error:
                    raise EpidemiaError(
                        f"{path}, line {number} is not a sample of {in_way(*asked)} as "
                        f"lm-eval writes it ({error}). Was the run interrupted while writing? "
                        "Run it again with --log_samples"
                    ) from None
    except OSError as error:
        raise EpidemiaError(f"{path} cannot be read ({error.strerror or error})") from None
    return answers


@contextmanager
def said_before() -> Iterator[None]:
    """Suppress warnings that the metrics already gave during the run."""
    log = logging.getLogger("lm_eval_epidemia")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def elicited(path: Path, asked: Asked) -> TaskAnswers | None:
    """Return a model's answers in a task; parameters as for `answers_in`.

    Returns
    -------
    TaskAnswers or None
        None if no cell was answered completely, or answers are not finite.

    Raises
    ------
    EpidemiaError
        As for `answers_in`, or if the questions were made from a truth other than the installed
        one.
    """
    way, answers = WAYS[asked.way], answers_in(path, asked)
    if not answers:
        return None
    try:
        with said_before():
            measured = against_truth(answers)
    except EpidemiaError as error:
        raise EpidemiaError(f"{path}: {error}") from None
    if measured is None:
        return None
    cells = np.flatnonzero(measured.part.complete).tolist()
    shares = way.by_position(answers) if way.by_position else None
    q, by_order, counts = measured.elicited.q, measured.elicited.by_order, measured.elicited.counts
    if by_order is not None and by_order.shape[1] >= math.factorial(by_order.shape[2]):
        by_order = None  # nothing was left to chance
    return TaskAnswers(cells, q, shares, measured.l1, by_order, counts)


def answers_of(results: Path, asked: Asked, kept: Any = None) -> TaskAnswers | None:
    """Return what was answered in a task of a result file; None if that is not known.

    Parameters
    ----------
    results : Path
    asked : Asked
    kept : str, optional
        The line that the file keeps; without it, samples beside the file are read.
    """
    if isinstance(kept, str):
        return _kept_in(kept, asked)
    path = sample_file(results, asked)
    return elicited(path, asked) if path else None


def _kept_in(line: str, asked: Asked) -> TaskAnswers:
    """Read the line that `benchmarks.observation.metrics.kept` writes.

    Raises
    ------
    ValueError
        If it is not one for this task, with the reason.
    """
    truth = WAYS[asked.way].load(asked.task)
    levels, whole = len(truth.levels), len(truth.given)

    def with_last(probabilities: Array) -> Array:
        last = 1 - probabilities.sum(axis=-1, keepdims=True)
        every = np.concatenate([probabilities, last], axis=-1)
        if not (every > -KEPT).all() or not (every < 1 + KEPT).all():
            raise ValueError("a probability is not between 0 and 1")
        return every

    try:
        parts = [np.array(part.split(), float) for part in line.split(";")]
        if not all(np.isfinite(part).all() for part in parts):
            raise ValueError("a number is not finite")
        cells, q, shares, chance = parts
        here = cells.astype(int) if len(cells) else np.arange(whole)
        if len(cells) and not (
            (here == cells).all() and (np.diff(here, prepend=-1) > 0).all() and here[-1] < whole
        ):
            raise ValueError(f"its cells are not some of {whole}, in order")
        if len(shares) not in (0, levels) or not ((shares >= 0) & (shares <= 1 + KEPT)).all():
            raise ValueError(f"the shares of positions are not {levels} from 0 to 1")
        q = with_last(q.reshape(len(here), levels - 1))
        counts = by_order = None
        if WAYS[asked.way].drawn:
            counts = chance.astype(np.int64).reshape(len(here), levels + 1)
            if (
                (counts.ravel() != chance).any()
                or (counts < 0).any()
                or not counts.any(axis=1).all()
            ):
                raise ValueError("a cell has no counts of answers")
        elif len(chance):
            by_order = with_last(chance.reshape(len(here), -1, levels - 1))
    except (ValueError, TypeError) as error:
        name = in_way(*asked)
        raise ValueError(
            f"{name}: the recorded answers are not as a run keeps them ({error})"
        ) from None
    part = part_of(truth, np.isin(np.arange(whole), here))
    told = Measured(part, Elicited(q.clip(0, 1), by_order, counts))
    positions = shares if len(shares) else None
    return TaskAnswers(here.tolist(), q.clip(0, 1), positions, told.l1, by_order, counts)
