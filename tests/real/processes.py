"""A server that the tests start as a process, and end."""

import contextlib
import http.client
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

# Seconds. Each server answers within three on an idle machine; the limits are for a busy one.
START = 120.0
STOP = 10.0
PAUSE = 0.1


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """A server process whose output goes to two files, so that no full pipe can stop it."""

    def __init__(self, command: list[str], folder: Path, env: Mapping[str, str]) -> None:
        self.command = shlex.join(command)
        self.out, self.err = folder / "stdout.txt", folder / "stderr.txt"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            # A server of Python's ends when its standard input closes: even a test run that is killed leaves none.
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=err, cwd=folder, env={**os.environ, **env}
            )
        self.deadline = time.monotonic() + START

    def pause(self) -> None:
        """Wait a moment for something that must come, unless the process has ended or the time is up."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.fail(f"ended with {self.process.wait(PAUSE)} before it answered")
        if time.monotonic() > self.deadline:
            self.fail(f"did not answer within {START:.0f} s")

    def fail(self, reason: str) -> None:
        tail = self.err.read_text(errors="replace")[-3000:]
        pytest.fail(f"{self.command} {reason}; its standard error ends:\n{tail}", pytrace=False)

    def address(self) -> str:
        """The address that the server printed as its first line."""
        while not (text := self.out.read_text()).endswith("\n"):
            self.pause()
        return text.splitlines()[0]

    def ready(self, url: str) -> str:
        """The URL, once the server behind it says that it is well."""
        while not healthy(url):
            self.pause()
        return url

    def listening(self, port: int) -> None:
        """Returns once the server takes connections."""
        while not connects(port):
            self.pause()

    def stop(self) -> None:
        self.process.stdin.close()
        self.process.terminate()
        try:
            self.process.wait(STOP)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def healthy(url: str) -> bool:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=START)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def connects(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=START).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def running(command: list[str], folder: Path, **env: str) -> Iterator[Server]:
    server = Server(command, folder, env)
    try:
        yield server
    finally:
        server.stop()
