"""Which result files are of one run: a run is known by its settings, and each has a row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lm_eval_epidemia.core.errors import few, plural
from lm_eval_epidemia.results.entry import Entry
from lm_eval_epidemia.results.naming import MAYBE, short_names
from lm_eval_epidemia.results.protocol import printable

#: Settings that tell runs apart, with their values.
Identity = frozenset[tuple[str, Hashable]]


class Piece(NamedTuple):
    """What a result file holds of one run.

    Attributes
    ----------
    path : Path
    entry : Entry
        With scores of ours, or with other tasks alone.
    """

    path: Path
    entry: Entry


def _run_as(entry: Entry) -> Identity:
    """Return the model and how it was run, whatever it was asked."""
    return frozenset([("weights", entry.weights), ("chat", entry.chat), *entry.settings])


def _asked_as(entry: Entry) -> Identity:
    return _run_as(entry) | {("protocol", entry.protocol), *entry.details}


def rows_of(pieces: Sequence[Piece]) -> tuple[list[Entry], list[str]]:
    """Put together what is of one run: no two rows have the same settings, no row has two.

    Tasks that do not heed a setting, or a file that lacks it, join the only run that agrees in all
    the others; where there are several, nobody knows which, and they are a row of their own. Of a
    task that was asked twice with the same settings the newest result counts.

    Parameters
    ----------
    pieces : sequence of Piece
        The oldest first.

    Returns
    -------
    rows : list of Entry
        With names that tell them apart.
    notes : list of str
        What is left out, and what stands in a row of its own.
    """
    rows: dict[Identity, Entry] = {}
    for _, entry in (piece for piece in pieces if piece.entry.scores):
        identity = _asked_as(entry)
        row = rows.setdefault(identity, replace(entry, scores={}, others={}))
        row.parameters = entry.parameters or row.parameters
        row.date = entry.date  # the newest comes last
        row.card = row.card or entry.card
        row.older += tuple((a, row.scores[a]) for a in entry.scores if a in row.scores)
        row.scores |= entry.scores
    joined = dict(rows)
    for identity in sorted(rows, key=len, reverse=True):
        fitting = [row for row in rows if identity < row]
        if len(fitting) == 1 and not rows[identity].scores.keys() & rows[fitting[0]].scores.keys():
            part, row = rows.pop(identity), rows[fitting[0]]
            row.scores |= part.scores
            row.variant = row.variant or part.variant
            row.parameters = row.parameters or part.parameters
            row.date = max(row.date, part.date)
            row.card = row.card or part.card
            row.older += part.older
            joined[identity] = row
    beside: dict[Path, dict[Entry, None]] = defaultdict(dict)
    for path, entry in pieces:
        if entry.scores:
            beside[path][joined[_asked_as(entry)]] = None
    entries = list(rows.values())
    alone, twice = _with_others(entries, pieces, beside)
    entries += alone
    _named(entries)
    notes = [_said_older(row) for row in entries if row.older]
    notes += [
        (
            f"{entry.name}: {few(list(entry.others))} cannot be assigned to another row of this "
            "model, so it has its own row"
        )
        for entry in alone
        if any(entry.weights == row.weights for row in rows.values())
    ]
    notes += [
        (
            f"{row.name}: {label} is in {len(paths) + 1} result files; the newest counts, not "
            f"{_older(paths)}"
        )
        for row, label, paths in twice
    ]
    return entries, notes


def _older(paths: Iterable[Path]) -> str:
    named = sorted({str(path) for path in paths})
    return f"{plural(len(named), 'older file')} ({few(named)})"


def _said_older(row: Entry) -> str:
    tasks = plural(len({asked for asked, _ in row.older}), "task")
    return (
        f"{row.name}: {tasks} asked more than once with the same settings; the newest result "
        f"of each counts, not those in {_older(score.source for _, score in row.older)}"
    )


def _with_others(
    rows: Sequence[Entry], pieces: Sequence[Piece], beside: Mapping[Path, Iterable[Entry]]
) -> tuple[list[Entry], list[tuple[Entry, str, list[Path]]]]:
    """Give rows the other tasks of their models; return rows of what is of none, and repetitions.

    What is in a file with tasks of ours is of their rows. What was run by itself is of those rows
    whose model, chat template and dtype are the same, in whatever way they were asked ours, where
    these rows do not differ in how the model was run, or of those run just so.
    """
    alone: dict[Identity, Entry] = {}
    sources: dict[tuple[Entry, str], list[Path]] = defaultdict(list)
    for path, entry in (piece for piece in pieces if piece.entry.others):
        alike = [row for row in rows if _same_model(row, entry)]
        if len({_run_as(row) for row in alike}) > 1:
            alike = [row for row in alike if _run_as(row) == _run_as(entry)]
        belongs_to = beside.get(path) or alike
        for row in belongs_to or [alone.setdefault(_run_as(entry), replace(entry, others={}))]:
            row.others |= entry.others
            for label in entry.others:
                sources[row, label].append(path)
    return list(alone.values()), [
        (row, label, paths[:-1]) for (row, label), paths in sources.items() if paths[1:]
    ]


def _same_model(row: Entry, entry: Entry) -> bool:
    if (row.weights, row.chat) != (entry.weights, entry.chat):
        return False
    return dict(row.settings).get("dtype") == dict(entry.settings).get("dtype")


def _named(rows: Sequence[Entry]) -> None:
    """Name models shortly, and their rows by the settings in which rows of one model differ."""
    short = short_names({row.weights for row in rows})
    names: Counter[str] = Counter()
    for row in rows:
        row.model = printable(short[row.weights])
        settings = [dict((*r.settings, *r.details)) for r in rows if r.weights == row.weights]
        row.shown = tuple(
            (key, value[:8] if key in MAYBE else value)
            for key, value in (*row.settings, *row.details)
            if len({own.get(key, "") for own in settings if key in own or key not in MAYBE}) > 1
        )
    for row in rows:
        names[row.name] += 1
        row.twin = names[row.name] - 1
