"""Run a module as `python -m` would, but only for as long as standard input stays open.

A server that only a finalizer stops outlives a test run that is killed; a pipe is closed even then.

    python lifeline.py mlx_lm server --model FOLDER
"""

import os
import runpy
import sys
import threading


def watch() -> None:
    # Not through sys.stdin, whose lock a regular exit would find taken.
    while os.read(0, 4096):
        pass
    os._exit(0)


if __name__ == "__main__":
    module, sys.argv = sys.argv[1], sys.argv[1:]
    threading.Thread(target=watch, daemon=True).start()
    runpy.run_module(module, run_name="__main__", alter_sys=True)
