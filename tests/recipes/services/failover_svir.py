"""Failover: when a server fails before its first event, the next one is asked."""

from collections.abc import Iterator, Sequence
from typing import Any

import svir

FAILURES = (svir.ConnectError, svir.TimedOut, svir.RateLimitError, svir.ServerError, svir.StreamError)
"""What another server may do better; a request that is wrong is wrong everywhere."""


def clients_of(*urls: str) -> list[svir.Client]:
    """A client for each server: asked once, and given a minute for the first event."""
    timeout = svir.Timeout(connect=2, first=60)
    return [svir.Client(url, retry=svir.Retry(attempts=1), timeout=timeout) for url in urls]


def stream(clients: Sequence[svir.Client], messages: Any, **options: Any) -> Iterator[svir.Event]:
    """The events of the first server that begins to answer. After its first event a failure is the caller's."""
    for client in clients:
        try:
            answer = client.stream(messages, **options)
            first = next(answer)
        except FAILURES as error:
            if client is clients[-1]:
                raise
            print(f"{client}: {error}")
        else:
            with answer:
                yield first
                yield from answer
            return
