"""Unpublished tasks: drawn at random from a survey's variables, checked, estimated, and written.

A draw is an outcome and its conditions. It is kept if the survey can estimate its truth, and the
record does not declare it; all of this is determined by counting. `surveys.fresh` declares the
tasks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, islice
from math import comb
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import special
from tqdm import tqdm

from lm_eval_epidemia.core import paths
from lm_eval_epidemia.core.distance import Array, distance
from lm_eval_epidemia.core.errors import EpidemiaError, suggest
from lm_eval_epidemia.core.store import look_at_disk
from lm_eval_epidemia.estimate import build as building
from lm_eval_epidemia.estimate import sampling, store
from lm_eval_epidemia.estimate.estimator import Estimated
from lm_eval_epidemia.estimate.estimators import Counts
from lm_eval_epidemia.estimate.prepare import prepare
from lm_eval_epidemia.estimate.sampling import Scheme
from lm_eval_epidemia.estimate.store import d_perfect
from lm_eval_epidemia.score.score import Anchors, zero_distance
from lm_eval_epidemia.surveys import fresh
from lm_eval_epidemia.surveys.catalogue import find_record
from lm_eval_epidemia.surveys.fresh import FreshDraws, FreshOptions, FreshSet, FreshTask
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata, load_microdata
from lm_eval_epidemia.surveys.record import MAX_LEVELS, Record
from lm_eval_epidemia.surveys.variable import Rake, Universe

#: Sampled units that make a cell large, and the share of the people in such cells, at least.
LARGE, IN_LARGE = 30, 0.9
#: The share of the way from knowing nothing to the truth that is beyond sampling error, more than.
TOLD = 0.5
#: No answer is that of more people.
COMMON = 0.98
#: Variables that tell each other so far, as a share of what there is to tell, are one recoded.
SAME = 0.9

#: As a set records them.
RULES = {
    "units of a large cell": LARGE,
    "share in large cells": IN_LARGE,
    "scale beyond sampling error": TOLD,
    "share of one answer": COMMON,
    "normalised mutual information": SAME,
}

#: Why a draw is refused, by the rule that it breaks; the first in this order counts.
REASONS = {
    "declared": "the survey declares a task of the same variables",
    "recoded": f"two of its variables are one recoded (mutual information from {SAME} on)",
    "part": "a condition is known of a part of the population only",
    "empty": "no record has all of its variables, or all are in one cell",
    "common": f"one answer is that of more than {COMMON:.0%}",
    "small": f"less than {IN_LARGE:.0%} of the people are in cells of {LARGE} or more",
    "short": f"not more than {TOLD:.0%} of its scale is beyond sampling error",
}


class Draw(NamedTuple):
    """An outcome and its conditions, in the record's order."""

    outcome: str
    given: tuple[str, ...]


class Space(NamedTuple):
    """What can be drawn.

    Attributes
    ----------
    outcomes : tuple of str
    conditions : tuple of str
        Some are outcomes too.
    dimensions : tuple of int
        Numbers of conditions.
    """

    outcomes: tuple[str, ...]
    conditions: tuple[str, ...]
    dimensions: tuple[int, ...]

    @property
    def sizes(self) -> dict[tuple[str, int], int]:
        """How many draws there are of each outcome with each number of conditions, if any."""
        return {
            (outcome, number): size
            for outcome in self.outcomes
            for number in self.dimensions
            if (size := comb(len(set(self.conditions) - {outcome}), number))
        }


def draws(space: Space, rng: np.random.Generator) -> Iterator[Draw]:
    """Give every draw of a space once, at random.

    Outcomes and numbers of conditions are as likely as each other while draws of them are left,
    although there are many more draws with more conditions.
    """
    left = space.sizes
    seen: set[Draw] = set()
    while left:
        outcome, number = list(left)[rng.integers(len(left))]
        others = [name for name in space.conditions if name != outcome]
        chosen = sorted(rng.choice(len(others), number, replace=False))
        drawn = Draw(outcome, tuple(others[place] for place in chosen))
        if drawn not in seen:
            seen.add(drawn)
            left[outcome, number] -= 1
            left = {kind: count for kind, count in left.items() if count}
            yield drawn


