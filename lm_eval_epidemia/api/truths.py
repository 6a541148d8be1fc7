"""What a survey says: `load_truth`."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import WAYS, list_leaves, list_unions
from lm_eval_epidemia.benchmarks.observation import OBSERVATION
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.registry import read_registry
from lm_eval_epidemia.score.estimates import interval
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record
from lm_eval_epidemia.surveys.catalogue import find_task as declared_task


class Source(NamedTuple):
    """The source of a truth; its text is a paragraph to put under a figure.

    Attributes
    ----------
    citation : str
        As its publisher asks for it.
    source : str
        The page where a person finds the files.
    licence : str
    survey, vintage : str
    """

    citation: str
    source: str
    licence: str
    survey: str
    vintage: str

    def __str__(self) -> str:
        return f"{self.citation} Vintage {self.vintage}, {self.source}. {self.licence}"


@dataclass(frozen=True, repr=False, eq=False)
class Truth(store.GroundTruth):
    """The truth of one task: the data of `estimate.store.GroundTruth`, with methods to use them.

    For C cells (combinations of conditions) and K levels (answers): ``weights`` (C,) is P(X),
    summing to 1; ``p`` (C, K) is P(Y | X); ``given`` names the cells and ``levels`` the answers.
    These arrays are read-only.
    """

    @property
    def conditions(self) -> tuple[str, ...]:
        """Names of the conditions, in the order of each cell's labels."""
        return declared_task(self.task).given

    @property
    def anchors(self) -> Anchors:
        """The distances that set the scale of this task's score, each in [0, 2]."""
        return Anchors.of(self)

    def to_frame(self) -> pd.DataFrame:
        """Return the truth in long form.

        Returns
        -------
        DataFrame, C * K rows
            A column of labels for each condition; ``answer``; ``p``, the probability of the answer
            in the cell; ``weight``, the cell's share of the population (the same in its K rows);
            ``n`` and ``n_eff``, its sampled units and effective sample size (0 and infinite for a
            published table); ``low`` and ``high``, the 95 % interval of p (Jeffreys').

        Examples
        --------
        >>> from lm_eval_epidemia.api import load_truth
        >>> frame = load_truth("epidemia_low_nsduh_cocaine_ever_by_age").to_frame()
        >>> list(frame.columns)
        ['age', 'answer', 'p', 'weight', 'n', 'n_eff', 'low', 'high']
        >>> frame.query("age == '30-34' and answer == 'Yes'").p.round(2).item()
        0.19
        """
        answers, labels = len(self.levels), zip(*self.given, strict=True)
        low, high = interval(self.p, self.n_eff)

        def of_cells(values: Any) -> Any:
            return np.repeat(np.asarray(values), answers)

        columns = dict(zip(self.conditions, map(of_cells, labels), strict=True))
        columns |= {"answer": np.tile(self.levels, len(self.given)), "p": self.p.ravel()}
        columns |= {"weight": of_cells(self.weights), "n": of_cells(self.n)}
        columns |= {"n_eff": of_cells(self.n_eff), "low": low.ravel(), "high": high.ravel()}
        return pd.DataFrame(columns)

    def plot(self) -> Any:
        """Draw P(Y | X) with its 95 % intervals; needs the extra ``report``.

        Returns
        -------
        altair.Chart
            With one condition: every answer over its levels. With several: the first answer in
            every cell, from the rarest to the commonest.

        Raises
        ------
        EpidemiaError
            If the extra is not installed.
        """
        with needs("report", "plot()"):
            from lm_eval_epidemia.report import charts
        frame = self.to_frame()
        if len(self.conditions) > 1:
            frame = frame[frame.answer == self.levels[0]].sort_values("p", kind="stable")
        # Infinite for a published table, which JSON does not know.
        return charts.draw_truth(frame.drop(columns="n_eff"), list(self.conditions))

    def cite(self) -> Source:
        """Return the survey's citation and licence.

        Examples
        --------
        >>> from lm_eval_epidemia.api import load_truth
        >>> load_truth("epidemia_low_nsduh_cocaine_ever_by_age").cite().vintage
        '2022'
        """
        survey = find_record(self.survey)
        listed = survey.vintages.get(self.vintage)
        page = listed.page if listed else survey.homepage
        about = {"citation": survey.citation, "licence": survey.licence, "page": page}
        # As it was when the truth was built, where that is recorded.
        about |= read_registry(self.place.folder)[self.place.key].get("source", {})
        return Source(about["citation"], about["page"], about["licence"], self.survey, self.vintage)

    def __repr__(self) -> str:
        return f"{self._heading()}\n{self.to_frame().to_string(max_rows=8, index=False)}"

    def _repr_html_(self) -> str:
        from html import escape

        table = self.to_frame().to_html(max_rows=8, index=False)
        return f"<p>{escape(self._heading())}</p>{table}"

    def _heading(self) -> str:
        outcome, given = declared_task(self.task).outcome, ", ".join(self.conditions)
        return (
            f"{self.task} ({self.survey} {self.vintage}, {self.state}): P({outcome} | {given}), "
            f"{len(self.levels)} answers in {len(self.given)} cells"
        )


