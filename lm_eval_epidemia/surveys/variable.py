"""The parts of a survey record: variables and their codes, published tables, adjustments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import inf, nextafter, prod
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidatorFunctionWrapHandler,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from lm_eval_epidemia.core.errors import suggest


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


#: A place in (a part of) a record, as keys and positions, and what is wrong there.
Fault = tuple[tuple[str | int, ...], str]


def raise_faults(faults: Iterable[Fault]) -> None:
    """Raise all faults of a part of a record, so that each is reported with its own line."""
    details = [
        InitErrorDetails(
            type=PydanticCustomError("fault", "{fault}", {"fault": fault}), loc=place, input=None
        )
        for place, fault in faults
    ]
    if details:
        raise ValidationError.from_exception_data("record", details)


def normalise_text(cell: Any) -> str:
    """Normalise a printed text: spaces, line breaks, case, and the footnote digits at its end."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    words = re.sub(r"[\s_]+", " ", str(cell)).strip().casefold()
    return re.sub(r"(?<=[a-z)])[\s,]*\d+(,\s*\d+)*$", "", words)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _intervals(value: Any) -> tuple[tuple[float, float], ...]:
    """Read ``[1, "3-5"]`` as closed intervals: ((1, 1), (3, 5))."""
    intervals = []
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if is_number(item):
            intervals.append((float(item), float(item)))
        elif isinstance(item, str) and (match := re.fullmatch(r"(-?\d+)-(-?\d+)", item.strip())):
            low, high = map(float, match.groups())
            intervals.append((low, high))
        elif isinstance(item, (list, tuple)) and len(item) == 2 and all(map(is_number, item)):
            intervals.append((float(item[0]), float(item[1])))
        else:
            raise ValueError(f"expected a number or a range such as '3-5', got {item!r}")
        if not intervals[-1][0] <= intervals[-1][1]:
            raise ValueError(f"code range {item!r} runs backwards: write the smaller code first")
    return tuple(intervals)


#: Texts; one may be written without a list.
Listed = Annotated[
    tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)
]

#: Codes as closed intervals, written as numbers and ranges: ``[1, 2, "5-7"]``.
Codes = Annotated[tuple[tuple[float, float], ...], BeforeValidator(_intervals)]


class Universe(Strict):
    """A restriction: only records whose `column` has one of `codes` are asked."""

    column: str
    codes: Codes


class Level(Strict):
    """One answer: its label, its phrase, and the codes that mean it.

    Attributes
    ----------
    label : str
        As a displayed answer: 'Yes', '30-34'.
    phrase : str
        As a predicate: 'has ever used heroin', 'is 30 years old'.
    names : tuple of str
        Texts that mean it: its row or column in a published table.
    texts : tuple of str
        Texts of its column that mean it, in records without codes: 'Female'.
    also : tuple of Universe
        Records with these codes elsewhere belong here too if they lack `column`.
    within : dict of str to str
        Larger places or groups that it is part of, by their kind: {region: Europe}.
    """

    label: str
    phrase: str
    codes: Codes = ()
    at_least: float | None = None
    above: float | None = None
    up_to: float | None = None
    below: float | None = None
    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    also: tuple[Universe, ...] = ()
    within: dict[str, str] = Field({})

    @model_validator(mode="after")
    def _one_way(self) -> Level:
        cuts = (self.at_least, self.above, self.up_to, self.below)
        cut = any(bound is not None for bound in cuts)
        if cut + bool(self.codes) + bool(self.names) + bool(self.texts) != 1:
            raise ValueError(f"{self.label!r} needs one of 'codes', 'texts', 'names' or cut points")
        if None not in (self.at_least, self.above) or None not in (self.up_to, self.below):
            raise ValueError(f"level {self.label!r} has two cut points on one side: give only one")
        if cut and not self.intervals[0][0] <= self.intervals[0][1]:
            raise ValueError(f"no number lies between the cut points of level {self.label!r}")
        return self

    @property
    def intervals(self) -> Codes:
        """The numbers that mean it, as closed intervals; none where texts do."""
        if self.codes or self.names or self.texts:
            return self.codes
        low = self.at_least if self.above is None else nextafter(self.above, inf)
        high = self.up_to if self.below is None else nextafter(self.below, -inf)
        return ((-inf if low is None else low, inf if high is None else high),)


