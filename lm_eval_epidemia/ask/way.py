"""The definition of a way of asking: from a truth to prompts, from responses to a distribution."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from types import GenericAlias, MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.ask.prompts import Wording
from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.core.distance import Array
from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.estimate import store


class Answer(NamedTuple):
    """A model's answer to one prompt.

    Attributes
    ----------
    way, task : str
    truth : str
        Fingerprint of the truth that the prompt was made from.
    cell : int
    place : int
        The number of the prompt within the cell, from 0.
    value : object, or tuple of object
        Log-probabilities of the choices, not normalised; or what was written, a number or several,
        None or NaN if it could not be read: lm-eval writes answers into sample files.
    order : tuple of int, length K
        Level number at each displayed position; empty if the levels are not displayed.
    design : str or int
        Which prompts the cell has, the same in all answers to a task: a design of orderings (see
        `ask.orderings`) or how many answers are drawn.
    numbers : tuple of float, length K, or None
        Of 100, by displayed position, of any sum, as they were written; None if there are none.
    """

    way: str
    task: str
    truth: str
    cell: int
    place: int
    value: Any
    order: tuple[int, ...] = ()
    design: str | int = ""
    numbers: tuple[float, ...] | None = None

    @property
    def is_read(self) -> bool:
        """Whether what was written could be read."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return not any(value is None or math.isnan(value) for value in values)


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
    higher_is_better : bool or None
        None if neither end is best: lm-eval then prints no arrow.
    low, high : float
        Bounds of the number.
    of : callable, optional
        Maps the answers of a task, in any order, to the number. None of what the benchmark
        measures together (`Benchmark.measure`).
    of_one : callable, optional
        Maps one answer to the value that lm-eval logs with it; `of` then takes these values.
    of_text : callable, optional
        Maps a reply as it was written to that value.
    cut : bool
        Whether its draws are cut off at `low` and `high`, like the number.
    says : str
        What it is, for users; where empty, the docstring of `of` says so.
    """

    higher_is_better: bool | None
    low: float = -math.inf
    high: float = math.inf
    of: Callable[[Sequence[Any]], float] | None = None
    of_one: Callable[[Any], float] | None = None
    of_text: Callable[[str], float] | None = None
    cut: bool = True
    says: str = ""

    def of_answers(self, answers: Sequence[Any]) -> float:
        """Return what a way says of how its prompts were answered."""
        assert self.of is not None
        return float(self.of([*map(self.of_one, answers)] if self.of_one else answers))


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


class Way(ABC):
    """A way of asking: from a truth to prompts, and from a model's responses to answers.

    A subclass says what is special about it; the tables of ways hold one object of each.

    Attributes
    ----------
    name : str
    suffix : str
        Suffix of the names of tasks and groups; empty for the plain way of a benchmark.
    columns : mapping
        Additional columns of its rows: from name to type; a list stands for a list of that type.
    prompts_are : str
        The word for the prompts of a cell, in the plural: "orderings".
    diagnostics : mapping of str to Metric
        Metrics of how the model answered, not how well; ``answered`` if it writes.
    request : str
        Line of a prompt that says how to answer.
    system_prompts : bool
        Whether ``--metadata '{"system_prompt": ...}'`` applies, see `ask.variants.SYSTEM_PROMPTS`.
    is_structured : bool
        Whether a server can be asked to enforce the form of a reply: see `structure`.
    temperature : float, optional
        Sampling temperature of written answers. None for log-probabilities.
    unread : str
        What an unreadable answer counts as. ``is_read`` of its answers tells these apart.
    exported : bool
        Whether its rows are in the exported dataset.
    parted : collection of str, optional
        Groups whose tasks on each survey are a group of lm-eval, too; all by default. Elsewhere a
        pattern asks for them: ``epidemia_low_nsduh_*_likelihood``.
    revision : int
        Raised when its prompts or the reading of its answers change, so that scores stop being
        comparable.
    """

    name: str
    suffix: str = ""
    columns: Mapping[str, Any] = MappingProxyType({"choices": ["string"]})
    prompts_are: str = "prompts"
    diagnostics: Mapping[str, Metric] = MappingProxyType({})
    request: str = ""
    system_prompts: bool = False
    is_structured: bool = False
    temperature: float | None = None
    unread: str = "'all answers equally likely'"
    exported: bool = True
    parted: Collection[str] | None = None
    revision: int = 0

    @abstractmethod
    def rows(self, truth: Any, variant: Variant) -> Iterator[dict[str, Any]]:
        """Yield the rows: a dict of ``cell``, `columns` and ``prompt``.

        Without ``choices``, unless each row has its own.
        """

    @abstractmethod
    def read(self, row: Any, responses: Sequence[Any]) -> Answer:
        """Read the model's responses to a row, a struct with the columns as attributes.

        Raises
        ------
        ValueError
            If the responses have the wrong form.
        """

    def answer(self, row: Any, value: Any, place: int = 0, **more: Any) -> Answer:
        """Return the answer to a row; see `Answer`."""
        return Answer(self.name, row.task, row.truth, row.cell, place, value, **more)

    def load(self, task: str) -> Any:
        """Return the truth of a task, which has a ``fingerprint``."""
        return store.load_truth(task)

    def described(self, truth: Any) -> list[list[str]]:
        """Return the conditions of each cell: ``[["age: 30-34"], ...]``."""
        wording = Wording(truth)
        return [wording.described(cell) for cell in range(len(truth.given))]

    def asks(self, task: Any) -> bool:
        """Tell whether a declared task is asked in this way."""
        return True

    def choices(self, truth: Any) -> Sequence[str]:
        """Return the letters of the answers, for rows without their own ``choices``."""
        return ()

    def count_prompts(self, truth: Any, first: Any) -> int:
        """Return the number of prompts per cell, of which one of the answers may tell."""
        return 1

    def check(self, answer: Any, first: Any, truth: Any) -> None:  # noqa: B027 most take all
        """Raise ValueError if an answer, as in an edited file, does not belong to the first's."""

    def structure(self, truth: Any, variant: Variant) -> dict[str, Any]:
        """Return the form that the server enforces on a reply, as ``generation_kwargs``."""
        return {}

    def by_position(self, answers: Sequence[Any]) -> Array | None:
        """Return the mean probability of each displayed position, shape (K,).

        None if no answers were displayed.
        """
        return None

    def believed(self, belief: Any, row: Any) -> Array:
        """Return the probability of each choice for a respondent with a belief in the row's cell.

        Parameters
        ----------
        belief : ndarray, shape (K,), or another output of the benchmark's `answers`
        row : struct
        """
        raise NotImplementedError(f"the way {self.name!r} has no reference respondents")

    def told(self, p: Array) -> Array:
        """Return the distribution that is read from an answer with one, both of shape (K,).

        The same, except for intervals and whole per cents.
        """
        return p

    def writes(self, belief: Any, row: Any) -> str | None:
        """Return the whole reply of such a respondent; None if it is one of the choices."""
        return None

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
        except msgspec.ValidationError as error:
            raise EpidemiaError(
                f"a row of the way {self.name!r} does not fit ({error}): export it again"
            ) from None


