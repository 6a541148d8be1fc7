"""How a column becomes a variable, or the reason why it does not."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from lm_eval_epidemia.surveys.draft import amounts, words
from lm_eval_epidemia.surveys.draft.amounts import has_unit, measure_of
from lm_eval_epidemia.surveys.draft.columns import FileColumn, is_in_ranges
from lm_eval_epidemia.surveys.draft.tally import Array, Tally
from lm_eval_epidemia.surveys.draft.words import clean_text, make_unique, quote_number, shorten_text
from lm_eval_epidemia.surveys.variable import Measure

#: Numbers of more values are binned; a variable of more answers is none.
VALUES = 12
ANSWERS = 100

#: From these shares of the people on, who was not asked, or did not answer, is remarked on.
NOT_ASKED, UNANSWERED = 0.05, 0.15

#: After a number of so many people, a hole is no chance.
MANY = 20

#: So few records tell nothing about whether a number is a person's own.
FEW = 50

#: How a person has a column of identifiers all the same.
KEEPS = "(name one in --outcomes or --given to keep it)"


class DraftLevel(NamedTuple):
    """An answer of a draft: as `variable.Level`, with how much of the population has it."""

    label: str
    phrase: str
    weight: float
    codes: tuple[float, ...] = ()
    bounds: dict[str, float] = {}
    texts: tuple[str, ...] = ()


class Draft(NamedTuple):
    """The draft of a variable.

    Attributes
    ----------
    name : str
    column : Field
    kind : str
        A key of `words.DEMOGRAPHIC`, or empty.
    question : str
    levels : tuple of DraftLevel
    missing : tuple of (float, float)
    missing_texts : tuple of str
    checks : tuple of str
        What was decided where a person may decide otherwise.
    asides : tuple of str
        What else a reader should know.
    known : float
        Share of the population that has a level.
    labelled : bool
        Whether the file says what its values mean.
    measure : Measure or None
        What its numbers measure, where they have a mean.
    """

    name: str
    column: FileColumn
    kind: str
    question: str = ""
    levels: tuple[DraftLevel, ...] = ()
    missing: tuple[tuple[float, float], ...] = ()
    missing_texts: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    asides: tuple[str, ...] = ()
    known: float = 1.0
    labelled: bool = False
    measure: Measure | None = None

    @property
    def most(self) -> float:
        """Share of the most common answer among people with an answer."""
        weights = [level.weight for level in self.levels]
        return max(weights) / (sum(weights) or 1)

    def answered(
        self,
        levels: Iterable[DraftLevel],
        checks: Iterable[str],
        asides: Iterable[str] = (),
        amount: bool = False,
    ) -> Draft:
        """Return the draft with its levels, what there is to say of them, and its question."""
        levels = tuple(levels)
        question = _question(self.kind, self.column, levels, amount)
        checks, asides = (*self.checks, *checks), (*self.asides, *asides)
        return self._replace(question=question, levels=levels, checks=checks, asides=asides)


def kind_of(column: FileColumn) -> str:
    """Return which demographic variable a column is by its name or label; empty if none."""
    kinds = (kind for kind, called in words.DEMOGRAPHIC.items() if called.fits(column))
    return next(kinds, "")


def draft_variable(
    column: FileColumn, tally: Tally, name: str, wanted: bool = False
) -> Draft | str:
    """Draft a variable from a column.

    Parameters
    ----------
    column : Field
    tally : Tally
        Of its values.
    name : str
    wanted : bool
        Whether the user asked for it: then neither its name nor many blanks are a reason against.

    Returns
    -------
    Draft or str
        The reason why there is none.
    """
    if tally.odd:
        return tally.odd
    plain = Draft(name, column, kind_of(column))
    draft = _of_texts(plain, tally) if tally.words else _of_numbers(plain, tally, wanted)
    if isinstance(draft, str):
        return draft
    if not wanted and words.IDENTIFIER.fits(column) and len(draft.levels) > 2:
        return f"identifiers, by name or label {KEEPS}"
    known = sum(level.weight for level in draft.levels) / (tally.total or 1)
    if sum(level.weight > 0 for level in draft.levels) < 2:
        some = "only one answer beside blanks (a tick box? write 0 or No in place of blank)"
        return "constant: everybody has one answer" if known > 0.99 else some
    if known <= 0.5 and not (wanted and known > 0):
        return "more than half of the people have no answer"
    return draft._replace(known=known, checks=(*draft.checks, *_not_asked(column, tally, known)))


def _not_asked(column: FileColumn, tally: Tally, known: float) -> list[str]:
    """Remark on people without an answer, if many: a truth is of the others alone."""
    held: dict[float | str, float] = dict(zip(tally.values.tolist(), tally.weights, strict=True))
    if tally.words:
        held = {text: weight for text, (_, weight) in (tally.texts or {}).items()}
    labels = {code: str(column.labels.get(code, code)) for code in held}
    codes = [code for code in held if words.find_no_answer(labels[code]) == "not asked"]
    share = sum(held[code] for code in codes) / (tally.total or 1)
    if min(share, 1 - known) < NOT_ASKED and 1 - known < UNANSWERED:
        return []
    why = f" ('{shorten_text(labels[max(codes, key=held.__getitem__)], 60)}')" if codes else ""
    return [
        f"{1 - known:.0%} of the people have no answer{why}: who was asked? Say so in the "
        "question, or make them a level"
    ]


# -- Texts ----------------------------------------------------------------------------------------


def _of_texts(draft: Draft, tally: Tally) -> Draft | str:
    texts, column = tally.texts or {}, draft.column
    if sum(bool(words.DATE.fullmatch(text)) for text in texts) > len(texts) / 2:
        return "dates or times"
    people = sum(count for count, _ in texts.values())
    many = len(texts) > ANSWERS or (len(texts) > VALUES and people < 5 * len(texts))
    if tally.texts is None or many:
        if tally.written <= tally.in_words / 2:
            return "free text, or too many different texts"
        example = shorten_text(clean_text(tally.example), 40)
        write = "remove currency signs and commas (59400 or 59400.50)"
        return f"formatted numbers such as '{example}': {write}"
    labels = {text: str(column.labels.get(text, "")) or clean_text(text) for text in texts}
    silent = [text for text in texts if words.asks_nothing(labels[text])]
    enough = 1 if words.COUNTRY.fits(column) else 3
    codes = [text for text in silent if words.like_others(labels[text], labels.values(), enough)]
    silent = [text for text in silent if text not in codes]
    kept = sorted((text for text in texts if text not in silent), key=_natural)
    shown = _shorten_labels([(labels[text], text) for text in kept])
    levels = [
        DraftLevel(label, _phrase(draft.kind, label, column), texts[text][1], texts=(text,))
        for text, label in zip(kept, shown, strict=True)
    ]
    checks = _look_alikes([labels[text] for text in kept], shown)
    if "None" in kept:
        checks.append("treated as an answer: None")
    if codes:
        checks.append(f"treated as answers, like the others here: {_join_items(codes)}")
    if weak := [text for text in kept if words.find_no_answer(labels[text]) == "weak"]:
        checks.append(f"kept as an answer, or is it none? {_join_items(weak)}")
    if silent:
        short = _join_items(shorten_text(clean_text(text), 60) for text in silent)
        checks.append(f"treated as missing: {short}")
    labelled = draft._replace(missing_texts=tuple(silent), labelled=bool(column.labels))
    return labelled.answered(levels, checks)


def _natural(text: str) -> tuple[float, str]:
    """Order texts by the number they begin with, then by letters."""
    first = re.match(r"\D{0,2}(\d+(\.\d+)?)", text)
    return (float(first[1]) if first else float("inf"), text.casefold())


# -- Numbers --------------------------------------------------------------------------------------


def _of_numbers(draft: Draft, tally: Tally, wanted: bool) -> Draft | str:
    values, weights, column = tally.values, tally.weights, draft.column
    if not len(values):
        return "empty: nobody has a value"
    silent, missing, meant = column.silent, column.missing_ranges, column.answers
    if tally.truths and not column.labels:
        meant = {0.0: "No", 1.0: "Yes"}
    if not meant and not wanted and _identify(draft, tally):
        return f"identifiers: no two people have the same {KEEPS}"
    checks = []
    if texts := [f"{text} ({count:,} people)" for text, count in tally.no_numbers.items()]:
        checks.append(f"treated as missing: {_join_items(texts)}")
    if silent:
        checks.append(f"treated as missing by label: {_labelled(silent, column.labels)}")
    known = np.array([not is_in_ranges(value, missing) for value in values], dtype=bool)
    odd, nearly = _find_refusals(values[known], tally.counts[known], meant)
    if odd:
        missing += [(code, code) for code in odd]
        known &= ~np.isin(values, odd)
        listed = ", ".join(map(quote_number, odd))
        checks.append(f"treated as missing, since far from the other codes: {listed}")
    # Beside a refusal, a code may be one too, whatever its label: 9994 "not present" by 9995.
    long = {len(quote_number(code)) for code in silent if _refuses(code)} - {1}
    beside = [code for code in meant if _refuses(code) and len(quote_number(code)) in long]
    if weak := [code for code in meant if code in beside or words.find_no_answer(meant[code])]:
        checks.append(f"kept as an answer, or is it none? {_labelled(weak, meant)}")
    if nearly:
        listed = _join_items(map(quote_number, nearly))
        checks.append(f"kept as a number, or is it a code of no answer? {listed}")
    if not known.any():
        return "empty: nobody has an answer"
    if tally.whole and not (meant or wanted) and amounts.are_dates(values[known]):
        return "dates or times"
    draft = draft._replace(
        missing=tuple(amounts.join_ranges(missing)), checks=tuple(checks), labelled=bool(meant)
    )
    weight = dict(zip(values[known].tolist(), weights[known].tolist(), strict=True))
    labelled = sum(value in meant for value in weight)
    if len(weight) - labelled <= labelled:
        return _categories(draft, weight, meant)
    return _amounts(draft, weight, meant, tally)


def _identify(draft: Draft, tally: Tally) -> bool:
    """Tell whether numbers without labels say who somebody is: by name, else by their look."""
    if not (tally.distinct and tally.whole) or tally.counts.sum() < FEW:
        return False
    return words.NUMBER.fits(draft.column) or (
        tally.numbering and not has_unit(draft.column, draft.kind)
    )


def _levels(
    draft: Draft,
    codes: Iterable[float],
    labels: Mapping[float, str],
    weight: Mapping[float, float],
    say: Callable[[float], str],
) -> list[DraftLevel]:
    """Make a level of each code, called by its label or as numbers are said."""
    shown = _shorten_labels([(labels.get(code, say(code)), quote_number(code)) for code in codes])
    return [
        DraftLevel(
            label,
            _phrase(draft.kind, label, draft.column, not_a_word=code not in labels),
            weight.get(code, 0.0),
            codes=(code,),
        )
        for code, label in zip(codes, shown, strict=True)
    ]


_BARE = "made a level, though without a label"


def _categories(draft: Draft, weight: dict[float, float], meant: dict[float, str]) -> Draft | str:
    """Make a level of every labelled code, and of the few that have no label."""
    nobody = [code for code in meant if code not in weight]
    # A scale has no holes: an answer nobody gave is one between two that were given.
    between = [code for code in nobody if min(weight) < code < max(weight)]
    codes = sorted({*weight, *between})
    if len(codes) > ANSWERS:
        return f"more than {ANSWERS} answers"
    names = _without_codes({code: meant[code] for code in codes if code in meant})
    levels = _levels(draft, codes, names, weight, quote_number)
    labels = [names.get(code, quote_number(code)) for code in codes]
    checks, asides = _look_alikes(labels, [level.label for level in levels]), []
    if bare := [code for code in codes if code not in meant]:
        checks.append(f"{_BARE}: {_join_items(map(quote_number, bare))}")
    if between:
        listed = _join_items(map(quote_number, between))
        asides.append(f"nobody has {listed}, though people have codes on both sides")
    if out := [code for code in nobody if code not in between]:
        asides.append(f"not made a level, since nobody has it: {_labelled(out, meant)}")
    return draft.answered(levels, checks, asides)


def _amounts(
    draft: Draft, weight: dict[float, float], meant: dict[float, str], tally: Tally
) -> Draft:
    """Make levels of a number: one each if there are few, else bins; its ends may have labels."""
    values, weights = np.array(list(weight)), np.array(list(weight.values()))
    bare = [value for value in weight if value not in meant]
    ends = [v for v in weight if v in meant and not _an_end(v, meant[v], bare)]
    low = [v for v in ends if v < bare[0]]
    high = amounts.far_above(values, meant) or [v for v in ends if v > bare[-1]]
    inner = np.array([value not in low and value not in high for value in weight], dtype=bool)
    checks, asides = [], []
    if inner.sum() <= VALUES and tally.exact:
        levels = _levels(draft, list(weight), meant, weight, amounts.format_number)
        if not meant and tally.whole:
            checks.append("if these are codes, write what they mean: the file has no labels")
    else:
        levels = _levels(draft, low, meant, weight, amounts.format_number)
        levels += _binned(draft, values[inner], weights[inner], tally.whole, low, high)
        levels += _levels(draft, high, meant, weight, amounts.format_number)
        checks.append("cut at round numbers near the quintiles")
        if not low and not high:
            topped = {value: meant[value] for value in weight if value in meant}
            told = measure_of(draft.column, draft.kind, tally.whole, len(weight), topped)
            draft = draft._replace(measure=told)
    if bare_ends := [code for code in high if code not in meant]:
        checks.append(f"{_BARE}: {_join_items(map(quote_number, bare_ends))}")
    among = [code for code in meant if code in weight and code not in low and code not in high]
    if among and inner.sum() > VALUES:
        asides.append(f"treated as a number despite its label: {_labelled(among, meant)}")
    return draft.answered(levels, checks, asides, amount=True)


def _binned(
    draft: Draft, values: Array, weights: Array, whole: bool, low: list[float], high: list[float]
) -> list[DraftLevel]:
    levels = []
    for at_least, below in pairwise([None, *amounts.round_cuts(values, weights, whole), None]):
        begins = -np.inf if at_least is None else at_least
        ends = np.inf if below is None else below
        weight = weights[(values >= begins) & (values < ends)].sum()
        # The lowest and the highest take whatever other files have, up to codes of another meaning.
        above = max(low) if at_least is None and low else None
        below_high = min(high) if below is None and high else below
        bounds = {"at_least": at_least, "above": above, "below": below_high}
        label = amounts.describe_range(at_least, below, whole)
        if at_least is None and whole and values[0] == ends - 1:
            label = amounts.format_number(values[0])
        if draft.kind == "age":
            label = label.replace("or more", "or older")
        phrase = _amount(draft.kind, label, draft.column)
        given = {name: bound for name, bound in bounds.items() if bound is not None}
        levels.append(DraftLevel(label, phrase, float(weight), bounds=given))
    return levels


_TOPPED = re.compile(
    r"\b(or|and|&) (more|older|over|above|up|less|fewer|under|below|younger|greater|higher|lower)\b"
    r"|\+|top.?cod|at least|at most|^(under|over|below|above|less|more|up) "
)


def _an_end(code: float, label: str, others: list[float]) -> bool:
    """Tell whether a labelled number goes on where the others stop: 89 '89 or older'."""
    gap = min(abs(code - other) for other in (others[0], others[-1]))
    near = gap <= max(1.0, (others[-1] - others[0]) * 0.1)
    text = label.casefold()
    return near and bool(_TOPPED.search(text) or quote_number(code) in re.findall(r"\d+", text))


#: Where types of integers end.
_TYPE_ENDS = (2.0**15 - 1, 2.0**15, 2.0**31 - 1, 2.0**31)


def _find_refusals(
    values: Array, counts: Array, labelled: Collection[float]
) -> tuple[list[float], list[float]]:
    """Find codes without a label that look like refusals, and numbers that nearly do.

    At the top they are 7, 9, 77, 99, 998; of these as many as are far from the numbers below them,
    whether or not each of 7, 8 and 9 is there: farther than twice the gaps there, or shared by many
    people while those are not. Below zero they are a few whole numbers, -8 or -99, unless they go
    on from 0 or mirror the numbers above: -2 to 2, also beside a -9. Of many numbers below zero the
    lowest is one if it is farther from the others than these are from each other: -9999999.
    """
    odd: list[float] = []
    nearly: list[float] = []
    lonely = len(values) > MANY and values[1] - values[0] > np.ptp(values[1:])
    if lonely and values[0] < 0 and values[0] not in labelled and _refuses(-values[0]):
        odd, values, counts = [float(values[0])], values[1:], counts[1:]
    start = int((values < 0).sum())
    below, above = values[:start].tolist(), values[start:]
    if not 0 < start < 10 or len(above) < 2 or any(map(labelled.__contains__, below)):
        above = values
    elif all(v == round(v) and (v >= -99 or _refuses(-v)) for v in below):
        unbroken = below == [float(v) for v in range(-start, 0)]
        scale = [v for v in below if v >= -above[-1]]
        if start > len(scale) > 1 and above[0] == 0 and scale == [-v for v in above[:0:-1]]:
            odd, nearly = below[: -len(scale)], scale
        elif not unbroken or (above[0] != 0 and above[-1] != start):
            odd += below
        elif above[-1] != start:
            nearly = below
    counts, first = counts[-len(above) :], len(above)
    while first > 2 and above[first - 1] not in labelled and _refuses(above[first - 1]):
        first -= 1
    for place in range(first, len(above)):
        top, gaps = float(above[place]), np.diff(above[:place])[-5:]
        gap = top - above[place - 1]
        # Two of 7, 8 and 9 above a 5 of many people: no tail of a count has such a hole.
        several = len(above) - place > 1 and counts[place - 1] >= MANY
        enough = gap >= {1: 2.0 if several else 3.0, 2: 5.0}.get(len(quote_number(top)), 0.05 * top)
        enough &= top == round(top) or counts[place] > 1
        shared = counts[place] > 5 * counts[max(place - 5, 0) : place].max()
        if enough and (gap >= 2 * gaps.max() or shared) and {*quote_number(above[-1])} != {"6"}:
            return odd + above[place:].tolist(), [v for v in nearly if v < top]
        if not nearly and gap > gaps.max():
            nearly = above[place:].tolist()
    return odd, nearly


def _refuses(code: float) -> bool:
    """Tell whether a number is as surveys number refusals: 7, 88, 996, 99.9, the end of a type."""
    digits = quote_number(code).replace(".", "")
    long = len(digits) > 2 or code == round(code)
    return code in _TYPE_ENDS or (long and bool(re.fullmatch(r"([6-9])\1*|9+[4-9]", digits)))


# -- Words ----------------------------------------------------------------------------------------


def _shorten_labels(named: list[tuple[str, str]]) -> list[str]:
    """Shorten labels, and tell those that are then the same apart by their codes."""
    shown: list[str] = []
    short = [shorten_text(label or code) for label, code in named]
    for label, (_, code) in zip(short, named, strict=True):
        if short.count(label) > 1:
            label = f"{label} ({shorten_text(clean_text(code), 40)})"
        shown.append(make_unique(label, shown))
    return shown


def _look_alikes(labels: Sequence[str], shown: Sequence[str]) -> list[str]:
    """Name the answers that only capitals or spaces tell apart: whether they are one is not ours.

    Parameters
    ----------
    labels : sequence of str
        As the file has them.
    shown : sequence of str
        As the draft has them.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for label, text in zip(labels, shown, strict=True):
        key = " ".join(unicodedata.normalize("NFKC", label).casefold().split())
        alike[key].append(f"'{shorten_text(text, 60)}'")
    return [
        f"{_join_items(several)} look alike: if they are the same answer, merge them into one level"
        for several in alike.values()
        if len(several) > 1
    ]


