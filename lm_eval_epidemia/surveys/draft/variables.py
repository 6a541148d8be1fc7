"""How a column becomes a variable, or the reason why it does not."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from lm_eval_epidemia.surveys.draft import cuts
from lm_eval_epidemia.surveys.draft.columns import Column
from lm_eval_epidemia.surveys.draft.tally import Array, Tally
from lm_eval_epidemia.surveys.draft.text import apart, cleaned, number, shortened
from lm_eval_epidemia.surveys.draft.words import (
    DATE,
    DEMOGRAPHIC,
    IDENTIFIER,
    PREDICATES,
    asks_nothing,
)

#: Numbers of more values are binned; a variable of more answers is none.
VALUES = 12
ANSWERS = 100

#: So few records tell nothing about whether a number is a person's own.
FEW = 50


class Level(NamedTuple):
    """An answer of a draft: as `record.Level`, with how much of the population has it."""

    label: str
    phrase: str
    weight: float
    codes: tuple[float, ...] = ()
    bounds: dict[str, float] = {}  # noqa: RUF012
    texts: tuple[str, ...] = ()


class Draft(NamedTuple):
    """A variable as it is drafted.

    Attributes
    ----------
    name : str
    column : Column
    kind : str
        Of `words.DEMOGRAPHIC`, or empty.
    question : str
    levels : tuple of Level
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
    """

    name: str
    column: Column
    kind: str
    question: str
    levels: tuple[Level, ...]
    missing: tuple[tuple[float, float], ...] = ()
    missing_texts: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    asides: tuple[str, ...] = ()
    known: float = 1.0
    labelled: bool = False

    @property
    def most(self) -> float:
        """Share of the commonest answer among those who have one."""
        weights = [level.weight for level in self.levels]
        return max(weights) / (sum(weights) or 1)


def kind_of(column: Column) -> str:
    """Return which demographic variable a column is by its name or label; empty if none."""
    return next((k for k, one in DEMOGRAPHIC.items() if one.fits(column.name, column.label)), "")


def drafted(column: Column, tally: Tally, name: str, wanted: bool = False) -> Draft | str:
    """Draft a variable from a column.

    Parameters
    ----------
    column : Column
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
    total = tally.blank_weight + (
        sum(weight for _, weight in (tally.texts or {}).values())
        if tally.words
        else tally.weights.sum()
    )
    found = _of_texts(column, tally, name) if tally.words else _of_numbers(column, tally, name)
    if isinstance(found, str):
        return found
    if not wanted and IDENTIFIER.fits(column.name, column.label) and len(found.levels) > 2:
        return "identifiers, by name or label"
    known = sum(level.weight for level in found.levels) / total if total else 0.0
    if known <= 0.5 and not (wanted and known > 0):
        return "more than half of the people have no answer"
    if sum(level.weight > 0 for level in found.levels) < 2:
        return "constant: everybody has one answer"
    return found._replace(known=known)


# -- Texts ----------------------------------------------------------------------------------------


def _of_texts(column: Column, tally: Tally, name: str) -> Draft | str:
    texts = tally.texts
    if texts and sum(bool(DATE.fullmatch(text)) for text in texts) > len(texts) / 2:
        return "dates or times"
    people = sum(count for count, _ in (texts or {}).values())
    if texts is None or len(texts) > ANSWERS or (len(texts) > VALUES and people < 5 * len(texts)):
        return "free text, or too many answers in words"
    labels = {text: str(column.labels.get(text, "")) or cleaned(text) for text in texts}
    silent = [text for text in texts if asks_nothing(labels[text])]
    kept = sorted((text for text in texts if text not in silent), key=_natural)
    said = _told_apart([(labels[text], text) for text in kept])
    kind = kind_of(column)
    levels = tuple(
        Level(label, _phrase(kind, label, column), texts[text][1], texts=(text,))
        for text, label in zip(kept, said, strict=True)
    )
    checks = _look_alikes([labels[text] for text in kept], said)
    if "None" in kept:
        checks.append("taken as an answer: None")
    if silent:
        checks.append(f"taken as no answer: {_listed(shortened(cleaned(t), 60) for t in silent)}")
    return Draft(
        name,
        column,
        kind,
        _question(kind, column, levels),
        levels,
        missing_texts=tuple(silent),
        checks=tuple(checks),
        labelled=bool(column.labels),
    )


