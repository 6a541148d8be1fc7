"""Summary statistics as sentences: facts about a population rather than people from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from lm_eval_epidemia.benchmarks.prior.quantities.wording import named
from lm_eval_epidemia.elicit.wording import Wording, ways_of
from lm_eval_epidemia.estimate.store import GroundTruth
from lm_eval_epidemia.surveys.catalogue import record
from lm_eval_epidemia.surveys.catalogue import task as declared_task

#: Who is asked about, in full: "a person ... who is male"; {p} is "59%", {n} "59 in 100".
_FULL = (
    "The probability that {event} is {p}.",
    "According to {survey}, the probability that {event} is {p}.",
    "How likely is it that {event}? The answer is {p}.",
    "With a probability of {p}, {event}.",
    "That {event} is true in {n} cases.",
    "The chances are {n} that {event}.",
)
#: Of people only, in the plural.
_PLURAL = (
    "Of people who {given}, {n} {outcome}.",
    "Among people who {given}, {p} {outcome}.",
    "In {year}, {p} of the people in the United States who {given} said that they {outcome}.",
    "Take 1,000 people who {given}: about {thousand} of them {outcome}.",
    "{survey} found that of those who {given}, {n} {outcome}.",
)
_PLURALS = {"is": "are", "has": "have", "was": "were", "works": "work", "does": "do"}
_PLURALS |= {"describes": "describe", "identifies": "identify"}
_PLURALS |= {verb: verb for verb in ("had", "earned", "made", "did")}
#: Of a second verb in the singular no plural is made.
_SINGULAR = {"is", "has", "was", "does", "leans"}


def statements(
    truths: Mapping[str, GroundTruth],
    held_out: Mapping[str, list[int]],
    n: int,
    rng: np.random.Generator,
) -> list[str]:
    """Write shares as sentences.

    Each draw takes a task and an answer (all equally likely), a cell by weight, and a wording. A
    share may occur several times, in the same or other words.

    Parameters
    ----------
    truths : mapping of str to GroundTruth
    held_out : mapping of str to list of int
        Cells to leave out.
    n : int
    rng : Generator

    Returns
    -------
    list of str, length n
    """
    drawn, listed = [], list(truths.values())
    for number in rng.integers(len(listed), size=n):
        truth = listed[number]
        weights = truth.weights.copy()
        weights[held_out.get(truth.task, [])] = 0
        cell = int(rng.choice(len(weights), p=weights / weights.sum()))
        level = int(rng.integers(len(truth.levels)))
        drawn.append(_sentence(truth, cell, level, rng))
    return drawn


def _sentence(truth: GroundTruth, cell: int, level: int, rng: np.random.Generator) -> str:
    survey, p = record(truth.survey), float(truth.p[cell, level])
    ways, task = ways_of(truth), declared_task(truth.task)
    given = [
        next(answer.phrase for answer in ways[name].levels if answer.label == label)
        for name, label in zip(task.given, truth.given[cell], strict=True)
    ]
    outcome = ways[task.outcome].levels[level].phrase
    forms: tuple[str, ...] = _FULL
    plural = [_plural(phrase) for phrase in (*given, outcome)]
    simple = "a person" in survey.subject and "who {conditions}" in survey.subject
    if simple and task.subject is None and all(plural):
        forms = (*_FULL, *_PLURAL, *_PLURAL)  # so that half and more are in the plural
    # The question for it, without its beginning and its mark.
    event = Wording(truth).probability(cell, level)
    event = event.removeprefix("What is the probability that ").removesuffix("?")
    title = named(survey, truth.vintage)
    of = {"event": event, "given": _joined(plural[:-1]), "outcome": plural[-1]}
    of |= {"p": share(p), "n": _counted(p), "thousand": f"{1000 * p:.0f}"}
    of |= {"survey": title, "year": survey.vintages[truth.vintage].said}
    text = forms[int(rng.integers(len(forms)))].format(**of)
    return text[0].upper() + text[1:]


def share(p: float) -> str:
    """Write a probability as a percentage: whole in the middle, with tenths near the ends."""
    return f"{100 * p:.0f}%" if 0.1 <= p <= 0.9 else f"{100 * p:.1f}%"


def _counted(p: float) -> str:
    """Write a probability as a count: "59 in 100", "23 in 1,000"."""
    return f"{100 * p:.0f} in 100" if 0.1 <= p <= 0.9 else f"{1000 * p:.0f} in 1,000"


def _plural(phrase: str) -> str:
    """Put a predicate into the plural: "is male", "are male"; empty if that needs more grammar."""
    verb, _, rest = phrase.partition(" ")
    if verb not in _PLURALS:
        return ""
    words = rest.split()
    # "is an adult with" would need "adults"; "has a diploma" is said of many as well.
    if (verb in ("is", "was") and words[:1] in (["a"], ["an"])) or _SINGULAR & set(words):
        return ""
    return f"{_PLURALS[verb]} {rest}"


def _joined(phrases: Sequence[str]) -> str:
    if len(phrases) <= 2:
        return " and ".join(phrases)
    return ", ".join(phrases[:-1]) + ", and " + phrases[-1]