def _form(subject: str) -> str:
    """Return the word that conditions follow: "who" or "in" of "living in {conditions}"."""
    return (subject.partition("{conditions}")[0].split() or [""])[-1]


def who_is_asked(record: Record, outcome: str) -> tuple[tuple[Universe, ...], str | None] | None:
    """Return universe and subject of fresh tasks of an outcome.

    Those that most of its declared tasks have; of equally many, the first. Only subjects after
    whose word the phrases of any condition fit are taken ("who {conditions}", not "living in
    {conditions}"): where all are others, and no universe is declared, the record's own.

    Returns
    -------
    (tuple of Universe, str or None) or None
        None if nobody can say who is asked.
    """
    declared = [(t.universe, t.subject) for t in record.declared if t.outcome == outcome]
    usual = _form(record.subject)
    fitting = [asked for asked in declared if _form(asked[1] or record.subject) == usual]
    if fitting:
        return Counter(fitting).most_common(1)[0][0]
    return None if any(universe for universe, _ in declared) else ((), None)


def _is_phrased(record: Record, name: str) -> bool:
    """Tell whether a variable's phrases fit the record's subject, as far as declared tasks say."""
    usual = _form(record.subject)
    forms = {_form(t.subject or record.subject) for t in record.declared if name in t.given}
    return not forms or usual in forms


def space_of(data: Microdata, dimensions: Sequence[int], outcomes: Sequence[str] = ()) -> Space:
    """Return what can be drawn from a survey's file.

    Outcomes have a question, at most `MAX_LEVELS` answers, and it is known who is asked;
    conditions have phrases that fit the record's subject. Estimated outcomes are neither: their two
    variables are drawn.
    """
    record, ways = data.record, data.variables
    here = [name for name in record.variables if name in ways and not record.is_joint(name)]
    lettered = [
        name for name in here if ways[name].question and len(ways[name].levels) <= MAX_LEVELS
    ]
    wanted = [name for name in lettered if name in outcomes] if outcomes else lettered
    asked = [name for name in wanted if who_is_asked(record, name)]
    conditions = [name for name in here if _is_phrased(record, name)]
    return Space(tuple(asked), tuple(conditions), tuple(dimensions))


def normalised_information(joint: Array) -> float:
    """Return the mutual information of two variables, as a share of the smaller entropy.

    ``I(X; Y) / min(H(X), H(Y))``: 1 if one is a function of the other, however coarse.

    Parameters
    ----------
    joint : ndarray, shape (K, L)
        Weights of their levels.

    Returns
    -------
    float
        In [0, 1]; 0 if one has a single level.
    """
    p = joint / joint.sum()
    x, y = p.sum(axis=1), p.sum(axis=0)
    of_x, of_y, of_both = (float(special.entr(each).sum()) for each in (x, y, p))
    least = min(of_x, of_y)
    return float(np.clip((of_x + of_y - of_both) / least, 0, 1)) if least > 0 else 0.0


def cache_information(data: Microdata) -> Callable[[str, str], float]:
    """Return how far two variables of a survey tell each other, each pair found out once."""
    levels, ways, asked = data.levels, data.variables, data.weight > 0
    for universe in data.record.universe:
        asked &= data.within(universe)

    @cache
    def told(first: str, second: str) -> float:
        both = asked & (levels[first] != MISSING) & (levels[second] != MISSING)
        joint = np.zeros((len(ways[first].levels), len(ways[second].levels)))
        np.add.at(joint, (levels[first][both], levels[second][both]), data.weight[both])
        return normalised_information(joint) if both.any() else 0.0

    return told


def _is_part(data: Microdata, task: FreshTask) -> bool:
    """Tell whether weights speak for the population where the outcome, but no condition, is known.

    A file may hold some variables of a part of the population only, and rake its weights for
    tasks with these outcomes.
    """
    rules = data.record.vintages[data.vintage].adjustments
    raked = [set(rule.outcomes) for rule in rules if isinstance(rule, Rake)]
    return any(task.outcome not in names and names & set(task.given) for names in raked)


def is_short(zero: float, perfect: float) -> bool:
    """Return whether too little of a scale exceeds sampling error."""
    return not zero - perfect > TOLD * zero


