"""The truths, scores and questions in Python, without lm-eval and without torch.

`load_truth` returns what a survey says, `score` compares with it what somebody believes,
`joint_error` and `difference` give the errors of means and differences, `other_scales` and
`calibration_line` tell in other ways how a belief is wrong, `tasks` lists what there is,
`questions` returns the prompts. Import them from here: ``lm_eval_epidemia``
itself imports nothing.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lm_eval_epidemia.benchmarks import BENCHMARKS, OBSERVATION, WAYS, in_way, leaves
from lm_eval_epidemia.benchmarks.observation.apart import (
    SCALES,
    Tilt,
    line_of,
    on_scales,
    scaled_cells,
)
from lm_eval_epidemia.benchmarks.observation.beliefs import believed
from lm_eval_epidemia.benchmarks.observation.measured import Measured, part_of
from lm_eval_epidemia.benchmarks.splits import split
from lm_eval_epidemia.core.errors import EpidemiaError, few, nearest
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.elicit.heeded import asked_for
from lm_eval_epidemia.elicit.system import BASE
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.way import Elicited
from lm_eval_epidemia.estimate import store
from lm_eval_epidemia.estimate.registry import entry_of, read_registry
from lm_eval_epidemia.score.confidence import interval
from lm_eval_epidemia.score.joint import Draws, difference, joint_error
from lm_eval_epidemia.score.scales import agreement_by_chance
from lm_eval_epidemia.score.score import Anchors
from lm_eval_epidemia.surveys.catalogue import all_tasks, record
from lm_eval_epidemia.surveys.catalogue import task as declared_task
from lm_eval_epidemia.surveys.record import Task

__all__ = [
    "Draws",
    "Score",
    "Source",
    "Tilt",
    "Truth",
    "calibration_line",
    "difference",
    "joint_error",
    "load_truth",
    "other_scales",
    "questions",
    "score",
    "tasks",
]


class Source(NamedTuple):
    """Where a truth comes from; as text, a paragraph to put under a figure.

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
    """The truth of one task: the data of `estimate.store.GroundTruth`, and what one does with them.

    Of C cells (combinations of conditions) and K levels (answers): ``weights`` (C,) is P(X),
    summing to 1; ``p`` (C, K) is P(Y | X); ``given`` names the cells and ``levels`` the answers.
    These arrays are read-only.
    """

    @property
    def conditions(self) -> tuple[str, ...]:
        """Names of the variables that are given, in the order of each cell's labels."""
        return declared_task(self.task).given

    @property
    def anchors(self) -> Anchors:
        """The distances that fix the scale of this task's score, each in [0, 2]."""
        return Anchors.of(self)

    def to_frame(self) -> pd.DataFrame:
        """Return the truth in long form.

        Returns
        -------
        DataFrame, C * K rows
            A column of labels for each condition; ``answer``; ``p``, the probability of the answer
            in the cell; ``weight``, the cell's share of the population (the same in its K rows);
            ``n`` and ``n_eff``, its sampled units and effective sample size (0 and infinite of a
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
        """Draw P(Y | X) with its 95 % intervals; takes the extra ``report``.

        Returns
        -------
        altair.Chart
            Of one condition: every answer over its levels. Of several: the first answer in every
            cell, from the rarest to the commonest.

        Raises
        ------
        EpidemiaError
            If the extra is not installed.
        """
        with needs("report", "plot()"):
            import altair as alt

            from lm_eval_epidemia.report import charts
        frame = self.to_frame()
        if len(self.conditions) > 1:
            frame = frame[frame.answer == self.levels[0]].sort_values("p", kind="stable")
            frame["place"] = range(len(frame))
        else:
            frame["place"] = np.repeat(range(len(self.given)), len(self.levels))
        # Infinite for a published table, which JSON does not know.
        rows = frame.drop(columns="n_eff").to_dict("records")
        return charts.truth(alt.Data(values=rows), list(self.conditions))

    def cite(self) -> Source:
        """Return whom to cite, and under which licence the survey is published.

        Examples
        --------
        >>> from lm_eval_epidemia.api import load_truth
        >>> load_truth("epidemia_low_nsduh_cocaine_ever_by_age").cite().vintage
        '2022'
        """
        places = store.all_places()[self.task]
        own = (self.vintage, self.state)
        place = next(place for place in places if (place.vintage, place.state) == own)
        survey = record(self.survey)
        listed = survey.vintages.get(self.vintage)
        page = listed.page if listed else survey.homepage
        about = {"citation": survey.citation, "licence": survey.licence, "page": page}
        # As it was when the truth was built, where that is recorded.
        about |= read_registry(place.folder)[place.key].get("source", {})
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
        Name of a task, see `tasks`; the same whichever way it is asked.
    vintage : str, optional
        By default the one that scores use.

    Returns
    -------
    Truth

    Raises
    ------
    EpidemiaError
        If there is no such task or vintage (with the nearest names), or no truth of it is here
        (with the file it needs).

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
    truth = store.load(_with_distribution(task), None if vintage is None else str(vintage))
    # What is loaded is kept for all: whoever changes theirs changes theirs alone.
    own = {"columns": dict(truth.columns), "distances": dict(truth.distances)}
    return Truth(**{**vars(truth), **own})


def _name(task: Any) -> str:
    if isinstance(task, Truth):
        return task.task
    if not isinstance(task, str):
        raise EpidemiaError(f"task {task!r}: expected the name of a task, see tasks()")
    if task not in leaves() and task in _members():
        listed = few(sorted(_members()[task]))
        raise EpidemiaError(f"{task} is a group: name one of its tasks ({listed})")
    return task


def _with_distribution(task: Any) -> str:
    """Return the name of a task, and refuse those that are not about a distribution."""
    name = _name(task)
    if name not in all_tasks() and (leaf := leaves().get(name)):
        if leaf.benchmark is OBSERVATION:
            raise EpidemiaError(
                f"{name}: name the task, {leaf.entry.name!r}; the truth is the same in every way"
            )
        raise EpidemiaError(
            f"{name} is about {leaf.benchmark.heading.lower()}: it has no distribution; "
            f"questions({leaf.entry.name!r}, way={leaf.way!r}) has its prompts"
        )
    return name


def _members() -> dict[str, set[str]]:
    """Return the names of the tasks in every group, as lm-eval knows it."""
    groups = defaultdict(set)
    for leaf in leaves().values():
        if WAYS[leaf.way].asks(leaf.entry.declared):
            for name in leaf.entry.groups:
                groups[in_way(name, leaf.way)].add(leaf.entry.name)
    return groups


@dataclass(frozen=True, repr=False)
class Score:
    """How close somebody's beliefs are to the truth of a task.

    Attributes
    ----------
    task, vintage : str
    score : float
        From 0 (no better than knowing nothing) to 100 (cannot be told from the truth).
    error : float
        Standard error of `score` from the survey's own sampling error: of this task alone. That of
        a mean or difference comes from `draws`. NaN where the truth has no joint replicates.
    l1 : float
        Weighted L1 distance from the truth, in [0, 2].
    anchors : Anchors
        The distances that fix the scale.
    population, population_error : float
        Score against the population rather than the survey, and its standard error; NaN without
        joint replicates. Cut off at 100; ``population_draws.uncut`` is not, for means over tasks.
    l1_population : float
        The distance behind it, which can be below 0.
    draws, population_draws : Draws or None
        What `score` and `population` would have been had the survey
        drawn other samples, ``draws.at``, shape (B,); empty for an exact table, None without joint
        replicates.

    Examples
    --------
    Tasks of one survey are wrong together, so errors of means and of differences come from the
    draws: `joint_error` takes those of the tasks, `difference` those of two respondents in one.

    >>> from lm_eval_epidemia.api import difference, joint_error, score
    >>> tasks = [f"epidemia_low_nsduh_{name}_ever_by_age" for name in ("cocaine", "heroin")]
    >>> half = [score(task, lambda condition: 0.5) for task in tasks]
    >>> tenth = [score(task, lambda condition: 0.1) for task in tasks]
    >>> mean_error = joint_error([found.draws for found in tenth])
    >>> pairs = [difference(one.draws, other.draws) for one, other in zip(tenth, half)]
    >>> difference_error = joint_error(pairs)
    """

    task: str
    vintage: str
    score: float
    error: float
    l1: float
    anchors: Anchors
    population: float
    population_error: float
    l1_population: float
    draws: Draws | None = field(compare=False)
    population_draws: Draws | None = field(compare=False)

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of `population`, cut off at 0 and 100."""
        half = 1.96 * self.population_error
        # Of NaN, max and min return what stands first.
        return max(self.population - half, 0.0), min(self.population + half, 100.0)

    def __repr__(self) -> str:
        anchors, (low, high) = self.anchors, self.interval
        error = "" if math.isnan(self.error) else f" ± {self.error:.1f}"
        more = "" if anchors.informative else "; uninformative"
        if not math.isnan(low):
            more += f"; against the population {self.population:.1f}, 95 % {low:.1f} to {high:.1f}"
        return (
            f"{self.task} ({self.vintage}): {self.score:.1f}{error} of 100 "
            f"(distance {self.l1:.4f}; {anchors.zero:.4f} scores 0, {anchors.perfect:.4f} scores "
            f"100, knowing averages only is {anchors.mean:.4f}{more})"
        )


