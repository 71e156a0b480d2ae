"""The secrets of a request, and stars in their place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http.client import HTTPMessage
from urllib.parse import parse_qsl

# Words in the name of a header or a query field whose value is secret; and the shortest secret: "none" and "EMPTY" are
# sent as keys too, and occur in many texts.
_SECRET = re.compile(r"auth|key|token|cookie|secret|credential|password|signature", re.IGNORECASE)
_SHORTEST = 8


class Secrets:
    """Words that must not be written to a file.

    Args:
        words: in any order; none is empty.
    """

    def __init__(self, words: Iterable[str]) -> None:
        found = sorted(set(words), key=len, reverse=True)  # a longer word may start with a shorter one
        pattern = "|".join(re.escape(word).replace("/", r"\\?/") for word in found)
        self._pattern = re.compile(pattern.encode("latin-1"), re.IGNORECASE) if found else None

    def masked(self, text: bytes) -> bytes:
        """The text with each secret replaced by stars of the same length, so that no length changes."""
        return text if self._pattern is None else self._pattern.sub(lambda word: b"*" * len(word[0]), text)


def of_request(path: str, headers: HTTPMessage, /) -> Secrets:
    """The secrets in a request's headers and in the query of its path."""
    fields = [*headers.items(), *parse_qsl(path.partition("?")[2], encoding="latin-1")]
    values = [value for name, value in fields if _SECRET.search(name)]
    return Secrets(word for value in values for word in re.findall(r'[^\s;,="]+', value) if len(word) >= _SHORTEST)
