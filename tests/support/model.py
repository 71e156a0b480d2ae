"""A server that answers each program of the README and the recipes with what fits its request."""

import json
from pathlib import Path

from answers import called, whole

from svir.testing import Playable, Request

REASONING = Path(__file__).parent.parent / "streams" / "mlx-lm" / "reasoning.http"
ADA = {"name": "Ada Lovelace", "age": 27}
SAID = ("three", "Ada Lovelace", "21 C")
"""What it says to any question, to one that wants JSON, and once a function gave the weather."""


def answer(request: Request) -> Playable:
    """A call of the first function, then the weather; a person, or a list of them; or a recorded answer."""
    fields = json.loads(request.body or "{}")
    if fields.get("tools") and fields.get("tool_choice") != "none":
        if fields["messages"][-1]["role"] == "tool":
            return whole("It will be 21 C.")
        return called((fields["tools"][0]["function"]["name"], '{"city": "Oslo"}'))
    schema = fields.get("response_format", {}).get("json_schema", {}).get("schema", {})
    if "name" in schema.get("properties", {}):
        return whole(json.dumps(ADA))
    if "value" in schema.get("properties", {}):
        return whole(json.dumps({"value": [ADA]}))
    return REASONING
