"""The definition of a way of asking: from a truth to prompts, from responses to a distribution."""

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
    """The answer to one prompt; each way has its own named tuple with these fields.

    Attributes
    ----------
    way, task : str
    truth : str
        Fingerprint of the truth that the prompt was made from.
    cell : int
    place : int
        The number of the prompt within the cell, from 0.
    value : float or sequence of float
        The answer.
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
    """The distributions in a task's C cells, and what their precision depends on.

    Attributes
    ----------
    q : ndarray, shape (C, K)
    by_order : ndarray, shape (C, M, K), optional
        The distributions under each of M orderings, of which `q` is the mean.
    counts : ndarray of int, shape (C, K + 1), optional
        For sampled answers: the number that gave each level, and last the number that could not be
        read.
    expected : ndarray, shape (C, K), optional
        A second distribution, from the whole of each answer instead of its most likely part.
    """

    q: Array
    by_order: Array | None = None
    counts: NDArray[np.int64] | None = None
    expected: Array | None = None


class Metric(NamedTuple):
    """A number that lm-eval reports for a task.

    Attributes
    ----------
    of : callable
        Maps the answers of a task, in any order, to the number.
    higher_is_better : bool or None
        None if neither end is best: lm-eval then prints no arrow.
    low, high : float
        Bounds of the number.
    of_one : callable, optional
        Maps one answer to the value that lm-eval logs with it; `of` then takes these values.
    of_text : callable, optional
        Maps a reply as it was written to that value.
    draws : callable, optional
        Maps the input of `of` to its `score.joint.Draws`, or None if they are unknown. Standard
        errors of groups come from these.
    cut : bool
        Whether draws are cut off at `low` and `high`, like the number.
    kept : callable, optional
        Maps the input of `of` to a line with the answers, which results keep for the report.
    """

    of: Callable[[Sequence[Any]], float]
    higher_is_better: bool | None
    low: float = -math.inf
    high: float = math.inf
    of_one: Callable[[Any], float] | None = None
    of_text: Callable[[str], float] | None = None
    draws: Callable[[Sequence[Any]], Any] | None = None
    cut: bool = True
    kept: Callable[[Sequence[Any]], str] | None = None


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
        Suffix of the names of tasks and groups; empty for the plain way of a benchmark.

    columns : mapping
        Additional columns of its rows: from name to type; a list stands for a list of that type.
    rows : callable
        Maps a truth and a `Variant` to the rows, each a dict of ``cell``, `columns` (without
        ``choices``, unless each row has its own) and ``prompt``.
    choices : callable
        Maps a truth to the letters of the answers, for rows without their own ``choices``.
    read : callable
        Maps a row and the model's responses to an `Answer`. The row is a struct with the columns as
        attributes. Raises ValueError if the responses have the wrong form.
    prompts : callable
        Maps a truth and one of the answers to the number of prompts per cell.
    prompts_are : str
        The word for these prompts, in the plural: "orderings".
    check : callable
        Takes an answer, the task's first answer and the truth; raises ValueError if they do not
        belong together, as in an edited file.

    distribution : callable, optional
        Maps the answers in complete cells, shape (C, prompts, ...), one of the answers, and K to
        `Elicited`; None if answers do not form a distribution.
    moved : callable, optional
        Maps the answers in complete cells, the bounds of their probabilities (each of shape (C,
        prompts, letters)), one of the answers, and K to a bound on the L1 error of each cell's
        distribution, shape (C,).
    expects : bool
        Whether `Elicited.expected` is given: another metric, ``score_expected``.
    diagnostics : mapping of str to Metric
        Metrics of how the model answered, not how well; ``answered`` if it writes.
    by_position : callable, optional
        Maps answers to the mean probability of each displayed position, shape (K,); None if no
        answers were displayed.

    question, answers : callable, optional
        For readers: map `Wording`, a cell and a level to the question alone, and a truth to the
        answers in their natural order.
    request : str
        Line of a prompt that says how to answer.
    example : callable, optional
        Maps a truth, a cell and a random generator to a solved example, without the final line
        break.
    believed : callable, optional
        Maps a respondent's belief in the row's cell (a distribution, shape (K,), or another output
        of the benchmark's `answers`) and the row to the probability of each choice, for
        `epidemia-baseline`.
    told : callable
        Maps a distribution, shape (K,), to the one that is read from an answer with it: the same,
        except for intervals and whole per cents.
    writes : callable, optional
        Maps the same input as `believed` to the whole reply, if that is not one of the choices.
    structure : callable, optional
        Maps a truth and a `Variant` to the form that the server enforces on a reply, as lm-eval's
        ``generation_kwargs``; empty if the variant asks for none.
    system_prompts : bool
        Whether ``--metadata '{"system_prompt": ...}'`` applies, see `elicit.system`.

    temperature : float, optional
        Sampling temperature of written answers. None for log-probabilities.
    unread : str
        What an unreadable answer counts as. ``is_read`` of its answers tells these apart.
    exported : bool
        Whether its rows are in the exported dataset.
    revision : int
        Raised when its prompts or the reading of its answers change, so that scores stop being
        comparable.

    asks : callable
        Tells whether a declared task is asked in this way.
    load : callable
        Maps a task's name to its truth, which has a ``fingerprint``.
    described : callable
        Maps a truth to the conditions of each cell: ``[["age: 30-34"], ...]``.
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
        """Return lm-eval's name of a task or group: ``..._likelihood``; no suffix if plain."""
        return name + self.suffix

    @property
    def generated(self) -> bool:
        """Whether the model writes its answer."""
        return self.temperature is not None

    @property
    def drawn(self) -> bool:
        """Whether each answer is a random draw; there are several, numbered by ``sample``."""
        return bool(self.temperature)

    @cached_property
    def row(self) -> type[msgspec.Struct]:
        """The type of a row: the columns needed to read a response, without the prompt."""
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
    """Return ways of asking by name, in the given order."""
    return {way.name: way for way in ways}