def score(task: str | Truth, q: Any) -> Score:
    """Score beliefs about a task, as lm-eval scores what a model was found to believe.

    Parameters
    ----------
    task : str or Truth
        Name of a task, or its truth in another vintage.
    q : array_like, DataFrame or callable
        P~(Y | X), rows summing to 1 (nothing is ever normalised):

        - an array, shape (C, K), in the order of ``truth.given`` and ``truth.levels``;
        - a DataFrame, aligned by its labels: long, with a column per condition, ``answer`` and
          ``q`` (others are ignored), or wide, with a column per answer and the conditions as index
          or as columns;
        - a function of the condition, called with ``{variable: label}`` for each cell. It returns K
          probabilities in the order of the levels, or ``{answer: probability}``; of a binary
          outcome also one number, the probability of the *first* level (``truth.levels[0]``, mostly
          "Yes").

        An array knows no labels: of a frame, give the frame, whose columns may stand in another
        order.

    Returns
    -------
    Score

    Raises
    ------
    EpidemiaError
        If the task has no truth here; if `q` lacks a cell or answer, has one twice or one that the
        truth does not have; if it holds what is no probability; if a cell does not sum to 1. A sum
        may be off by less than 1e-5, and a value below 0 by as much, which rounding to float32
        explains; they are used as they are.

    Examples
    --------
    One number for everybody, and the truth itself:

    >>> from lm_eval_epidemia.api import load_truth, score
    >>> task = "epidemia_low_nsduh_cocaine_ever_by_age"
    >>> found = score(task, lambda condition: 0.12)
    >>> 0 < found.score < 100, found.l1 > found.anchors.perfect
    (True, True)
    >>> score(task, load_truth(task).p).score
    100.0

    A frame is aligned by its labels, in whatever order they stand:

    >>> frame = load_truth(task).to_frame().assign(q=lambda rows: rows.p)
    >>> score(task, frame.sample(frac=1, random_state=1)).score
    100.0
    >>> score(task, frame.pivot(index="age", columns="answer", values="p")).score
    100.0
    >>> score(task, frame.query("age != '12-13'"))
    Traceback (most recent call last):
    lm_eval_epidemia.core.errors.EpidemiaError: q lacks age=12-13, answer Yes; age=12-13, answer No
    """
    truth = task if isinstance(task, Truth) else load_truth(task)
    part = part_of(truth)
    measured = Measured(part, Elicited(believed(truth, q)))
    draws, population_draws = measured.score_draws, measured.score_population_draws
    return Score(
        task=truth.task,
        vintage=truth.vintage,
        score=measured.score,
        error=joint_error([draws]),
        l1=measured.l1,
        anchors=part.anchors,
        population=measured.score_population,
        population_error=joint_error([population_draws]),
        l1_population=measured.l1_population,
        draws=draws,
        population_draws=population_draws,
    )


