"""Pairs of versions of a model, found by name or given."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.old.findings.means import shared_tasks
from lm_eval_epidemia.results.entry import Entry, closest
from lm_eval_epidemia.results.protocol import printable

#: Words in a model's name that say it was tuned to follow instructions, and that it was not.
TUNED, PLAIN = {"instruct", "it", "chat"}, {"base", "pt", "hf"}

#: Models and what became of them, by name; of one model there may be several in a sequence.
Pairs = Mapping[str, str] | Sequence[tuple[str, str]]


def _listed(given: Pairs | None) -> list[tuple[str, str]]:
    return list(given.items() if isinstance(given, Mapping) else given or ())


def pairs_of_names(given: Pairs | None, entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """Return the given pairs in order, if all their models exist.

    Raises
    ------
    EpidemiaError
        If a pair names an unknown model, or one model twice.
    """
    pairs, models = _listed(given), {entry.model for entry in entries}
    if unknown := {name for pair in pairs for name in pair} - models:
        raise EpidemiaError(
            f"no model {min(unknown)!r} to pair: expected {', '.join(sorted(models))}"
        )
    if twice := [base for base, other in pairs if base == other]:
        raise EpidemiaError(f"{twice[0]!r} cannot be paired with itself: give two models")
    return pairs


def pairs_of_versions(
    entries: Sequence[Entry], given: Pairs | None = None
) -> list[tuple[Entry, Entry]]:
    """Find base models and their instruct versions, by their names.

    "Llama-3.1-8B" and "Llama-3.1-8B-Instruct" are a pair, as are "gemma-2-9b" and "gemma-2-9b-it".

    Parameters
    ----------
    entries : sequence of Entry
        Of one protocol.
    given : mapping of str to str or sequence of (str, str), optional
        Instruct versions by base model, for names that do not show it.
    """
    stems: dict[tuple[str, ...], list[Entry]] = defaultdict(list)
    tuned = []
    for entry in entries:
        words = [word for word in re.split(r"[-_\s]+", entry.model.lower()) if word]
        stem = tuple(word for word in words if word not in TUNED | PLAIN)
        if TUNED & set(words):
            tuned.append((stem, entry))
        else:
            stems[stem].append(entry)
    bases = [(stems.get(stem, []), entry) for stem, entry in tuned]
    for base, instruct in _listed(given):
        plain = [entry for entry in entries if entry.model == base]
        bases += [(plain, entry) for entry in entries if entry.model == instruct]
    pairs = [(base, other) for plain, other in bases for base in closest(plain, other)]
    # What names tell may be given too, and more than once.
    return list({(base.name, other.name): (base, other) for base, other in pairs}.values())


def compare_nothing(
    given: Iterable[tuple[str, str]], paired: Iterable[tuple[Entry, Entry]], groups: Sequence[str]
) -> list[str]:
    """Say which given pairs have no common task."""
    compared = {
        (first.model, other.model)
        for first, other in paired
        if any(shared_tasks([first, other], group) for group in groups)
    }
    return [
        printable(
            f"--pair {base}={other} compares nothing: no task has scores of both, asked in the "
            "same way. Run both on the same tasks, with the same --metadata and --limit"
        )
        for base, other in dict.fromkeys(given)
        if (base, other) not in compared
    ]
