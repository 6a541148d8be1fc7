"""Written answers that are asked for again where they cannot be read (``"tries": 10``).

A task's file then has lm-eval's ``repeats``, so that every request stands so many times among those
of a run, and all that is answered is kept in the samples. Here only as many of them are sent as are
needed: the first as ever, the next one where no answer can be read. Greedy decoding would write the
same again, so that a further try is a draw of the model's own distribution (temperature 1; that of
the task where it has one).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from lm_eval_epidemia.benchmarks import Way

#: How many tries of what is asked came before.
BEFORE: ContextVar[int] = ContextVar("before", default=0)

#: Of a further try where the first one is greedy.
TEMPERATURE = 1.0

#: By which share each further try is less random than the one before: lm-eval's cache of responses
#: goes by the arguments of a request, and keeps every try of its own.
STEP = 0.001


class Tried(str):
    """A reply that was asked for several times.

    Attributes
    ----------
    tries : int
        How many replies were written until this one, or until there were as many as may be.
    """

    tries = 1


def first_read(way: Way, doc: Mapping[str, Any], replies: Sequence[str]) -> Tried:
    """Return the first reply to a row of a split that can be read; the first if none can."""
    row = way.of_row(doc)
    read = (n for n, reply in enumerate(replies, start=1) if _is_read(way, row, reply))
    number = next(read, 0)
    reply = Tried(replies[max(number - 1, 0)])
    reply.tries = number or len(replies)
    return reply


def _is_read(way: Way, row: Any, reply: str) -> bool:
    answer: Any = way.read(row, [reply])
    return bool(answer.is_read)


def until_read(
    requests: Sequence[Any],
    ways: Mapping[str, Way],
    ask: Callable[[list[Any]], list[Any]],
) -> list[Any]:
    """Ask requests, those that stand several times only until a reply can be read.

    Parameters
    ----------
    requests : sequence of Instance
        As lm-eval makes them: those of its ``repeats`` are one object.
    ways : mapping of str to Way
        Of the tasks whose requests are asked until they are read; others' are asked as they stand.
    ask : callable
        From some of the requests to a reply to each.

    Returns
    -------
    list
        A reply to each request, empty where none was needed.
    """
    after: dict[int, int] = {}
    last: dict[int, int] = {}
    for place, request in enumerate(requests):
        if request.task_name in ways:
            if id(request) in last:
                after[last[id(request)]] = place
            last[id(request)] = place
    replies: list[Any] = [""] * len(requests)
    later = set(after.values())
    asked = [place for place in range(len(requests)) if place not in later]
    before = 0
    while asked:
        with _after(before):
            written = ask([_again(requests[place], before) for place in asked])
        unread = []
        for place, reply in zip(asked, written, strict=True):
            replies[place] = reply
            if place in after:
                way = ways[requests[place].task_name]
                if not _is_read(way, way.of_row(requests[place].doc), reply):
                    unread.append(after[place])
        asked, before = unread, before + 1
    return replies


@contextmanager
def _after(before: int) -> Iterator[None]:
    token = BEFORE.set(before)
    try:
        yield
    finally:
        BEFORE.reset(token)


def _again(request: Any, before: int) -> Any:
    """Return a request as it is put after some tries."""
    if not before:
        return request
    context, how = request.args
    temperature = (how.get("temperature") or TEMPERATURE) * (1 - STEP * before)
    drawn = {"do_sample": True} if "do_sample" in how else {}
    again = copy.copy(request)
    again.arguments = (context, {**how, "temperature": round(temperature, 6), **drawn})
    return again