def refusal(
    data: Microdata, task: FreshTask, informed: Callable[[str, str], float], replicates: int
) -> str | None:
    """Return the reason against a drawn task, a key of `REASONS`; None if it is kept.

    D_zero and D_perfect are those of the counted truth, whatever estimates the task: a fit, which
    draws cells together, has hardly less of its scale beyond sampling error.

    Parameters
    ----------
    data : Microdata
    task : FreshTask
    informed : callable
        `cache_information` the same data.
    replicates : int
        Of the bootstrap of records that D_perfect is from.
    """
    variables = [task.outcome, *task.given]
    # P(A and B | X) tells P(A | B, X), and P(A and B) of everybody P(A | B).
    declared = ({*data.record.parts(t.outcome), *t.given} for t in data.record.all_tasks)
    if set(variables) in declared:
        return "declared"
    if any(informed(*pair) >= SAME for pair in combinations(variables, 2)):
        return "recoded"
    if _is_part(data, task):
        return "part"
    try:
        ready = prepare(data, task)
    except EpidemiaError:
        return "empty"
    if len(ready.weights) < 2:
        return "empty"
    if ready.marginal.max() > COMMON:
        return "common"
    if ready.weights[ready.n >= LARGE].sum() < IN_LARGE:
        return "small"
    counts, rng = Counts(), np.random.default_rng()
    p = counts.fit(ready, ready.record_weights, rng)
    drawn = counts.draws(ready, "iid", replicates, Estimated(p, p[None], p[None]))
    perfect = d_perfect(distance(ready.weights, drawn, p))
    return "short" if is_short(float(zero_distance(ready.weights, p)), perfect) else None


#: How many conditions a task may have.
DIMENSIONS = (1, 2, 3)

#: Draws per requested task before the search stops.
ATTEMPTS = 100


class FreshPlan(NamedTuple):
    """The plan of a set.

    Attributes
    ----------
    data : Microdata
    schemes : tuple of str
        Of the bootstrap.
    fresh_set : FreshSet
    size : int
        How many draws there are in all.
    """

    data: Microdata
    schemes: tuple[Scheme, ...]
    fresh_set: FreshSet
    size: int

    @property
    def said(self) -> str:
        """The number of draws kept, and the reasons against the others."""
        drawn = self.fresh_set.draws
        refused = f"; refused: {_reasons(drawn)}" if drawn.refused else ""
        return f"{drawn.kept} of {drawn.tried} draws kept{refused}"

    @property
    def lacking(self) -> str:
        """Why there are fewer than were asked for; empty if there are not."""
        drawn, asked = self.fresh_set.draws, self.fresh_set.asked
        if drawn.kept == asked.n:
            return ""
        why = "nothing else is left to draw"
        if drawn.tried < self.size:
            why = f"the search stopped after {drawn.tried:,} of {self.size:,} possible draws"
        return f"fewer than the {asked.n} asked for: {why}"


def _reasons(drawn: FreshDraws) -> str:
    return "; ".join(f"{count} {REASONS[why]}" for why, count in drawn.refused.items())


class Made(NamedTuple):
    """The result: a set of fresh tasks.

    Attributes
    ----------
    plan : FreshPlan
    folder : Path
    is_joint : bool
        Whether its replicates are those of the survey's declared tasks, so that a difference
        between the two has a joint error.
    short : list of str
        Tasks of whose scale, as it was estimated in the end, less is beyond sampling error than
        the rule has it.
    """

    plan: FreshPlan
    folder: Path
    is_joint: bool
    short: list[str]