def _natural(text: str) -> tuple[float, str]:
    """Order texts by the number they begin with, then by letters."""
    first = re.match(r"\D{0,2}(\d+(\.\d+)?)", text)
    return (float(first[1]) if first else float("inf"), text.casefold())


# -- Numbers --------------------------------------------------------------------------------------


def _of_numbers(column: Column, tally: Tally, name: str) -> Draft | str:
    values, weights = tally.values, tally.weights
    if not len(values):
        return "empty: nobody has a value"
    labels: dict[float, str] = {
        float(code): label
        for code, label in column.labels.items()
        if not isinstance(code, str) and label
    }
    if tally.truths and not labels:
        labels = {0.0: "No", 1.0: "Yes"}
    silent = [code for code, label in labels.items() if asks_nothing(label)]
    missing = [*column.missing, *((code, code) for code in silent)]
    meant = {c: text for c, text in labels.items() if not _inside(c, missing)}
    if tally.distinct and tally.whole and not meant and tally.counts.sum() >= FEW:
        return "identifiers: no two people have the same"
    checks = []
    if texts := [f"{text} ({count:,} people)" for text, count in tally.no_numbers.items()]:
        checks.append(f"taken as no answer: {_listed(texts)}")
    if said := [f"{number(code)} '{shortened(labels[code], 60)}'" for code in silent]:
        checks.append(f"taken as no answer, by label: {_listed(said)}")
    known = np.array([not _inside(value, missing) for value in values], dtype=bool)
    if tally.exact and tally.whole and (odd := _standing_apart(values[known], set(meant))):
        missing += [(code, code) for code in odd]
        known &= ~np.isin(values, odd)
        listed = ", ".join(map(number, odd))
        checks.append(f"taken as no answer, since far from the other codes: {listed}")
    values, weights = values[known], weights[known]
    labelled = [value for value in values if value in meant]
    bare = len(values) - len(labelled)
    draft = Draft(
        name,
        column,
        kind_of(column),
        "",
        (),
        tuple(_joined(missing)),
        checks=tuple(checks),
        labelled=bool(meant),
    )
    if not len(values):
        return "empty: nobody has an answer"
    if bare <= len(labelled):
        return _categories(draft, values, weights, meant)
    return _amounts(draft, values, weights, meant, tally)


def _categories(
    draft: Draft, values: Array, weights: Array, meant: dict[float, str]
) -> Draft | str:
    """Make a level of every labelled code, and of the few that have no label."""
    weight = dict(zip(values.tolist(), weights.tolist(), strict=True))
    nobody = [code for code in meant if code not in weight]
    # A scale has no holes: an answer nobody gave is one between two that were given.
    between = [code for code in nobody if values[0] < code < values[-1]]
    codes = sorted({*weight, *between})
    if len(codes) > ANSWERS:
        return f"more than {ANSWERS} answers"
    bare = [code for code in codes if code not in meant]
    names = _without_codes({code: meant[code] for code in codes if code in meant})
    said = _told_apart([(names.get(code, number(code)), number(code)) for code in codes])
    levels = tuple(
        Level(
            label,
            _phrase(draft.kind, label, draft.column, not_a_word=code in bare),
            weight.get(code, 0.0),
            codes=(code,),
        )
        for code, label in zip(codes, said, strict=True)
    )
    checks, asides = list(draft.checks), list(draft.asides)
    checks += _look_alikes([names.get(code, number(code)) for code in codes], said)
    if bare:
        checks.append(f"without a label, and a level: {_listed(map(number, bare))}")
    if between:
        asides.append(
            f"nobody has {_listed(map(number, between))}, between others that people have"
        )
    if out := [code for code in nobody if code not in between]:
        listed = _listed(f"{number(code)} '{shortened(meant[code], 60)}'" for code in out)
        asides.append(f"nobody has, so no level: {listed}")
    return draft._replace(
        levels=levels,
        checks=tuple(checks),
        asides=tuple(asides),
        question=_question(draft.kind, draft.column, levels),
    )


