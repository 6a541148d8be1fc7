"""Join result files into runs: a run is identified by its settings and has one row."""

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
    """The part of a result file that belongs to one run.

    Attributes
    ----------
    path : Path
    entry : Entry
        With our scores, or with other tasks alone.
    """

    path: Path
    entry: Entry


def _run_as(entry: Entry) -> Identity:
    """Return the model and how it was run, without how it was asked."""
    return frozenset([("weights", entry.weights), ("chat", entry.chat), *entry.settings])


def _asked_as(entry: Entry) -> Identity:
    return _run_as(entry) | {("protocol", entry.protocol), *entry.details}


def rows_of(pieces: Sequence[Piece]) -> tuple[list[Entry], list[str]]:
    """Join the pieces of each run: rows have different settings, and each row has one setting.

    Tasks that a setting does not affect, and files that lack it, join the only run that agrees in
    all other settings. If several runs agree, they get their own row. If a task was asked twice
    with the same settings, the newest result counts.

    Parameters
    ----------
    pieces : sequence of Piece
        The oldest first.

    Returns
    -------
    rows : list of Entry
        With distinct names.
    notes : list of str
        What is left out, and what has its own row.
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
    """Add other tasks to the rows of their models; return rows for the rest, and repetitions.

    Other tasks in a file with our tasks belong to the rows of these. Tasks run separately belong to
    the rows with the same model, chat template and dtype, whatever their way of asking, if these
    rows agree in how the model was run; else to the rows run in exactly the same way.
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
    """Give models short names, and rows the settings in which rows of one model differ."""
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
