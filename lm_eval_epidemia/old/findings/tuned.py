"""Find the runs of tuned models, and the runs of their bases."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.results.card import TUNED_CARD, Tuned, read_tuned
from lm_eval_epidemia.results.entry import Entry, closest
from lm_eval_epidemia.results.naming import HASHES
from lm_eval_epidemia.results.protocol import printable


class TunedRun(NamedTuple):
    """A run of a tuned model.

    Attributes
    ----------
    entry : Entry
    base : Entry or None
        The run of its base, asked in the same way; None without one.
    card : Tuned or None
        Its card; None for an adapter without a card.
    folder : Path or None
        The folder of the card and the losses; None for a card in a record.
    """

    entry: Entry
    base: Entry | None
    card: Tuned | None = None
    folder: Path | None = None


def pair_in(text: str, models: Collection[str]) -> tuple[str, str]:
    """Read two models from ``PLAIN=RETRIEVING``; a name may contain a = itself.

    Parameters
    ----------
    text : str
    models : collection of str
        The known names.

    Raises
    ------
    EpidemiaError
        If no = separates two known names, or several do.
    """
    split = [(text[:at], text[at + 1 :]) for at, sign in enumerate(text) if sign == "="]
    possible = [names for names in split if all(names)]
    if not possible:
        raise EpidemiaError(
            f"--pair {text!r}: expected PLAIN=RETRIEVING (or BASE=INSTRUCT, BASE=TUNED)"
        )
    fitting = [names for names in possible if set(names) <= set(models)]
    # Of a single = the one who looks the models up says which is not there.
    if len(fitting) != 1 and len(possible) > 1:
        what = "is ambiguous" if fitting else "does not name two of the models"
        raise EpidemiaError(f"--pair {text!r} {what}; the models are {', '.join(sorted(models))}")
    return (fitting or possible)[0]


#: Settings that a model has of its own: a tuned one may well differ from its base.
OWN = ("chat_template", *HASHES)

#: How `_alike` calls weights that are not the same.
OTHER = 3


class _Found(NamedTuple):
    card: Tuned
    folder: Path | None


def tuned_runs(
    runs: Sequence[Entry], folders: Sequence[Path], given: Sequence[tuple[str, str]] = ()
) -> tuple[list[TunedRun], list[str]]:
    """Find the tuned models among runs, and the base of each.

    A run belongs to a tuned model if it has an adapter, or if there is a card in its record, in the
    folder of its adapter or weights, or beside or above its result file (within the folders read).
    Its base is the one on its card or, without a card, the same weights without the adapter.

    Parameters
    ----------
    runs : sequence of Entry
    folders : sequence of Path
        The folders read for results.
    given : sequence of (str, str), optional
        Base and tuned model, by name, if nothing else identifies them. Pairs without a tuned model
        are ignored.

    Returns
    -------
    tuned_ : list of TunedRun
        In the order of the runs.
    notes : list of str
        Unreadable cards, and bases that are not among the runs.
    """
    notes: dict[str, None] = {}
    cards = {entry.name: _card_of(entry, runs, folders, notes) for entry in runs}
    bases = {tuned: base for base, tuned in given}
    tuned_ = []
    for entry in runs:
        card = cards[entry.name]
        if card is None and not entry.weights.adapter:
            continue
        base = _base_of(entry, card.card if card else None, runs, bases.get(entry.model), notes)
        tuned_.append(TunedRun(entry, base, *(card or ())))
    return tuned_, [printable(note) for note in notes]


def _card_of(
    entry: Entry, runs: Sequence[Entry], folders: Sequence[Path], notes: dict[str, None]
) -> _Found | None:
    """Return the card of an entry; None if it is not a tuned model or has no card."""
    if entry.card is not None:
        return _Found(entry.card, None)
    own = Path(entry.weights.adapter or entry.weights.model)
    if (read := _read(own, notes)) is not None:
        return read
    for place in _above(entry, folders):
        if (read := _read(place, notes)) is None:
            continue
        # One card may lie above the results of its base, too, and of other models.
        others = [
            run
            for run in runs
            if place in _above(run, folders)
            and _can_be(run, read.card)
            and run.weights != entry.weights
            and not _is_nearer(run, place, folders)
        ]
        if not _can_be(entry, read.card):
            return None
        if others:
            names = sorted({entry.model, *(run.model for run in others)})
            notes[
                f"{place / TUNED_CARD} could belong to {few(names)}, so it is ignored: copy it "
                "(and losses.csv) into the folder with that model's results only"
            ] = None
            return None
        return read
    return None


def _has_card(folder: Path) -> bool:
    # Unlike Path's, False of what no folder can be called.
    return os.path.isfile(folder / TUNED_CARD)  # noqa: PTH113


def _read(folder: Path, notes: dict[str, None]) -> _Found | None:
    """Read the card in a folder; add a note if it is unreadable."""
    if not _has_card(folder):
        return None
    try:
        return _Found(read_tuned(folder), folder)
    except (EpidemiaError, ValueError, RecursionError) as error:
        where = "" if isinstance(error, EpidemiaError) else f"{folder / TUNED_CARD}: "
        notes[
            f"ignored the card of a tuned model: {where}{error}; copy it again from the folder "
            "that 'epidemia finetune train' wrote"
        ] = None
        return None


def _above(entry: Entry, folders: Sequence[Path]) -> list[Path]:
    """Return the folders of an entry's results, the nearest first, up to the folders read."""
    places: dict[Path, None] = {}
    for source in dict.fromkeys(score.source for score in entry.scores.values()):
        here = source.parent
        roots = [
            root if root.is_dir() else root.parent
            for root in folders
            if source == root or source.is_relative_to(root)
        ]
        for place in (here, *here.parents):
            if any(place.is_relative_to(root) for root in roots):
                places[place] = None
    return sorted(places, key=lambda place: -len(place.parts))


