"""Before and after fine-tuning: what changed, where it was trained on and where it was not.

A number of a task is compared with the same number of the base, asked in the same way. Errors of
differences are joint: of the score from the draws in the result files, of a distance from the
samples of both runs and the survey's replicates.

Of cells that were left out of training, and of the others, distance and score are those of these
cells alone, their shares rescaled to sum to 1, as where a ``--limit`` cuts a task (`part_of`): zero
moves to the better of the answers that know nothing of these cells, and D_perfect is that of
surveys drawn cell by cell, since the distances that are stored are of whole tasks.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.benchmarks import WAYS, groups, in_way
from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.core.errors import few
from lm_eval_epidemia.elicit import way as ways
from lm_eval_epidemia.findings.answered import Samples, read_samples
from lm_eval_epidemia.findings.comparison import Comparison, compare_entries
from lm_eval_epidemia.findings.finding import Cell, Column, Finding, Number, Row, known
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.means import shared_tasks
from lm_eval_epidemia.findings.reference import known_over
from lm_eval_epidemia.findings.tuned import TunedRun
from lm_eval_epidemia.results.card import Tuned
from lm_eval_epidemia.results.entry import Asked, Entry, leaf
from lm_eval_epidemia.results.protocol import printable
from lm_eval_epidemia.results.samples import TaskAnswers, sample_file
from lm_eval_epidemia.score import monte_carlo
from lm_eval_epidemia.score import score as scoring
from lm_eval_epidemia.score.joint import Draws, difference, joint_error
from lm_eval_epidemia.score.score import ordering_error

#: The ways in which a kind of dataset asks, of those that have prompts of ours.
TRAINED_WAYS = {"answers": "letters", "distributions": "letters"}

#: Parts of what was asked: whole tasks, and cells of tasks that were trained on in part.
ALL, SEEN, HELD_OUT, ELSEWHERE = "all", "trained on", "held out", "not in training"
SEEN_CELLS, HELD_OUT_CELLS = "cells trained on", "held-out cells"


class Moved(NamedTuple):
    """A number before and after.

    Attributes
    ----------
    before, after : float
    draws : sequence of Draws or None
        Of the difference, task by task; None where they are not known.
    alone : float
        That of the respondent that knows P(Y) of the whole task and not how it depends on X; NaN
        where there is none.
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
    """What fine-tuning changed, in a task or on average over tasks.

    Attributes
    ----------
    run : TunedRun
        Whose base is known.
    group : str
    part : str
        Of the tasks in the group, or of the cells in a task.
    tasks : tuple of Asked
    value : Moved
        The primary metric; of cells, the score on the scale of these.
    l1 : Moved
    share : float
        Of the population, the mean over tasks: 1 but of cells.
    compared : Comparison or None
        Wins, losses and the verdict; None of cells, and of a prediction.
    """

    run: TunedRun
    group: str
    part: str
    tasks: tuple[Asked, ...]
    value: Moved
    l1: Moved
    share: float = 1.0
    compared: Comparison | None = None

    @property
    def base(self) -> Entry:
        assert self.run.base is not None
        return self.run.base


def _over(changes: Sequence[Change], parts: Iterable[str]) -> Iterator[Change]:
    """Average over tasks, or over some cells of each, by part; of `ALL` over whatever part."""
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
    """Everything that is said of fine-tuning.

    Attributes
    ----------
    groups : list of Change
        By run and group: all tasks, then those trained on, held out, and others, where it is not
        all of one part.
    tasks : list of Change
        Task by task.
    cells : list of Change
        By run and group, of tasks that were trained on in part: cells trained on, and held out.
    task_cells : list of Change
        The same task by task.
    """

    groups: list[Change]
    tasks: list[Change]
    cells: list[Change]
    task_cells: list[Change]


def part_of_task(card: Tuned | None, asked: Asked) -> str:
    """Say whether a task was trained on; empty where nobody knows."""
    if card is None:
        return ""
    if asked.task in card.dataset.tasks:
        return SEEN
    return HELD_OUT if asked.task in card.dataset.held_out else ELSEWHERE


def as_trained(card: Tuned | None, way: str) -> str:
    """Say whether training asked as this way does; empty of texts, which ask nothing."""
    if card is None or card.dataset.kind not in TRAINED_WAYS:
        return ""
    return "yes" if TRAINED_WAYS[card.dataset.kind] == way else "no"


def data_of(card: Tuned | None) -> str:
    """Say what was trained on, and how: "answers, 864 rows, lora"."""
    if card is None:
        return ""
    rows = card.dataset.rows
    trained = f", {rows['train']:,} rows" if "train" in rows else ""
    return printable(f"{card.dataset.kind}{trained}, {card.how}")