def _amounts(
    draft: Draft, values: Array, weights: Array, meant: dict[float, str], tally: Tally
) -> Draft | str:
    """Make levels of a number: one each if there are few, else bins; its ends may have labels."""
    bare = [value for value in values if value not in meant]
    low = [v for v in values if v in meant and v < bare[0] and not _an_end(v, meant[v], bare)]
    high = _far_above(values, meant) or [
        v for v in values if v in meant and v > bare[-1] and not _an_end(v, meant[v], bare)
    ]
    inner = np.array([v not in low and v not in high for v in values], dtype=bool)
    own = {float(v): w for v, w in zip(values, weights, strict=True)}
    kind, column, checks = draft.kind, draft.column, list(draft.checks)

    def alone(codes: Iterable[float]) -> list[Level]:
        said = [(meant.get(code, cuts.said(code)), number(code)) for code in codes]
        return [
            Level(
                label,
                _phrase(kind, label, column, not_a_word=code not in meant),
                own[code],
                codes=(code,),
            )
            for code, label in zip(codes, _told_apart(said), strict=True)
        ]

    if inner.sum() <= VALUES and tally.exact:
        levels = alone([float(value) for value in values])
        if not meant and tally.whole:
            checks.append("if these are codes, say what they mean: the file does not")
    else:
        levels = [
            *alone(low),
            *_binned(draft, values[inner], weights[inner], tally.whole, low, high),
            *alone(high),
        ]
        checks.append("cut at round numbers near the quintiles")
    if unsaid := [code for code in high if code not in meant]:
        checks.append(f"without a label, and a level: {_listed(map(number, unsaid))}")
    ends = [code for code in meant if code in own and code not in low and code not in high]
    asides = [*draft.asides]
    if ends and inner.sum() > VALUES:
        listed = _listed(f"{number(code)} '{shortened(meant[code], 60)}'" for code in ends)
        asides.append(f"a number among the others, in spite of its label: {listed}")
    return draft._replace(
        levels=tuple(levels),
        checks=tuple(checks),
        asides=tuple(asides),
        question=_question(kind, column, tuple(levels), amount=True),
    )


def _binned(
    draft: Draft, values: Array, weights: Array, whole: bool, low: list[float], high: list[float]
) -> list[Level]:
    levels = []
    for one in cuts.bins(cuts.round_cuts(values, weights, whole)):
        begins = -np.inf if one.at_least is None else one.at_least
        ends = np.inf if one.below is None else one.below
        weight = weights[(values >= begins) & (values < ends)].sum()
        # The lowest and the highest take whatever other files have, up to codes of another meaning.
        bounds = {}
        if one.at_least is not None:
            bounds["at_least"] = one.at_least
        elif low:
            bounds["above"] = max(low)
        if one.below is not None:
            bounds["below"] = one.below
        elif high:
            bounds["below"] = min(high)
        first = one.at_least is None and whole and values[0] == ends - 1
        label = cuts.said(values[0]) if first else cuts.in_words(one, whole)
        if draft.kind == "age":
            label = label.replace("or more", "or older")
        levels.append(
            Level(label, _amount(draft.kind, label, draft.column), float(weight), bounds=bounds)
        )
    return levels


def _inside(code: float, ranges: Iterable[tuple[float, float]]) -> bool:
    return any(low <= code <= high for low, high in ranges)


