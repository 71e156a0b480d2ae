"""Records a real server's answer once, and plays it in place of the server ever after."""

import os
from pathlib import Path

import svir
from svir.testing import RecordingProxy, ReplayServer

with RecordingProxy(os.environ["OPENAI_BASE_URL"], Path("recordings")) as proxy:
    recorded = svir.Client(proxy.url).complete("What is 2 + 1?").text
with ReplayServer(Path("recordings/001-v1-chat-completions.http")) as server:
    assert svir.Client(server.url).complete("What is 2 + 1?").text == recorded
print(recorded)