def other_scales(task: str | Truth, q: Any, cells: bool = False) -> pd.DataFrame:
    """Compare beliefs with the truth of a task on other scales than the score.

    Parameters
    ----------
    task : str or Truth
    q : callable, DataFrame or array_like
        As `score` takes it.
    cells : bool
        Whether to return every cell instead of their weighted means.

    Returns
    -------
    DataFrame
        A row per scale: ``value``; ``error``, its standard error from the survey's sampling;
        ``by_chance``, of ``rank agreement``, how often cells in any order agree at least as well;
        ``draws``, for `joint_error`. ``total variation`` and ``Wasserstein-1`` (of more than two
        ordered answers) are in [0, 1], ``Jensen-Shannon`` in bits, ``log score`` in nats (higher is
        better), ``rank agreement`` in [-1, 1]. With `cells` a row per cell: its conditions,
        ``weight``, and a column per scale but the last.

    Examples
    --------
    >>> from lm_eval_epidemia.api import other_scales
    >>> shown = other_scales("epidemia_low_gss_party_by_race", lambda race: [0.4, 0.3, 0.3])
    >>> shown.value.round(3)
    total variation    0.156
    Jensen-Shannon     0.024
    log score         -1.089
    Wasserstein-1      0.112
    rank agreement     0.000
    Name: value, dtype: float64
    """
    truth = task if isinstance(task, Truth) else load_truth(task)
    part, elicited = part_of(truth), Elicited(believed(truth, q))
    if cells:
        labels = zip(*truth.given, strict=True)
        columns = dict(zip(truth.conditions, labels, strict=True))
        return pd.DataFrame({**columns, "weight": truth.weights, **scaled_cells(part, elicited.q)})
    known = on_scales(part, elicited)
    frame = pd.DataFrame(
        {
            "value": {name: number.value for name, number in known.items()},
            "error": {name: joint_error([number.draws]) for name, number in known.items()},
            "by_chance": dict.fromkeys(known, math.nan),
            "draws": {name: number.draws for name, number in known.items()},
        },
        index=[name for name in SCALES if name in known],
    )
    if "rank agreement" in known:
        frame.loc["rank agreement", "by_chance"] = agreement_by_chance(truth.p, elicited.q)
    return frame