def _without_codes(labels: dict[float, str]) -> dict[float, str]:
    """Take codes off labels that all begin with theirs: ``1. Yes``, ``(2) No``."""
    bare = {}
    for code, label in labels.items():
        own = re.escape(quote_number(code))
        rest = re.fullmatch(rf"\(?0*{own}\)?(?:\s*[.:)=]\s*|\s+-\s+)(\S.*)", label)
        if rest is None:
            return labels
        bare[code] = rest[1]
    return bare


def _labelled(codes: Iterable[float], labels: Mapping[Any, str]) -> str:
    return _join_items(f"{quote_number(code)} '{shorten_text(labels[code], 60)}'" for code in codes)


def _join_items(items: Iterable[str]) -> str:
    items = list(items)
    return ", ".join(items[:8]) + (f" and {len(items) - 8} more" if len(items) > 8 else "")


def _about(column: FileColumn) -> str:
    return shorten_text((column.label or column.name).rstrip(" :.;,") or column.name)


#: Answers that name no race and no region, only that it is another one.
_OTHER = re.compile(r"((an|any |all )?other)s?( (race|ethnicity|region|state|country|place))?")

#: Answers that go on from "is of": "two or more races".
_RACES = re.compile(r"\b(race|ethnicity|ethnicities|races)$")


