"""Before and after fine-tuning: changes in trained and untrained tasks and cells.

A task's number is compared with that of the base, asked in the same way. Errors of differences are
joint: for the score from the draws in the result files, for a distance from the samples of both
runs and the survey's replicates.

For held-out cells, and for the others, distance and score are computed from these cells alone, with
shares rescaled to sum to 1, as if a ``--limit`` cut the task (`part_of`). Zero becomes the better
of the answers without knowledge of these cells. D_perfect is that of surveys drawn cell by cell,
because the stored distances cover whole tasks.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import stdev
from typing import NamedTuple

import numpy as np
from scipy import stats

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.benchmarks.observation.measured import Measured
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.old.findings.answered import Samples, beside_truth, read_samples
from lm_eval_epidemia.old.findings.comparison import CONFIDENCE, Comparison, compare_entries
from lm_eval_epidemia.old.findings.rows import Number
from lm_eval_epidemia.old.findings.leaderboard import Report
from lm_eval_epidemia.old.findings.means import answers, shared_tasks
from lm_eval_epidemia.old.findings.reference import known_over
from lm_eval_epidemia.old.findings.tuned import OWN, TunedRun
from lm_eval_epidemia.results.card import Tuned
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.samples import TaskAnswers, sample_file
from lm_eval_epidemia.score import monte_carlo
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.joint import Draws, difference, joint_error
from lm_eval_epidemia.score.score import ordering_error

#: Parts of what was asked: whole tasks, and cells of tasks that were trained on in part.
ALL, SEEN, HELD_OUT, ELSEWHERE = "all", "trained on", "held out", "not in training"
SEEN_CELLS, HELD_OUT_CELLS = "cells trained on", "held-out cells"

#: The verdict on a model that does not answer: its scores say nothing of what it knows.
SILENT = "does not answer"


class Moved(NamedTuple):
    """A number before and after.

    Attributes
    ----------
    before, after : float
    draws : sequence of Draws or None
        Draws of the difference, task by task; None if unknown.
    alone : float
        The number of the respondent that knows P(Y) of the whole task but not how it depends on X;
        NaN without one.
    """

    before: float
    after: float
    draws: Sequence[Draws | None]
    alone: float

    @property
    def difference(self) -> Number:
        return Number(self.after - self.before, joint_error(self.draws))


def _mean(several: Sequence[Moved]) -> Moved:
    """Average over tasks."""
    before, after, draws, alone = zip(*several, strict=True)
    return Moved(
        _average(before), _average(after), [task for of in draws for task in of], _average(alone)
    )


def _average(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


class Change(NamedTuple):
    """The change by fine-tuning, in a task or on average over tasks.

    Attributes
    ----------
    run : TunedRun
        A run with a known base.
    group : str
    part : str
        The part of the group's tasks, or of a task's cells.
    tasks : tuple of Asked
    value : Moved
        The primary metric; for cells, the score on their own scale.
    l1 : Moved
    share : float
        Share of the population, averaged over tasks: 1 except for cells.
    compared : Comparison or None
        Wins, losses and the verdict; None for cells and predictions.
    seeds : tuple of Change
        The changes that it averages, see `over_seeds`; empty for one training.
    """

    run: TunedRun
    group: str
    part: str
    tasks: tuple[Asked, ...]
    value: Moved
    l1: Moved
    share: float = 1.0
    compared: Comparison | None = None
    seeds: tuple[Change, ...] = ()

    @property
    def value_over_seeds(self) -> float:
        """Standard error of the value's mean over seeds, from their differences; else NaN."""
        return _error_over([seed.value.after for seed in self.seeds])

    @property
    def l1_over_seeds(self) -> float:
        """The same for `l1`."""
        return _error_over([seed.l1.after for seed in self.seeds])

    @property
    def verdict(self) -> str:
        """The verdict on the tuned model; empty if not compared.

        `SILENT` if the tuned model does not answer, and ``not shown`` if `l1` contradicts the rest.
        For one training, the verdict of `compared`. For a mean over seeds, ``better here`` or
        ``worse here`` if the difference exceeds Student's t of both errors (over seeds and of the
        survey) in quadrature. Degrees of freedom are Satterthwaite's, infinite for the survey's
        error.
        """
        trainings = self.seeds or (self,)
        if not (compared := trainings[0].compared):
            return ""
        if not all(answers(training.run.entry, self.group) for training in trainings):
            return SILENT
        is_better = (self.value.difference.value > 0) == compared.higher_is_better
        is_nearer = self.l1.after < self.l1.before
        if is_better != is_nearer and not math.isnan(self.l1.after):
            return "not shown"
        if not self.seeds:
            return compared.verdict
        if not self._is_beyond_seeds:
            return "not shown"
        return "better here" if is_better else "worse here"

    @property
    def _is_beyond_seeds(self) -> bool:
        """Whether the difference of a mean over seeds is beyond its error, see `verdict`."""
        moved, over_seeds = self.value.difference, self.value_over_seeds
        error = math.hypot(moved.error, over_seeds)
        freedom = (len(self.seeds) - 1) * (error / over_seeds) ** 4 if over_seeds else math.inf
        return bool(abs(moved.value) > stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * error)

    @property
    def base(self) -> Entry:
        assert self.run.base is not None
        return self.run.base