def calibration_line(beliefs: Mapping[str, Any]) -> Tilt:
    """Return the line logit q = tilt + slope logit p through the beliefs about one or more tasks.

    Parameters
    ----------
    beliefs : mapping of str to callable, DataFrame or array_like
        By task; each as `score` takes it. Every task counts alike.

    Returns
    -------
    Tilt
        ``tilt``, ``slope`` and their errors; see docs/statistics.md. Who knows the population has
        slope 1 and tilt 0; the survey's own figures have its errors too, and a slope above 1.

    Examples
    --------
    >>> from lm_eval_epidemia.api import calibration_line, load_truth
    >>> names = ["epidemia_low_nsduh_cocaine_ever_by_age", "epidemia_low_nsduh_heroin_ever_by_age"]
    >>> halfway = {name: (load_truth(name).p + 0.5) / 2 for name in names}
    >>> calibration_line(halfway).slope < 1
    True
    """
    if not isinstance(beliefs, Mapping) or not beliefs:
        raise EpidemiaError(
            "calibration_line takes beliefs by task: {'epidemia_low_gss_party_by_race': q}"
        )
    truths = {name: load_truth(name) for name in beliefs}
    return line_of(
        [(part_of(t), Elicited(believed(t, beliefs[name]))) for name, t in truths.items()]
    )


def tasks(survey: str | None = None, group: str | None = None) -> pd.DataFrame:
    """Return every declared task, whether or not its truth is here.

    Parameters
    ----------
    survey : str, optional
        Only of this survey, for example ``"nsduh"``.
    group : str, optional
        Only of this group: ``"epidemia_low"``, of one survey, ``"epidemia_low_nsduh"``, or what is
        asked in one way, ``"epidemia_high_closed"``.

    Returns
    -------
    DataFrame
        ``task``, ``group``, ``survey``, ``title``, ``outcome``, ``conditions`` (``"age, sex"``),
        ``levels`` (number of answers), ``cells`` (missing of a task that waits), ``state``
        (``"shipped"``, ``"built here"`` or ``"waiting"``), ``vintage`` (empty of a task that waits)
        and ``needs`` (the files that it waits for, else empty).

    Raises
    ------
    EpidemiaError
        If there is no such survey or group; the nearest names are given.

    Examples
    --------
    >>> from lm_eval_epidemia.api import tasks
    >>> nsduh = tasks(survey="nsduh", group="epidemia_low")
    >>> nsduh.loc[nsduh.outcome == "cocaine_ever", ["conditions", "levels", "cells", "state"]]
      conditions  levels  cells    state
    3        age       2     11  shipped
    8       race       2      4  shipped
    >>> tasks(survey="nsdhu")
    Traceback (most recent call last):
    lm_eval_epidemia.core.errors.EpidemiaError: no survey 'nsdhu' (nearest: nsduh)
    """
    declared, places = all_tasks().values(), store.available()
    of_task = ("name", "group", "survey", "title", "outcome")
    listed = pd.DataFrame(
        {
            **{name: getattr(task, name) for name in of_task},
            "conditions": ", ".join(task.given),
            **(_here(task, places[task.name]) if task.name in places else _waiting(task)),
        }
        for task in declared
    )
    listed = listed.astype({"cells": "Int64"}).rename(columns={"name": "task"})
    if survey is not None:
        record(str(survey))
        listed = listed[listed.survey == survey]
    if group is not None:
        if str(group) not in (members := _members()):
            raise EpidemiaError(f"no group {group!r} ({nearest(group, members)})")
        listed = listed[listed.task.isin(members[group])]
        if listed.empty and not members[group] & {*all_tasks()}:
            raise EpidemiaError(
                f"{group} is not about surveys, and its tasks have no truth of theirs: see "
                "'epidemia tasks list' for groups of surveys, docs/interventional.md for this one"
            )
    return listed.reset_index(drop=True)


