"""Batches over Dask: real worker processes, each with a client of its own."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answers import echo, whole

import svir
from svir.testing import Answer, ReplayServer, Request

pytestmark = pytest.mark.slow("starts processes")

distributed = pytest.importorskip("distributed")

JPEG = b"\xff\xd8\xff\xe0 not much of a picture"


@pytest.fixture(scope="module")
def executor() -> Iterator[Any]:
    """Two worker processes with a thread each, on loopback, for all tests of this file."""
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    with cluster, distributed.Client(cluster) as dask:
        yield dask.get_executor()


def test_two_other_processes_answer_each_over_one_connection_that_it_keeps(executor: Any) -> None:
    both = threading.Barrier(2)

    def answer(request: Request) -> bytes:
        if len(server.requests) <= 2:
            both.wait(30)  # until each process has sent one
        return echo(request)

    # The key is asked for where a request is sent from, and names the process.
    with ReplayServer(answer) as server:
        with svir.Client(server.url, api_key=lambda: f"key-of-{os.getpid()}") as client:
            rows = list(svir.batch(client, map(str, range(20)), executor=executor, concurrency=4))
    assert {row.custom_id: row.completion and row.completion.text for row in rows} == {
        str(number + 1): str(number) for number in range(20)
    }
    keys = [request.headers["Authorization"] for request in server.requests]
    assert len(set(keys)) == 2
    assert f"Bearer key-of-{os.getpid()}" not in keys
    assert server.connections == 2


def test_errors_come_back_as_rows(executor: Any, tmp_path: Path) -> None:
    refusal = Answer.json({"error": {"message": "no", "code": "c"}}, status=400, headers={"x-request-id": "r1"})
    requests = [
        {"custom_id": "refused", "body": {"messages": "a"}},
        {"custom_id": "no such file", "body": {"messages": [svir.user("?", svir.Image(tmp_path / "none.jpg"))]}},
    ]
    with ReplayServer(refusal) as server, svir.Client(server.url) as client:
        errors = {row.custom_id: row.error for row in svir.batch(client, requests, executor=executor)}
    refused = errors["refused"]
    assert isinstance(refused, svir.RejectedError)
    assert (refused.message, refused.code, refused.status, refused.request_id) == ("no", "c", 400, "r1")
    assert isinstance(errors["no such file"], svir.SourceError)


def test_a_photo_is_read_where_the_request_is_sent_from(executor: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(JPEG)
    question = svir.user("?", svir.Image(tmp_path / "a.jpg"))
    with ReplayServer(whole("seen")) as server, svir.Client(server.url) as client:
        [row] = svir.batch(client, [[question]], executor=executor)
    assert row.error is None
    assert b"data:image/jpeg;base64,/9j/4CBub3Q" in server.requests[0].body


def test_a_limit_met_by_the_workers_holds_all_that_comes_after(executor: Any) -> None:
    times: list[float] = []
    both = threading.Barrier(2)
    limit = Answer.json({"error": {"message": "slow down"}}, status=429, headers={"retry-after-ms": "500"})

    def answer(request: Request) -> Any:
        times.append(time.monotonic())
        if len(times) > 2:
            return echo(request)
        both.wait(30)
        return limit

    with ReplayServer(answer) as server, svir.Client(server.url) as client:
        rows = list(svir.batch(client, map(str, range(6)), executor=executor, concurrency=2))
    assert [row.error for row in rows] == [None] * 6
    assert len(times) == 8
    assert min(times[2:]) - max(times[:2]) >= 0.5
