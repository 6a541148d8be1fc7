"""What a way of asking is: how a truth becomes prompts, and responses a distribution."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import GenericAlias
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.elicit.variants import Variant
from lm_eval_epidemia.elicit.wording import Wording
from lm_eval_epidemia.estimate import store


class Answer(Protocol):
    """What came back for one prompt; each way has a named tuple of its own, with these.

    Attributes
    ----------
    way, task : str
    truth : str
        Fingerprint of the truth that the prompt was made from.
    cell : int
    place : int
        Which of the cell's prompts this is of, from 0.
    value : float or sequence of float
        What was said.
    """

    @property
    def way(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def truth(self) -> str: ...
    @property
    def cell(self) -> int: ...
    @property
    def place(self) -> int: ...
    @property
    def value(self) -> Any: ...


class Elicited(NamedTuple):
    """The distributions in a task's cells, C of them, and what their precision depends on.

    Attributes
    ----------
    q : ndarray, shape (C, K)
    by_order : ndarray, shape (C, M, K), optional
        What was found under each of M orderings, of which `q` is the mean.
    counts : ndarray of int, shape (C, K + 1), optional
        Of answers that were drawn: how many said each level and, last, could not be read.
    expected : ndarray, shape (C, K), optional
        A second distribution, made of the whole of each answer instead of its likeliest part.
    """

    q: Array
    by_order: Array | None = None
    counts: NDArray[np.int64] | None = None
    expected: Array | None = None


class Metric(NamedTuple):
    """A number that lm-eval reports of a task.

    Attributes
    ----------
    of : callable
        From the answers of a task, in any order, to the number.
    higher_is_better : bool or None
        None if it is best at neither end: lm-eval then prints no arrow.
    low, high : float
        Between which it lies.
    of_one : callable, optional
        From one answer to what lm-eval logs with it; `of` then takes these.
    draws : callable, optional
        From what `of` takes to its `score.joint.Draws`, or None if they are not known. Groups
        get their standard errors from these.
    cut : bool
        Whether draws are cut off at `low` and `high` as the number is.
    kept : callable, optional
        From what `of` takes to a line that results keep for the report: what was said.
    partial : bool
        Whether a task may well have none (NaN): a group's is the mean over the tasks that have one.
    """

    of: Callable[[Sequence[Any]], float]
    higher_is_better: bool | None
    low: float = -math.inf
    high: float = math.inf
    of_one: Callable[[Any], float] | None = None
    draws: Callable[[Sequence[Any]], Any] | None = None
    cut: bool = True
    kept: Callable[[Sequence[Any]], str] | None = None
    partial: bool = False


def _described(truth: store.GroundTruth) -> list[list[str]]:
    wording = Wording(truth)
    return [wording.described(cell) for cell in range(len(truth.given))]


#: Columns of every split.
COMMON: Mapping[str, Any] = {
    "task": "string",
    "truth": "string",
    "cell": "int32",
    "given": ["string"],
}

_TYPES = {"string": str, "int8": int, "int32": int}


def _python_type(kind: Any) -> Any:
    """Return the Python type of a column, by the type that `datasets` knows it as."""
    if isinstance(kind, list):
        return GenericAlias(tuple, (_python_type(kind[0]), ...))
    return _TYPES[kind]


def _in_words(kind: Any) -> str:
    """Name the type of a column: ``"a list of whole numbers"``."""
    if isinstance(kind, list):
        return _in_words(kind[0]).replace("a ", "a list of ", 1) + "s"
    return "a text" if _TYPES[kind] is str else "a whole number"


def _is_of(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, _python_type(kind), strict=False)
    except msgspec.ValidationError:
        return False
    return True


@dataclass(frozen=True, eq=False)
class Way:
    """A way of asking.

    Attributes
    ----------
    name : str
    suffix : str
        Ends the names of tasks and groups; empty for the plain way of a benchmark.

    columns : mapping
        Of its rows, beside those of all: from name to type, a list for a list of such.
    rows : callable
        From a truth and a `Variant` to the rows, each a dict of ``cell``, `columns` (but
        ``choices``, unless each row has its own) and ``prompt``.
    choices : callable
        From a truth to the letters that answer, of rows without ``choices`` of their own.
    read : callable
        From a row and the model's responses to it to an `Answer`. The row is a struct with the
        columns as attributes. Raises ValueError where the responses are not what such a row gets.
    prompts : callable
        From a truth and one of the answers to how many prompts each cell has.
    prompts_are : str
        What these are, in the plural: "orderings".
    check : callable
        From an answer, the task's first one and the truth: raises ValueError where they do not
        belong together, as in a file that was changed.

    distribution : callable, optional
        From what was said in complete cells, shape (C, prompts, ...), one of the answers, and K to
        `Elicited`; None if an answer is no part of a distribution.
    moved : callable, optional
        From what was said in complete cells, the bounds of its probabilities (each of shape (C,
        prompts, letters)), one of the answers, and K to how far each cell's distribution may be
        off in L1, shape (C,).
    expects : bool
        Whether `Elicited.expected` is given: another metric, ``score_expected``.
    diagnostics : mapping of str to Metric
        What tells how the model answered rather than how well; ``answered`` where it writes.
    by_position : callable, optional
        From answers to the mean probability of each displayed position, shape (K,); None if
        none was shown.

    question, answers : callable, optional
        From `Wording`, a cell and a level to the question alone, and from a truth to the answers in
        their natural order: for people to read.
    request : str
        Line of a prompt that says how to answer.
    example : callable, optional
        From a truth, a cell and a random generator to a solved example, without the line's end.
    believed : callable, optional
        From what a respondent believes in the row's cell (a distribution, shape (K,), or what else
        the benchmark's `answers` has there) and the row to the probability of each of its choices:
        how `epidemia-baseline` answers.
    told : callable
        From a distribution, shape (K,), to what is read where a respondent answers with it: the
        same, except for intervals and whole per cents.
    writes : callable, optional
        From the same as `believed` to the whole reply, where that is not one of the choices.
    structure : callable, optional
        From a truth and a `Variant` to what the server is to hold a reply to, as lm-eval's
        ``generation_kwargs``; empty if the variant asks for nothing.
    system_prompts : bool
        Whether it heeds ``--metadata '{"system_prompt": ...}'``, see `elicit.system`.

    temperature : float, optional
        Where the model writes its answer: how random it is. None if log-probabilities are asked.
    unread : str
        What an answer counts as that could not be read. Its answers say so by ``is_read``.
    exported : bool
        Whether its rows are part of the dataset that is exported.
    revision : int
        Raised when its prompts or the reading of its answers change, so that scores stop being
        comparable.

    asks : callable
        From a declared task to whether it is asked in this way.
    load : callable
        From a task's name to its truth, which has a ``fingerprint``.
    described : callable
        From a truth to what is known in each cell: ``[["age: 30-34"], ...]``.
    """

    name: str
    suffix: str
    columns: Mapping[str, Any]
    rows: Callable[[Any, Variant], Iterator[dict[str, Any]]]
    choices: Callable[[Any], Sequence[str]]
    read: Callable[[Any, Sequence[Any]], Answer]
    prompts: Callable[[Any, Any], int]
    prompts_are: str = "prompts"
    check: Callable[[Any, Any, Any], None] = lambda answer, first, truth: None
    distribution: Callable[[Array, Any, int], Elicited] | None = None
    moved: Callable[[Array, Array, Array, Any, int], Array] | None = None
    expects: bool = False
    diagnostics: Mapping[str, Metric] = field(default_factory=dict)
    by_position: Callable[[Sequence[Any]], Array | None] | None = None
    question: Callable[[Any, int, int], str] | None = None
    answers: Callable[[Any], Sequence[str]] | None = None
    request: str = ""
    example: Callable[[Any, int, np.random.Generator], str] | None = None
    believed: Callable[[Array, Any], Array] | None = None
    told: Callable[[Array], Array] = lambda p: p
    writes: Callable[[Array, Any], str] | None = None
    structure: Callable[[Any, Variant], dict[str, Any]] | None = None
    system_prompts: bool = False
    temperature: float | None = None
    unread: str = "'all answers equally likely'"
    exported: bool = True
    revision: int = 0
    asks: Callable[[Any], bool] = lambda task: True
    load: Callable[[str], Any] = store.load
    described: Callable[[Any], list[list[str]]] = _described

    def named(self, name: str) -> str:
        """Return what lm-eval knows a task or group as: ``..._likelihood``, bare in a plain way."""
        return name + self.suffix

    @property
    def generated(self) -> bool:
        """Whether the model writes its answer."""
        return self.temperature is not None

    @property
    def drawn(self) -> bool:
        """Whether each answer is a random draw: several are asked for, numbered by ``sample``."""
        return bool(self.temperature)

    @cached_property
    def row(self) -> type[msgspec.Struct]:
        """The type of a row: what is needed of it to read a response; the prompt is not."""
        columns = {**COMMON, **self.columns}
        types = [(name, _python_type(columns[name])) for name in columns if name != "given"]
        return msgspec.defstruct("Row", types)

    def of_row(self, row: Mapping[str, Any]) -> Any:
        """Return a row of a split as `read` takes it.

        Raises
        ------
        EpidemiaError
            If it lacks a column, or one is of another type.
        """
        try:
            return msgspec.convert(row, self.row, strict=False)
        except msgspec.ValidationError:
            raise EpidemiaError(
                f"a row of the way {self.name!r} {self._flaw(row)}: keep this column and way as "
                "`epidemia export` or `questions` wrote them, or export again"
            ) from None

    def _flaw(self, row: Mapping[str, Any]) -> str:
        """Say which columns a row lacks, or which one is of another type."""
        names = self.row.__struct_fields__
        if lacking := [name for name in names if name not in row]:
            return f"lacks the column {few(lacking)}"
        kinds = {**COMMON, **self.columns}
        wrong = next(name for name in names if not _is_of(row[name], kinds[name]))
        return f"has {row[wrong]!r} in {wrong}, where {_in_words(kinds[wrong])} is expected"


def by_name(*ways: Way) -> dict[str, Way]:
    """Return ways of asking by their names, in their order."""
    return {way.name: way for way in ways}