def _waiting(task: Task) -> dict[str, Any]:
    survey = record(task.survey)
    levels = len(survey.ways(task.outcome, survey.official)[0].levels)
    needs = survey.vintages[survey.official].needed
    return {"levels": levels, "cells": None, "state": "waiting", "vintage": "", "needs": needs}


def _here(task: Task, place: store.Place) -> dict[str, Any]:
    _, entry = entry_of(place, task.name)
    cells = entry.get("cells") or len(store.load(task.name).given)
    about = {"levels": len(entry["levels"]), "cells": cells, "state": place.state}
    return {**about, "vintage": place.vintage, "needs": ""}


def questions(task: str | Truth, way: str | None = None, **variant: Any) -> pd.DataFrame:
    """Return the prompts of a task, as lm-eval would ask them.

    Parameters
    ----------
    task : str or Truth
        Name of a task whose truth is here.
    way : str, optional
        Of asking: ``"letters"`` (the usual one), ``"likelihood"``, ``"sampled"``, and of some tasks
        ``"closed"`` and ``"rag"``, see docs/prompting.md; of tasks about causal graphs
        ``"intervention"`` (the usual one), ``"substitution"`` and so on, see
        docs/interventional.md; of sets of quantities ``"direct"`` (the usual one),
        ``"direct_choice"``, ``"mean_variance"``, ``"quantile"`` and ``"grid"``.
    **variant
        What ``--metadata`` takes, for example ``orderings="balanced"`` or ``fewshot=3``. What has
        no effect (``n_samples`` with letters) is refused, and so are ``gen_prefix`` and
        ``system_prompt``, which lm-eval puts after and before the prompt.

    Returns
    -------
    DataFrame
        A row per prompt, in the order in which they are asked: ``task``, ``truth`` (fingerprint of
        the truth), ``cell`` (its number there), ``given`` (its conditions), ``choices`` (the
        letters), ``prompt``, and what the way adds: ``order`` (level numbers as displayed),
        ``design``, ``level``, ``sample``, ``n_samples``, ``family``, ``unit``.

    Raises
    ------
    EpidemiaError
        If there is no such task, way or variant (with the nearest names), the task is not asked in
        that way, or its truth is not here.

    Examples
    --------
    >>> from lm_eval_epidemia.api import questions
    >>> asked = questions("epidemia_low_nsduh_cocaine_ever_by_age")
    >>> len(asked)  # 11 ages, the two answers in both orders
    22
    >>> print(asked.prompt[14])  # doctest: +ELLIPSIS
    Consider a person aged 12 or older living in the United States in 2022 who is 30 to 34 years ...
    A. Yes
    B. No
    Answer:
    """
    task = _name(task)
    of = {name: benchmark for benchmark in BENCHMARKS for name in benchmark.entries()}
    if task not in of:
        if leaf := leaves().get(task):
            raise EpidemiaError(
                f"{task}: name the task and the way, questions({leaf.entry.name!r}, "
                f"way={leaf.way!r})"
            )
        raise EpidemiaError(f"no task {task!r} ({nearest(task, of)})")
    benchmark = of[task]
    way = benchmark.plain.name if way is None else way
    if way not in WAYS:
        raise EpidemiaError(f"no way of asking {way!r} ({nearest(way, WAYS)})")
    declared = benchmark.entries()[task].declared
    asked = [name for name in benchmark.ways if WAYS[name].asks(declared)]
    if way not in asked:
        raise EpidemiaError(f"{task} is not asked in the way {way!r}, only {', '.join(asked)}")
    if unknown := [name for name in variant if name not in Variant._fields]:
        hint = nearest(unknown[0], Variant._fields)
        raise EpidemiaError(f"questions has no variant {unknown[0]!r} ({hint})")
    for name, where in (("gen_prefix", "after"), ("system_prompt", "before")):
        if variant.get(name, "") not in ("", BASE):
            raise EpidemiaError(
                f"{name} is put {where} the prompt by lm-eval, and is no part of it: leave it out "
                "here"
            )
    for name in asked_for(variant):
        if not leaves()[in_way(task, way)].heeds(name):
            raise EpidemiaError(f"{name} has no effect on {task} in the way {way!r}: leave it out")
    return pd.DataFrame(split(task, way, Variant.of(variant)).to_dict())
