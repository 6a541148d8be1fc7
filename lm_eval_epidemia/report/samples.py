"""lm-eval's sample files: what a model answered in every cell of a task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from lm_eval_epidemia.distance import Array
from lm_eval_epidemia.elicit.answers import Answer, Estimate, Reply, Statement
from lm_eval_epidemia.elicit.modes import Mode, in_mode
from lm_eval_epidemia.elicit.replies import letter
from lm_eval_epidemia.errors import EpidemiaError
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


def _logprobs(line: _Line) -> tuple[float, ...]:
    return tuple(float(logprob) for logprob, _greedy in line.filtered_resps)


def _answer(line: _Line) -> Answer:
    doc = line.doc
    return Answer(doc.task, doc.truth, doc.cell, doc.order, doc.design, _logprobs(line))


def _estimate(line: _Line) -> Estimate:
    return Estimate(line.doc.task, line.doc.truth, line.doc.cell, line.doc.level, _logprobs(line))


def _reply(line: _Line) -> Reply:
    doc, place = line.doc, letter(str(line.filtered_resps[0]), len(line.doc.order))
    return Reply(doc.task, doc.truth, doc.cell, doc.order, doc.sample, doc.n_samples, place)


def _statement(line: _Line) -> Statement:
    doc, place = line.doc, letter(str(line.filtered_resps[0]), len(line.doc.choices))
    return Statement(doc.task, doc.truth, doc.cell, doc.level, place)


#: By way of asking: how a line is read, and the module of its metrics.
_READ: dict[Mode, tuple[Callable[[_Line], Any], Any]] = {
    "letters": (_answer, metrics),
    "likelihood": (_estimate, likelihood),
    "sampled": (_reply, sampled),
    "closed": (_statement, written),
    "rag": (_statement, written),
}


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
        If a line is not one that lm-eval writes for such a task, or the questions were made from a
        truth that is not the installed one.
    """
    read, module = _READ[asked.mode]
    decoder, answers = msgspec.json.Decoder(_Line), []
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            if not text.strip():
                continue
            try:
                answers.append(read(decoder.decode(text)))
            except (msgspec.DecodeError, ValueError, TypeError, IndexError) as error:
                raise EpidemiaError(
                    f"{path}, line {number} is not a sample of {in_mode(*asked)} as lm-eval writes "
                    f"it ({error}): was the run interrupted while writing? Run it again with "
                    "--log_samples"
                ) from None
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
    except IndexError:
        raise EpidemiaError(f"{path} has cells that {asked.task} does not have") from None
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