class DistributionWay(Way):
    """A way of asking whose answers form P(Y | X).

    Attributes
    ----------
    expects : bool
        Whether `Elicited.expected` is given: another metric, ``score_expected``.
    """

    expects: bool = False

    @abstractmethod
    def distribution(self, values: Array, first: Any, levels: int) -> Elicited:
        """Return the distributions in completely answered cells.

        Parameters
        ----------
        values : ndarray, shape (C, prompts, ...)
            The answers.
        first : Answer
            One of them.
        levels : int
            K.
        """

    @abstractmethod
    def question(self, wording: Wording, cell: int, level: int) -> str:
        """Return the question alone, for readers."""

    @abstractmethod
    def answers(self, truth: Any) -> Sequence[str]:
        """Return the answers in their natural order, for readers."""

    @abstractmethod
    def example(self, truth: Any, cell: int, rng: np.random.Generator) -> str:
        """Return a solved example, without the final line break."""

    def moved(self, values: Array, low: Array, high: Array, first: Any, levels: int) -> Array:
        """Bound the L1 error of each cell's distribution; NaN if this way has no bound.

        Parameters
        ----------
        values : ndarray, shape (C, prompts, letters)
            The answers.
        low, high : ndarray, same shape
            Bounds of their probabilities.
        first, levels
            As of `distribution`.

        Returns
        -------
        ndarray, shape (C,)
        """
        return np.full(len(values), math.nan)


#: By key of ``--metadata``: a function of a way and a declared task that tells whether the key
#: changes the prompts.
HEEDED: Mapping[str, Callable[[Way, Any], bool]] = {
    "orderings": lambda way, task: "design" in way.columns,
    "n_samples": lambda way, task: "n_samples" in way.columns,
    "fewshot": lambda way, task: isinstance(way, DistributionWay),
    "gen_prefix": lambda way, task: True,
    # A letter that is written has no delimiter before it.
    "leading_space": lambda way, task: not way.generated,
    "names": lambda way, task: getattr(task, "names", "") == "random",
    "system_prompt": lambda way, task: way.system_prompts,
    "structured": lambda way, task: way.is_structured,
    "tries": lambda way, task: way.generated,
    "wording": lambda way, task: isinstance(way, DistributionWay),
    "typed": lambda way, task: isinstance(way, DistributionWay) and "design" in way.columns,
}


def list_changed_keys(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys with a value other than the default; a number of answers always counts."""
    for key, usual in Variant._field_defaults.items():
        value = metadata.get(key)
        if value is not None and (value != usual or key == "n_samples"):
            yield key
