"""What may be sent again, and when.

A request is sent again only before its first event, so that no token is ever handed out twice. Which failures are
worth it is told by the error itself (`SvirError.retryable`); here is how often, and how long to wait.
"""

from __future__ import annotations

import email.utils
import math
from collections.abc import Callable, Mapping

from msgspec import Struct

from ..errors import ConnectError, StatusError, SvirError
from .call import Call


class Retry(Struct, frozen=True):
    """How failures before the first event are met: the request is sent again when `SvirError.retryable` says so.

    That is no connection, an answer that ends before its first event, and 408, 429, 500, 502, 503 and 504, as a status
    or in an error object. Not what a server will never do (llama.cpp without an image projector), and nothing after the
    first event: no token is handed out twice.

    Args:
        attempts: how many times a request is sent at most; 1 sends it once.
        base: seconds of the first wait, doubled with each further one; half of each wait is random.
        cap: seconds of the longest wait.
        max_retry_after: seconds of the longest wait that a server may ask for; beyond it the error is raised.

    Source: RFC 9110, 10.2.3 (`Retry-After`, seconds or a date); `retry-after-ms` (Azure OpenAI).
    """

    attempts: int = 3
    base: float = 0.5
    cap: float = 8.0
    max_retry_after: float = 60.0


def pause(retry: Retry, error: SvirError, tries: int, jitter: Callable[[], float], /) -> float | None:
    """Seconds to wait before the next try, `None` when there is to be none.

    Args:
        tries: how many times the request was sent.
        jitter: a random number from 0 up to 1; half of each wait is random, so that clients do not come back in step.
    """
    if not error.retryable or tries >= retry.attempts:
        return None
    asked = error.retry_after if isinstance(error, StatusError) else None
    if asked is not None:
        return asked if asked <= retry.max_retry_after else None
    longest = min(retry.cap, retry.base * 2.0 ** (tries - 1))
    return longest * (0.5 + 0.5 * jitter())


class Attempts:
    """The tries of one call.

    Args:
        sleep: waits so many seconds.
        jitter: see `pause`.
    """

    def __init__(self, retry: Retry, call: Call, sleep: Callable[[float], object], jitter: Callable[[], float]) -> None:
        self._retry = retry
        self._call = call
        self._sleep = sleep
        self._jitter = jitter
        self._repeated = False

    def next(self, error: SvirError, told: Callable[[SvirError], object], /) -> None:
        """Waits until the request may be sent again; raises `error` when it may not.

        Args:
            told: called with the error before the wait, if there will be another try.

        A kept connection that the server had closed meanwhile costs one repeat that counts for nothing.
        """
        stale = isinstance(error, ConnectError) and self._call.reused and not self._call.answered
        if stale and not self._repeated:
            self._repeated = True
            self._call.tries -= 1
            told(error)
            return
        wait = pause(self._retry, error, self._call.tries, self._jitter)
        if wait is None:
            raise error
        told(error)
        self._call.sleep(wait, self._sleep)


def asked_delay(headers: Mapping[str, str], now: float, /) -> float | None:
    """Seconds that a server asks to wait, `None` when it does not, or not in a form that can be read.

    Args:
        now: seconds since the epoch, for the date form.

    Source: `retry-after-ms` (Azure OpenAI), then `Retry-After` in seconds or as a date (RFC 9110, 10.2.3). A date
    that has passed is no wait.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    if seconds is not None:
        return seconds
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else -1.0
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