def _error_over(values: Sequence[float]) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else math.nan


class OverSeeds(NamedTuple):
    """Changes over the seeds of each set-up.

    Attributes
    ----------
    changes : list of Change
        Means of trainings that differ only in their seeds, each in place of the first of them; and
        the other changes.
    again : list of str
        Runs of trainings with the same set-up and seeds as another, which have no mean.
    """

    changes: list[Change]
    again: list[str]


def over_seeds(changes: Iterable[Change]) -> OverSeeds:
    """Average the changes of trainings that differ only in their seeds.

    Seeds are the training's (order of rows, an adapter's first weights) and the dataset's (which
    people, which sentences, which rows are validation).
    """
    set_ups: dict[Hashable, list[Change]] = {}
    for change in changes:
        set_ups.setdefault(_but_for_seeds(change), []).append(change)
    means, again = list[Change](), set[str]()
    for several in set_ups.values():
        if _seeds(several) < len(several):
            again.update(change.run.entry.name for change in several)
        elif len(several) > 1:
            several = [_mean_of_seeds(several)]
        means += several
    return OverSeeds(means, sorted(again))


def _seeds(several: Iterable[Change]) -> int:
    """Count the seeds of trainings with a card; one without a card is its own set-up."""
    cards = [change.run.card for change in several]
    return len({(c.dataset.seed, c.settings.get("seed")) if c else () for c in cards})


def _mean_of_seeds(several: Sequence[Change]) -> Change:
    value = _mean([change.value for change in several])
    l1 = _mean([change.l1 for change in several])
    return several[0]._replace(value=value, l1=l1, compared=None, seeds=tuple(several))


def _but_for_seeds(change: Change) -> Hashable:
    """Return the set-up of training and asking, without seeds and their consequences."""
    entry, card = change.run.entry, change.run.card
    if card is None:
        return id(change)
    data = card.dataset
    made = sum(data.rows.values()) + data.counts.get("dropped", 0), data.counts.get("people")
    data = replace(data, seed=0, rows={}, counts={})
    settings = sorted((key, value) for key, value in card.settings.items() if key != "seed")
    trained = repr((card.base, card.how, settings, data))
    asked = _but_for_own(entry.settings), _but_for_own(entry.details), entry.protocol, entry.chat
    return trained, made, asked, change.base.name, change.group, change.part, change.tasks


def _but_for_own(settings: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in settings if key not in OWN)


def _over(changes: Sequence[Change], parts: Iterable[str]) -> Iterator[Change]:
    """Average over tasks, or over some cells of each, by part; for `ALL` over every part."""
    for part in parts:
        if not (several := [change for change in changes if part in (ALL, change.part)]):
            continue
        first, tasks = several[0], tuple(asked for change in several for asked in change.tasks)
        compared = first.compared and compare_entries(
            first.run.entry, first.base, first.group, tasks
        )
        yield first._replace(
            part=part,
            tasks=tasks,
            value=_mean([change.value for change in several]),
            l1=_mean([change.l1 for change in several]),
            share=_average([change.share for change in several]),
            compared=compared,
        )


