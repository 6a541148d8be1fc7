"""Search for tasks, groups and surveys by words."""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from lm_eval_epidemia.benchmarks import BENCHMARKS, list_groups, list_leaves, list_unions
from lm_eval_epidemia.benchmarks.prior.quantities import store as quantities
from lm_eval_epidemia.core.errors import words_of
from lm_eval_epidemia.surveys.catalogue import all_tasks, find_record, records

#: Words that say nothing of what is asked.
EMPTY = frozenset(
    words_of(
        "a an and are by do does ever for from has have how in is it many much of on or people "
        "person share that the their they to was what which who with"
    )
)
#: Two words are taken for one from here on,
ALIKE = 0.8
#: and from here on if so many of their first letters are the same: smoking, smoked.
AKIN, STEM = 0.6, 4
#: Of the weight of the words that are looked for, the share that the best must have in its text,
LEAST = 0.5
#: and the share of the best's weight that others must have.
NEARLY = 0.6

#: What a word counts in a name or title, as a condition, and in the text of a question or source.
IN_NAME, IN_CONDITION, IN_TEXT = 1.0, 0.8, 0.6


class Entry(NamedTuple):
    """Something that can be found.

    Attributes
    ----------
    name : str
        The name for `epidemia show`.
    says : str
        A short description.
    text : mapping of str to float
        Its words, and the weight of each.
    """

    name: str
    says: str
    text: dict[str, float]


def _entry(name: str, says: str, conditions: Iterable[str] = (), text: Iterable[str] = ()) -> Entry:
    """Collect the words of an entry; one that occurs twice counts what it counts most."""
    words: dict[str, float] = {}
    for weight, texts in ((IN_TEXT, text), (IN_CONDITION, conditions), (IN_NAME, (name, says))):
        words |= dict.fromkeys((word for each in texts for word in words_of(each)), weight)
    return Entry(name, says, words)


def entries() -> Iterator[Entry]:
    """Yield everything that can be found: tasks in the plain way, groups in all ways, surveys."""
    declared, sets = all_tasks(), quantities.list_available()
    for benchmark in BENCHMARKS.values():
        for name, entry in benchmark.entries().items():
            if (task := declared.get(name)) is None:
                asked = quantities.load_quantities(name).quantities if name in sets else ()
                text = [benchmark.says, *(each.wording for each in asked)]
                yield _entry(name, entry.title, text=text)
                continue
            survey = find_record(task.survey)
            text = [way.question or "" for way in survey.variables[task.outcome]]
            for variable in (task.outcome, *task.given):
                levels = [level for way in survey.variables[variable] for level in way.levels]
                text += [said for level in levels for said in (level.label, level.phrase)]
            about = (survey.title, survey.publisher, entry.part, survey.domain)
            yield _entry(name, entry.title, task.given, [*text, *about])
    sizes = Counter(
        group
        for leaf in list_leaves().values()
        if leaf.benchmark.ways[leaf.way].asks(leaf.entry.declared)
        for group in leaf.groups
    )
    sizes |= {name: len(tasks) for name, tasks in list_unions().items()}
    for name, tasks in sizes.items():
        says = list_groups()[name].says if name in list_groups() else ""
        yield _entry(name, f"group of {tasks} task{'s' if tasks > 1 else ''}", text=[says])
    for name, survey in records().items():
        about_it = (survey.publisher, survey.domain, survey.people)
        yield _entry(name, f"survey: {survey.title}", survey.variables, about_it)


@lru_cache(maxsize=100_000)
def _alike(word: str, other: str) -> float:
    """Return how alike two words or names are, from 0 to 1; a prefix of a word scores high."""
    if len(word) >= 4 and other.startswith(word):
        return max(0.9, len(word) / len(other))
    return difflib.SequenceMatcher(None, word, other).ratio()


def _meant(word: str, known: Iterable[str]) -> dict[str, float]:
    """Return the known words that a word may mean, and how alike each is to it, from 0 to 1."""
    known = set(known)
    if word in known:
        begun = {other for other in known if len(word) >= STEM and other.startswith(word)}
        return {other: _alike(word, other) for other in {word, *begun}}
    near = {}
    for other in known:
        likeness = _alike(word, other)
        is_akin = word[:STEM] == other[:STEM] and likeness >= AKIN
        # A misspelt word usually begins correctly: wealth is not health.
        if word[0] == other[0] and (likeness >= ALIKE or is_akin):
            near[other] = likeness
    return near


def search(words: str) -> list[Entry]:
    """Return the entries nearest to some words, best first; empty if none is near.

    Parameters
    ----------
    words : str
        Looked up in names, titles, outcomes, conditions, questions, answers and surveys. Rare words
        count more than common ones; order does not matter.

    Returns
    -------
    list of Entry
    """
    known = list(entries())
    common = Counter(word for entry in known for word in entry.text)
    asked = dict.fromkeys(words_of(words))
    meant = {word: _meant(word, common) for word in asked.keys() - EMPTY or asked}
    weights = {
        word: math.log(1 + len(known) / max((common[other] for other in near), default=1))
        for word, near in meant.items()
    }

    def closeness(entry: Entry) -> float:
        shares = (
            weights[word] * max((near[o] * entry.text.get(o, 0.0) for o in near), default=0.0)
            for word, near in meant.items()
        )
        return math.fsum(shares)

    scored = [(closeness(entry), entry) for entry in known]
    best = max((score for score, _ in scored), default=0.0)
    if best < LEAST * IN_TEXT * sum(weights.values()):
        return []
    close = [(score, entry) for score, entry in scored if score >= NEARLY * best > 0]
    # Of what has the same words the shortest name says the least beside them.
    close.sort(key=lambda pair: (-pair[0], len(pair[1].name), pair[1].name))
    return [entry for _, entry in close]
