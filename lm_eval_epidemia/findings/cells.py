"""The answers of runs beside the truth, cell by cell."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import OBSERVATION, WAYS, in_way
from lm_eval_epidemia.benchmarks.observation.measured import Part, part_of
from lm_eval_epidemia.benchmarks.observation.metrics import DROPPED
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.findings.finding import Finding
from lm_eval_epidemia.results.choose import own_scores
from lm_eval_epidemia.results.entry import Asked, leaf
from lm_eval_epidemia.results.read import Results
from lm_eval_epidemia.results.samples import TaskAnswers, answers_of

#: Tasks whose answers are of use beside their truth.
LETTERS = "tasks with letters or likelihoods, such as epidemia_low"


class Answered(NamedTuple):
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
    tasks: dict[Asked, tuple[Part, Elicited]]
    who: str = ""

    @property
    def row(self) -> dict[str, object]:
        """Whose a row of a finding is, see `finding.who`."""
        kind = {"model": f"{self.who} (baseline)", "kind": "respondent"} if self.who else {}
        return {"run": self.run, **kind, "group": self.group, "tasks": len(self.tasks)}


def answers(
    results: Results, wanted: Callable[[Asked], object] = lambda asked: True
) -> tuple[dict[tuple[int, Asked], TaskAnswers], list[str]]:
    """Read what runs answered in survey tasks, by run and task; and say what is not known."""
    made: dict[tuple[int, Asked], TaskAnswers] = {}
    notes: list[str] = []
    missing: dict[str, int] = {}
    unordered: dict[str, int] = {}
    scores = own_scores(results)
    for run, task, way, file, value, said, truth, l1 in zip(
        *(scores[name] for name in ("run", "task", "way", "file", "value", "said", "truth")),
        scores.get("l1", pd.Series(math.nan, scores.index)),
        strict=True,
    ):
        asked, name = Asked(task, way), results.runs["name"][run]
        is_known = leaf(asked).benchmark is OBSERVATION and WAYS[way].distribution is not None
        if not is_known or math.isnan(value) or not wanted(asked):
            continue
        try:
            own = None if truth and isinstance(said, str) else answers_of(file, asked, said)
        except ValueError as error:
            notes.append(f"{name}: {error}")
            continue
        if own is None:
            missing[name] = missing.get(name, 0) + 1
            continue
        # Kept to six significant digits, of which each of the answers may be off by a half.
        if not math.isclose(own.l1, l1, abs_tol=1e-6 * own.q.shape[1]):
            notes.append(
                f"{name}: the answers to {in_way(*asked)} are left out: they give a distance of "
                f"{own.l1:.6f}, but the result file says {l1:.6f}; one of them was changed"
            )
            continue
        made[run, asked] = own
        if own.by_order is None and isinstance(said, str) and said.endswith(DROPPED):
            unordered[name] = unordered.get(name, 0) + 1
    if unordered:
        notes.append(
            f"{few(list(unordered))}: errors from the orderings of answers are not in those of "
            f"{plural(sum(unordered.values()), 'task')}: run again with --log_samples for these"
        )
    if missing:
        notes.append(
            f"{few(list(missing))}: no answers in {plural(sum(missing.values()), 'task')}: the "
            "files are older than version 0.3, or of another truth; run again"
        )
    return made, notes


def cells(
    results: Results,
    wanted: Callable[[Asked], object] = lambda asked: True,
    fits: Callable[[Part], object] = lambda part: True,
    drawn: bool = False,
) -> tuple[list[Answered], list[str]]:
    """Put answers beside the truth, by run and group.

    Parameters
    ----------
    results : Results
    wanted : callable
        Selects tasks by name.
    fits : callable
        Selects tasks by the part of them that was asked.
    drawn : bool
        Whether drawn answers can be used. They differ from their distribution, and between cells,
        by chance.

    Returns
    -------
    list of Answered
        In the order of runs and groups.
    list of str
        What is left out, and why.
    """
    made, notes = answers(results, wanted)
    groups: dict[tuple[int, str], Answered] = {}
    by_chance: dict[str, None] = {}
    for (run, asked), own in sorted(made.items()):
        if own.counts is not None and not drawn:
            by_chance[results.runs["name"][run]] = None
            continue
        part, elicited = beside_truth(asked, own)
        if fits(part):
            group = leaf(asked).group
            here = groups.setdefault((run, group), Answered(run, group, {}))
            here.tasks[asked] = part, elicited
    if by_chance:
        notes.append(f"{few(list(by_chance))}: drawn answers vary by chance and are left out")
    return list(groups.values()), notes


def beside_truth(
    asked: Asked, own: TaskAnswers, cells: Sequence[int] | None = None
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


def with_known(
    groups: Sequence[Answered], known: Mapping[str, Callable[[Part], Array]]
) -> Iterator[Answered]:
    """Yield runs, then known respondents on every task that some run was asked.

    If a task was asked in parts, take the largest part.
    """
    yield from groups
    for name in dict.fromkeys(group.group for group in groups):
        parts: dict[Asked, Part] = {}
        for group in groups:
            if group.group == name:
                for asked, (part, _) in group.tasks.items():
                    parts[asked] = max(parts.get(asked, part), part, key=lambda of: len(of.p))
        for who, answered in known.items():
            tasks = {asked: (part, Elicited(answered(part))) for asked, part in parts.items()}
            yield Answered(-1, name, tasks, who)


def nothing(finding: Finding, use: str, tasks: str) -> Finding:
    """Say in a finding without rows what to run."""
    says = f"no answers to {use}: run lm_eval on {tasks}"
    return Finding(**{**vars(finding), "left_out": [says, *finding.left_out]})