class Study(NamedTuple):
    """All comparisons on fine-tuning.

    Attributes
    ----------
    groups : list of Change
        By run and group: all tasks, then those trained on, held out, and others, unless all are in
        one part.
    tasks : list of Change
        Task by task.
    cells : list of Change
        By run and group, for partly trained tasks: cells trained on, and held out.
    task_cells : list of Change
        The same task by task.
    """

    groups: list[Change]
    tasks: list[Change]
    cells: list[Change]
    task_cells: list[Change]


def part_of_task(card: Tuned | None, asked: Asked) -> str:
    """Return whether a task was trained on; empty if unknown."""
    if card is None:
        return ""
    if asked.task in card.dataset.tasks:
        return SEEN
    return HELD_OUT if asked.task in card.dataset.held_out else ELSEWHERE


def read(report: Report) -> Study:
    """Read the samples of tuned models and their bases, if both have them, and compare.

    Unreadable samples, and cells that cannot be separated, are reported on stderr.
    """
    pairs = [(run.entry, run.base) for run in report.tuned if run.base]
    involved = {entry.name: entry for pair in pairs for entry in pair}
    wanted = {
        asked
        for tuned, base in pairs
        for asked in tuned.scores.keys() & base.scores.keys()
        if all(sample_file(run.scores[asked].source, asked) for run in (tuned, base))
    }
    samples, notes = read_samples(report._replace(entries=list(involved.values())), wanted)
    for note in [*notes, *lacking(report, samples)]:
        print(f"note: {note}", file=sys.stderr)
    return study(report, samples)


def study(report: Report, samples: Samples) -> Study:
    """Compare every tuned model with its base.

    Parameters
    ----------
    report : Report
    samples : dict
        As from `answered.read_samples`; tasks without samples have no error of l1 and no cells.
    """
    changed = Study([], [], [], [])
    for run in report.tuned:
        if run.base is None:
            continue
        for column in report.columns:
            tasks = shared_tasks([run.entry, run.base], column)
            changes = [_of_task(samples, run, column, asked) for asked in tasks]
            parts = [ALL, SEEN, HELD_OUT, ELSEWHERE]
            if len({change.part for change in changes}) < 2:
                parts = [ALL]
            changed.groups.extend(_over(changes, parts))
            changed.tasks.extend(changes)
            cells = [change for asked in tasks for change in _of_cells(samples, run, column, asked)]
            changed.cells.extend(_over(cells, [SEEN_CELLS, HELD_OUT_CELLS]))
            changed.task_cells.extend(cells)
    return changed


def _of_task(samples: Samples, run: TunedRun, column: str, asked: Asked) -> Change:
    assert run.base is not None
    before, after = run.base.scores[asked], run.entry.scores[asked]
    alone, l1_alone = known_over(run.entry, [asked])
    l1_draws = None
    answers = _answers(samples, run, asked)
    if answers is not None and answers[0].cells == answers[1].cells:
        old, new = (_l1_draws(_measured(asked, own, own.cells)) for own in answers)
        l1_draws = difference(new, old)
    return Change(
        run,
        column,
        part_of_task(run.card, asked),
        (asked,),
        Moved(before.value, after.value, [difference(after.draws, before.draws)], alone),
        Moved(before.l1, after.l1, [l1_draws], l1_alone),
        compared=None
        if leaf(asked).benchmark.predicted
        else compare_entries(run.entry, run.base, column, [asked]),
    )


def _answers(
    samples: Samples, run: TunedRun, asked: Asked
) -> tuple[TaskAnswers, TaskAnswers] | None:
    """Return the answers before and after; None unless samples have both."""
    assert run.base is not None
    before, after = (samples.get((entry.name, asked)) for entry in (run.base, run.entry))
    return None if before is None or after is None else (before, after)