def expand_levels(value: Any) -> Any:
    """Write out ``{each: [18, 88], label: "{n}", phrase: is {n} years old}`` level by level."""
    if not isinstance(value, list):
        return value
    levels = []
    for item in value:
        if not isinstance(item, dict) or "each" not in item:
            levels.append(item)
            continue
        match item["each"]:
            case [int(first), int(last)] if first <= last:
                numbers = range(first, last + 1)
            case other:
                raise ValueError(f"'each' needs two whole numbers such as [18, 88], got {other!r}")
        texts = {key: str(text) for key, text in item.items() if key != "each"}
        for n in numbers:
            level = {key: text.replace("{n}", str(n)) for key, text in texts.items()}
            levels.append({**level, "codes": [n]})
    return levels


def _format_interval(low: float, high: float) -> str:
    """Say an interval of codes: ``3``, ``3 to 5``, ``5 or more``."""
    if low == high:
        return f"{low:g}"
    if high == inf:
        return f"{low:g} or more"
    return f"{high:g} or less" if low == -inf else f"{low:g} to {high:g}"


def _find_shared_codes(codes: Sequence[Codes]) -> Iterator[tuple[int, int, str]]:
    """Find codes that two of several share: the later one, the earlier one, what they share."""
    reach, owner = -inf, 0
    for low, high, number in sorted((*span, n) for n, spans in enumerate(codes) for span in spans):
        if low <= reach and number != owner:
            yield max(number, owner), min(number, owner), _format_interval(low, min(high, reach))
        if high > reach:
            reach, owner = high, number


class Measure(Strict):
    """What the numbers of a variable are, where their mean means something.

    Attributes
    ----------
    words : str
        A noun phrase: 'total assets'.
    unit : str
        'years', '$'; empty for a count.
    note : str
        'counting everyone aged 85 or older as 85'.
    plural : bool
        Whether the noun is: 'total assets are'.
    """

    words: str
    unit: str = ""
    note: str = ""
    plural: bool = False


class Variable(Strict):
    """One way of recording a variable: an official column and the levels made of its codes.

    Attributes
    ----------
    column : str
        May hold {yy}, the vintage's year, and be a sum: 'A + B'.
    missing : Codes
        Codes that drop the record; blanks always do.
    missing_texts : tuple of str
        The same of a column of texts.
    question : str, optional
        Asked when the variable is an outcome.
    vintages : tuple of str
        Only recorded so in these; in all if empty.
    relative : str, optional
        Begins a clause about it where the subject's word does not: 'which'.
    among : str, optional
        Of whom a share is, where an answer has no level: 'names no third party'.
    ordered : bool
        Whether its levels stand in an order: ages, incomes, how often, from liberal to
        conservative. No question and no truth depends on it.
    revision : int
        Raised when its wording changes, so that scores stop being comparable.
    both : tuple of str, optional
        The variables whose joint outcome it is: `JointOutcome`.
    """

    column: str
    levels: Annotated[tuple[Level, ...], BeforeValidator(expand_levels)] = Field(min_length=2)
    missing: Codes = ()
    missing_texts: tuple[str, ...] = ()
    question: str | None = None
    vintages: tuple[str, ...] = ()
    measure: Measure | None = None
    relative: str | None = None
    among: str | None = None
    ordered: bool = False
    revision: int = 0
    # Filled in by the record.
    both: tuple[str, ...] | None = None

    @property
    def of_texts(self) -> bool:
        """Whether its column holds texts, not codes."""
        return any(level.texts for level in self.levels)

    @model_validator(mode="after")
    def _levels_are_apart(self) -> Variable:
        raise_faults(self._faults())
        return self

    def _faults(self) -> Iterator[Fault]:
        """Find what two levels share, or a level and 'missing': nobody is both."""
        give, levels = "give it to one of them", self.levels
        labels: dict[str, int] = {}
        names: dict[str, int] = {}
        for n, level in enumerate(levels):
            if labels.setdefault(level.label, n) != n:
                yield ("levels", n, "label"), f"two levels share a label: {level.label!r}"
            for name in level.names:
                if (first := names.setdefault(normalise_text(name), n)) != n:
                    fault = f"{name!r} is also a name of {levels[first].label!r}: {give}"
                    yield ("levels", n, "names"), fault
        yield from self._faults_of_texts()
        meant = {self.column: [level.intervals for level in levels]}
        for n, level in enumerate(levels):
            for u in level.also:
                also = meant.setdefault(f"{u.column} ('also')", [()] * len(levels))
                also[n] += u.codes
        for column, codes in meant.items():
            for later, earlier, both in _find_shared_codes(codes):
                pair = f"{levels[later].label!r} and {levels[earlier].label!r}"
                yield ("levels", later), f"{pair} both include {both} of {column}: {give}"
        # Between cut points 'missing' is a hole; a level that lists its codes has no use for one.
        listed = [*(level.codes for level in levels), self.missing]
        for later, earlier, both in _find_shared_codes(listed):
            if later == len(levels):
                fault = f"{levels[earlier].label!r} includes {both}, which 'missing' drops: {give}"
                yield ("levels", earlier), fault

    def _faults_of_texts(self) -> Iterator[Fault]:
        """Find texts that mean two things, and what a column of texts cannot have."""
        if not self.of_texts:
            if self.missing_texts:
                yield ("missing_texts",), "'missing_texts' needs levels that have 'texts'"
            return
        owner = dict.fromkeys(map(str.strip, self.missing_texts), "'missing_texts'")
        for n, level in enumerate(self.levels):
            if not level.texts:
                fault = f"{level.label!r} has no 'texts', but other levels do: add some"
                yield ("levels", n), fault
            for text in level.texts:
                label = repr(level.label)
                if (first := owner.setdefault(text.strip(), label)) != label:
                    fault = f"{label} and {first} both include {text!r}: give it to one of them"
                    yield ("levels", n, "texts"), fault
        for field in ("missing", "measure"):
            if getattr(self, field):
                yield (field,), f"{field!r} is for numbers, but the levels are texts"
        if " + " in self.column:
            fault = f"a sum ({self.column}) contains numbers, so its levels cannot have texts"
            yield ("column",), fault


