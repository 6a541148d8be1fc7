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
from lm_eval_epidemia.findings.comparison import Comparison, compare_entries
from lm_eval_epidemia.findings.data import Samples, read_samples
from lm_eval_epidemia.findings.leaderboard import Report
from lm_eval_epidemia.findings.means import shared_tasks
from lm_eval_epidemia.findings.pairs import TunedRun
from lm_eval_epidemia.findings.reference import known_over
from lm_eval_epidemia.findings.section import Section, number
from lm_eval_epidemia.report.output import row
from lm_eval_epidemia.results.card import Tuned
from lm_eval_epidemia.results.entry import Asked
from lm_eval_epidemia.results.protocol import printable
from lm_eval_epidemia.results.samples import Elicited, sample_file
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
    error : float
        Joint standard error of the difference; NaN where it is not known.
    """

    before: float
    after: float
    error: float = math.nan

    @property
    def difference(self) -> float:
        return self.after - self.before


#: Where there is none.
NOTHING = Moved(math.nan, math.nan)


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
    share : float
        Of the population, the mean over tasks: 1 but of cells.
    value : Moved
        The primary metric; of cells, the score on the scale of these.
    l1 : Moved
    known : float
        What the respondent scores that knows P(Y) of the whole task and not how it depends on X;
        NaN where there is none.
    known_l1 : float
        Its distance.
    compared : Comparison or None
        Wins, losses and the verdict; None of cells.
    """

    run: TunedRun
    group: str
    part: str
    tasks: tuple[Asked, ...]
    share: float
    value: Moved
    l1: Moved
    known: float
    known_l1: float
    compared: Comparison | None = None


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
    found = card.dataset
    trained = f", {found.rows['train']:,} rows" if "train" in found.rows else ""
    return printable(f"{found.kind}{trained}, {card.how}")


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def read(report: Report) -> Study:
    """Read the samples of tuned models and their bases, where both have them, and compare.

    What cannot be read, and cells that cannot be told apart, are said on stderr.
    """
    pairs = [(one.entry, one.base) for one in report.tuned if one.base]
    involved = {entry.name: entry for pair in pairs for entry in pair}
    wanted = {
        asked
        for tuned, base in pairs
        for asked in tuned.scores.keys() & base.scores.keys()
        if all(sample_file(one.scores[asked].source, asked) for one in (tuned, base))
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
        As of `data.read_samples`; what they lack has no error of l1, and no cells.
    """
    whole, each, cells, task_cells = [], [], [], []
    for run in report.tuned:
        if run.base is None:
            continue
        for column in report.columns:
            tasks = shared_tasks([run.entry, run.base], column)
            parts = {asked: part_of_task(run.card, asked) for asked in tasks}
            if tasks:
                whole.append(_over(report, samples, run, column, ALL, tasks))
            if len(set(parts.values())) > 1:
                whole += [
                    _over(
                        report, samples, run, column, part, [a for a in tasks if parts[a] == part]
                    )
                    for part in (SEEN, HELD_OUT, ELSEWHERE)
                    if part in parts.values()
                ]
            each += [_over(report, samples, run, column, parts[a], [a]) for a in tasks]
            found = [one for asked in tasks for one in _cells(samples, run, column, asked)]
            task_cells += [one.change for one in found]
            for part in (SEEN_CELLS, HELD_OUT_CELLS):
                if of_part := [one for one in found if one.change.part == part]:
                    cells.append(_averaged(of_part))
    return Study(whole, each, cells, task_cells)


def _over(
    report: Report, samples: Samples, run: TunedRun, column: str, part: str, tasks: Sequence[Asked]
) -> Change:
    base, tuned = run.base, run.entry
    assert base is not None
    pairs = [(base.scores[asked], tuned.scores[asked]) for asked in tasks]
    draws = [difference(after.draws, before.draws) for before, after in pairs]
    value = Moved(
        _mean([one.value for one, _ in pairs]),
        _mean([one.value for _, one in pairs]),
        joint_error(draws),
    )
    l1 = Moved(
        _mean([one.l1 for one, _ in pairs]),
        _mean([one.l1 for _, one in pairs]),
        joint_error([_l1_moved(samples, run, asked) for asked in tasks]),
    )
    known, known_l1 = known_over(tuned, tasks)
    compared = compare_entries(tuned, base, column, tasks)
    return Change(run, column, part, tuple(tasks), 1.0, value, l1, known, known_l1, compared)


def _l1_moved(samples: Samples, run: TunedRun, asked: Asked) -> Draws | None:
    """Return draws of the difference of two distances; None where samples do not tell them."""
    assert run.base is not None
    before, after = (samples.get((one.name, asked)) for one in (run.base, run.entry))
    if before is None or after is None or before.cells != after.cells:
        return None
    return difference(*(_l1_draws(_measured(asked, one, one.cells)) for one in (after, before)))


def _measured(asked: Asked, one: Elicited, cells: Sequence[int]) -> Measured:
    """Measure what was elicited in some cells, in ascending order, against the truth of these."""
    truth = WAYS[asked.way].load(asked.task)
    chosen = np.zeros(len(truth.weights), dtype=bool)
    chosen[list(cells)] = True
    at = np.searchsorted(one.cells, cells)
    return Measured(
        part_of(truth, chosen),
        ways.Elicited(
            one.q[at],
            None if one.by_order is None else one.by_order[at],
            None if one.counts is None else one.counts[at],
        ),
    )


def _l1_draws(found: Measured) -> Draws | None:
    """Return the distance at each replicate of the survey, with the error of its asking."""
    if found.l1_at is None:
        return None
    part, said = found.part, found.elicited
    orders = 0.0 if said.by_order is None else ordering_error(said.by_order, part.distance)
    drawn = 0.0
    if said.counts is not None:
        drawn = monte_carlo.distance_error(part.weights, part.p, said.counts)
    return Draws(part.truth.sample or "", found.l1_at, math.hypot(orders, drawn))


class _Cells(NamedTuple):
    """Of some cells of a task, what changed, with the draws of it."""

    change: Change
    value: Draws | None
    l1: Draws | None


def _held_out(run: TunedRun, asked: Asked, cells: Iterable[int]) -> tuple[list[int], list[int]]:
    """Part cells into those that were trained on and those left out; nothing where it is not known.

    The numbers are those of the truth that the dataset was made from.
    """
    card = run.card
    if card is None or asked.task not in card.dataset.tasks:
        return [], []
    if card.dataset.fingerprint != WAYS[asked.way].load(asked.task).fingerprint:
        return [], []
    left_out = set(card.dataset.held_out.get(asked.task, ()))
    apart: tuple[list[int], list[int]] = [], []
    for cell in cells:
        apart[cell in left_out].append(cell)
    return apart


def _cells(samples: Samples, run: TunedRun, column: str, asked: Asked) -> Iterator[_Cells]:
    """Compare the parts of a task of which both runs have cells that were trained on and others."""
    assert run.base is not None
    before, after = (samples.get((one.name, asked)) for one in (run.base, run.entry))
    if before is None or after is None:
        return
    both = sorted({*before.cells} & {*after.cells})
    seen, left_out = _held_out(run, asked, both)
    if not (seen and left_out):
        return
    for part, cells in ((SEEN_CELLS, seen), (HELD_OUT_CELLS, left_out)):
        old, new = (_measured(asked, one, cells) for one in (before, after))
        value = difference(new.score_draws, old.score_draws)
        l1 = difference(_l1_draws(new), _l1_draws(old))
        truth = new.part.truth
        known = WAYS[asked.way].told(scoring.mean(truth.weights, truth.p)[0])
        known_l1 = float(new.part.distance(np.broadcast_to(known, new.part.p.shape)))
        yield _Cells(
            Change(
                run,
                column,
                part,
                (asked,),
                float(truth.weights[cells].sum()),
                Moved(old.score, new.score, joint_error([value])),
                Moved(old.l1, new.l1, joint_error([l1])),
                float(new.part.score_of(known_l1)),
                known_l1,
            ),
            value,
            l1,
        )


def _averaged(found: Sequence[_Cells]) -> Change:
    """Average over tasks."""
    changes = [one.change for one in found]

    def mean(of: list[Moved], draws: list[Draws | None]) -> Moved:
        return Moved(
            _mean([one.before for one in of]), _mean([one.after for one in of]), joint_error(draws)
        )

    return changes[0]._replace(
        tasks=tuple(asked for one in changes for asked in one.tasks),
        share=_mean([one.share for one in changes]),
        value=mean([one.value for one in changes], [one.value for one in found]),
        l1=mean([one.l1 for one in changes], [one.l1 for one in found]),
        known=_mean([one.known for one in changes]),
        known_l1=_mean([one.known_l1 for one in changes]),
    )


def lacking(report: Report, samples: Samples) -> list[str]:
    """Say of which tasks cells that were left out of training cannot be told from the others."""
    notes = []
    for run in report.tuned:
        if run.base is None or run.card is None:
            continue
        card = run.card.dataset
        partly = sorted(
            asked
            for asked in run.entry.scores.keys() & run.base.scores.keys()
            if asked.task in card.tasks
            and card.held_out.get(asked.task)
            and asked.task in report.anchors
            and WAYS[asked.way].distribution is not None
        )
        other = [
            one for one in partly if WAYS[one.way].load(one.task).fingerprint != card.fingerprint
        ]
        unknown = [
            one
            for one in partly
            if one not in other
            and not all((entry.name, one) in samples for entry in (run.base, run.entry))
        ]
        if other:
            notes.append(
                f"{run.entry.name}: held-out cells of {_tasks(other)} are not told from the "
                f"others: the data are of another truth ({card.fingerprint}) than the installed one"
            )
        if unknown:
            notes.append(
                f"{run.entry.name}: held-out cells of {_tasks(unknown)} cannot be told from the "
                "others without samples: run lm_eval with --log_samples, the base too"
            )
    return notes


def _tasks(listed: Sequence[Asked]) -> str:
    return f"{len(listed)} tasks ({few([in_way(*one) for one in listed])})"


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
LEFT = ("model", "tuned from")


def _digits(column: str) -> int:
    return groups()[column].digits


def _difference(moved: Moved, digits: int) -> str:
    if math.isnan(moved.difference):
        return ""
    # 0 is added for the sign of -0.0.
    value = f"{round(moved.difference, digits) + 0:+.{digits}f}"
    return value + ("" if math.isnan(moved.error) else f" ± {moved.error:.{digits}f}")


#: Digits of a distance.
OF_L1 = 4

_NUMBERS = (
    "before",
    "after",
    "difference",
    "P(Y) alone",
    "l1 before",
    "l1 after",
    "l1 difference",
    "l1 of P(Y) alone",
)


def _numbers(one: Change) -> list[str]:
    digits = _digits(one.group)
    return [
        number(one.value.before, digits),
        number(one.value.after, digits),
        _difference(one.value, digits),
        number(one.known, digits),
        number(one.l1.before, OF_L1),
        number(one.l1.after, OF_L1),
        _difference(one.l1, OF_L1),
        number(one.known_l1, OF_L1),
    ]


def _names(one: Change) -> list[str]:
    assert one.run.base is not None
    return [one.run.entry.name, one.run.base.name]


def _way(one: Change) -> str:
    return as_trained(one.run.card, one.tasks[0].way)


def _trained(found: Study) -> list[Section]:
    """Say what models with a card were trained on, each once."""
    runs = {one.run.entry.model: one.run for one in found.groups}
    rows = []
    for run in runs.values():
        if (card := run.card) is None:
            continue
        of, apart = card.dataset, card.dataset.held_out
        whole = len([task for task in apart if task not in of.tasks])
        cells = sum(len(set(cells)) for task, cells in apart.items() if task in of.tasks)
        split = " + ".join(f"{number:,} {name}" for name, number in of.rows.items())
        rows.append(
            [
                run.entry.model,
                printable(card.base),
                of.kind,
                printable(f"{of.survey} {of.vintage}"),
                printable(of.writer),
                printable(split),
                str(len(of.tasks)),
                f"{whole} tasks, {cells} cells" if apart else "",
                card.how,
                f"{card.steps:,}",
                f"{card.best_step:,}",
                number(card.best_loss, 4),
                number(card.last_loss, 4),
            ]
        )
    header = (
        *LEFT,
        "data",
        "survey",
        "writer",
        "rows",
        "tasks",
        "held out",
        "how",
        "steps",
        "kept step",
        "its validation loss",
        "the last",
    )
    note = "As the cards of the tuned models say (epidemia_finetune.json)."
    return [Section("Fine-tuning: what was trained", header, rows, note, 5)] if rows else []


def sections(found: Study, long: bool) -> list[Section]:
    """Return the tables: by group and, where some were held out, by cells; `long` by task."""
    made = []
    header: tuple[str, ...]
    if found.groups:
        rows = [
            [
                *_names(one),
                one.group,
                one.part,
                data_of(one.run.card),
                _way(one),
                str(len(one.tasks)),
                *_numbers(one),
                *_compared(one),
            ]
            for one in found.groups
        ]
        header = (
            *LEFT,
            "group",
            "tasks that were",
            "trained on",
            "asked as trained",
            "tasks",
            *_NUMBERS,
            "win / tie / loss",
            "the tuned one is",
        )
        made.append(Section("Before and after fine-tuning", header, rows, NOTE, 4))
    if found.cells:
        rows = [
            [
                *_names(one),
                one.group,
                one.part,
                _way(one),
                str(len(one.tasks)),
                f"{100 * one.share:.0f} %",
                *_numbers(one),
            ]
            for one in found.cells
        ]
        header = (*LEFT, "group", "cells", "asked as trained", "tasks", "people", *_NUMBERS)
        made.append(
            Section(
                "Before and after fine-tuning: cells trained on against held-out cells",
                header,
                rows,
                CELLS_NOTE,
                4,
            )
        )
    if long and found.tasks:
        listed = sorted([*found.tasks, *found.task_cells], key=_place)
        rows = [
            [
                *_names(one),
                in_way(*one.tasks[0]),
                one.part,
                _way(one),
                *_numbers(one),
                one.compared.verdict if one.compared else "",
            ]
            for one in listed
        ]
        header = (*LEFT, "task", "part", "asked as trained", *_NUMBERS, "the tuned one is")
        made.append(Section("Before and after fine-tuning by task", header, rows, "", 4))
    return [*made, *_trained(found)]


def _place(one: Change) -> tuple[Any, ...]:
    """Put the cells of a task after it."""
    return (
        one.run.entry.protocol,
        one.run.entry.name,
        list(groups()).index(one.group),
        one.tasks,
        one.compared is None,
    )


def _compared(one: Change) -> list[str]:
    found = one.compared
    assert found is not None
    return [f"{found.wins} / {found.ties} / {found.losses}", found.verdict]


def rows(found: Study) -> list[dict[str, Any]]:
    """Return the same as rows of `output.as_rows`, the task rows always among them.

    Returns
    -------
    list of dict
        Of ``kind`` ``tuning`` (a group), ``tuning cells``, ``tuning task`` and ``tuning task
        cells``. ``model`` is the tuned one, ``name`` the group or task, ``base`` the base,
        ``part`` which tasks or cells it is of, ``data`` what was trained on, ``metric`` what the
        value is ("score, before", "l1, difference", "score, P(Y) alone", "wins").
    """
    kinds = ("tuning", "tuning task", "tuning cells", "tuning task cells")
    made = []
    for kind, several in zip(kinds, found, strict=True):
        for one in several:
            assert one.run.base is not None
            name = in_way(*one.tasks[0]) if "task" in kind else one.group
            # The verdict is on what the group is scored by; of l1 nothing was decided.
            decided = f"{groups()[one.group].primary}, difference"
            for metric, value, error in _values(one):
                verdict = one.compared.verdict if one.compared else ""
                made.append(
                    row(
                        kind,
                        one.run.entry,
                        one.group,
                        name,
                        value,
                        stderr=error,
                        metric=metric,
                        tasks=len(one.tasks),
                        verdict=verdict if metric == decided else "",
                        base=one.run.base.name,
                        part=one.part,
                        data=data_of(one.run.card),
                        as_trained=_way(one),
                    )
                )
    return made


def _values(one: Change) -> Iterator[tuple[str, float, float]]:
    """Name every number of a change, those that are not known left out."""
    primary, listed = groups()[one.group].primary, []
    for metric, moved, known in ((primary, one.value, one.known), ("l1", one.l1, one.known_l1)):
        listed += [
            (f"{metric}, before", moved.before, math.nan),
            (f"{metric}, after", moved.after, math.nan),
            (f"{metric}, difference", moved.difference, moved.error),
            (f"{metric}, P(Y) alone", known, math.nan),
        ]
    if one.compared is None:
        listed.append(("people", one.share, math.nan))
    else:
        counts = {
            "wins": one.compared.wins,
            "ties": one.compared.ties,
            "losses": one.compared.losses,
        }
        listed += [(name, float(count), math.nan) for name, count in counts.items()]
    yield from (one for one in listed if not math.isnan(one[1]))
