"""New quantities from any survey of the catalogue: random slices, as the published ones were made.

A variable of the survey's record with a `measure` gives means, and quarters as conditions; any
other gives the probability of one of its levels, and levels as conditions.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.benchmarks.prior.quantities import quantity, wording
from lm_eval_epidemia.benchmarks.prior.quantities.store import PREFIX
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.surveys.microdata import MISSING, Microdata
from lm_eval_epidemia.surveys.variable import Rake, Variable

#: A variable with more levels and no measure (single years of schooling) is left out.
MOST_LEVELS = 15

#: How far a slice must lie from the marginal: so much for a share, so much of itself for a mean.
APART = 0.05

#: Every condition leaves out at least so many of the people whom the others describe.
NARROWS = 0.05

#: A quarter holds this share of the people at least and at most: many may have one value.
QUARTER = (0.1, 0.4)

#: Share of a slice's weight, at least, that is in strata with several PSUs of the slice: from the
#: others nothing is learnt about its error.
TOLD = 0.75

#: People on either side of a share, at least: fewer tell hardly more than that it is rare.
EITHER = 10

#: A mean is not asked where more have one value: five people would often agree, as if certain.
COMMON = 2 / 3

#: From this skewness on, positive values get a lognormal prior.
SKEWED = 1.0

#: Attempts per quantity before the search stops: as for so many at least, or who asks for fewer
#: would find fewer.
ATTEMPTS, AT_LEAST = 500, 15

Mask = NDArray[np.bool_]


class Refused(EpidemiaError):
    """A slice that makes no quantity; the message says why."""


def _require(fine: Any, why: str) -> None:
    """Refuse a slice of which something is not fine."""
    if not fine:
        raise Refused(why)


class VariableLevel(NamedTuple):
    """A variable, and which of its levels (or quarters); None for the mean of what was measured."""

    variable: str
    level: int | None


class _Slice(NamedTuple):
    """People, what is averaged over them, and what it comes to."""

    quantity: quantity.Quantity
    people: Mask
    value: Array


def family_of(value: Array, everyone: Array, weight: Array) -> quantity.Family:
    """Return the family of the prior for a mean: lognormal where values are positive and skewed.

    Parameters
    ----------
    value : ndarray, shape (n,)
        Of the people of the slice.
    everyone, weight : ndarray, shape (N,)
        Of all people: whether a variable is skewed, and whether it can be negative, does not depend
        on the slice.

    Returns
    -------
    str
        "lognormal" where no value is negative, their weighted skewness, m3 / m2^1.5 of the central
        moments, is above `SKEWED`, and in the slice all are above 0; else "normal".
    """
    deviation = everyone - np.average(everyone, weights=weight)
    second, third = (np.average(deviation**power, weights=weight) for power in (2, 3))
    skewed = everyone.min() >= 0 and third > SKEWED * second**1.5
    return "lognormal" if skewed and (value > 0).all() else "normal"


class Slices:
    """The slices of a survey.

    Parameters
    ----------
    data : Microdata

    Raises
    ------
    EpidemiaError
        If its weights give shares of cells only, or it has too few variables.
    """

    def __init__(self, data: Microdata) -> None:
        record = data.record
        self.data, self.record = data, record
        rakes = [a for a in record.vintages[data.vintage].adjustments if isinstance(a, Rake)]
        if rakes:
            raise EpidemiaError(
                f"the weights of {record.survey} {data.vintage} must be raked: use another vintage"
            )
        self.subject = wording.subject_of(record, data.vintage)
        unit = data.unit if data.psu is None else data.psu
        scale = record.design_of(data.vintage).replicate_scale
        self.design = quantity.SampleDesign(data.weight, data.strata, unit, data.replicates, scale)
        self.asked: Mask = data.weight > 0
        for universe in record.universe:
            self.asked &= data.within(universe)
        self._marginals: dict[VariableLevel, quantity.DomainStats] = {}
        if len(self.variables) < len(quantity.DIFFICULTIES):
            raise EpidemiaError(
                f"{record.survey} {data.vintage}: {len(quantity.DIFFICULTIES)} variables are "
                f"needed, but only these are suitable: {', '.join(self.variables) or 'none'}"
            )

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """Those that are asked of all, with a measure or few levels; no joint outcomes."""
        partly = {task.outcome for task in self.record.all_tasks if task.universe}
        return {
            name: way
            for name, way in self.data.variables.items()
            if name not in partly
            and not way.both
            and (way.measure or len(way.levels) <= MOST_LEVELS)
        }

    def bases(self, name: str) -> list[VariableLevel]:
        """Return what can be averaged of a variable; of two levels the first, not its rest."""
        way = self.variables[name]
        levels = range(len(way.levels) if way.levels[2:] else 1)
        return [VariableLevel(name, level) for level in ([None] if way.measure else levels)]

    def conditions(self, name: str) -> list[VariableLevel]:
        """Return what can be known about people by a variable."""
        way = self.variables[name]
        return [VariableLevel(name, k) for k in range(4 if way.measure else len(way.levels))]

    def known(self, name: str) -> Mask:
        return self.asked & (self.data.levels[name] != MISSING)

    def value(self, base: VariableLevel) -> Array:
        """Return what is averaged, shape (n,); a share is averaged over 0 and 1."""
        if base.level is None:
            return self.data.measured[base.variable]
        return (self.data.levels[base.variable] == base.level).astype(np.float64)

    def marginal(self, base: VariableLevel) -> quantity.DomainStats:
        if base not in self._marginals:
            people = self.known(base.variable)
            self._marginals[base] = quantity.estimate_domain(self.value(base), people, self.design)
        return self._marginals[base]

    def units(self, people: Mask) -> int:
        """Count people; where a sampled unit has several records, the units."""
        return int(people.sum() if self.data.unit is None else len(set(self.data.unit[people])))

    def _met(self, choice: VariableLevel, people: Mask) -> tuple[Mask, quantity.Condition]:
        """Tell who meets a condition, its quarters taken among `people`."""
        way = self.variables[choice.variable]
        assert choice.level is not None
        if way.measure is None:
            phrase = wording.clause(way, choice.level, self.subject)
            label = way.levels[choice.level].label
            met = self.data.levels[choice.variable] == choice.level
            return met, quantity.Condition(choice.variable, label, phrase)
        value = self.data.measured[choice.variable]
        there = value[people & ~np.isnan(value)]
        _require(len(there) >= quantity.FEWEST, f"few people have a known {choice.variable}")
        ends: list[float | None] = [None, *wording.cuts(there), None]
        low, high = (
            None
            if end is None or not there.min() <= end < there.max()
            else wording.roundest(there, end)
            for end in ends[choice.level : choice.level + 2]
        )
        met = wording.is_inside(value, low, high)
        share = met[people].sum() / len(there)
        _require(QUARTER[0] <= share <= QUARTER[1], f"{choice.variable} has no quarters")
        bounds, same = wording.format_bounds(low, high, way.measure.unit), set(value[people & met])
        if len(same) == 1:
            bounds = f"exactly {wording.format_value(same.pop(), way.measure.unit)}"
        phrase = wording.measured_clause(way, bounds, self.subject)
        return met, quantity.Condition(choice.variable, wording.QUARTERS[choice.level], phrase)

    def slice(self, name: str, base: VariableLevel, given: tuple[VariableLevel, ...]) -> _Slice:
        """Make a quantity.

        Parameters
        ----------
        name : str
        base : VariableLevel
        given : tuple of VariableLevel
            Quarters of each are taken among the people whom those before it describe.

        Returns
        -------
        _Slice

        Raises
        ------
        Refused
            If the slice has fewer than `FEWEST` people, all of them alike, lies too near the
            marginal, or a condition says hardly anything.
        """
        people = self.asked
        met: list[Mask] = []
        listed: list[quantity.Condition] = []
        for choice in given:
            mask, condition = self._met(choice, people)
            people = people & mask
            met.append(mask)
            listed.append(condition)
        there = self.known(base.variable)
        people = people & there
        n = self.units(people)
        _require(n >= quantity.FEWEST, f"{n} people are in the slice, more are needed")
        for own, condition in zip(met, listed, strict=True):
            others = np.logical_and.reduce([there, *(mask for mask in met if mask is not own)])
            narrows = people.sum() <= (1 - NARROWS) * others.sum()
            _require(narrows, f"{condition.variable} says hardly anything about the others")
        value = self.value(base)
        told, marginal = quantity.estimate_domain(value, people, self.design), self.marginal(base)
        # Slices are chosen by their error among the PSUs with members of them.
        alone = quantity.estimate_domain(value[people], people[people], self.design.of(people))
        _require(told.sd > 0 and alone.se > 0, "all are alike, or all were sampled together")
        _require(alone.told >= TOLD, "too few are in strata with several PSUs of the slice")
        way, everyone, label, unit = self.variables[base.variable], value[there], "", ""
        if base.level is None:
            assert way.measure is not None
            unit, least = way.measure.unit, APART * abs(told.mean)
            family = family_of(value[people], everyone, self.data.weight[there])
            weight = self.data.weight[people]
            same = np.unique(value[people], return_inverse=True)[1]
            common = np.bincount(same, weight).max() / weight.sum()
            _require(common <= COMMON, f"{common:.0%} have one value")
        else:
            family, least = "beta", APART
            label = f" ({way.levels[base.level].label})"
            either = (self.units(people & (value == answer)) for answer in (0, 1))
            _require(min(either) >= EITHER, f"fewer than {EITHER} people are counted, or are not")
        apart = abs(told.mean - marginal.mean)
        _require(not given or apart > max(alone.se, least), f"it is {apart:g} from the marginal")
        clauses = [condition.phrase for condition in listed]
        lowest = 0.0 if everyone.min() >= 0 else None
        made = quantity.Quantity(
            name=name,
            base=base.variable + label,
            conditions=tuple(listed),
            family=family,
            unit="dollars" if unit == "$" else unit,
            wording=wording.word_quantity(self.record, self.data.vintage, way, base.level, clauses),
            **quantity.list_numbers(told, n, marginal, family, lowest),
        )
        return _Slice(made, people, value)

    def tried(
        self, conditions: int, rng: np.random.Generator
    ) -> Iterator[tuple[VariableLevel, Any]]:
        """Give bases with so many conditions, at random, no two variables of one column."""
        columns = {name: way.column for name, way in self.variables.items()}
        names = list(columns)
        if not conditions:
            # Each variable once before any is there with another of its levels.
            turns = [
                (turn, rng.random(), bases[k])
                for bases in map(self.bases, self.variables)
                for turn, k in enumerate(rng.permutation(len(bases)))
            ]
            yield from ((base, ()) for *_, base in sorted(turns, key=lambda entry: entry[:2]))
            return
        while True:
            chosen = [names[k] for k in rng.permutation(len(names))[: conditions + 1]]
            if len({columns[name] for name in chosen}) <= conditions:
                continue
            listed = [self.bases(chosen[0]), *map(self.conditions, chosen[1:])]
            base, *given = (choices[rng.integers(len(choices))] for choices in listed)
            yield base, tuple(given)


def generate(
    data: Microdata, n: int = 60, seed: int = 0, name: str | None = None
) -> quantity.Quantities:
    """Make a set of quantities.

    As many of each difficulty as can be, the easier first where they do not divide. The same data,
    number and seed give the same set.

    Parameters
    ----------
    data : Microdata
    n : int
        How many; at least one of each difficulty.
    seed : int
        Not negative.
    name : str, optional
        Of the set; ``<survey>_<seed>`` if not given.

    Returns
    -------
    Quantities
        With "corrected" draws, relative to which scores are, and "published" ones. Its fingerprint
        is empty.

    Raises
    ------
    EpidemiaError
        If the survey does not allow so many.
    """
    for option, value, least in (("--n", n, len(quantity.DIFFICULTIES)), ("--seed", seed, 0)):
        if value < least:
            raise EpidemiaError(f"{option} {value}: expected {least} or more")
    slices = Slices(data)
    pieces = _pieces(slices, n, seed)
    sums = [
        quantity.draw_samples(
            kept.value[kept.people], data.weight[kept.people], np.random.default_rng([seed, 1, k])
        )
        for k, kept in enumerate(pieces)
    ]
    survey, entry = data.record, data.record.vintages[data.vintage]
    about = {
        "source": f"{survey.publisher}: {entry.page}",
        "citation": " ".join(survey.citation.split()),
        "licence": " ".join(survey.licence.split()),
        "files": "; ".join(f"{file} sha256 {sha}" for file, sha in data.files.items()),
        "note": " ".join(entry.note.split()),
        "seed": str(seed),
        "weight": data.weight_column or "none: all count alike",
        "error": _error_said(slices.design, data),
        "draws": "corrected: N people with replacement, in proportion to the weight, counted "
        "alike. published: without replacement, in proportion to the weight, until Kish's "
        "effective size is N, and weighted again",
        "bins": "quarters of the people sampled, not weighted, within the earlier conditions",
    }
    return quantity.Quantities(
        task=PREFIX + (name or f"{survey.survey}_{seed}"),
        survey=survey.survey,
        vintage=data.vintage,
        title=f"{wording.name_survey(survey, data.vintage).removeprefix('the ')}, generated",
        about={key: text for key, text in about.items() if text},
        quantities=tuple(kept.quantity for kept in pieces),
        baselines={
            kind: quantity.stack_draws([both[kind] for both in sums])
            for kind in ("corrected", "published")
        },
        scored="corrected",
        fingerprint="",
    )


def _pieces(slices: Slices, n: int, seed: int) -> list[_Slice]:
    """Return `n` slices, the easier first; an error says of which difficulty there are too few."""
    rng = np.random.default_rng([seed, 0])
    pieces: list[_Slice] = []
    for conditions, difficulty in enumerate(quantity.DIFFICULTIES):
        wanted = n // len(quantity.DIFFICULTIES) + (conditions < n % len(quantity.DIFFICULTIES))
        kept: list[_Slice] = []
        seen: set[Any] = set()
        for attempt, (base, given) in enumerate(slices.tried(conditions, rng)):
            if len(kept) == wanted or attempt == ATTEMPTS * max(wanted, AT_LEAST):
                break
            if (same := (base, frozenset(given))) not in seen:
                with suppress(Refused):
                    kept.append(slices.slice(f"{difficulty}_{len(kept)}", base, given))
                    seen.add(same)
        if len(kept) < wanted:
            raise EpidemiaError(
                f"{slices.data.name} has only {len(kept)} suitable quantities of difficulty "
                f"{difficulty!r}, not {wanted}: ask for fewer with --n, or give another --seed"
            )
        pieces += kept
    return pieces


def _error_said(design: quantity.SampleDesign, data: Microdata) -> str:
    if data.has_strata:
        return "Taylor-linearised over strata and PSUs"
    if data.psu is None and data.unit is not None:
        return "with replacement, over sampled units of several records"
    return "of replicate weights" if design.replicates is not None else "of independent people"
