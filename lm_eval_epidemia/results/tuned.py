"""Find the runs of tuned models, their training cards, and the runs of their bases."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from lm_eval_epidemia.ask.variants import Variant
from lm_eval_epidemia.core.errors import EpidemiaError, few
from lm_eval_epidemia.results.card import TUNED_CARD, Tuned, read_card
from lm_eval_epidemia.results.choose import KEY, find_closest, settings_of_runs
from lm_eval_epidemia.results.decode import to_printable
from lm_eval_epidemia.results.naming import HASHES, Weights
from lm_eval_epidemia.results.read import Results

#: Settings that a model has of its own: a tuned one may well differ from its base.
OWN = ("model", "date", "template", "revision", *HASHES)

#: Settings that scores agree in if they are compared.
COMPARED = ("limit", "task_version", "truth", "num_fewshot", "system", *Variant._fields)

#: How `_rate_likeness` calls weights that are not the same.
OTHER = 3

#: The name of a run, or nothing, and what is to be said of it.
Notes = list[tuple[str, str]]

#: A card and its folder; None of either that is not known.
Found = tuple[Tuned | None, Path | None]


def add_cards(results: Results, given: Sequence[tuple[str, str]] = ()) -> Results:
    """Say of runs how they were tuned, and which run is that of the base.

    A run is of a tuned model if it has an adapter, or if there is a card in the folder of its
    adapter or weights, or beside or above its result files (within the folders read). Its base is
    the one on its card or, without a card, the same weights without the adapter, asked in the same
    way.

    Parameters
    ----------
    results : Results
    given : sequence of (str, str), optional
        Base and tuned model, by name, if nothing else tells. Pairs without a tuned model are
        ignored.

    Returns
    -------
    Results
        With notes, and columns of runs: ``card`` (Tuned or None), ``card_folder`` (Path or
        None), ``base`` (number of the base's run, NaN without one). A tuned run is no
        version of a model: its ``bases`` are empty.
    """
    runs, notes = results.runs, Notes()
    found, by_hand = _cards(results, notes), {version: base for base, version in given}
    asked = _list_asked(results)
    bases = {
        run: _base_of(run, card, results, asked, by_hand.get(runs["model"][run]), notes)
        for run, (card, _) in found.items()
        if card or runs["weights"][run].adapter
    }
    versions: Any = runs.get("bases", dict.fromkeys(runs.index, ()))
    columns: dict[str, Any] = {
        "card": [card for card, _ in found.values()],
        "card_folder": [folder for _, folder in found.values()],
        "base": pd.Series(bases, runs.index, dtype=float),
        "bases": [() if run in bases else versions[run] for run in runs.index],
    }
    more = [(run, "tuned", to_printable(text)) for run, text in dict.fromkeys(notes)]
    told = pd.DataFrame(more, columns=["run", "kind", "text"])
    notes_of = pd.concat([results.notes, told], ignore_index=True)
    return results._replace(runs=runs.assign(**columns), notes=notes_of)


def _cards(results: Results, notes: Notes) -> dict[int, Found]:
    """Return the card of each run, with its folder; add notes on those that do not count."""
    runs, weights = results.runs, results.runs["weights"]
    paths = results.files.groupby("run")["path"].agg(list)
    own = {run: Path(of.adapter or of.model) for run, of in weights.items()}
    # Unlike Path's, isfile is False of what no folder can be called.
    near = {
        run: [
            place
            for place in (own[run], *_above(paths.get(run, ()), results.folders))
            if os.path.isfile(place / TUNED_CARD)  # noqa: PTH113
        ]
        for run in own
    }
    found: dict[int, Found] = dict.fromkeys(runs.index, (None, None))
    for run in runs.index:
        for place in near[run]:
            try:
                card = read_card(place, Tuned)
            except EpidemiaError as error:
                text = f"ignored the card of a tuned model in {place}: {error}; copy it again from"
                notes.append(("", f"{text} the folder that 'epidemia finetune train' wrote"))
                continue
            # One card may lie above the results of its base, too, and of other models.
            others = {
                runs["model"][other]
                for other in runs.index
                if near[other][:1] == [place]
                and weights[other] != weights[run]
                and _can_be(weights[other], card)
            }
            can_be = place == own[run] or _can_be(weights[run], card)
            if can_be and (place == own[run] or not others):
                found[run] = card, place
            elif can_be:
                names = few(sorted({runs["model"][run], *others}))
                text = f"{place / TUNED_CARD} could belong to {names}, so it is ignored: copy it"
                text += " (and losses.csv) into the folder with that model's results only"
                notes.append(("", text))
            break
    return found


def _above(paths: Iterable[Path], folders: Iterable[Path]) -> list[Path]:
    """Return the folders of a run's files, the nearest first, up to the folders read."""
    roots = [root if root.is_dir() else root.parent for root in folders]
    every = {place for path in paths for place in path.parents}
    places = [place for place in every if any(place.is_relative_to(root) for root in roots)]
    return sorted(places, key=lambda place: (-len(place.parts), place))


def _can_be(weights: Weights, card: Tuned) -> bool:
    """Whether a card beside results can be that of these weights: not if they are its base."""
    if weights.adapter:
        return card.how == "lora"
    return _rate_likeness(weights.model, card.base) == OTHER


def _rate_likeness(first: str, other: str) -> int:
    """Rate how two names of weights agree: 0 as text, 1 as folder, 2 in the last part.

    `OTHER` if they do not.
    """
    if first.rstrip("/") == other.rstrip("/"):
        return 0
    if os.path.realpath(first) == os.path.realpath(other):
        return 1
    return 2 if Path(first).name == Path(other).name else OTHER


def _base_of(
    run: int,
    card: Tuned | None,
    results: Results,
    asked: Mapping[int, set[Any]],
    given: str | None,
    notes: Notes,
) -> float | None:
    """Return the run of a tuned run's base, asked in the same way."""
    runs, name, model = results.runs, results.runs["name"][run], results.runs["model"][run]
    weights, own = runs["weights"], runs["weights"][run]
    without = "training does not explain the whole difference"
    # What lm-eval loaded says it as well as the card, and where they differ it counts.
    names = [*([card.base] if card else []), *([own.model] if own.adapter else [])]
    if given:
        names, named = [given], [*runs.index[runs["model"] == given]]
    else:
        if card and own.adapter and _rate_likeness(*names) == OTHER:
            names = [own.model]
            text = f"its adapter was tuned from {card.base} but runs on {own.model}: unless both"
            notes.append((name, f"{text} have the same weights, {without}"))
        ranks = {
            other: min(_rate_likeness(of.model, base) for base in names)
            for other, of in weights.items()
            if of != own and not of.adapter and (not own.adapter or of.more == own.more)
        }
        best = min(ranks.values(), default=OTHER)
        named = [other for other, rank in ranks.items() if rank == best < OTHER]
    by_hand = f"name it with --pair BASE={model}"
    if len(several := {weights[other].name for other in named}) > 1:
        why = f"could be {few(sorted(several))}: {by_hand}"
    elif alike := [other for other in named if asked[run] & asked[other]]:
        base = find_closest(runs, run, alike)[0]
        settings = settings_of_runs(runs).drop(columns=[*OWN, *COMPARED], errors="ignore")
        both = settings.loc[[run, base]].items()
        apart = [f"{key} {mine} and {theirs}" for key, (mine, theirs) in both if mine != theirs]
        if apart:
            text = f"it and its base {runs['name'][base]} were run with different settings"
            notes.append((name, f"{text} ({', '.join(apart)}), so {without}"))
        return base
    elif named:
        why = "was not asked in the same way (chat template, prompts, limit): run it like this one"
    else:
        why = f"is not among the results: add its results, or {by_hand}"
    notes.append((name, f"it was tuned from {names[0]}, which {why}"))
    return None


def _list_asked(results: Results) -> dict[int, set[Any]]:
    """Return what each run has a score in, and how it was asked; a chat template is part of it."""
    chat = results.runs.get("chat_template", pd.Series("", results.runs.index))
    known = results.scores[results.scores["value"].notna()]
    known = known.assign(chat=known["run"].map(chat))
    asked: dict[int, set[Any]] = {run: set() for run in results.runs.index}
    for run, *what in known[["run", *KEY, "chat"]].itertuples(index=False):
        asked[run].add((*what,))
    return asked
