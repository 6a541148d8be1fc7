"""What respondents that are known come to, asked what runs were asked, in the same way."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.ask.variants import FEWEST_SAMPLES, MOST_SAMPLES, Variant
from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks import WAYS
from lm_eval_epidemia.benchmarks.observation.measured import Measured, Part, part_of
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.findings.mean import add_metrics
from lm_eval_epidemia.results.choose import KEY
from lm_eval_epidemia.results.decode import LeafKey, leaf
from lm_eval_epidemia.score import monte_carlo
from lm_eval_epidemia.score import score as scoring

#: Respondents that runs are held against, as the kinds of `epidemia-baseline` that answer so: who
#: knows P(Y), and not how it depends on X, and who guesses.
AVERAGES, UNIFORM = "mean", "uniform"

#: What the first is called, and who knows P(Y | X) in the population, and not the survey.
KNOWS_MARGINAL, KNOWS_POPULATION = RESPONDENTS[AVERAGES], "knows the population"

#: By how much the share that was asked may miss that of whole cells, by rounding.
ROUNDING = 1e-9

#: Numbers of answers that a run may have drawn, as a result file has them.
NUMBERS = {str(number): number for number in range(FEWEST_SAMPLES, MOST_SAMPLES + 1)}

#: How often a task is asked in which answers are drawn: as often as this many shares can be drawn,
#: within bounds. The mean of the scores is then off by about one point, by less in large tasks.
SHARES, FEWEST, MOST = 200_000, 50, 1_000

#: Of these draws.
SEED = 79


class KnownScore(NamedTuple):
    """What a respondent comes to in a task: its score and its distance; NaN if unknown."""

    score: float = math.nan
    l1: float = math.nan


@lru_cache(maxsize=4096)
def _part(task: str, fingerprint: str, cells: int) -> Part:
    truth = store.load_truth(task)
    return part_of(truth, np.arange(len(truth.weights)) < cells)


@lru_cache(maxsize=8192)
def _score_respondent(
    asked: LeafKey, fingerprint: str, cells: int, answers: int, kind: str
) -> KnownScore:
    part = _part(asked.task, fingerprint, cells)
    # Told how common answers are in the whole task, whatever part of it is asked.
    knows = scoring.answer_marginal(part.truth.weights, part.truth.p)
    believed = (knows if kind == AVERAGES else scoring.answer_uniformly(part.truth.p))[0]
    q = np.broadcast_to(WAYS[asked.way].told(believed), part.p.shape)
    l1 = part.distance(q)
    if answers:
        # Few answers say less than P(Y) does: a run of this respondent scores what these do.
        times = int(np.clip(SHARES // q.size, FEWEST, MOST))
        rng = np.random.default_rng([SEED, zlib.crc32(asked.task.encode())])
        drawn = rng.multinomial(answers, q, size=(times, len(q)))
        unread = np.zeros((*drawn.shape[:-1], 1), dtype=drawn.dtype)
        l1 = monte_carlo.distances(part.p, np.concatenate([drawn, unread], axis=-1)) @ part.weights
    return KnownScore(float(np.mean(part.score_of(l1))), float(np.mean(l1)))


def find_part(asked: LeafKey, seen: float, truth: str = "") -> Part | None:
    """Return the part of a task that was asked.

    Prompts are asked in the order of the cells, so ``--limit`` keeps the first ones, whose shares
    sum to the recorded share, `seen`. Other cells (``--samples``) have another sum.

    None if unknown: the task is not about a survey, its truth is not the installed one, or other
    than the first cells were asked.
    """
    if truth or not leaf(asked).benchmark.of_surveys or not store.is_available(asked.task):
        return None
    whole = store.load_truth(asked.task)
    cells = len(whole.weights)
    if seen < 1:
        misses = np.abs(np.cumsum(whole.weights) - seen)
        cells = int(misses.argmin()) + 1
        if not misses[cells - 1] < ROUNDING:
            return None
    return _part(asked.task, whole.fingerprint, cells)


#: The columns of scores that tell which part of a task was asked.
PART = ["task", "way", "seen", "task_version", "truth"]


def _parts(scores: pd.DataFrame, *by: pd.Series) -> Iterator[tuple[Part | None, LeafKey, Any, Any]]:
    """Yield each part that was asked, its task, the values of `by`, and the rows' places."""
    places = scores.groupby([*PART, *by], sort=False).indices
    for (task, way, seen, version, truth, *more), rows in places.items():
        yield find_part(LeafKey(task, way), seen, version or truth), LeafKey(task, way), more, rows


