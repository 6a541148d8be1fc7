"""Reading answers one by one, and scoring them together.

A score of Inspect's keeps what it was read from, so that metrics can be recomputed from a log.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, metric, scorer
from inspect_ai.solver import TaskState

from lm_eval_epidemia.ask.bounds import Within
from lm_eval_epidemia.ask.orderings import LETTERS
from lm_eval_epidemia.ask.responses import softmax
from lm_eval_epidemia.ask.way import Answer
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.observation.metrics import bound_unseen
from lm_eval_epidemia.core import notices
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.models.server_replies import BadReply, ShownTokens, read_by_text, read_content
from lm_eval_epidemia.score.collect import cache_last
from lm_eval_epidemia.score.joint import Draws, joint_error

#: Where no letter has this probability in any prompt of a run, there is no score, as `choice-api`
#: asks no further then.
LEAST_MASS = 1e-3


def format_shares(levels: Sequence[str], p: Iterable[float]) -> str:
    """Write a distribution: ``Yes 12.3%, No 87.7%``."""
    return ", ".join(f"{level} {share:.1%}" for level, share in zip(levels, p, strict=True))


def _read_answer(row: dict[str, Any], kept: dict[str, Any]) -> Answer:
    """Read an answer from what a score keeps of it."""
    way = OBSERVATION.ways[row["way"]]
    responses: Sequence[Any] = [kept.get("reply")]
    if "top" in kept:
        top = [(token, logprob) for token, logprob in kept["top"]]
        responses = read_by_text(ShownTokens(top, kept["began"]), row["choices"], add=True)
    return way.read(way.of_row(row), responses)


def _scored(row: dict[str, Any], kept: dict[str, Any], q: Array | None, explanation: str) -> Score:
    """Score one answer by its distance from the truth; `q` is None if nothing was said."""
    p = np.array(row["p"])
    l1 = float(np.abs((1 / len(p) if q is None else q) - p).sum())
    counts = "; it counts as 'all answers equally likely'" if q is None else ""
    return Score(
        value=round(l1, 4),
        answer=None if q is None else format_shares(row["levels"], q),
        explanation=f"{explanation}{counts}\n\nDistance from the truth (L1, 0 to 2): {l1:.3f}",
        metadata=kept,
    )


def _from_letters(row: dict[str, Any], output: ModelOutput) -> Score:
    logprobs = output.choices[0].logprobs if output.choices else None
    try:
        shown = read_content(logprobs and logprobs.model_dump()["content"])
    except BadReply as error:
        notices.warn(
            "replies without log-probabilities",
            f"{row['task']}: {error}: not scored; with -T way=stated the model writes its answer",
        )
        return Score.unscored(reason="scoring_failed", explanation=str(error))
    kept = {"top": shown.top, "began": shown.said}
    answer, lines = _read_answer(row, kept), []
    for letter, level, x in zip(LETTERS, answer.order, answer.value, strict=False):
        hidden = isinstance(x, Within) and not x.shown
        most = f" (not shown: at most {math.exp(x.high):.2g})" if hidden else ""
        lines.append(f"{letter}. {row['levels'][level]}: {math.exp(x):.3g}{most}")
    mass = math.fsum(map(math.exp, answer.value))
    lines.append(
        f"\nThe letters together have probability {mass:.3g}; the reply begins with {shown.said!r}"
    )
    if not _seen(answer):
        notices.warn(
            "replies without letters",
            f"{row['task']}: a reply begins with {shown.said!r}, and no letter is among the "
            f"{len(shown.top)} tokens shown: turn thinking off, or use -T way=stated",
        )
        return _scored(row, kept, None, "\n".join(lines))
    q = softmax(np.array(answer.value))[np.argsort(answer.order)]
    return _scored(row, kept, q, "\n".join(lines))


def _from_reply(row: dict[str, Any], output: ModelOutput) -> Score:
    kept = {"reply": output.completion}
    answer = _read_answer(row, kept)
    if not answer.is_read:
        return _scored(row, kept, None, "No distribution could be read from the reply")
    numbers = ", ".join(f"{number:g}" for number in answer.numbers or ())
    return _scored(row, kept, np.array(answer.value), f"Numbers as written: {numbers}")


def _seen(answer: Answer) -> float:
    """Return the probability of the letters that were shown."""
    shown = (x for x in answer.value if not isinstance(x, Within) or x.shown)
    return math.fsum(map(math.exp, shown))


class Result(NamedTuple):
    """The result of a task.

    Attributes
    ----------
    survey : str
    numbers : dict of str to float
        By metric.
    draws : Draws or None
        Of its score.
    """

    survey: str
    numbers: dict[str, float]
    draws: Draws | None


@cache_last
def _results(scores: Sequence[SampleScore]) -> list[Result]:
    """Put the answers of each task together, as lm-eval's metrics do."""
    rows = [score.sample_metadata or {} for score in scores]
    answers: defaultdict[str, list[Answer]] = defaultdict(list)
    for row, score in zip(rows, scores, strict=True):
        answers[row["task"]].append(_read_answer(row, score.score.metadata or {}))
    everything = [answer for of_task in answers.values() for answer in of_task]
    if rows and rows[0]["way"] == "letters" and max(map(_seen, everything)) < LEAST_MASS:
        return []
    surveys = {row["task"]: row["survey"] for row in rows}
    # Inspect shows metrics while answers come in. What is missing at the end, numbers say: `seen`,
    # `tasks`, `answered`, `unseen_mass`.
    with notices.block("muted"):
        return [_result(surveys[task], of_task) for task, of_task in answers.items()]


