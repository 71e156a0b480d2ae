"""No server outlives the tests, however they end."""

import subprocess
import sys
from pathlib import Path


def test_a_server_ends_when_its_standard_input_closes() -> None:
    lifeline = str(Path(__file__).with_name("lifeline.py"))
    server = subprocess.Popen(
        [sys.executable, "-u", lifeline, "http.server", "0", "--bind", "127.0.0.1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with server:
        try:
            assert server.stdout.readline().startswith(b"Serving HTTP")
            server.stdin.close()
            assert server.wait(10) == 0
        finally:
            server.kill()