def score_known(scores: pd.DataFrame, runs: pd.DataFrame, kind: str = AVERAGES) -> pd.DataFrame:
    """Return what a respondent comes to, asked as each score was.

    If a task was asked in another version or of another truth, the respondent's own run counts, if
    there is one that was asked in the same way.

    Parameters
    ----------
    scores : DataFrame
    runs : DataFrame
        Of the same results.
    kind : str
        `AVERAGES` or `UNIFORM`.

    Returns
    -------
    DataFrame
        Columns ``score`` and ``l1``, NaN if unknown; the index of `scores`.
    """
    drawn = runs.get("n_samples", pd.Series("", runs.index)).replace("", str(Variant().n_samples))
    known = np.full((len(scores), len(KnownScore._fields)), math.nan)
    for part, asked, (is_drawn,), rows in _parts(scores, scores["run"].map(drawn)):
        answers = NUMBERS.get(is_drawn) if "n_samples" in WAYS[asked.way].columns else 0
        if part is not None and answers is not None:
            cells = int(part.complete.sum())
            known[rows] = _score_respondent(asked, part.truth.fingerprint, cells, answers, kind)
    known[scores["value"].isna()] = math.nan
    made = pd.DataFrame(known, scores.index, [*KnownScore._fields])
    name = f"epidemia-baseline kind={kind}"
    its = [run for run, weights in runs["weights"].items() if weights.model == name]
    ran = scores[scores["run"].isin(its)].drop_duplicates(KEY)
    own = scores[[*KEY]].merge(ran[[*KEY, "value"]], on=KEY, how="left")
    made["score"] = made["score"].fillna(own["value"].set_axis(scores.index))
    return made


#: Points by which a score may miss that of its distance, by rounding.
TOLERANCE = 1e-6


def find_changed(scores: pd.DataFrame) -> pd.Series:
    """Tell of each score whether it is not that of its distance.

    Tasks of another version or truth, or with unknown cells (``--samples``), cannot be checked.
    """
    told, distances = np.zeros(len(scores), bool), add_metrics(scores, ("l1",))["l1"].to_numpy()
    values = scores["value"].to_numpy()
    for part, _, _, rows in _parts(scores):
        if part is not None:
            told[rows] = np.abs(part.anchors.score(distances[rows]) - values[rows]) > TOLERANCE
    return pd.Series(told, scores.index)


@lru_cache(maxsize=4096)
def _score_population_in(task: str, fingerprint: str) -> Array:
    """Score knowing the population in other surveys of it; (B,), uncut.

    The difference between population and survey is that of the survey's replicates.
    """
    part = part_of(store.load_truth(task))
    draws = Measured(part, Elicited(part.p)).score_population_draws
    return np.clip(draws.at, 0, 200) if len(draws.at) else np.array([100.0])


def score_population(tasks: Iterable[str]) -> dict[str, float]:
    """Score knowing the population, over whole tasks.

    Returns
    -------
    dict
        ``value`` and ``error`` (mean and spread over replicate surveys), ``low`` and ``high`` (the
        ends of their 95 % range), ``tasks``.
    """
    scores = [
        _score_population_in(task, store.load_truth(task).fingerprint) for task in sorted(tasks)
    ]
    # Surveys are independent of one another: it is all the same which replicates meet.
    replicates = max(map(len, scores))
    means = np.mean([np.resize(at, replicates) for at in scores], axis=0).clip(max=100)
    low, high = np.quantile(means, [0.025, 0.975]).tolist()
    value, error = float(means.mean()), float(means.std())
    return {"value": value, "error": error, "low": low, "high": high, "tasks": len(scores)}
