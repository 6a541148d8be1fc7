"""How often each value of each column occurs: all that a draft needs from the rows.

Files are read some rows at a time, and of a column only the counts of its values are kept, so that
memory is bounded by the number of columns, not of people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lm_eval_epidemia.surveys import read
from lm_eval_epidemia.surveys.draft.columns import FileColumn
from lm_eval_epidemia.surveys.read import NO_NUMBERS, csv_batches

#: From this share of equal distances between neighbours on, numbers were counted up. Of what is
#: measured, people hardly ever all differ unless values lie far apart, and then no distance is
#: common (at most 0.05 of them in simulated salaries).
EQUAL = 0.2

#: Codes of random digits lie evenly: the Kolmogorov-Smirnov distance from a uniform distribution,
#: times the root of their number, is below this in 19 of 20 files. Salaries are above 2.
EVEN = 1.36

#: So many digits, as many for everybody, are a code: a telephone number, a date of birth.
DIGITS = 7


def numbers_people(values: NDArray[np.float64]) -> bool:
    """Tell whether numbers look like those of people: counted up, dealt out, or codes.

    Parameters
    ----------
    values : ndarray, shape (V,)
        Whole, in order, each once.
    """
    if len(values) < 2 or values[0] < 0:
        return False
    lowest, highest = float(values[0]), float(values[-1])
    steps = np.unique(np.diff(values), return_counts=True)[1]
    counted_up = steps.max() >= EQUAL * steps.sum()
    places = (values - lowest) / (highest - lowest)
    apart = np.abs(places - np.linspace(0, 1, len(values))).max()
    digits = len(f"{lowest:.0f}")
    of_one_width = digits >= DIGITS and digits == len(f"{highest:.0f}")
    return bool(counted_up or apart * np.sqrt(len(values)) < EVEN or of_one_width)


#: Values (columns times rows) that are looked at together.
CELLS = 8_000_000

#: From so many values on, numbers are counted to three digits (which is enough for quintiles), but
#: not the lowest and highest, where codes of no answer are; texts are not counted at all.
MOST = 4096
EDGE = 12
KINDS = 1000

#: A number as people write it: "$59,400", "59400,50", "1.200 EUR".
_WRITTEN = re.compile(
    r"[-+]?\s?([$\u20ac\u00a3\u00a5]|usd|eur|gbp)?\s?[-+]?"
    r"(\d{1,3}([,.'\u00a0\u202f]\d{3})+([.,]\d+)?|\d+([.,]\d+)?)"
    r"\s?([$\u20ac\u00a3\u00a5%k]|usd|eur|gbp)?",
    re.IGNORECASE,
)

Array = NDArray[np.float64]


@dataclass
class Tally:
    """Counts of the values of a column.

    Attributes
    ----------
    values, counts, weights : ndarray, shape (V,)
        Its numbers in order, how many records have each, and their weight.
    texts : dict
        Of its texts (numbers written as text too): count and weight. None beyond `KINDS`.
    blank_weight : float
        Weight of the records without a value.
    whole : bool
        Whether all numbers are whole.
    distinct : bool
        Whether (nearly) no two records have the same.
    numbering : bool
        Whether its numbers are then whole, and look like those of people: `numbers_people`.
    odd : str
        Why it cannot be used, if so: dates, infinite numbers.
    truths : bool
        Whether it holds true and false.
    in_words, written : float
        Records with a text that is no number, and those of them that people read as one.
    exact : bool
        Whether `values` are not rounded.
    unknown : dict
        As `texts`: what programs write in place of a number.
    no_numbers : dict of str to int
        Records with these, where they are no answer.
    example : str
        The first of these.
    """

    values: Array = field(default_factory=lambda: np.empty(0))
    counts: Array = field(default_factory=lambda: np.empty(0))
    weights: Array = field(default_factory=lambda: np.empty(0))
    texts: dict[str, tuple[float, float]] | None = field(default_factory=dict)
    blank_weight: float = 0
    whole: bool = True
    distinct: bool = False
    numbering: bool = False
    odd: str = ""
    truths: bool = False
    exact: bool = True
    in_words: float = 0
    written: float = 0
    example: str = ""
    unknown: dict[str, tuple[float, float]] = field(default_factory=dict)
    no_numbers: dict[str, int] = field(default_factory=dict)

    @property
    def words(self) -> bool:
        """Whether a text is no number."""
        return self.in_words > 0

    @property
    def total(self) -> float:
        """The weight of all records."""
        texts = (self.texts or {}).values()
        known = sum(weight for _, weight in texts) if self.words else self.weights.sum()
        return float(self.blank_weight + known)

    def add(self, column: Any, weight: Array) -> None:
        """Count some more records.

        Parameters
        ----------
        column : Series or ndarray, shape (n,)
        weight : ndarray, shape (n,)
        """
        import pandas as pd

        if self.odd:
            return
        of_record, values = pd.factorize(column)
        known = of_record >= 0
        self.blank_weight += float(weight[~known].sum())
        counts = np.bincount(of_record[known], minlength=len(values)).astype(float)
        weights = np.bincount(of_record[known], weight[known], len(values)).astype(float)
        kind = getattr(values, "dtype", np.dtype(object)).kind
        self.truths |= kind == "b"
        if kind in "biuf":
            self._numbers(np.asarray(values, dtype=float), counts, weights)
        elif any(isinstance(v, bytes) for v in values):
            self.odd = "bytes that are no text in UTF-8"
        elif kind in "mM" or not all(isinstance(v, (str, Real, Decimal)) for v in values):
            self.odd = "dates or times"
        else:
            self._texts([str(value).strip() for value in values], counts, weights)

    def _numbers(self, values: Array, counts: Array, weights: Array) -> None:
        if np.isinf(values).any():
            self.odd = "infinite numbers: write finite ones, or leave the fields empty"
            return
        values = read.round_float32(values)
        self.whole &= bool((values == np.round(values)).all())
        self._merge(values, counts, weights)
        if self.exact:
            self.distinct = len(self.values) >= 0.99 * self.counts.sum()
            self.numbering = self.distinct and self.whole and numbers_people(self.values)
        digits = 3
        while len(self.values) > MOST and digits:
            self.exact, rounded = False, self.values.copy()
            inner = rounded[EDGE:-EDGE]
            rounded[EDGE:-EDGE] = _to_digits(inner, digits).clip(inner[0], inner[-1])
            counts, weights = self.counts, self.weights
            self.values = self.counts = self.weights = np.empty(0)
            self._merge(rounded, counts, weights)
            digits -= 1

    def _merge(self, values: Array, counts: Array, weights: Array) -> None:
        every = np.concatenate([self.values, values])
        self.values, of_one = np.unique(every, return_inverse=True)
        self.counts = np.bincount(of_one, np.concatenate([self.counts, counts])).astype(float)
        self.weights = np.bincount(of_one, np.concatenate([self.weights, weights])).astype(float)

    def _texts(self, texts: list[str], counts: Array, weights: Array) -> None:
        import pandas as pd

        series = pd.Series(texts, dtype=object)
        blank = series.isin(NO_NUMBERS).to_numpy()
        for n in np.flatnonzero(blank):
            if not texts[n]:
                self.blank_weight += weights[n]
            else:
                _add(self.unknown, texts[n], counts[n], weights[n])
        numbers = pd.to_numeric(series.where(~blank), errors="coerce").to_numpy(float)
        there = ~np.isnan(numbers)
        for n in np.flatnonzero(~there & ~blank):
            self.in_words += counts[n]
            if _WRITTEN.fullmatch(texts[n]):
                self.written += counts[n]
                self.example = self.example or texts[n]
        if self.texts is not None and (~blank).sum() <= KINDS:
            for n in np.flatnonzero(~blank):
                _add(self.texts, texts[n], counts[n], weights[n])
        if (~blank).sum() > KINDS or len(self.texts or ()) > KINDS:
            self.texts = None
        if not self.words and there.any():
            self._numbers(numbers[there], counts[there], weights[there])

    def finished(self) -> Tally:
        """Decide after counting what "None" and "NA" mean: in words each is an answer."""
        if self.words and self.texts is not None:
            self.texts |= self.unknown
        else:
            self.blank_weight += sum(weight for _, weight in self.unknown.values())
            self.no_numbers = {text: int(count) for text, (count, _) in self.unknown.items()}
        return self


def _add(sums: dict[str, tuple[float, float]], text: str, count: float, weight: float) -> None:
    before = sums.get(text, (0.0, 0.0))
    sums[text] = (before[0] + count, before[1] + weight)


def _to_digits(values: Array, digits: int) -> Array:
    """Round to so many significant digits."""
    with np.errstate(divide="ignore"):
        size = np.floor(np.log10(np.abs(values), where=values != 0, out=np.zeros_like(values)))
    scale = 10.0 ** (size - digits + 1)
    return np.round(values / scale) * scale


def blocks(
    path: Path, columns: Sequence[FileColumn], encoding: str | None = None
) -> Iterator[dict[str, Any]]:
    """Read columns of a file, some rows at a time.

    Yields
    ------
    dict of str to Series or ndarray
        The rows' values by column name.
    """
    names = [column.name for column in columns]
    size = max(CELLS // max(len(names), 1), 1000)
    suffix = read.suffix_of(path.name)
    with read.name_bad_file(path):
        if suffix == ".parquet":
            import pyarrow.parquet

            with pyarrow.parquet.ParquetFile(path) as file:
                for batch in file.iter_batches(size, columns=names):
                    yield {name: read.parquet_column(batch[name]) for name in names}
        elif suffix == ".csv":
            places = [column.place - 1 for column in columns]
            for batch in csv_batches(path, places, len(read.raw_columns(path)), of_texts=True):
                # Encoded first: a column of millions of rows has few texts.
                held = (column.dictionary_encode().to_pandas() for column in batch.columns)
                yield dict(zip(names, held, strict=True))
        elif read.FORMATS[suffix] is None:
            yield dict(read.read_untyped(path, names).items())
        else:
            from pyreadstat import read_file_in_chunks

            options: dict[str, Any] = {"encoding": encoding} if encoding else {}
            if suffix != ".xpt":  # of which not every version of the reader can select columns
                options["usecols"] = names
            for frame, _ in read_file_in_chunks(read.read_labelled, path, size, **options):
                yield {name: frame[name] for name in names}


def count(
    path: Path,
    columns: Sequence[FileColumn],
    keep: NDArray[np.bool_],
    weight: Array,
    encoding: str | None = None,
    done: Callable[[int], Any] = lambda rows: None,
) -> dict[str, Tally]:
    """Count the values of columns.

    Parameters
    ----------
    path : Path
    columns : sequence of Field
    keep : ndarray of bool, shape (n,)
        Which rows count.
    weight : ndarray, shape (n,)
    encoding : str, optional
    done : callable, optional
        Called with the number of rows read.

    Returns
    -------
    dict of str to Tally
        By column name.
    """
    tallies, start = {column.name: Tally() for column in columns}, 0
    for block in blocks(path, columns, encoding) if columns else ():
        rows = len(block[columns[0].name])
        here, weights = keep[start : start + rows], weight[start : start + rows]
        for name, column in block.items():
            tallies[name].add(column[here], weights[here])
        start += rows
        done(rows)
    return {name: tally.finished() for name, tally in tallies.items()}
