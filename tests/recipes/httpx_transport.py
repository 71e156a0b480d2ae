"""The decoder over another transport: httpx sends and receives, svir reads the answer."""

import os

import httpx

import svir
import svir.answer

base = os.environ.get("OPENAI_BASE_URL", "http://localhost:1234/v1")
fields = {"messages": [svir.user("Why is the sky blue?")], "stream": True}
with httpx.stream("POST", f"{base}/chat/completions", json=fields, timeout=60) as response:
    response.raise_for_status()
    for event in svir.answer.read(response.iter_bytes()):
        if isinstance(event, svir.Text):
            print(event.text, end="", flush=True)