#: Answers of a joint outcome: of three yes/no questions, or of two and four levels.
MOST_JOINT = 8


class JointOutcome(Strict):
    """The joint outcome of two or three variables of the record, of at most `MOST_JOINT` answers.

    Attributes
    ----------
    both : tuple of str
        The variables.
    question : str
        Asks for the answer to all of them.
    labels : tuple of str
        A label for each combination of levels, the last variable's moving fastest: of yes and yes,
        yes and no, no and yes, no and no.
    revision : int
        As of a variable.
    """

    both: tuple[str, ...] = Field(min_length=2, max_length=3)
    question: str
    labels: tuple[str, ...]
    revision: int = 0

    def readings(self, parts: Sequence[Sequence[Variable]]) -> tuple[Variable, ...]:
        """Return how it is recorded: in each way of each of its variables, best first."""
        return tuple(way for ways in product(*parts) if (way := self._way(ways)) is not None)

    def _way(self, parts: Sequence[Variable]) -> Variable | None:
        """Return how it is recorded in one way of each of its variables, if in any vintage."""
        named = [part.vintages for part in parts if part.vintages]
        shared = [v for v in next(iter(named), ()) if all(v in other for other in named)]
        if named and not shared:
            return None
        combined = product(*(part.levels for part in parts))
        levels = [
            {"label": label, "phrase": _enumerated([a.phrase for a in at]), "codes": [k]}
            for k, (label, at) in enumerate(zip(self.labels, combined, strict=True))
        ]
        own = self.model_dump(include={"both", "question", "revision"})
        return Variable.model_validate(
            {"column": joint_column(parts), "levels": levels, "vintages": shared} | own
        )


def _enumerated(phrases: Sequence[str]) -> str:
    """Join predicates: "a and b"; "a, b and c"."""
    return f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def joint_column(parts: Sequence[Variable]) -> str:
    """Name what a joint outcome is read from: no column, but those of its variables."""
    return " & ".join(part.column for part in parts)


#: As a record has them: a variable recorded in one way is a list of one.
_JOINT = TypeAdapter(dict[str, tuple[JointOutcome]])


def add_joint_outcomes(
    written: Any, read: ValidatorFunctionWrapHandler
) -> dict[str, tuple[Variable, ...]]:
    """Read the variables of a record; those that are joint outcomes are made of the others."""
    if not isinstance(written, dict):
        return read(written)
    joint = {
        name: ways
        for name, ways in written.items()
        if isinstance(ways, (list, tuple)) and any("both" in w for w in ways if isinstance(w, dict))
    }
    plain = read({name: ways for name, ways in written.items() if name not in joint})
    outcomes = {name: outcome for name, (outcome,) in _JOINT.validate_python(joint).items()}
    raise_faults(
        ((name, 0, field), fault)
        for name, outcome in outcomes.items()
        for field, fault in _faults_of_joint(outcome, plain, outcomes)
    )
    every = plain | {
        n: of.readings([plain[part] for part in of.both]) for n, of in outcomes.items()
    }
    return {name: every[name] for name in written}