def load_truth(task: str, vintage: str | None = None) -> Truth:
    """Return what a survey says: the distribution of a task's answers in every cell.

    Parameters
    ----------
    task : str
        Name of a task, see `tasks`; the same for every way of asking.
    vintage : str, optional
        By default the one that scores use.

    Returns
    -------
    Truth

    Raises
    ------
    EpidemiaError
        If there is no such task or vintage (with the nearest names), or its truth is not here (with
        the file that it needs).

    Examples
    --------
    >>> from lm_eval_epidemia.api import load_truth
    >>> truth = load_truth("epidemia_low_nsduh_cocaine_ever_by_age")
    >>> truth.levels, truth.p.shape
    (('Yes', 'No'), (11, 2))
    >>> load_truth("epidemia_low_nsduh_cocain_ever")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    lm_eval_epidemia.core.errors.EpidemiaError: no task 'epidemia_low_nsduh_cocain_ever' ...
    """
    look_at_disk()
    truth = store.load_truth(check_distribution(task), None if vintage is None else str(vintage))
    # What is loaded is kept for all: whoever changes theirs changes theirs alone.
    own = {"columns": dict(truth.columns), "distances": dict(truth.distances)}
    return Truth(**{**vars(truth), **own})


def task_name(task: Any) -> str:
    """Return the name of a task or of a truth's task; refuse groups."""
    if isinstance(task, store.GroundTruth):
        return task.task
    if not isinstance(task, str):
        raise EpidemiaError(f"task {task!r}: expected the name of a task, see tasks()")
    if task not in list_leaves() and task in members_of_groups():
        listed = few(sorted(members_of_groups()[task]))
        raise EpidemiaError(f"{task} is a group: name one of its tasks ({listed})")
    return task


def check_distribution(task: Any) -> str:
    """Return the name of a task; refuse tasks that are not about a distribution."""
    name = task_name(task)
    if name not in all_tasks() and (leaf := list_leaves().get(name)):
        if leaf.benchmark is OBSERVATION:
            raise EpidemiaError(
                f"{name}: give the task's name, {leaf.entry.name!r}; the truth is the same in "
                "every way"
            )
        raise EpidemiaError(
            f"{name} is about {leaf.benchmark.heading.lower()}, so it has no distribution; "
            f"questions({leaf.entry.name!r}, way={leaf.way!r}) has its prompts"
        )
    return name


def members_of_groups() -> dict[str, set[str]]:
    """Return the task names of every group that lm-eval knows."""
    groups = defaultdict(set)
    for leaf in list_leaves().values():
        if WAYS[leaf.way].asks(leaf.entry.declared):
            for name in leaf.groups:
                groups[name].add(leaf.entry.name)
    for name, members in list_unions().items():
        groups[name] = {list_leaves()[task].entry.name for task in members}
    return groups
