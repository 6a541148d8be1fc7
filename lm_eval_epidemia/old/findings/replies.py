"""Models' replies, and the answers read from them: the first thing to check if a model scores 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from lm_eval_epidemia.benchmarks import WAYS, in_way
from lm_eval_epidemia.benchmarks.prior.quantities.families import FAMILIES
from lm_eval_epidemia.results.documents import decoded
from lm_eval_epidemia.results.entry import Asked, Entry
from lm_eval_epidemia.results.protocol import printable
from lm_eval_epidemia.results.samples import NOT_A_SAMPLE, sample_file

#: How many replies of a run are kept: as many as could not be read, and of those that could be.
UNREAD, READ = 60, 30

#: Longer texts are cut, in characters.
LONGEST = 900


class Reply(NamedTuple):
    """A reply of a model.

    Attributes
    ----------
    task : str
        As lm-eval names it.
    prompt, reply : str
        As in the sample file, cut to `LONGEST`.
    value : str
        The answer read from it, in words; empty if unreadable.
    """

    task: str
    prompt: str
    reply: str
    value: str


class Replies(NamedTuple):
    """The replies of a run.

    Attributes
    ----------
    number, unread : int
        Number of replies, and of unreadable ones.
    shown : list of Reply
        Some of them, unreadable ones first.
    """

    number: int
    unread: int
    shown: list[Reply]


class _Line(msgspec.Struct):
    doc: dict[str, Any]
    filtered_resps: list[Any]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def in_words(answer: Any, doc: dict[str, Any]) -> str:
    """Return the answer read from a reply, in words; empty if unreadable."""
    if not answer.is_read:
        return ""
    value, choices = answer.value, [str(choice) for choice in doc.get("choices", ())]
    if "family" in doc:
        family, a, b = value
        return f"{FAMILIES[int(family)]} {a:.4g}, {b:.4g}"
    if isinstance(value, tuple):
        order = answer.order or range(len(value))
        return "; ".join(
            f"{choice} {100 * value[level]:.1f} %"
            for choice, level in zip(choices, order, strict=False)
        )
    if answer.way.startswith("intervention"):
        return "yes" if value > 0 else "no"
    if answer.order:
        place = list(answer.order).index(value)
        return choices[place] if place < len(choices) else str(value)
    return f"{100 * value:.1f} %" if 0 <= value <= 1 else f"{value:g}"


def _read(path: Path, asked: Asked) -> Iterator[Reply]:
    way = WAYS[asked.way]
    decoder = msgspec.json.Decoder(_Line)
    with path.open("rb") as file:
        for text in file:
            try:
                line = decoded(decoder, text, _Line)
                answer: Any = way.read(way.of_row(line.doc), line.filtered_resps)
                value = in_words(answer, line.doc)
            except (*NOT_A_SAMPLE, KeyError, AttributeError, OverflowError):
                continue  # `read_samples` says what is wrong with it
            reply = line.filtered_resps[0] if line.filtered_resps else ""
            yield Reply(
                in_way(*asked), _cut(str(line.doc.get("prompt", ""))), _cut(str(reply)), value
            )


def replies_of(parts: Sequence[Entry]) -> Replies | None:
    """Read the replies of a run; None without replies or samples.

    Parameters
    ----------
    parts : sequence of Entry
        The entries of the run.
    """
    unread: list[Reply] = []
    read: list[Reply] = []
    number, lost = 0, 0
    paths = [
        (asked, path)
        for part in parts
        for asked in sorted(part.scores)
        if WAYS[asked.way].generated
        and (path := sample_file(part.scores[asked].source, asked)) is not None
    ]
    few = max(2, READ // max(1, len(paths)))
    for asked, path in paths:
        own = 0
        for reply in _read(path, asked):
            number += 1
            if not reply.value:
                lost += 1
                if len(unread) < UNREAD:
                    unread.append(reply)
            # A few of every task.
            elif own < few and len(read) < READ:
                own += 1
                read.append(reply)
    return Replies(number, lost, [*unread, *read]) if number else None


def as_data(replies: Replies) -> dict[str, Any]:
    """Return replies in the form of their page."""
    return {
        "number": replies.number,
        "unread": replies.unread,
        "shown": [{**reply._asdict(), "value": printable(reply.value)} for reply in replies.shown],
    }
