"""One address of a server, used concurrently: temporary faults are retried, others reported.

Rate limits, server errors, timeouts, dropped connections and unreadable replies are retried after a
pause, which doubles each time or is set by the server (Retry-After). Errors that a retry cannot fix
end the run with a one-line message. No message contains a key.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from lm_eval_epidemia.core.errors import EpidemiaError
from lm_eval_epidemia.core.extras import needs
from lm_eval_epidemia.harness.keys import quote_server
from lm_eval_epidemia.models.server_replies import (
    BadReply,
    Declined,
    Failed,
    Stopped,
    Unreached,
    quote_words,
    refuse_filtered,
    words_of,
)

with needs("api", "--model choice-api"):
    import httpx
    from tenacity import (
        RetryCallState,
        Retrying,
        retry_if_exception_type,
        wait_exponential,
        wait_random_exponential,
    )
    from urllib3.exceptions import InvalidHeader
    from urllib3.util import Retry

#: Seconds of a pause at most, and how long a server may ask to be left alone.
LONGEST_PAUSE, PATIENCE = 60.0, 600.0

#: Tries at an address where nobody ever answered, or nothing that could be read: a web page.
UNREACHED = 4

#: Addresses that lead nowhere, however often one asks.
NOWHERE = (httpx.InvalidURL, httpx.ProxyError)

_logger = logging.getLogger("lm_eval_epidemia")

T = TypeVar("T")


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
        The most tries of a prompt.
    pause : float
        Seconds before the second try; doubled each time, up to a minute.
    verify : bool or ssl.SSLContext
        Whether certificates are checked, or by which authorities.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        concurrent: int = 1,
        timeout: float = 120.0,
        tries: int = 10,
        pause: float = 1.0,
        verify: bool | ssl.SSLContext = True,
    ) -> None:
        self.url, self.timeout, self.tries = url, timeout, tries
        # Half of a pause is drawn, so that prompts refused together do not come back together.
        half = {"multiplier": pause / 2, "max": LONGEST_PAUSE / 2}
        self._pauses = wait_exponential(**half) + wait_random_exponential(**half)
        self._headers, self.verify = headers, verify
        # A line per request, tens of thousands of them.
        for name in ("httpx", "httpcore"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._client = httpx.Client(
            headers={**headers, "Content-Type": "application/json"},
            limits=httpx.Limits(max_connections=concurrent, max_keepalive_connections=concurrent),
            timeout=timeout,
            verify=verify,
        )
        #: Set when the run ends: pauses are cut short.
        self.stopped = threading.Event()
        #: What went wrong and was asked again, by what it was.
        self.faults: Counter[str] = Counter()
        #: When the server may be asked again, and how many requests it has answered.
        self._not_before, self._through = 0.0, 0
        self._lock = threading.Lock()

    def ask(
        self,
        payload: Mapping[str, Any],
        read: Callable[[Any], T],
        url: str | None = None,
        tries: int | None = None,
        noted: bool = True,
    ) -> T:
        """Send a request until its reply can be read.

        Parameters
        ----------
        payload : dict
        read : callable
            From the reply's JSON to what it says; raises `BadReply`.
        url : str, optional
            Another address of the server.
        tries, noted
            See `until`.

        Raises
        ------
        Declined
            If the server declines such a request.
        EpidemiaError
            If it cannot be reached, or did not answer after all tries.
        Stopped
            If the run ends before it answers.
        """
        content, to = json.dumps(payload).encode(), url or self.url

        def attempt() -> T:
            answer = read(self._posted(to, content))
            with self._lock:
                self._through += 1
            return answer

        return self.until(attempt, to, tries, noted)

    def until(
        self, attempt: Callable[[], T], url: str, tries: int | None = None, noted: bool = True
    ) -> T:
        """Try something until it raises no `BadReply`, with pauses between.

        Parameters
        ----------
        attempt : callable
        url : str
            What is asked by it.
        tries : int, optional
            Instead of the usual number.
        noted : bool
            Whether failures are reported and counted.

        Raises
        ------
        EpidemiaError
            If it still fails after all tries.
        Stopped
            If the run ends before.
        """
        most, through = tries or self.tries, self._through

        def asked() -> T:
            self._wait(self._not_before - time.monotonic())
            return attempt()

        def note(state: RetryCallState) -> None:
            nonlocal through
            fault = _fault_of(state)
            if noted:
                self._note(fault)
            # Waiting for a rate limit while other requests succeed does not count as a try.
            if state.attempt_number > 1 and fault.limits and self._through > through:
                state.attempt_number -= 1
            through = self._through
            # All wait: who asks in between is refused too.
            self._not_before = max(self._not_before, time.monotonic() + fault.seconds)

        def is_over(state: RetryCallState) -> bool:
            never = not isinstance(_fault_of(state), Failed) and not through
            return state.attempt_number >= (min(most, UNREACHED) if never else most)

        def give_up(state: RetryCallState) -> NoReturn:
            fault, tried = _fault_of(state), state.attempt_number
            last = "; ".join(filter(None, (str(fault), fault.words)))
            raise EpidemiaError(
                f"{url} did not answer a request in {tried} tries; the last error: {last}"
            )

        return Retrying(
            retry=retry_if_exception_type(BadReply),
            after=note,
            stop=is_over,
            wait=lambda state: _fault_of(state).seconds + self._pauses(state),
            sleep=self._wait,
            retry_error_callback=give_up,
        )(asked)

    def scrubbed(self, text: str) -> str:
        """Return a server's words in a line, without what was sent as a key."""
        return quote_server(text, self._headers)

    def _posted(self, url: str, content: bytes) -> Any:
        """Post once; return the JSON of the reply."""
        ends, body = time.monotonic() + self.timeout, b""
        try:
            with self._client.stream("POST", url, content=content) as reply:
                # The library's timeout is per chunk: a server that drips would never meet it.
                for chunk in reply.iter_bytes():
                    body += chunk
                    if time.monotonic() > ends:
                        raise Failed(f"timeout (no complete answer in {self.timeout:g} s)")
        except httpx.TimeoutException:
            raise Failed(f"timeout (no answer in {self.timeout:g} s)") from None
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, *NOWHERE) as error:
            raise EpidemiaError(f"{url} cannot be reached: {self.scrubbed(str(error))}") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            said = self.scrubbed(str(error))
            if "CERTIFICATE_VERIFY_FAILED" in said:
                raise EpidemiaError(
                    f"{url}: its certificate is not trusted ({said}): give the authority's with "
                    "ca_cert_path=FILE, or verify_certificate=False"
                ) from None
            # Refused, reset, ended in mid-body: not the words, in which numbers differ.
            what = f"connection failed ({type(error).__name__})"
            if isinstance(error, httpx.ConnectError):
                words = f"is base_url correct, and is the server running? ({said})"
                raise Unreached(what, words) from None
            raise Failed(what) from None
        if reply.status_code != 200:
            self._not_well(reply.status_code, reply.headers, self.scrubbed(words_of(body)))
        try:
            answer = json.loads(body, object_pairs_hook=_read_object)
        except BadReply:
            raise
        except (ValueError, RecursionError):
            words = quote_words(self.scrubbed(words_of(body)))
            raise BadReply("an answer that is not JSON", words) from None
        if isinstance(answer, dict) and answer.get("error"):
            refuse_filtered(words_of(body))
            words = quote_words(self.scrubbed(words_of(body)))
            raise Failed("an error in an answer (HTTP 200)", words)
        return answer

    def _not_well(self, status: int, headers: Mapping[str, str], words: str) -> NoReturn:
        """Raise what a status other than 200 comes to; `words` are the server's."""
        said = f"; the server said: {words}"
        if status == 429 and "insufficient_quota" in words:
            raise EpidemiaError(f"{self.url}: the quota is used up{said}")
        if status == 501:
            raise EpidemiaError(
                f"{self.url} does not do this with the model it serves (HTTP 501){said}: serve "
                "another model, or ask it for letters with --model choice-api"
            )
        if status in (408, 409, 425, 429) or status >= 500:
            seconds = _seconds_of(headers.get("retry-after"))
            if seconds is not None and seconds > PATIENCE:
                raise EpidemiaError(
                    f"{self.url} asks to wait {seconds:.0f} s (HTTP {status}): try again after that"
                )
            limits = status == 429 or seconds is not None
            raise Failed(f"HTTP {status}", quote_words(words), seconds or 0.0, limits)
        if status in (400, 403, 413, 422):
            refuse_filtered(words)
        if status in (400, 413, 422):
            raise Declined(words)
        if status in (401, 403):
            # A refused key (401) is repeated by some, in part.
            raise EpidemiaError(
                f"{self.url} rejects the key (HTTP {status}): set OPENAI_API_KEY, or name another "
                f"variable with api_key_env=NAME{said if status == 403 and words else ''}"
            )
        if status == 404:
            raise EpidemiaError(f"{self.url} or its model is not known (HTTP 404){said}")
        if where := headers.get("location"):
            raise EpidemiaError(
                f"{self.url} redirects (HTTP {status}), which is not followed: if this address is "
                f"right, give it as base_url: {self.scrubbed(where)}"
            )
        raise EpidemiaError(f"{self.url} answered HTTP {status}: {words}")

    def _note(self, fault: BadReply) -> None:
        what = str(fault)
        with self._lock:
            self.faults[what] += 1
            is_first = self.faults[what] == 1
        if is_first:
            told = ", ".join(filter(None, (what, fault.words)))
            again = "retrying, now and whenever this happens"
            _logger.warning("epidemia: %s: %s; %s", self.url, told, again)

    def _wait(self, seconds: float) -> None:
        if (seconds > 0 and self.stopped.wait(seconds)) or self.stopped.is_set():
            raise Stopped


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Read a JSON object; of a name that stands twice nobody knows which value is meant."""
    if len(known := dict(pairs)) < len(pairs):
        raise BadReply("an answer in which a name stands twice")
    return known


def _fault_of(state: RetryCallState) -> BadReply:
    """Return what went wrong in the latest try."""
    fault: Any = state.outcome and state.outcome.exception()
    return fault


def _seconds_of(retry_after: str | None) -> float | None:
    """Read Retry-After: seconds, or a date (RFC 9110, 10.2.3); what is neither is passed over."""
    with suppress(InvalidHeader):
        return float(Retry().parse_retry_after(retry_after)) if retry_after else None
    return None