def plan_set(
    survey: str,
    raw: Sequence[Path] | None = None,
    *,
    n: int = 40,
    seed: int = 0,
    dimension: Sequence[int] = DIMENSIONS,
    outcomes: Sequence[str] = (),
    vintage: str | None = None,
    replicates: int = 200,
    progress: bool = True,
) -> FreshPlan:
    """Draw the tasks of a set and check them, without estimating any.

    The same record, files, seed and options give the same draws; a longer set of one seed begins
    with the tasks of a shorter one.

    Parameters
    ----------
    survey : str
    raw : sequence of Path, optional
        The survey's files, or a folder that holds them; by default those that were downloaded.
    n : int
        How many to keep; fewer if the survey has no more.
    seed : int
        Not negative.
    dimension : sequence of int
        Numbers of conditions, of `DIMENSIONS`.
    outcomes : sequence of str
        Only these; all variables with a question, if empty.
    vintage : str, optional
        Needed where neither the row count nor the file name tells.
    replicates : int
        Of the bootstrap, as for `estimate.build.build_survey`.
    progress : bool
        Show a progress bar.

    Raises
    ------
    EpidemiaError
        If an option is invalid, the files do not fit the record, or no draw can be kept.
    """
    entry = find_record(survey)
    _check_options(entry, n, seed, dimension, vintage)
    building.check_options(replicates, 1)
    for name in outcomes:
        _check_outcome(entry, name)
    data, schemes = building.find_schemes(load_microdata(entry, raw, vintage, every=True))
    space = space_of(data, sorted(set(dimension)), outcomes)
    if lacking := [name for name in outcomes if name not in space.outcomes]:
        raise EpidemiaError(f"{data.name} lacks the column of {lacking[0]}: leave it out")
    kept: list[FreshTask] = []
    refused: Counter[str] = Counter()
    informed = cache_information(data)
    some = islice(draws(space, np.random.default_rng([seed, 0])), ATTEMPTS * n)
    with tqdm(total=n, desc=f"{data.key}, drawing", unit="task", disable=not progress) as bar:
        while len(kept) < n and (draw := next(some, None)) is not None:
            task = _make_task(data, draw, seed, len(kept) + 1)
            if (why := refusal(data, task, informed, replicates)) is None:
                kept.append(task)
                bar.update()
            else:
                refused[why] += 1
    by_reason = {why: refused[why] for why in REASONS if refused[why]}
    drawn = FreshDraws(tried=len(kept) + refused.total(), kept=len(kept), refused=by_reason)
    if not kept:
        why = _reasons(drawn) or "no outcome can be combined with other variables"
        drawn_from = f"{drawn.tried} draws from {survey} {data.vintage}"
        raise EpidemiaError(f"none of {drawn_from} meets the conditions ({why})")
    asked = FreshOptions(
        n=n, dimension=space.dimensions, outcomes=tuple(outcomes), replicates=replicates
    )
    fresh_set = FreshSet(
        survey=survey,
        seed=seed,
        vintage=data.vintage,
        record=fresh.hash_of(entry, data.vintage),
        files=data.files,
        rules=RULES,
        draws=drawn,
        tasks=tuple(kept),
        asked=asked,
    )
    return FreshPlan(data, schemes, fresh_set, sum(space.sizes.values()))


def _check_options(
    entry: Record, n: int, seed: int, dimension: Sequence[int], vintage: str | None
) -> None:
    """Refuse options that cannot be meant."""
    for option, value, least in (("--n", n, 1), ("--seed", seed, 0)):
        if value < least:
            raise EpidemiaError(f"{option} {value}: expected {least} or more")
    if wrong := [number for number in dimension if number not in DIMENSIONS]:
        raise EpidemiaError(f"--dimension {wrong[0]}: a fresh task has 1 to 3 conditions")
    vintages = list(entry.vintages.values()) if vintage is None else [entry.vintage(vintage)]
    if all(each.tables for each in vintages):
        raise EpidemiaError(f"{entry.survey} is published only as tables: choose another survey")


def _check_outcome(entry: Record, name: str) -> None:
    """Refuse a variable that cannot be an outcome."""
    if name not in entry.variables:
        hint = suggest(name, entry.variables)
        raise EpidemiaError(f"{entry.survey} has no variable {name!r} ({hint})")
    asked = [other for other, ways in entry.variables.items() if all(w.question for w in ways)]
    most = max(len(way.levels) for way in entry.variables[name])
    for wrong, why in (
        (entry.is_joint(name), f"give its two variables: {','.join(entry.parts(name))}"),
        (name not in asked, f"the record has no 'question' of it ({suggest(name, asked)})"),
        (most > MAX_LEVELS, f"it has {most} answers, more than there are letters"),
        (
            who_is_asked(entry, name) is None,
            "its declared tasks are about some people only, and none of their subjects accepts "
            "arbitrary conditions",
        ),
    ):
        if wrong:
            raise EpidemiaError(f"{name} cannot be an outcome of {entry.survey}: {why}")


