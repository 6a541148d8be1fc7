"""lm-eval's sample files: what a model answered in every cell of a task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.elicit.answers import Answer, Estimate, Reply, Statement
from lm_eval_epidemia.elicit.likelihood import BINS, asked_levels
from lm_eval_epidemia.elicit.modes import Mode, in_mode
from lm_eval_epidemia.elicit.orderings import orderings
from lm_eval_epidemia.elicit.replies import letter
from lm_eval_epidemia.elicit.variants import MOST_SAMPLES
from lm_eval_epidemia.errors import EpidemiaError
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.report.results import Asked
from lm_eval_epidemia.score import likelihood, metrics, sampled, written
from lm_eval_epidemia.score import score as scoring

__all__ = ["Elicited", "elicited", "sample_file"]


class Elicited(NamedTuple):
    """A model's distributions, from its samples.

    Attributes
    ----------
    cells : list of int
        Numbers of the cells that were answered completely, C' of them.
    q : ndarray, shape (C', K)
    by_position : ndarray, shape (K,), or None
        Mean probability (share, of written letters) of each displayed position; None where answers
        are not displayed in changing orders.
    l1 : float
        The distance as the task's metric computes it.
    """

    cells: list[int]
    q: Array
    by_position: Array | None
    l1: float


class _Doc(msgspec.Struct):
    """What is needed of a row; the rest of a line is skipped without being built."""

    task: str
    truth: str
    cell: int
    choices: list[str]
    order: tuple[int, ...] = ()
    design: str = ""
    level: int = 0
    sample: int = 0
    n_samples: int = 0


class _Line(msgspec.Struct):
    doc: _Doc
    filtered_resps: list[Any]


def sample_file(results: Path, asked: Asked) -> Path | None:
    """Return the sample file of a task beside a result file; None where there is none."""
    # results_2026-11-21T15-43-16.265965.json: samples carry the same stamp.
    stamp = results.stem.removeprefix("results")
    path = results.parent / f"samples_{in_mode(*asked)}{stamp}.jsonl"
    return path if path.is_file() else None


def _check(doc: _Doc, first: _Doc, truth: store.GroundTruth) -> None:
    if doc.task != truth.task:
        raise ValueError(f"it is of {doc.task}")
    if not 0 <= doc.cell < len(truth.weights):
        raise ValueError(f"cell {doc.cell} of {len(truth.weights)}")
    if (doc.design, doc.n_samples) != (first.design, first.n_samples):
        raise ValueError("it was asked in another way than the first")


def _logprobs(line: _Line, number: int) -> tuple[float, ...]:
    found = tuple(float(logprob) for logprob, _greedy in line.filtered_resps)
    if len(found) != number:
        raise ValueError(f"{len(found)} log-probabilities, expected {number}")
    return found


def _answer(line: _Line, levels: int) -> Answer:
    doc = line.doc
    if doc.order not in _orders(levels, doc.design):
        raise ValueError(f"the order {list(doc.order)} is not of the design {doc.design!r}")
    return Answer(doc.task, doc.truth, doc.cell, doc.order, doc.design, _logprobs(line, levels))


@lru_cache(maxsize=16)
def _orders(levels: int, design: str) -> frozenset[tuple[int, ...]]:
    return frozenset(orderings(levels, design))


def _estimate(line: _Line, levels: int) -> Estimate:
    doc, logprobs = line.doc, _logprobs(line, len(BINS))
    return Estimate(doc.task, doc.truth, doc.cell, _level(line, levels), logprobs)


def _reply(line: _Line, levels: int) -> Reply:
    doc, place = line.doc, letter(str(line.filtered_resps[0]), len(line.doc.order))
    if sorted(doc.order) != list(range(levels)):
        raise ValueError(f"the order {list(doc.order)} is not one of {levels} answers")
    if not 1 <= doc.sample <= doc.n_samples <= MOST_SAMPLES:
        raise ValueError(f"answer {doc.sample} of {doc.n_samples}")
    return Reply(doc.task, doc.truth, doc.cell, doc.order, doc.sample, doc.n_samples, place)


def _statement(line: _Line, levels: int) -> Statement:
    doc, place = line.doc, letter(str(line.filtered_resps[0]), len(line.doc.choices))
    return Statement(doc.task, doc.truth, doc.cell, _level(line, levels), place)


def _level(line: _Line, levels: int) -> int:
    if line.doc.level not in asked_levels(levels):
        raise ValueError(f"level {line.doc.level} is not asked")
    return line.doc.level


#: By way of asking: how a line is read, and the module of its metrics.
_READ: dict[Mode, tuple[Callable[[_Line, int], Any], Any]] = {
    "letters": (_answer, metrics),
    "likelihood": (_estimate, likelihood),
    "sampled": (_reply, sampled),
    "closed": (_statement, written),
    "rag": (_statement, written),
}


#: What comes of a line that lm-eval did not write for the task.
NOT_A_SAMPLE = (msgspec.DecodeError, ValueError, TypeError, IndexError, RecursionError)


def elicited(path: Path, asked: Asked) -> Elicited | None:
    """Read what a model answered in a task, a line at a time.

    Parameters
    ----------
    path : Path
        Of any size: lines are read one by one, and of each only what the scores need.
    asked : Asked

    Returns
    -------
    Elicited or None
        None where no cell was answered completely, or answers are not finite.

    Raises
    ------
    EpidemiaError
        If the file cannot be read, a line is not one that lm-eval writes for such a task, or the
        questions were made from a truth that is not the installed one.
    """
    read, module = _READ[asked.mode]
    truth, answers = store.load(asked.task), []
    decoder, first = msgspec.json.Decoder(_Line), None
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, start=1):
                if not text.strip():
                    continue
                try:
                    line = decoder.decode(text)
                    first = first or line.doc
                    _check(line.doc, first, truth)
                    answers.append(read(line, len(truth.levels)))
                except NOT_A_SAMPLE as error:
                    raise EpidemiaError(
                        f"{path}, line {number} is not a sample of {in_mode(*asked)} as lm-eval "
                        f"writes it ({error}): was the run interrupted while writing? Run it again "
                        "with --log_samples"
                    ) from None
    except OSError as error:
        raise EpidemiaError(f"{path} cannot be read ({error.strerror or error})") from None
    if not answers:
        return None
    log = logging.getLogger("lm_eval_epidemia")
    # What the metrics warn of was said during the run.
    level, quiet = log.level, logging.ERROR
    log.setLevel(quiet)
    try:
        if (found := module.against_truth(answers)) is None:
            return None
        distance = float(module.l1(answers))
    except EpidemiaError as error:
        raise EpidemiaError(f"{path}: {error}") from None
    finally:
        log.setLevel(level)
    cells = np.flatnonzero(found.part.complete).tolist()
    return Elicited(cells, found.q, _by_position(answers), distance)


def _by_position(answers: Sequence[Any]) -> Array | None:
    """Average over prompts what each displayed position got."""
    if isinstance(answers[0], Answer):
        logprobs = np.array([answer.logprobs for answer in answers])
        shares: Array = scoring.softmax(logprobs).mean(axis=0)
        return shares
    if isinstance(answers[0], Reply):
        places = [reply.position for reply in answers if reply.position is not None]
        counts = np.bincount(places, minlength=len(answers[0].order)).astype(float)
        return counts / counts.sum() if counts.sum() else None
    return None