def _faults_of_joint(
    outcome: JointOutcome, plain: dict[str, tuple[Variable, ...]], joint: dict[str, JointOutcome]
) -> Iterator[tuple[str, str]]:
    """Find what is wrong with a joint outcome: the field, and the fault."""
    names = list(dict.fromkeys(outcome.both))
    for name in names:
        if outcome.both.count(name) > 1:
            yield "both", f"names {name!r} twice: a joint outcome needs different variables"
        if name in joint:
            yield "both", f"{name!r} is a joint outcome itself: name variables with a column"
        elif name not in plain:
            yield "both", f"the record does not define {name!r} ({suggest(name, plain)})"
        elif len({len(way.levels) for way in plain[name]}) > 1:
            yield "both", f"{name!r} is recorded in several ways with different numbers of levels"
    if not {*names} <= plain.keys():
        return
    answers = prod(len(plain[name][0].levels) for name in outcome.both)
    if answers > MOST_JOINT:
        fault = f"has {answers} answers, at most {MOST_JOINT} are allowed: name coarser variables"
        yield "both", fault
    elif not len({*outcome.labels}) == len(outcome.labels) == answers:
        of = "one for each combination of levels, the last variable's moving fastest"
        yield "labels", f"needs {answers} different answers ({of}), got {list(outcome.labels)}"


class TableLayout(Strict):
    """A published table: a distribution of `outcome` in each row of `given`.

    Attributes
    ----------
    given : tuple of str
        Conditions; one may be written without a list. Of none, it has one row.
    file : str
        A word in the name of its file, where there are several.
    rows : dict of str to tuple of str
        By condition, the header of the column that names its levels (other spellings may follow).
        Of a single condition, these spellings are enough.
    size : tuple of str
        Header of the column that weighs the rows; none: all alike.
    shares : dict of str to str
        Level of the outcome -> header of its column, 'remainder' for the rest; by default the first
        of the level's names.
    where : dict of str to str
        Only rows with these texts in these columns.
    total : str, optional
        The row of the grand total; it weighs what the other rows leave.
    interval : pair of str, optional
        Headers of the limits of a 95 % confidence interval of the first share.
    within : dict of str to pair of float
        Only rows whose number in these columns lies between: of a year, of a population.
    leave_out : tuple of str
        Patterns of rows left out on purpose: headings, totals.
    """

    outcome: str
    given: Listed
    file: str = ""
    rows: dict[str, Listed] = Field({})
    size: Listed = ()
    shares: dict[str, str] = Field({})
    unit: Literal["percent", "count"]
    where: dict[str, str] = Field({})
    total: str | None = None
    interval: tuple[str, str] | None = None
    within: dict[str, tuple[float, float]] = Field({})
    leave_out: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _rows_of_one(cls, data: Any) -> Any:
        if not isinstance(data, dict) or isinstance(data.get("rows"), dict):
            return data
        given = data.get("given")
        names = [given] if isinstance(given, str) else given
        return {**data, "rows": {names[0]: data.get("rows")}} if names and len(names) == 1 else data

    @model_validator(mode="after")
    def _rows_of_each(self) -> TableLayout:
        if set(self.rows) != set(self.given):
            raise ValueError(f"'rows' needs a header for each of {self.given}, got {[*self.rows]}")
        return self

    @property
    def said(self) -> str:
        """What the table is about."""
        return f"{self.outcome} by {', '.join(self.given)}"


class Margin(Strict):
    """A known distribution of one or several variables of the record.

    Attributes
    ----------
    shares : Any
        Nested lists in the order of the levels; None: the shares in the file.
    """

    variables: tuple[str, ...] = Field(min_length=1)
    shares: Any = None


class Rake(Strict):
    """Rake the weights to known margins of the population that the records represent.

    Attributes
    ----------
    among : tuple of Universe
        The population; all records if empty.
    known : str, optional
        Only records with a value in this column represent the population.
    outcomes : tuple of str
        Only for tasks with these outcomes; all if empty.
    cells_only : bool
        The raked weight gives P(X); P(Y | X) keeps the file's own weight.
    """

    method: Literal["rake"] = "rake"
    reason: str
    margins: tuple[Margin, ...] = Field(min_length=1)
    among: tuple[Universe, ...] = ()
    known: str | None = None
    outcomes: tuple[str, ...] = ()
    cells_only: bool = False


class Rescale(Strict):
    """Scale the weights to a known total; shares do not change."""

    method: Literal["rescale"]
    reason: str
    total: float = Field(gt=0)


Adjustment = Annotated[Rake | Rescale, Field(discriminator="method")]
