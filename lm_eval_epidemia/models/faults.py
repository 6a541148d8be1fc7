"""Failures of a server: temporary faults, refusals, and the server's own words."""

from __future__ import annotations

import json
import math
import re
from contextlib import suppress
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime


class BadReply(ValueError):
    """A reply that cannot be used, and why; the server may do better when asked again.

    Parameters
    ----------
    what : str
        Counted: without what differs from one reply to the next.
    words : str
        The server's own, or a hint.
    """

    #: Seconds after which the server wants to be asked again, and whether it limits how often.
    seconds, limits = 0.0, False

    def __init__(self, what: str, words: str = "") -> None:
        super().__init__(what)
        self.words = words


#: How servers say that their filter of contents declines a prompt: codes and words.
_FILTERED = re.compile(
    "content.?(filter|policy|management)|responsible.?ai|moderation|flagged", re.IGNORECASE
)


class Declined(Exception):
    """The server understood the request and declined it (400, 422): its words."""


class Filtered(Exception):
    """The server's filter of contents declined a prompt, and would again: its words."""


def refuse_filtered(words: str) -> None:
    """Raise `Filtered` if a server's words say so."""
    if _FILTERED.search(words):
        raise Filtered(words)


class Stopped(Exception):
    """The run is ending, so no further request is sent."""


class Unreached(BadReply):
    """Nothing answers at the address."""


class Busy(BadReply):
    """The server asks for a later retry: after this many seconds, if it says when."""

    def __init__(self, what: str, words: str, seconds: float | None, limits: bool) -> None:
        super().__init__(what, words)
        self.seconds, self.limits = seconds or 0.0, limits


def words_of(body: bytes) -> str:
    """Return what a server says of an error: its message and code, or the beginning of the body."""
    text = body[:2000].decode(errors="replace")
    try:
        error = json.loads(body).get("error", text)
    except (ValueError, AttributeError, RecursionError):
        page = "<html" in text.lower() or "<!doctype" in text.lower()
        return f"{'a web page (is base_url correct?):  ' if page else ''}{text}"
    if isinstance(error, dict):
        return " ".join(str(error[key]) for key in ("message", "code") if error.get(key))
    return str(error)


def as_said(words: str) -> str:
    return f"the server said: {words}" if words else ""


def seconds_of(retry_after: str | None) -> float | None:
    """Read Retry-After: seconds, or a date (RFC 9110, 10.2.3); what is neither is passed over."""
    given = retry_after or ""
    with suppress(ValueError):
        seconds = float(given)
        return max(seconds, 0.0) if math.isfinite(seconds) else None
    with suppress(ValueError, OverflowError):
        until = parsedate_to_datetime(given)
        until = until if until.tzinfo else until.replace(tzinfo=timezone.utc)
        return max((until - datetime.now(timezone.utc)).total_seconds(), 0.0)
    return None
