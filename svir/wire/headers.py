"""Headers that go out: what may stand in them, and what of them is told to nobody else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from ..errors import RequestError

# Compiled when first used: it would take longer than half of the import.
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_BREAKS_OUT = "[\r\n\0]|[^\0-\xff]"
_SECRET = r"(?i)auth|key|token|cookie|secret|credential|password|signature|^sig$"

# Where a request ends is svir's to say: a second word on it is how one request is made to look like two.
_OURS = frozenset({"content-length", "transfer-encoding", "expect", "te", "trailer", "upgrade"})

_SHORTEST = 8
"""Characters of a secret: what is shorter ("none", "test") is none, and a part of other words."""
_STARS = "***"


class Headers(dict[str, str]):
    """Headers of a request; their values are in no repr, and so in no traceback that shows arguments."""

    def __repr__(self) -> str:
        return f"Headers({', '.join(self)})"

    def copy(self) -> Headers:
        return Headers(self)


def check(headers: Mapping[str, str], /) -> None:
    """Every name is a token, and no value breaks out of its line. No value is in any message.

    Raises:
        RequestError: a name that is no token, or of a header that frames the request; a value that is no string or has
            CR, LF, NUL or another character outside of Latin-1.

    Source: RFC 9110, 5.5 and 5.6.2.
    """
    for name, value in headers.items():
        if not isinstance(name, str) or not re.fullmatch(_TOKEN, name):
            raise RequestError(f"expected a header name of letters, digits and dashes, got {name!r}")
        if name.lower() in _OURS:
            raise RequestError(f"expected no header that frames the request, got {name}")
        if not isinstance(value, str):
            raise RequestError(f"expected a string as the value of header {name}, got {value.__class__.__name__}")
        if re.search(_BREAKS_OUT, value):
            raise RequestError(f"expected a value of header {name} without line ends, NUL and characters over U+00FF")


def distinct(headers: Mapping[str, str], /) -> Headers:
    """The headers, each name once, however it is spelt: the last one counts, as in any mapping."""
    last = {name.lower(): (name, value) for name, value in headers.items()}
    return Headers(last.values())


def is_secret(name: str, /) -> bool:
    """Whether a header or a field of a query says who asks, by its name."""
    return re.search(_SECRET, name) is not None


def secrets(headers: Mapping[str, str], /) -> Iterable[str]:
    """The words of those headers that say who asks."""
    for name, value in headers.items():
        if is_secret(name):
            yield from value.split()
            yield from re.split("[\\s=;,]+", value)  # a cookie, without its name


def conceal(secrets: Iterable[str], error: BaseException, /) -> None:
    """Takes the secrets that were sent out of an error and out of its causes, which a traceback shows too.

    Some servers and gateways repeat the headers of a request. The frames that the errors were raised through go as
    well, for tools that print the locals of a traceback: those of the standard library hold the headers that it was
    sending.
    """
    long = [secret for secret in secrets if len(secret) >= _SHORTEST]
    link: BaseException | None = error
    while link is not None:
        if long:
            link.args = tuple(_concealed(value, long) for value in link.args)
            vars(link).update({name: _concealed(value, long) for name, value in vars(link).items()})
        link.__traceback__ = link.__context__ = None
        link = link.__cause__


def _concealed(value: Any, secrets: Sequence[str]) -> Any:
    """A value of an error without the secrets, and so all that it holds, the answer so far too."""
    if isinstance(value, str):
        for secret in secrets:
            # The media type of an answer is shown in small letters.
            value = _without_beginning(re.sub(re.escape(secret), _STARS, value, flags=re.IGNORECASE), secret)
    elif isinstance(value, bytes):
        value = _concealed(value.decode("latin-1"), secrets).encode("latin-1", "replace")
    elif isinstance(value, list | tuple):
        value = type(value)([_concealed(item, secrets) for item in value])
    elif isinstance(value, dict):
        value = {_concealed(key, secrets): _concealed(item, secrets) for key, item in value.items()}
    elif isinstance(value, Struct):
        value = structs.replace(
            value, **{name: _concealed(getattr(value, name), secrets) for name in value.__struct_fields__}
        )
    return value


def _without_beginning(text: str, secret: str) -> str:
    """The text without the beginning of the secret where the text was clipped."""
    ends = [found.start() for found in re.finditer("…|\\Z", text)]
    for end in reversed(ends):
        start = text.find(secret[:_SHORTEST], max(0, end - len(secret)), end)
        while start >= 0 and not secret.startswith(text[start:end]):
            start = text.find(secret[:_SHORTEST], start + 1, end)
        if start >= 0:
            text = text[:start] + _STARS + text[end:]
    return text