def _result(survey: str, answers: list[Answer]) -> Result:
    measured, way = OBSERVATION.measure(answers), OBSERVATION.ways[answers[0].way]
    numbers = {name: measured.numbers.get(name, math.nan) for name in ("score", "seen")}
    for name in ("choice_mass", "answered"):
        if of := way.diagnostics.get(name):
            numbers[name] = of.of_answers(answers)
    hidden = bound_unseen(answers)
    numbers["unseen_mass"], numbers["unseen_effect"] = hidden or (0.0, 0.0)
    return Result(survey, numbers, measured.draws["score"])


def _with_score(scores: Sequence[SampleScore]) -> list[Result]:
    return [result for result in _results(scores) if not math.isnan(result.numbers["score"])]


def _mean_of(name: str, results: Sequence[Result]) -> float:
    values = [result.numbers[name] for result in results]
    return math.fsum(values) / len(values) if values else math.nan


def _make_mean(name: str) -> Callable[[], Metric]:
    """Make a metric of Inspect's: the mean of a number over the tasks that have a score.

    Of a task, `choice_mass`, `answered` and `unseen_mass` are means over its replies; all tasks
    count alike, whatever their number of replies. NaN if no task has a score.
    """

    def create() -> Metric:
        def mean(scores: list[SampleScore]) -> Value:
            return _mean_of(name, _with_score(scores))

        return mean

    return metric(name)(create)


score, choice_mass, answered = map(_make_mean, ("score", "choice_mass", "answered"))
unseen_mass, unseen_effect = map(_make_mean, ("unseen_mass", "unseen_effect"))


@metric
def score_stderr() -> Metric:
    """Standard error of the score, from joint replicates of the surveys."""

    def error(scores: list[SampleScore]) -> Value:
        return joint_error([result.draws for result in _with_score(scores)])

    return error


@metric
def parts() -> Metric:
    """Parts of the score: ``seen``, ``tasks``, and per survey ``nsduh``, ``nsduh_stderr``.

    ``tasks`` is the number of tasks in the mean score. ``seen`` is the share of the population in
    cells that were asked completely, averaged over all tasks of the run; tasks without a score,
    also because ``--limit`` ended before them, count as 0. All parts are one metric, since for a
    run without any score Inspect shows NaN for each metric that returns a number or nothing.
    """

    def table(scores: list[SampleScore]) -> Value:
        results = _with_score(scores)
        asked = (scores[0].sample_metadata or {})["tasks"] if scores else 1
        covered = math.fsum(result.numbers["seen"] for result in results) / asked
        numbers: dict[str, float] = {"seen": covered, "tasks": len(results)}
        by_survey: defaultdict[str, list[Result]] = defaultdict(list)
        for result in results:
            by_survey[result.survey].append(result)
        for survey, own in by_survey.items():
            numbers[survey] = _mean_of("score", own)
            numbers[f"{survey}_stderr"] = joint_error([result.draws for result in own])
        return numbers

    return table


@scorer(
    metrics=[*(score(), score_stderr(), choice_mass(), unseen_mass(), unseen_effect()), parts()]
)
def letters() -> Scorer:
    """Read the letters among the most likely first tokens."""

    async def read(state: TaskState, target: Target) -> Score:
        return _from_letters(state.metadata, state.output)

    return read


@scorer(metrics=[score(), score_stderr(), answered(), parts()])
def stated() -> Scorer:
    """Read the shares that the model wrote."""

    async def read(state: TaskState, target: Target) -> Score:
        return _from_reply(state.metadata, state.output)

    return read


#: By way of asking.
SCORERS: dict[str, Callable[[], Scorer]] = {"letters": letters, "stated": stated}
