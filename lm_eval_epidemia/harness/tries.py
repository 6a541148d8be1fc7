"""Further tries of written answers that cannot be read (``"tries": 10``).

The task file then uses lm-eval's ``repeats``: every request appears that many times in a run, and
all replies are kept in the samples. Only as many as needed are sent: the first as usual, the next
only if no answer can be read. Greedy decoding would repeat the same text, so further tries sample
from the model's own distribution (temperature 1, or the task's if it has one).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from lm_eval_epidemia.benchmarks import Way

#: Number of earlier tries of the same prompt.
BEFORE: ContextVar[int] = ContextVar("before", default=0)

#: Temperature of a further try if the first is greedy.
TEMPERATURE = 1.0

#: Each further try lowers the temperature by this share, since lm-eval's response cache is keyed by
#: the arguments of a request and must keep every try.
STEP = 0.001


class Tried(str):
    """A reply that may have taken several tries.

    Attributes
    ----------
    tries : int
        Replies written up to this one, or the maximum if none could be read.
    """

    tries = 1


def first_read(way: Way, doc: Mapping[str, Any], replies: Sequence[str]) -> Tried:
    """Return the first readable reply to a row of a split; the first one if none is readable."""
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
    """Send requests; repeated ones only until a reply can be read.

    Parameters
    ----------
    requests : sequence of Instance
        As lm-eval makes them: its ``repeats`` are one object.
    ways : mapping of str to Way
        Tasks whose requests are retried until read; others are sent as they are.
    ask : callable
        Takes some of the requests and returns a reply to each.

    Returns
    -------
    list
        One reply per request, empty if it was not needed.
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
