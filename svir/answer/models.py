"""The list of models, in whatever shape a server sends it."""

from __future__ import annotations

import re
from typing import Any

from ..errors import ProtocolError, clip
from ..events import Model
from . import tolerant
from .tolerant import fields, objects

# There is no standard field for what a model is for. `mode` is LiteLLM's.
_NO_CHAT = r"(?i)embed|rerank|\bbge\b|\bclip\b|whisper|\btts|\basr\b|speech|audio|image|flux|sdxl|diffusion|moderation"
_CONTEXT = ("max_model_len", "context_length", "context_window", "max_context_length", "max_input_tokens")


def listed(document: bytes, /) -> list[Model]:
    """The models of a `GET /v1/models` answer, in the server's order; an empty body is an empty list (mlx-lm).

    Raises:
        ProtocolError: it is no list of models.
    """
    if not document.strip():
        return []
    try:
        data = tolerant.plain(document)
    except tolerant.Unreadable as error:
        raise ProtocolError(f"expected a list of models, got {clip(error.text)!r}") from error
    entries = data if isinstance(data, list) else fields(data).get("data")
    if not isinstance(entries, list):
        raise ProtocolError(f"expected a list of models, got {clip(document.decode(errors='replace'))!r}")
    return [_model(entry) for entry in objects(entries) if isinstance(entry.get("id"), str)]


def _model(entry: dict[str, Any]) -> Model:
    name = entry.get("name")
    mode = entry.get("mode")
    return Model(
        id=entry["id"],
        name=name if isinstance(name, str) and name else entry["id"],
        chat=mode == "chat" if isinstance(mode, str) else not re.search(_NO_CHAT, entry["id"]),
        context=_context(entry),
        inputs=_inputs(entry),
    )


def _context(entry: dict[str, Any]) -> int | None:
    numbers = [*map(entry.get, _CONTEXT), fields(entry.get("meta")).get("n_ctx")]
    return next((number for number in numbers if type(number) is int and number > 0), None)


def _inputs(entry: dict[str, Any]) -> tuple[str, ...]:
    kinds = fields(entry.get("architecture")).get("input_modalities")
    return tuple(kind for kind in kinds if isinstance(kind, str)) if isinstance(kinds, list) else ()