def _joined(ranges: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Put ranges in order, each code in one of them."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _far_above(values: Array, meant: dict[float, str]) -> list[float]:
    """Return a few codes far above all numbers of which the lowest has a label: 991 'never'."""
    for place in range(max(len(values) - 5, 2), len(values)):
        code, below = float(values[place]), float(values[place - 1])
        if code in meant and code - below > (below - values[0]) / 2 and code > 2 * abs(below):
            return [float(value) for value in values[place:]]
    return []


_TOPPED = re.compile(
    r"\b(or|and|&) (more|older|over|above|up|less|fewer|under|below|younger|greater|higher|lower)\b"
    r"|\+|top.?cod|at least|at most|^(under|over|below|above|less|more|up) "
)


def _an_end(code: float, label: str, others: list[float]) -> bool:
    """Tell whether a labelled number goes on where the others stop: 89 '89 or older'."""
    gap = min(abs(code - other) for other in (others[0], others[-1]))
    near = gap <= max(1.0, (others[-1] - others[0]) * 0.1)
    text = label.casefold()
    return near and bool(_TOPPED.search(text) or number(code) in re.findall(r"\d+", text))


def _standing_apart(values: Array, labelled: set[float]) -> list[float]:
    """Find codes without a label that look like refusals: 7, 9, 77, 99, 998, -8, far from others.

    Of a few at the top, the lowest is farther from the next number than twice the gaps there.
    """
    odd: list[float] = []
    below = [v for v in values if v < 0 and v not in labelled]
    rest = [v for v in values if v >= 0]
    unbroken = below == [float(v) for v in range(-len(below), 0)] and rest and rest[0] == 0
    if below and len(below) <= 9 and below[0] >= -99 and len(rest) > 1 and not unbroken:
        odd += below
    elif below:
        rest = list(values)
    top: list[float] = []
    while rest and rest[-1] not in labelled and _refuses(rest[-1]):
        top.insert(0, rest.pop())
    if top and len(top) <= 5 and len(rest) > 1 and len(number(top[0])) == len(number(top[-1])):
        gaps = np.diff(rest)[-5:]
        empty = {1: 3.0, 2: 5.0}.get(len(number(top[0])), 0.05 * top[0])
        if top[0] - rest[-1] >= empty and top[0] - rest[-1] > 2 * gaps.max():
            odd += top
    return odd


def _refuses(code: float) -> bool:
    return bool(re.fullmatch(r"([789])\1*|9+[4-9]", number(code)))


# -- Words ----------------------------------------------------------------------------------------


def _told_apart(said: list[tuple[str, str]]) -> list[str]:
    """Shorten labels, and tell those that are then the same apart by their codes."""
    found: list[str] = []
    short = [shortened(label or code) for label, code in said]
    for label, (_, code) in zip(short, said, strict=True):
        if short.count(label) > 1:
            label = f"{label} ({shortened(cleaned(code), 40)})"
        found.append(apart(label, found))
    return found


def _look_alikes(labels: Sequence[str], said: Sequence[str]) -> list[str]:
    """Name the answers that only capitals or spaces tell apart: whether they are one is not ours.

    Parameters
    ----------
    labels : sequence of str
        As the file has them.
    said : sequence of str
        As the draft has them.
    """
    alike: dict[str, list[str]] = {}
    for label, shown in zip(labels, said, strict=True):
        key = " ".join(unicodedata.normalize("NFKC", label).casefold().split())
        alike.setdefault(key, []).append(f"'{shortened(shown, 60)}'")
    return [
        f"{_listed(several)} look alike: if they are one answer, make one level of them"
        for several in alike.values()
        if len(several) > 1
    ]


def _without_codes(labels: dict[float, str]) -> dict[float, str]:
    """Take codes off labels that all begin with theirs: ``1. Yes``, ``(2) No``."""
    found = {}
    for code, label in labels.items():
        rest = re.fullmatch(
            rf"\(?0*{re.escape(number(code))}\)?(?:\s*[.:)=]\s*|\s+-\s+)(\S.*)", label
        )
        if rest is None:
            return labels
        found[code] = rest[1]
    return found


def _listed(items: Iterable[str]) -> str:
    items = list(items)
    return ", ".join(items[:8]) + (f" and {len(items) - 8} more" if len(items) > 8 else "")


def _about(column: Column) -> str:
    return shortened(column.said.rstrip(" :.;,") or column.name)


#: Answers that name no race and no region, only that it is another one.
_OTHER = re.compile(r"((an|any |all )?other)s?( (race|ethnicity|region|state|country|place))?")

#: Answers that go on from "is of": "two or more races".
_RACES = re.compile(r"\b(race|ethnicity|ethnicities|races)$")


def _phrase(kind: str, label: str, column: Column, not_a_word: bool = False) -> str:
    """Say of a person what an answer means, in a way that is sound whatever it is."""
    if not_a_word:
        return _amount(kind, label, column)
    word = label.casefold()
    if word in PREDICATES:
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


def _amount(kind: str, label: str, column: Column) -> str:
    """Say of a person what a number means."""
    text = label[:1].lower() + label[1:]
    if kind == "age":
        if re.search(r"\byears?\b|\bold(er)?\b", text):
            return f"is {text}"
        return f"is {text} years old"
    return f"has a value of {text} for '{_about(column)}'"


_QUESTIONS = {
    "age": "How old is this person?",
    "sex": "What is this person's sex?",
    "race": "What is this person's race or ethnicity?",
    "education": "What is this person's level of education?",
    "region": "Where does this person live?",
    "marital status": "What is this person's marital status?",
}


def _question(kind: str, column: Column, levels: tuple[Level, ...], amount: bool = False) -> str:
    """Ask for a variable: by what it is known as, or by the column's label."""
    words = {level.label.casefold() for level in levels}
    if kind in _QUESTIONS and not words & {"yes", "no"}:
        return _QUESTIONS[kind]
    if column.label.endswith("?"):
        return shortened(column.label, 400)
    if amount:
        return f"What is this person's value of '{_about(column)}'?"
    return f"What does this person answer to '{_about(column)}'?"