def _make_task(data: Microdata, drawn: Draw, seed: int, number: int) -> FreshTask:
    """Declare a draw as a task."""
    survey, who = data.record.survey, who_is_asked(data.record, drawn.outcome)
    assert who is not None
    named = [name.replace("_", " ").capitalize() for name in (drawn.outcome, *drawn.given)]
    return FreshTask(
        title=f"{survey.upper()}, fresh: {named[0]} by {', '.join(named[1:])}",
        outcome=drawn.outcome,
        given=drawn.given,
        universe=who[0],
        subject=who[1],
        survey=survey,
        seed=seed,
        number=number,
    )


def build_set(
    planned: FreshPlan, *, jobs: int = 1, replace: bool = False, progress: bool = True
) -> Made:
    """Build the set that was planned, in the user's folder of fresh tasks.

    An interrupted build continues where it stopped; the same plan gives the same bytes for any
    number of jobs. An existing set of the same plan is kept.

    Parameters
    ----------
    planned : FreshPlan
    jobs : int
        Processes.
    replace : bool
        Replace another set of the same survey and seed.
    progress : bool

    Raises
    ------
    EpidemiaError
        If there is another set and `replace` is false, or the folder cannot be written to.
    """
    drawn, data = planned.fresh_set, planned.data
    folder, text = paths.find_fresh_folder() / drawn.name, fresh.format_set(drawn)
    path, replicates = folder / fresh.TASKS, drawn.asked.replicates
    building.check_options(replicates, jobs)
    if path.exists() and path.read_text(encoding="utf-8") != text and not replace:
        raise EpidemiaError(
            f"{folder} has another set: give another --seed, or replace that set with --replace"
        )
    paths.check_writable(folder)
    sample, is_joint = sample_of(data, replicates // 2)
    declared = hashlib.sha256(text.encode()).hexdigest()
    about = {"seed": drawn.seed, "record": drawn.record, "declared": declared}
    work = building.Work(planned.schemes, replicates, jobs, progress=progress)
    if skipped := building.build_tasks(data, drawn.tasks, folder, work, sample=sample, fresh=about):
        raise EpidemiaError(next(iter(skipped.values())))
    # Last: until then no set of this name is whole, and none is used.
    with paths.atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    look_at_disk()
    scales = {task.name: Anchors.of(store.load_truth(task.name)) for task in drawn.tasks}
    below = [name for name, scale in scales.items() if is_short(scale.zero, scale.perfect)]
    return Made(planned, folder, is_joint, below)


def sample_of(data: Microdata, number: int) -> tuple[str, bool]:
    """Name the joint replicates of a file.

    Those of the survey's declared tasks, where these are from the same people: one of the tasks is
    counted again, and must come to the same in every replicate. Else a name of their own, the same
    for all sets from one file; reports then take the two as independent.

    Parameters
    ----------
    data : Microdata
    number : int
        Of the replicates.

    Returns
    -------
    name : str
        As `GroundTruth.sample`.
    is_joint : bool
        Whether declared tasks have them.
    """
    for task in data.record.declared:
        if len(task.given) > 1 or not data.can_estimate(task):
            continue
        try:
            truth = store.load_truth(task.name, data.vintage)
            stored, ready = truth.replicates, prepare(data, task)
        except EpidemiaError:
            continue
        if len(stored) == number and list(truth.given) == ready.given:
            p = ready.estimator.estimate(ready)
            again = ready.estimator.joint(ready, p, number).at
            # They are stored in steps of 1/32,767 of the largest deviation.
            if again.shape == stored.shape and np.abs(again - stored).max() < 1e-4:
                return truth.sample, True
        break
    digest = hashlib.sha256(f"{data.key} {len(data)} {number} {sampling.SEED}".encode())
    for part in (data.strata, data.psu, data.unit, data.replicates):
        digest.update(b"none" if part is None else np.ascontiguousarray(part).tobytes())
    return f"{data.key}-fresh {digest.hexdigest()[:12]}", False
