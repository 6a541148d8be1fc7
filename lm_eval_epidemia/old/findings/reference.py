"""Reference respondents for runs: one knows averages only, one knows the population.

The first is asked the same questions as a run, in the same way.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from lm_eval_epidemia.benchmarks import OBSERVATION, WAYS, in_way
from lm_eval_epidemia.benchmarks.observation.measured import Measured, Part, part_of
from lm_eval_epidemia.benchmarks.observation.respondents import RESPONDENTS
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.elicit.variants import FEWEST_SAMPLES, MOST_SAMPLES, Variant
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.results.entry import Asked, Entry, TaskScore, leaf
from lm_eval_epidemia.results.protocol import Protocol
from lm_eval_epidemia.score import monte_carlo
from lm_eval_epidemia.score import score as scoring

#: Respondents that runs are held against, as the kinds of `epidemia-baseline` that answer so: who
#: knows P(Y), and not how it depends on X, and who guesses.
AVERAGES, UNIFORM = "mean", "uniform"

#: What the first is called.
KNOWS_MARGINAL = RESPONDENTS[AVERAGES]

#: What the respondent is called that knows P(Y | X) in the population, and not the survey.
KNOWS_POPULATION = "knows the population"

#: By how much the share that was asked may miss that of whole cells, by rounding.
ROUNDING = 1e-9

#: Numbers of answers that a run may have drawn, as a result file has them.
NUMBERS = {str(number): number for number in range(FEWEST_SAMPLES, MOST_SAMPLES + 1)}

#: How often a task is asked in which answers are drawn: as often as this many shares can be drawn,
#: within bounds. The mean of the scores is then off by about one point, by less in large tasks.
SHARES, FEWEST, MOST = 200_000, 50, 1_000

#: Of these draws.
SEED = 79


@lru_cache(maxsize=4096)
def _part(task: str, fingerprint: str, cells: int) -> Part:
    truth = store.load(task)
    return part_of(truth, np.arange(len(truth.weights)) < cells)


@lru_cache(maxsize=4096)
def _known(asked: Asked, fingerprint: str, cells: int, answers: int, kind: str) -> TaskScore:
    part = _part(asked.task, fingerprint, cells)
    # Told how common answers are in the whole task, whatever part of it is asked.
    knows = scoring.mean(part.truth.weights, part.truth.p)
    believed = (knows if kind == AVERAGES else scoring.uniform(part.truth.p))[0]
    q = np.broadcast_to(WAYS[asked.way].told(believed), part.p.shape)
    l1 = part.distance(q)
    if answers:
        # Few answers say less than P(Y) does: a run of this respondent scores what these do.
        times = int(np.clip(SHARES // q.size, FEWEST, MOST))
        rng = np.random.default_rng([SEED, zlib.crc32(asked.task.encode())])
        drawn = rng.multinomial(answers, q, size=(times, len(q)))
        unread = np.zeros((*drawn.shape[:-1], 1), dtype=drawn.dtype)
        l1 = monte_carlo.distances(part.p, np.concatenate([drawn, unread], axis=-1)) @ part.weights
    return TaskScore(float(np.mean(part.score_of(l1))), metrics={"l1": float(np.mean(l1))})


def _answers(entry: Entry, asked: Asked) -> int | None:
    """Return the number of answers drawn per cell: 0 in other ways, None if unknown."""
    if "n_samples" not in WAYS[asked.way].columns:
        return 0
    return NUMBERS.get(dict(entry.details).get("n_samples", str(Variant().n_samples)))


def _cells(task: str, seen: float) -> int:
    """Return the number of cells of a task that were asked; 0 if unknown.

    Prompts are asked in the order of the cells, so ``--limit`` keeps the first ones, whose shares
    sum to the recorded share. Other cells (``--samples``) have another sum.
    """
    weights = store.load(task).weights
    if seen >= 1:
        return len(weights)
    misses = np.abs(np.cumsum(weights) - seen)
    nearest = int(misses.argmin())
    return nearest + 1 if misses[nearest] < ROUNDING else 0


def part_asked(entry: Entry, asked: Asked) -> Part | None:
    """Return the part of a task that a run was asked.

    None if unknown: the task is not about a survey, its truth is not the installed one, other than
    the first cells were asked (``--samples``), or no cell was asked completely.
    """
    here = leaf(asked).benchmark is OBSERVATION and store.is_available(asked.task)
    score, entry = entry.scores[asked], entry.part(asked)
    if not here or entry.protocol.truth or math.isnan(score.value):
        return None
    cells = _cells(asked.task, 1.0 if entry.reference else score.seen)
    return _part(asked.task, store.load(asked.task).fingerprint, cells) if cells else None


def asked_of(entry: Entry, asked: Asked, kind: str = AVERAGES) -> TaskScore | None:
    """Return the result of a respondent asked in the same way as a run; None if unknown.

    For drawn answers it is the mean over draws of the same size. For other task versions, with
    other prompts or answers, it is unknown.
    """
    part, answers = part_asked(entry, asked), _answers(entry, asked)
    if part is None or answers is None or entry.part(asked).protocol.task_version:
        return None
    return _known(asked, part.truth.fingerprint, int(part.complete.sum()), answers, kind)


def known_scores(run: Entry, runs: Iterable[Entry], kind: str = AVERAGES) -> dict[Asked, float]:
    """Return the known scores of a respondent in the tasks of a run, asked in the same way.

    Parameters
    ----------
    run : Entry
    runs : iterable of Entry
        From the same results. If the run used another task version or truth, the respondent's score
        comes from its own run in these results, asked in the same way.
    kind : str
        `AVERAGES` or `UNIFORM`.
    """
    ran = [entry for entry in runs if entry.weights.model == f"epidemia-baseline kind={kind}"]
    known = {}
    for asked in run.scores:
        score, protocol = asked_of(run, asked, kind), run.part(asked).protocol
        if score is None:
            alike = (e for e in ran if e.protocol == protocol and asked in e.scores)
            score = next((entry.scores[asked] for entry in alike), None)
        if score is not None:
            known[asked] = score.value
    return known


def known_over(entry: Entry, tasks: Sequence[Asked]) -> tuple[float, float]:
    """Return mean score and distance for knowing averages only, over tasks of a run.

    NaN if one is unknown.
    """
    scores = [asked_of(entry, asked) for asked in tasks]
    known = [score for score in scores if score is not None]
    if not known or len(known) < len(scores):
        return math.nan, math.nan
    return (
        math.fsum(score.value for score in known) / len(known),
        math.fsum(score.l1 for score in known) / len(known),
    )


@lru_cache(maxsize=4096)
def _population_known(task: str, fingerprint: str) -> Array | None:
    """Score knowing the population in other surveys of it; (B,), uncut, or None.

    The difference between population and survey is that of the survey's replicates.
    """
    part = part_of(store.load(task))
    draws = Measured(part, Elicited(part.p)).score_population_draws
    if draws is None:
        return None
    return np.clip(draws.at, 0, 200) if len(draws.at) else np.array([100.0])


def population_known_over(tasks: Iterable[str]) -> Number:
    """Score knowing the population, over whole tasks; NaN if one has no replicates.

    Returns the mean over replicate surveys, with the ends of their 95 % range.
    """
    known = [_population_known(task, store.load(task).fingerprint) for task in sorted(tasks)]
    scores = [at for at in known if at is not None]
    if not scores or len(scores) < len(known):
        return Number(math.nan)
    # Surveys are independent of one another: it is all the same which replicates meet.
    replicates = max(len(at) for at in scores)
    means = np.mean([np.resize(at, replicates) for at in scores], axis=0).clip(max=100)
    low, high = np.quantile(means, [0.025, 0.975])
    return Number(float(means.mean()), float(means.std()), len(scores), float(low), float(high))


def references(entries: Iterable[Entry]) -> list[Entry]:
    """Return the respondent for every cut, over the tasks of all runs with that cut.

    Cuts are: whole tasks; each ``--limit`` (in each way of asking); each number of drawn answers;
    and published scores, if their tasks differ from those of whole runs. A task is left out if runs
    of one cut were asked different cells: see `not_known`.
    """
    by_cut: dict[tuple[str, Protocol, int], dict[Asked, TaskScore | None]] = {}
    for entry in entries:
        cut = entry.protocol if entry.protocol.incomplete else Protocol()
        for asked in entry.scores:
            score = asked_of(entry, asked)
            if score is not None:
                key = entry.reference * "published", cut, _answers(entry, asked) or 0
                scores = by_cut.setdefault(key, {})
                scores[asked] = score if scores.get(asked, score) == score else None
    for kind, cut, answers in list(by_cut):
        runs = by_cut.get(("", cut, answers), {})
        if kind and by_cut[kind, cut, answers].keys() <= runs.keys():
            del by_cut[kind, cut, answers]
    return [
        Entry(
            KNOWS_MARGINAL,
            protocol=cut,
            scores=known,
            reference=True,
            shown=tuple(
                (key, str(value))
                for key, value in (("tasks", kind), ("n_samples", answers))
                if value
            ),
        )
        for (kind, cut, answers), scores in by_cut.items()
        if (known := {asked: score for asked, score in scores.items() if score is not None})
    ]


def cut_of(reference: Entry) -> str:
    """Return the cut of a row of `references`; empty for whole tasks."""
    settings = [f"{key}={value}" for key, value in reference.shown]
    return "; ".join(filter(None, [*settings, str(reference.protocol)]))


def not_known(entries: Iterable[Entry]) -> list[str]:
    """Say for which tasks of runs the respondent's score is unknown."""
    notes = []
    for entry in entries:
        tasks = [
            in_way(*asked)
            for asked, score in entry.scores.items()
            if leaf(asked).benchmark is OBSERVATION
            and not math.isnan(score.value)
            and asked_of(entry, asked) is None
        ]
        if tasks:
            notes.append(
                f"{entry.name}: no score of the respondent that {KNOWS_MARGINAL} in "
                f"{plural(len(tasks), 'task')} ({few(tasks)}): their version or truth is not the "
                "installed one, or the file does not say which conditions were asked (--samples) "
                "or how many answers were drawn"
            )
    return notes