def read(report: Report) -> Study:
    """Read the samples of tuned models and their bases, where both have them, and compare.

    What cannot be read, and cells that cannot be told apart, are said on stderr.
    """
    pairs = [(run.entry, run.base) for run in report.tuned if run.base]
    involved = {entry.name: entry for pair in pairs for entry in pair}
    wanted = {
        asked
        for tuned, base in pairs
        for asked in tuned.scores.keys() & base.scores.keys()
        if all(sample_file(run.scores[asked].source, asked) for run in (tuned, base))
    }
    samples: Samples = {}
    if wanted:
        samples, _ = read_samples(report._replace(entries=list(involved.values())), wanted)
    for note in lacking(report, samples):
        print(f"note: {note}", file=sys.stderr)
    return study(report, samples)


def study(report: Report, samples: Samples) -> Study:
    """Compare every tuned model with its base.

    Parameters
    ----------
    report : Report
    samples : dict
        As of `answered.read_samples`; what they lack has no error of l1, and no cells.
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
    """Return what was answered before and after; None where samples do not tell both."""
    assert run.base is not None
    before, after = (samples.get((entry.name, asked)) for entry in (run.base, run.entry))
    return None if before is None or after is None else (before, after)


def _measured(asked: Asked, answers: TaskAnswers, cells: Sequence[int]) -> Measured:
    """Measure what was elicited in some cells, in ascending order, against the truth of these."""
    truth = WAYS[asked.way].load(asked.task)
    at = np.searchsorted(answers.cells, cells)
    by_order = None if answers.by_order is None else answers.by_order[at]
    counts = None if answers.counts is None else answers.counts[at]
    part = part_of(truth, np.isin(np.arange(len(truth.weights)), cells))
    return Measured(part, ways.Elicited(answers.q[at], by_order, counts))


def _l1_draws(measured: Measured) -> Draws | None:
    """Return the distance at each replicate of the survey, with the error of its asking."""
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
    """Part cells into those that were trained on and those left out; nothing where it is not known.

    The numbers are those of the truth that the dataset was made from.
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
    """Compare the parts of a task of which both runs have cells that were trained on and others."""
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
    """Say of which tasks cells that were left out of training cannot be told from the others."""
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
                f"{name}: held-out cells of {_tasks(other)} are not told from the "
                f"others: the data are of another truth ({card.fingerprint}) than the installed one"
            )
        if unknown := [a for a in partly if of_card[a] and _answers(samples, run, a) is None]:
            notes.append(
                f"{name}: held-out cells of {_tasks(unknown)} cannot be told from the "
                "others without samples: run lm_eval with --log_samples, the base too"
            )
    return notes


def _tasks(listed: Sequence[Asked]) -> str:
    return f"{len(listed)} tasks ({few([in_way(*asked) for asked in listed])})"


# Tables.

#: How to read them.
NOTE = (
    "The tuned model less its base, over the tasks that both were asked. ± is the joint standard "
    "error of the difference; of l1 it takes samples of both. P(Y) alone: the respondent that "
    "knows how common each answer is in the whole task, and not how it differs between people: "
    "whoever is not above it has not been shown to know more. 'asked as trained': training had "
    "prompts of this way. Verdicts as in comparisons of two models."
)
CELLS_NOTE = (
    "Tasks of which some cells were left out of training. Distance and score are of these cells "
    "alone, on their own scale: their shares sum to 1, zero is the better of the answers that know "
    "nothing of them, 100 is what surveys drawn cell by cell come to, as under --limit. P(Y) alone "
    "is that of the whole task. 'people' is the share of the population that they are."
)
#: Who a row is of.
_WHO = ("model", "tuned from")

#: The numbers of a table for people.
_MEASURED = (
    Column("before", "{primary}, before"),
    Column("after", "{primary}, after"),
    Column("difference", "{primary}, difference", signed=True, no_minus_zero=True),
    Column("P(Y) alone", "{primary}, P(Y) alone"),
    Column("l1 before", "l1, before", 4),
    Column("l1 after", "l1, after", 4),
    Column("l1 difference", "l1, difference", 4, signed=True, no_minus_zero=True),
    Column("l1 of P(Y) alone", "l1, P(Y) alone", 4),
)
_NUMBERS = tuple(column.name for column in _MEASURED)


def _columns(part: str) -> tuple[Column, ...]:
    """Declare the columns; `part` heads that of what a change is of."""
    texts = (*_WHO, "group", "task", "trained on", "asked as trained", "tasks", "people")
    return (
        *map(Column, (*texts, "win / tie / loss", "the tuned one is")),
        Column("part", title=part),
        *_MEASURED,
        Column("share", "people"),
        *(Column(name, name) for name in ("wins", "ties", "losses")),
    )