def _measured(asked: Asked, answers: TaskAnswers, cells: Sequence[int]) -> Measured:
    """Compare the answers in some cells, in ascending order, with their truth."""
    return Measured(*beside_truth(asked, answers, cells))


def _l1_draws(measured: Measured) -> Draws | None:
    """Return the distance at each replicate of the survey, with the error of asking."""
    if measured.l1_at is None:
        return None
    part, answers = measured.part, measured.elicited
    orders = drawn = 0.0
    if answers.by_order is not None:
        orders = ordering_error(answers.by_order, part.distance)
    if answers.counts is not None:
        drawn = monte_carlo.distance_error(part.weights, part.p, answers.counts)
    return Draws(part.truth.sample or "", measured.l1_at, math.hypot(orders, drawn))


def _held_out(run: TunedRun, asked: Asked, cells: Iterable[int]) -> tuple[list[int], list[int]]:
    """Split cells into trained and held-out ones; empty if unknown.

    Cell numbers refer to the truth that the dataset was made from.
    """
    parts: tuple[list[int], list[int]] = [], []
    card = run.card and run.card.dataset
    if not card or asked.task not in card.tasks:
        return parts
    if card.fingerprint == WAYS[asked.way].load(asked.task).fingerprint:
        left_out = set(card.held_out.get(asked.task, ()))
        for cell in cells:
            parts[cell in left_out].append(cell)
    return parts


def _of_cells(samples: Samples, run: TunedRun, column: str, asked: Asked) -> Iterator[Change]:
    """Compare trained and other cells of a task, if both runs have them."""
    if (answers := _answers(samples, run, asked)) is None:
        return
    seen, left_out = _held_out(run, asked, sorted({*answers[0].cells} & {*answers[1].cells}))
    if not (seen and left_out):
        return
    for part, cells in ((SEEN_CELLS, seen), (HELD_OUT_CELLS, left_out)):
        old, new = (_measured(asked, own, cells) for own in answers)
        truth = new.part.truth
        marginal = WAYS[asked.way].told(scoring.mean(truth.weights, truth.p)[0])
        l1_alone = float(new.part.distance(np.broadcast_to(marginal, new.part.p.shape)))
        alone = float(new.part.score_of(l1_alone))
        draws = difference(new.score_draws, old.score_draws)
        value = Moved(old.score, new.score, [draws], alone)
        l1 = Moved(old.l1, new.l1, [difference(_l1_draws(new), _l1_draws(old))], l1_alone)
        yield Change(run, column, part, (asked,), value, l1, float(truth.weights[cells].sum()))


def lacking(report: Report, samples: Samples) -> list[str]:
    """Say in which tasks held-out cells cannot be separated from the others."""
    notes = []
    for run in report.tuned:
        if run.base is None or run.card is None:
            continue
        card, name = run.card.dataset, run.entry.name
        partly = sorted(
            asked
            for asked in run.entry.scores.keys() & run.base.scores.keys()
            if asked.task in card.tasks
            and card.held_out.get(asked.task)
            and asked.task in report.anchors
            and WAYS[asked.way].distribution is not None
        )
        of_card = {
            asked: WAYS[asked.way].load(asked.task).fingerprint == card.fingerprint
            for asked in partly
        }
        if other := [asked for asked in partly if not of_card[asked]]:
            notes.append(
                f"{name}: held-out cells of {_tasks(other)} are not separated from the others: "
                f"the training data come from another truth ({card.fingerprint}) than the "
                "installed one"
            )
        if unknown := [a for a in partly if of_card[a] and _answers(samples, run, a) is None]:
            notes.append(
                f"{name}: held-out cells of {_tasks(unknown)} cannot be separated from the others "
                "without samples: run lm_eval with --log_samples, also for the base"
            )
    return notes


def _tasks(listed: Sequence[Asked]) -> str:
    return f"{plural(len(listed), 'task')} ({few([in_way(*asked) for asked in listed])})"
