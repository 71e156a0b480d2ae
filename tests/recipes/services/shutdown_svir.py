"""Shutdown: SIGTERM ends all running calls, and what came of their answers is kept. `python shutdown_svir.py PROMPT...`

One token is the parent of all; a call may have a token of its own below it, with `svir.Cancel(stopping)`.
"""

import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import svir

client = svir.Client()  # OPENAI_BASE_URL and OPENAI_API_KEY
stopping = svir.Cancel()


def ask(prompt: str) -> str:
    try:
        return client.complete(prompt, cancel=svir.Cancel(stopping)).text
    except svir.Cancelled as error:
        return f"{error.completion.text} [cut]" if error.completion else "[not begun]"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: stopping.cancel())
    with ThreadPoolExecutor(8) as executor:
        for answer in executor.map(ask, sys.argv[1:]):
            print(answer)
