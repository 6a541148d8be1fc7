"""The answers of runs beside the truth, cell by cell."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.ask.way import Elicited
from lm_eval_epidemia.benchmarks import WAYS, Benchmark, in_way
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.benchmarks.observation.measured import Part, part_of
from lm_eval_epidemia.benchmarks.observation.metrics import DROPPED
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.findings.mean import add_metrics
from lm_eval_epidemia.results.choose import own_scores
from lm_eval_epidemia.results.decode import LeafKey, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import TaskAnswers, answers_of


class AnsweredGroup(NamedTuple):
    """The tasks of a group that one respondent answered.

    Attributes
    ----------
    run : int
        -1 for a known respondent.
    group : str
    tasks : dict of Asked to (Part, Elicited)
        The completely asked cells, and the elicited answers.
    who : str
        The name of a known respondent.
    """

    run: int
    group: str
    tasks: dict[LeafKey, tuple[Part, Elicited]]
    who: str = ""

    @property
    def row(self) -> dict[str, object]:
        """Whose a row of a finding is, see `finding.add_run_columns`."""
        kind = {"model": f"{self.who} (baseline)", "kind": "respondent"} if self.who else {}
        return {"run": self.run, **kind, "group": self.group, "tasks": len(self.tasks)}

    @property
    def score(self) -> float:
        """The mean score of the tasks."""
        tasks = self.tasks.values()
        return float(np.mean([part.score_of(part.distance(told.q)) for part, told in tasks]))


def collect_answers(
    results: Results,
    wanted: Callable[[LeafKey], object] = lambda asked: True,
    benchmark: Benchmark = OBSERVATION,
) -> tuple[dict[tuple[int, LeafKey], TaskAnswers], list[str]]:
    """Read what runs answered about surveys, by run and task; and say what is not known."""
    made: dict[tuple[int, LeafKey], TaskAnswers] = {}
    notes: list[str] = []
    missing, unordered = Counter[str](), Counter[str]()
    row: Any
    for row in add_metrics(own_scores(results), ("l1",)).itertuples():
        asked, name = LeafKey(row.task, row.way), results.runs["name"][row.run]
        is_known = leaf(asked).benchmark is benchmark and wanted(asked)
        if not is_known or (benchmark.scored and math.isnan(row.value)):
            continue
        is_kept = isinstance(row.said, str)
        try:
            own = None if row.truth and is_kept else answers_of(row.file, asked, row.said)
        except ValueError as error:
            notes.append(f"{name}: {error}")
            continue
        if own is None:
            missing[name] += 1
        # Kept to six significant digits, of which each of the answers may be off by a half.
        elif benchmark.scored and not math.isclose(own.l1, row.l1, abs_tol=1e-6 * own.q.shape[1]):
            notes.append(
                f"{name}: the answers to {in_way(*asked)} are left out: they give a distance of "
                f"{own.l1:.6f}, but the result file says {row.l1:.6f}; one of them was changed"
            )
        else:
            made[row.run, asked] = own
            if own.by_order is None and is_kept and row.said.endswith(DROPPED):
                unordered[name] += 1
    if unordered:
        notes.append(
            f"{few([*unordered])}: errors from the orderings of answers are not in those of "
            f"{plural(unordered.total(), 'task')}: run again with --log_samples for these"
        )
    if missing:
        notes.append(
            f"{few([*missing])}: no answers in {plural(missing.total(), 'task')}: the "
            "files hold none, or not to every prompt, or to questions of another truth; run again"
        )
    return made, notes


def group_answers(
    results: Results,
    wanted: Callable[[LeafKey], object] = lambda asked: True,
    fits: Callable[[Part], object] = lambda part: True,
) -> tuple[list[AnsweredGroup], list[str]]:
    """Put answers beside the truth, by run and group; and say what is left out, and why.

    Drawn answers are left out: they differ from their distribution, and between cells, by chance.

    Parameters
    ----------
    results : Results
    wanted : callable
        Selects tasks by name.
    fits : callable
        Selects tasks by the part of them that was asked.
    """
    made, notes = collect_answers(results, wanted)
    groups: dict[tuple[int, str], AnsweredGroup] = {}
    by_chance: dict[str, None] = {}
    for (run, asked), own in sorted(made.items()):
        if own.counts is not None:
            by_chance[results.runs["name"][run]] = None
            continue
        part, elicited = join_truth(asked, own)
        if fits(part):
            group = leaf(asked).group
            here = groups.setdefault((run, group), AnsweredGroup(run, group, {}))
            here.tasks[asked] = part, elicited
    if by_chance:
        notes.append(f"{few([*by_chance])}: drawn answers vary by chance and are left out")
    return [*groups.values()], notes


def join_truth(
    asked: LeafKey, own: TaskAnswers, cells: Sequence[int] | None = None
) -> tuple[Part, Elicited]:
    """Join the answers in some or all cells with the truth of these cells.

    Parameters
    ----------
    asked : Asked
    own : TaskAnswers
    cells : sequence of int, optional
        Numbers of answered cells, in ascending order; all by default.
    """
    truth = WAYS[asked.way].load(asked.task)
    cells = own.cells if cells is None else cells
    at = np.searchsorted(own.cells, cells)
    by_order = None if own.by_order is None else own.by_order[at]
    counts = None if own.counts is None else own.counts[at]
    part = part_of(truth, np.isin(np.arange(len(truth.weights)), cells))
    return part, Elicited(own.q[at], by_order, counts)


def add_known(
    groups: Sequence[AnsweredGroup], known: Mapping[str, Callable[[Part], Array]]
) -> Iterator[AnsweredGroup]:
    """Yield runs, then known respondents on every task that some run was asked.

    If a task was asked in parts, take the largest part.
    """
    yield from groups
    for name in dict.fromkeys(group.group for group in groups):
        parts: dict[LeafKey, Part] = {}
        for group in groups:
            if group.group == name:
                for asked, (part, _) in group.tasks.items():
                    parts[asked] = max(parts.get(asked, part), part, key=lambda of: len(of.p))
        for who, answered in known.items():
            tasks = {asked: (part, Elicited(answered(part))) for asked, part in parts.items()}
            yield AnsweredGroup(-1, name, tasks, who)
