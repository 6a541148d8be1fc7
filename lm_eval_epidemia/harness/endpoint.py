"""One address of a server, asked by many at a time: what passes is asked again, the rest is said.

Rate limits, errors of the server, timeouts, dropped connections and replies that cannot be read are
asked again, after a pause that doubles each time or that the server names (Retry-After). What
asking again will not mend ends the run in one line. Nothing said here holds a key.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, NoReturn, TypeVar

from lm_eval_epidemia.errors import EpidemiaError

try:
    import httpx
except ImportError:
    raise EpidemiaError(
        "--model choice-api needs httpx: pip install 'lm-eval-epidemia[api]'"
    ) from None

__all__ = ["BadReply", "Declined", "Endpoint", "Stopped"]

#: Seconds of a pause at most, and how long a server may ask to be left alone.
LONGEST_PAUSE, PATIENCE = 60.0, 600.0

#: Characters of a server's own words that are quoted, and bytes of an answer that are read.
QUOTED, MOST_BYTES = 200, 10_000_000

_logger = logging.getLogger("lm_eval_epidemia")

T = TypeVar("T")


class BadReply(ValueError):
    """A reply that cannot be used, and why; the server may do better when asked again."""


class Declined(Exception):
    """The server understood the request and does not take it (400, 422): its words."""


class Stopped(Exception):
    """The run ends; what was about to be asked is not asked."""


class _Busy(BadReply):
    """The server wants to be asked again later: in so many seconds, if it says when."""

    def __init__(self, what: str, seconds: float | None = None) -> None:
        super().__init__(what)
        self.seconds = seconds


class Endpoint:
    """One address of a server, with a pool of connections.

    Parameters
    ----------
    url : str
        Where prompts are posted.
    headers : mapping
        Sent with each request; may hold a key.
    concurrent : int
        Connections.
    timeout : float
        Seconds that one request may take, from first to last byte.
    tries : int
        How often a prompt is asked at most.
    pause : float
        Seconds before the second try; doubled each time, up to a minute.
    verify : bool or str
        Whether certificates are checked, or the file of those that are trusted.
    """

    def __init__(
        self, url: str, headers: Mapping[str, str], concurrent: int = 1, timeout: float = 120.0,
        tries: int = 10, pause: float = 1.0, verify: bool | str = True,
    ) -> None:  # fmt: skip
        self.url, self.timeout, self.tries, self.pause = url, timeout, tries, pause
        self._secrets = [word for value in headers.values() for word in value.split()
                         if len(word) > 7]  # fmt: skip
        # A line per request, tens of thousands of them.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._client = httpx.Client(
            headers={**headers, "Content-Type": "application/json"},
            limits=httpx.Limits(max_connections=concurrent, max_keepalive_connections=concurrent),
            timeout=timeout, verify=verify,
        )  # fmt: skip
        #: Set when the run ends: pauses are cut short.
        self.stopped = threading.Event()
        #: What went wrong and was asked again, by what it was.
        self.faults: Counter[str] = Counter()
        self._not_before = 0.0
        self._lock = threading.Lock()

    def ask(
        self, payload: Mapping[str, Any], read: Callable[[Any], T], url: str | None = None,
        tries: int | None = None,
    ) -> T:  # fmt: skip
        """Post a request until its reply can be read.

        Parameters
        ----------
        payload : dict
        read : callable
            From the reply's JSON to what it says; raises `BadReply`.
        url : str, optional
            Another address of the server.
        tries : int, optional
            Instead of the usual number.

        Raises
        ------
        Declined
            If the server does not take such a request.
        EpidemiaError
            If it cannot be asked, or did not answer after all tries.
        Stopped
            If the run ends before it answers.
        """
        content = json.dumps(payload).encode()
        url, most, tried = url or self.url, tries or self.tries, 0
        while True:
            self._wait(self._not_before - time.monotonic())
            tried += 1
            try:
                return read(self._posted(url, content))
            except BadReply as fault:
                self._note(str(fault))
                if tried >= most:
                    raise EpidemiaError(
                        f"{url} did not answer a request in {tried} tries, the last: {fault}"
                    ) from None
                self._pause_after(tried, fault)

    def close(self) -> None:
        self._client.close()

    def scrubbed(self, text: str) -> str:
        """Return a server's words in a line, without what was sent as a key."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        line = " ".join(text.split())
        return line if len(line) <= QUOTED else f"{line[:QUOTED]}..."

    def _posted(self, url: str, content: bytes) -> Any:
        """Post once; return the JSON of the reply."""
        ends, body = time.monotonic() + self.timeout, b""
        try:
            with self._client.stream("POST", url, content=content) as reply:
                # The library's timeout is per chunk: a server that drips would never meet it.
                for chunk in reply.iter_bytes():
                    body += chunk
                    if time.monotonic() > ends:
                        raise BadReply(f"timeout (no whole answer in {self.timeout:g} s)")
                    if len(body) > MOST_BYTES:
                        raise BadReply("an answer without end")
        except httpx.TimeoutException:
            raise BadReply(f"timeout (no answer in {self.timeout:g} s)") from None
        except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.ProxyError) as error:
            raise EpidemiaError(f"{url} cannot be asked: {self.scrubbed(str(error))}") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            # Refused, reset, ended in mid-body: not the words, in which numbers differ.
            raise BadReply(f"connection failed ({type(error).__name__})") from None
        if reply.status_code != 200:
            self._not_well(reply, body)
        try:
            return json.loads(body)
        except ValueError:
            raise BadReply("an answer that is not JSON") from None

    def _not_well(self, reply: Any, body: bytes) -> NoReturn:
        """Raise what a status other than 200 comes to."""
        status, words = reply.status_code, self.scrubbed(_words(body))
        if status == 429 and "insufficient_quota" in words:
            raise EpidemiaError(f"{self.url}: the quota is used up; the server said: {words}")
        if status in (408, 409, 425, 429) or status >= 500:
            seconds = _seconds(reply.headers.get("retry-after"))
            if seconds is not None and seconds > PATIENCE:
                raise EpidemiaError(
                    f"{self.url} asks to be left alone for {seconds:.0f} s (HTTP {status}): run "
                    "the same command again then"
                )
            raise _Busy(f"HTTP {status}", seconds)
        if status in (400, 413, 422):
            raise Declined(words)
        if status in (401, 403):
            raise EpidemiaError(
                f"{self.url} does not take the key (HTTP {status}): set OPENAI_API_KEY, name "
                "another variable with --model_args api_key_env=NAME, or a whole header with "
                "header_env=NAME"
            )
        if status == 404:
            raise EpidemiaError(
                f"{self.url} does not know this address or model (HTTP 404): check base_url and "
                f"model; the server said: {words}"
            )
        raise EpidemiaError(f"{self.url} answered HTTP {status}: {words}")

    def _note(self, what: str) -> None:
        with self._lock:
            self.faults[what] += 1
            first = self.faults[what] == 1
        if first:
            _logger.warning(
                "epidemia: %s: %s; asking again, now and whenever that happens", self.url, what
            )

    def _pause_after(self, tried: int, fault: BadReply) -> None:
        seconds = getattr(fault, "seconds", None)
        if seconds is not None:
            # All wait: who asks in between is refused too.
            self._not_before = max(self._not_before, time.monotonic() + seconds)
            return
        # Jitter, so that prompts refused together do not come back together.
        longest = min(self.pause * 2 ** (tried - 1), LONGEST_PAUSE)
        self._wait(longest * random.uniform(0.5, 1.0))

    def _wait(self, seconds: float) -> None:
        if (seconds > 0 and self.stopped.wait(seconds)) or self.stopped.is_set():
            raise Stopped


def _words(body: bytes) -> str:
    """Return what a server says of an error: its message and code, or the beginning of the body."""
    text = body[:2000].decode(errors="replace")
    try:
        error = json.loads(body).get("error", text)
    except (ValueError, AttributeError):
        return text
    if isinstance(error, dict):
        return " ".join(str(error[key]) for key in ("message", "code") if error.get(key))
    return str(error)


def _seconds(retry_after: str | None) -> float | None:
    """Read Retry-After: seconds, or a date (RFC 9110, 10.2.3)."""
    if not retry_after:
        return None
    try:
        return max(float(retry_after), 0.0)
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=timezone.utc)
    return max((until - datetime.now(timezone.utc)).total_seconds(), 0.0)