def _is_nearer(entry: Entry, place: Path, folders: Sequence[Path]) -> bool:
    """Whether an entry has its own card, so that one in a folder above is not its card."""
    if entry.card is not None:
        return True
    own = [Path(entry.weights.adapter or entry.weights.model), *_above(entry, folders)]
    first = next((p for p in own if _has_card(p)), place)
    return first != place


def _can_be(entry: Entry, card: Tuned) -> bool:
    """Whether a card beside results can belong to an entry: not if the entry is its base."""
    if entry.weights.adapter:
        return card.how == "lora"
    return _alike(entry.weights.model, card.base) == OTHER


def _alike(first: str, other: str) -> int:
    """Rate how two names of weights agree: 0 as text, 1 as folder, 2 in the last part.

    `OTHER` if they do not.
    """
    if first.rstrip("/") == other.rstrip("/"):
        return 0
    if os.path.realpath(first) == os.path.realpath(other):
        return 1
    return 2 if Path(first).name == Path(other).name else OTHER


def _base_of(
    entry: Entry,
    card: Tuned | None,
    runs: Sequence[Entry],
    given: str | None,
    notes: dict[str, None],
) -> Entry | None:
    """Return the run of an entry's base, asked in the same way."""
    weights = entry.weights
    plain = [r for r in runs if r is not entry and r.weights != weights and not r.weights.adapter]
    names = [given] if given else []
    if given is not None:
        named = [r for r in runs if r.model == given]
    else:
        names = [card.base] if card else []
        if weights.adapter:
            # What lm-eval loaded says it as well as the card, and where they differ it counts.
            on_another = card is not None and _alike(card.base, weights.model) == OTHER
            names = [weights.model] if on_another else [*names, weights.model]
            if card is not None and on_another:
                notes[
                    f"{entry.name}: its adapter was tuned from {card.base} but runs on "
                    f"{weights.model}. Unless both have the same weights, training does not "
                    "explain the whole difference"
                ] = None
        plain = [r for r in plain if not weights.adapter or r.weights.more == weights.more]
        named = _nearest(names, plain)
    if len({r.weights for r in named}) > 1:
        listed = few(sorted({r.weights.name for r in named}))
        notes[
            f"{entry.name} was tuned from {names[0]}, which could be {listed}: name it with "
            f"--pair BASE={entry.model}"
        ] = None
        return None
    if alike := [r for r in named if _asked_as(r) == _asked_as(entry)]:
        base = closest(alike, entry)[0]
        before, after = (dict((*r.settings, *r.details)) for r in (base, entry))
        if other := [
            key
            for key in {**before, **after}
            if key not in OWN and before.get(key) != after.get(key)
        ]:
            which = [f"{key}={run.get(key, 'none')}" for run in (after, before) for key in other]
            notes[
                f"{entry.name} and its base {base.name} were run with different settings "
                f"({', '.join(which)}), so training does not explain the whole difference"
            ] = None
        return base
    named_base = given or (names[0] if names else weights.model)
    why = (
        "was not asked in the same way (chat template, prompts, limit): run it like this one"
        if named
        else (
            f"is not among the results: add its results, or name it with --pair BASE={entry.model}"
        )
    )
    notes[f"{entry.name} was tuned from {named_base}, which {why}"] = None
    return None


def _asked_as(entry: Entry) -> tuple[object, bool]:
    return entry.protocol, entry.chat


def _nearest(names: Sequence[str], runs: Sequence[Entry]) -> list[Entry]:
    """Return the runs whose weights match one of the names most exactly."""
    ranks = [
        min((_alike(run.weights.model, name) for name in names), default=OTHER) for run in runs
    ]
    best = min(ranks, default=OTHER)
    return [run for run, rank in zip(runs, ranks, strict=True) if rank == best < OTHER]
