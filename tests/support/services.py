"""Services as users run them: processes that listen where the test says, and end with it."""

import http.client
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

RECIPES = Path(__file__).parents[1] / "recipes" / "services"
SOON = 10.0

GUNICORN = ("gunicorn", "--bind", "fd://{fd}", "--worker-class", "gthread", "--threads", "8", "--log-level", "warning")
UVICORN = ("uvicorn", "--fd", "{fd}", "--log-level", "warning")


def recipe(name: str) -> dict[str, Any]:
    """The names of a recipe that is run in this process."""
    return runpy.run_path(str(RECIPES / f"{name}.py"), run_name=name)


def soon(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline, f"not within {SOON} s"
        time.sleep(0.01)


def environment(base_url: str, path: Path = RECIPES) -> dict[str, str]:
    """For a process that runs a recipe against the server at `base_url`, with the modules of a folder."""
    paths = [str(RECIPES.parents[2]), str(RECIPES), str(path), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "OPENAI_BASE_URL": base_url, "PYTHONPATH": os.pathsep.join(paths)}


@contextmanager
def running(
    base_url: str, module: str, *arguments: str, path: Path = RECIPES, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process of `python -m MODULE`, ended with SIGTERM and its output shown when it does not end by itself."""
    command = [sys.executable, "-m", module, *arguments]
    process = subprocess.Popen(command, cwd=RECIPES, env=environment(base_url, path), text=True, **options)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(SOON)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise
        finally:
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


@contextmanager
def serving(base_url: str, command: tuple[str, ...], *arguments: str) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The port of a service, and its process: the socket listens from the start, and an early client waits."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        fd = listener.fileno()
        port = listener.getsockname()[1]
        filled = [part.format(fd=fd) for part in command]
        with running(base_url, *filled, *arguments, pass_fds=(fd,)) as process:
            yield port, process


@contextmanager
def asked(port: int, prompt: str = "hi", **headers: str) -> Iterator[http.client.HTTPResponse]:
    """The answer of a service to a chat; leaving the block is a client that leaves."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SOON)
    body = json.dumps({"messages": [{"role": "user", "content": prompt}]})
    try:
        connection.request("POST", "/chat", body, {"Content-Type": "application/json", **headers})
        with connection.getresponse() as response:
            yield response
    finally:
        connection.close()
