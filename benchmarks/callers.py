"""The threads of a soak: one trouble after the other, on clients that they share and some of their own."""

from __future__ import annotations

import itertools
import random
import ssl
import statistics
import threading
import time
from collections import Counter, deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import structs

import svir

from . import certificates
from .troubled import key
from .troubles import TROUBLES, UNREACHED, Trouble, text
from .waits import PATIENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

_SOON = 0.03
"""Seconds within which another thread ends a call, so that it finds it in any phase."""
_OWN = 10
"""One in so many streams has a client of its own."""
_TOLD = 5
"""Failures of a trouble that are told in words."""


@contextmanager
def _meanwhile(action: Callable[[], object]) -> Iterator[None]:
    timer = threading.Timer(random.uniform(0.0, _SOON), action)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def _read(client: svir.Client, asked: Any) -> tuple[str, Any]:
    return "whole", client.complete(asked)


def _document(client: svir.Client, asked: Any) -> tuple[str, Any]:
    return "whole", client.complete(asked, stream=False)


def _cancel(client: svir.Client, asked: Any) -> tuple[str, Any]:
    cancel = svir.Cancel()
    with _meanwhile(cancel.cancel):
        return "whole", client.complete(asked, cancel=cancel)


def _close(client: svir.Client, asked: Any) -> tuple[str, Any]:
    with client.stream(asked) as stream:
        next(stream)
    return "given up", stream.completion


def _close_behind(client: svir.Client, asked: Any) -> tuple[str, Any]:
    stream = client.stream(asked)
    with _meanwhile(stream.close):
        for _ in stream:
            pass
    return "whole", stream.completion


def _drop(client: svir.Client, asked: Any) -> tuple[str, Any]:
    for _ in client.stream(asked):
        break
    return "given up", None


USES: dict[str, Callable[[svir.Client, Any], tuple[str, Any]]] = {
    "read": _read,
    "document": _document,
    "cancel": _cancel,
    "close": _close,
    "close behind": _close_behind,
    "drop": _drop,
}


class Tally:
    """What became of the streams of one trouble; it stays as small as it is, however many they are."""

    def __init__(self, trouble: Trouble) -> None:
        self.failures: list[str] = []
        self._trouble = trouble
        self._endings: Counter[str] = Counter()
        self._failed = 0
        self._longest = 0.0
        self._newest: deque[float] = deque(maxlen=100)

    def add(self, number: int, took: float, ending: str, completion: Any, words: str) -> None:
        wanted, got = "".join(text(number)), completion.text + completion.refusal if completion is not None else ""
        if ending not in self._trouble.ends or not (got == wanted if ending == "whole" else wanted.startswith(got)):
            self._failed += 1
            if len(self.failures) < _TOLD:
                expected = f"expected {' or '.join(self._trouble.ends)} of {wanted!r}"
                self.failures.append(f"{expected}, got {ending} ({words}) of {got!r}")
        self._endings[ending] += 1
        self._newest.append(took)
        self._longest = max(self._longest, took)

    def figures(self) -> dict[str, float]:
        """In seconds; the median is of the newest hundred."""
        median = statistics.median(self._newest) if self._newest else 0.0
        own = {"streams": self._endings.total(), "failed": self._failed, "median": median, "longest": self._longest}
        return {**own, **self._endings}


class Callers:
    """Asks for troubles, each of them as often as any other.

    Args:
        urls: the addresses that the server printed.
        certificate: the file of the one that it has.
        photos: by size.
    """

    def __init__(self, urls: Mapping[str, str], certificate: str | None, photos: Mapping[str, Path]) -> None:
        unreached = {name: trouble for name, trouble in UNREACHED.items() if name in urls}
        self._troubles = TROUBLES | unreached
        self.tallies = {name: Tally(trouble) for name, trouble in self._troubles.items()}
        self._urls = urls
        self._over = [over for over in ("plain", "plain", "TLS") if over in urls]
        self._trusting = certificates.client(certificate) if certificate else None
        self._photos = photos
        self.streams = 0
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._mine = threading.local()
        self._threads: list[threading.Thread] = []
        self._shared = {
            (over, *trouble.limits): self._client(urls[over], trouble)
            for over in set(self._over)
            for trouble in TROUBLES.values()
        }

    def start(self, threads: int, until: float) -> None:
        """Goes on until a time of the monotonic clock."""
        self._threads = [threading.Thread(target=self._run, args=(until,), daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def once(self) -> None:
        """Every trouble, one after the other."""
        for name in self._troubles:
            self._ask(name)

    def close_idle(self) -> None:
        """Ends what the shared clients keep, while they go on."""
        for client in self._shared.values():
            client.close()

    def finish(self, patience: float) -> int:
        """Waits for the threads; how many do not end within so many seconds."""
        until = time.monotonic() + patience
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self.close_idle()
        return sum(thread.is_alive() for thread in self._threads)

    def _run(self, until: float) -> None:
        names: list[str] = []
        while time.monotonic() < until:
            names = names or random.sample(list(self._troubles), len(self._troubles))
            self._ask(names.pop())

    def _ask(self, name: str) -> None:
        trouble, number = self._troubles[name], next(self._numbers)
        asked = svir.user("?", svir.Image(self._photos[trouble.photo])) if trouble.photo else f"What is {number}?"
        self._mine.name, self._mine.number, self._mine.attempt = name, number, 0
        since = time.monotonic()
        ended = self._outcome(name, number, asked)
        took = time.monotonic() - since
        with self._lock:
            self.streams += 1
            self.tallies[name].add(number, took, *ended)

    def _outcome(self, name: str, number: int, asked: Any) -> tuple[str, Any, str]:
        """How a stream ended, in a word, the answer so far, and what an error says."""
        try:
            with self._chosen(name, number) as client:
                return *USES[self._troubles[name].use](client, asked), ""
        except svir.TimedOut as error:
            return f"TimedOut {error.phase}", error.completion, str(error)
        except svir.SvirError as error:
            return type(error).__name__, error.completion, str(error)
        except Exception as error:
            return type(error).__name__, None, str(error)

    @contextmanager
    def _chosen(self, name: str, number: int) -> Iterator[svir.Client]:
        trouble, over = self._troubles[name], self._over[number % len(self._over)]
        if name not in UNREACHED and number % _OWN:
            yield self._shared[over, *trouble.limits]
            return
        with self._client(self._urls.get(name) or self._urls[over], trouble) as own:
            yield own

    def _client(self, url: str, trouble: Trouble) -> svir.Client:
        stranger = trouble is UNREACHED["a certificate of someone else"]
        return svir.Client(
            url,
            api_key=self._key,
            timeout=structs.replace(PATIENT, **trouble.limits),
            retry=svir.Retry(attempts=2, base=0.005, cap=0.02),
            ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if stranger else self._trusting,
        )

    def _key(self) -> str:
        """Of the request that this thread sends, at each try."""
        self._mine.attempt += 1
        name = self._mine.name
        return key(name if name in TROUBLES else next(iter(TROUBLES)), self._mine.number, self._mine.attempt)
