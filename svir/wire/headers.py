"""Headers that go out: what may stand in them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..errors import RequestError

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def checked(headers: Mapping[str, str], /) -> Mapping[str, str]:
    """The headers, if every name is a token and no value breaks out of its line. No value is in any message.

    Raises:
        RequestError: a name that is no token, a value that is no string or has CR, LF, NUL or another character
            outside of Latin-1.

    Source: RFC 9110, 5.5 and 5.6.2.
    """
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise RequestError(f"expected a header name of letters, digits and dashes, got {name!r}")
        if not isinstance(value, str):
            raise RequestError(f"expected a string as the value of header {name}, got {value.__class__.__name__}")
        if any(sign in "\r\n\0" or sign > "\xff" for sign in value):
            raise RequestError(f"expected a value of header {name} without line ends, NUL and characters over U+00FF")
    return headers


def distinct(headers: Mapping[str, str], /) -> dict[str, str]:
    """The headers, each name once, however it is spelt: the last one counts, as in any mapping."""
    last = {name.lower(): (name, value) for name, value in headers.items()}
    return dict(last.values())