def _row(change: Change, name: str) -> Row:
    data, as_asked = data_of(change.run.card), as_trained(change.run.card, change.tasks[0].way)
    cells: dict[str, Cell] = {
        "tuned from": change.base.name,
        "task": name,
        "part": change.part,
        "trained on": data,
        "asked as trained": as_asked,
        "tasks": len(change.tasks),
        "people": f"{100 * change.share:.0f} %",
    }
    verdict = change.compared.verdict if change.compared else ""
    # The verdict is on what the group is scored by; of l1 nothing was decided.
    changes = (
        (change.value, change.value.difference._replace(verdict=verdict)),
        (change.l1, change.l1.difference),
    )
    numbers = [
        known(number)
        for moved, difference in changes
        for number in (moved.before, moved.after, difference, moved.alone)
    ]
    cells |= dict(zip(_NUMBERS, numbers, strict=True))
    if change.compared is None:
        cells["share"] = change.share
    else:
        counts = change.compared.wins, change.compared.ties, change.compared.losses
        cells |= zip(("wins", "ties", "losses"), counts, strict=True)
        cells["win / tie / loss"] = " / ".join(map(str, counts))
        cells["the tuned one is"] = verdict
    facts = {
        "tasks": len(change.tasks),
        "base": change.base.name,
        "part": change.part,
        "data": data,
        "as_trained": as_asked,
    }
    return Row(cells, change.run.entry, change.group, name, facts)


def _finding(
    kind: str,
    changes: Iterable[Change],
    part: str = "",
    more: str = "",
    shown: Sequence[str] = (),
    note: str = "",
) -> Finding:
    """Return changes as a table; by task where its kind says so."""
    rows = [
        _row(change, in_way(*change.tasks[0]) if "task" in kind else change.group)
        for change in changes
    ]
    title = f"Before and after fine-tuning{more}"
    return Finding(kind, title, _columns(part), rows, note, 4, (*_WHO, *shown))


def findings(study: Study) -> list[Finding]:
    """Return every number, for programs: of groups, of tasks, and of cells of either.

    In tidy rows ``model`` is the tuned one, ``name`` the group or task, ``base`` the base,
    ``part`` which tasks or cells it is of, ``data`` what was trained on.
    """
    kinds = ("tuning", "tuning task", "tuning cells", "tuning task cells")
    return [_finding(kind, changes) for kind, changes in zip(kinds, study, strict=True)]


def tables(study: Study, long: bool) -> list[Finding]:
    """Return the tables: by group and, where some were held out, by cells; `long` by task."""
    of = ("group", "part", "trained on", "asked as trained", "tasks")
    compared = ("win / tie / loss", "the tuned one is")
    by_group = _finding(
        "tuning", study.groups, "tasks that were", "", (*of, *_NUMBERS, *compared), NOTE
    )
    of = ("group", "part", "asked as trained", "tasks", "people")
    more = ": cells trained on against held-out cells"
    cells = _finding("tuning cells", study.cells, "cells", more, (*of, *_NUMBERS), CELLS_NOTE)
    by_task = sorted([*study.tasks, *study.task_cells], key=_place) if long else []
    shown = ("task", "part", "asked as trained", *_NUMBERS, "the tuned one is")
    of_tasks = _finding("tuning task", by_task, "part", " by task", shown)
    return [table for table in (by_group, cells, of_tasks, _trained(study)) if table.rows]


def _place(change: Change) -> tuple[Any, ...]:
    """Put the cells of a task after it."""
    entry, group = change.run.entry, list(groups()).index(change.group)
    return entry.protocol, entry.name, group, change.tasks, change.compared is None


def _trained(study: Study) -> Finding:
    """Say what models with a card were trained on, each once."""
    rows = []
    for run in {change.run.entry.model: change.run for change in study.groups}.values():
        if (card := run.card) is None:
            continue
        of, apart = card.dataset, card.dataset.held_out
        whole = len([task for task in apart if task not in of.tasks])
        cells = sum(len(set(cells)) for task, cells in apart.items() if task in of.tasks)
        split = " + ".join(f"{number:,} {name}" for name, number in of.rows.items())
        rows.append(
            Row(
                {
                    "model": run.entry.model,
                    "tuned from": printable(card.base),
                    "data": of.kind,
                    "survey": printable(f"{of.survey} {of.vintage}"),
                    "writer": printable(of.writer),
                    "rows": printable(split),
                    "tasks": len(of.tasks),
                    "held out": f"{whole} tasks, {cells} cells" if apart else "",
                    "how": card.how,
                    "steps": card.steps,
                    "kept step": card.best_step,
                    "its validation loss": card.best_loss,
                    "the last": card.last_loss,
                }
            )
        )
    columns = [Column(name, digits=4) for name in (rows[0].cells if rows else ())]
    note = "As the cards of the tuned models say (epidemia_finetune.json)."
    return Finding("trained", "Fine-tuning: what was trained", columns, rows, note, 5)