def _phrase(kind: str, label: str, column: FileColumn, not_a_word: bool = False) -> str:
    """Say of a person what an answer means, in a way that is sound whatever it is."""
    if not_a_word:
        return _amount(kind, label, column)
    word = label.casefold()
    if word in words.PREDICATES:
        return f"is {word}" if word != "hispanic" else "is Hispanic"
    if kind == "sex" and word in ("man", "woman", "men", "women"):
        return f"is a {word.replace('men', 'man')}"
    if kind == "age" and re.match(r"\d|under|over|between|less|more|up to|at ", word):
        return _amount(kind, label, column)
    if kind == "region" and word not in ("yes", "no"):
        return "lives elsewhere" if _OTHER.fullmatch(word) else f"lives in {label}"
    if kind == "race" and word not in ("yes", "no") and len(label) < 60:
        if _OTHER.fullmatch(word):
            return "is of another race"
        return f"is of {label[0].lower()}{label[1:]}" if _RACES.search(word) else f"is {label}"
    return f"answers '{label}' to '{_about(column)}'"


def _amount(kind: str, label: str, column: FileColumn) -> str:
    """Say of a person what a number means."""
    text = label[:1].lower() + label[1:]
    if kind != "age":
        return f"has a value of {text} for '{_about(column)}'"
    return f"is {text}" + (" years old" if not re.search(r"\byears?\b|\bold(er)?\b", text) else "")


def _question(kind: str, column: FileColumn, levels: tuple[DraftLevel, ...], amount: bool) -> str:
    """Ask for a variable: by what it is known as, or by the column's label."""
    if kind in words.QUESTIONS and not {x.label.casefold() for x in levels} & {"yes", "no"}:
        return words.QUESTIONS[kind]
    if column.label.endswith("?"):
        return shorten_text(column.label, 400)
    if amount:
        return f"What is this person's value of '{_about(column)}'?"
    return f"What does this person answer to '{_about(column)}'?"
