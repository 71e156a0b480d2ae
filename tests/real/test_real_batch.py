"""Batches and recordings of a real server: `mlx_lm.server` answers, and is played again."""

import json
import subprocess
import sys
from pathlib import Path

import svir
from svir.testing import RecordingProxy, ReplayServer


def test_a_batch_has_a_row_for_every_request(mlx_lm: str) -> None:
    scripts = {"plain": "Hello, world!", "json": '{"ok": true}', "utf8": "café, 世界: 😀!"}
    requests = [{"custom_id": name, "body": {"messages": f"@{name}@"}} for name in scripts]
    with svir.Client(mlx_lm) as client:
        rows = {row.custom_id: row for row in svir.batch(client, requests, concurrency=2)}
    assert {name: row.completion and row.completion.text for name, row in rows.items()} == scripts


def test_the_batch_command_writes_a_line_for_every_line(mlx_lm: str, tmp_path: Path) -> None:
    lines = [{"custom_id": f"q{n}", "body": {"messages": [{"role": "user", "content": "@plain@"}]}} for n in range(3)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [sys.executable, "-m", "svir", "batch", "in.jsonl", "-o", "out.jsonl", "--url", mlx_lm]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    said = {row["custom_id"]: row["response"]["body"]["choices"][0]["message"]["content"] for row in rows}
    assert said == {"q0": "Hello, world!", "q1": "Hello, world!", "q2": "Hello, world!"}


def test_what_was_recorded_of_a_real_server_plays_the_same_answer(mlx_lm: str, tmp_path: Path) -> None:
    with RecordingProxy(mlx_lm, tmp_path) as proxy, svir.Client(proxy.url) as client:
        recorded = client.complete("@reason@")
    (path,) = tmp_path.glob("*.http")
    with ReplayServer(path) as server, svir.Client(server.url) as client:
        played = client.complete("@reason@")
    assert (played.text, played.reasoning, played.usage) == (recorded.text, recorded.reasoning, recorded.usage)
    assert played.reasoning
