"""Where the server is: the base URL in its one form, what every request adds to it, and the proxy on the way."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct
from urllib3 import make_headers

from ..errors import RequestError, clip
from .headers import is_secret

CHAT = "/chat/completions"
_USUAL = "/v1"
"""What a base URL without a path means, and local servers are mostly written without."""
_VERSION = r"v\d"
"""How a part of a path begins that is a version: beside one of its own a provider has no `/v1`."""

# A name that the resolver and a certificate can hold: RFC 1123, 2.1, and the underscore of Docker and Kubernetes.
_NAME = r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?"
_IN_PATH = "/%:@!$&'()*+,;=~"
"""What stands in a path as it is, beside letters, digits and `-._` (RFC 3986, 3.3)."""


class Proxy(Struct, frozen=True):
    """A proxy; its credentials are in no repr.

    Args:
        source: the environment variable that names it, "" for an argument.
    """

    url: str
    user: str | None = None
    password: str | None = None
    source: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.url!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", self.url)]

    def __str__(self) -> str:
        return f"the proxy {self.url} of {self.source}" if self.source else f"the proxy {self.url}"

    @property
    def headers(self) -> dict[str, str]:
        """What the proxy is told of who asks."""
        if self.user is None:
            return {}
        return make_headers(proxy_basic_auth=f"{self.user}:{self.password or ''}")


class Address(Struct, frozen=True):
    """A server.

    Args:
        base: scheme, host, port and path, without a slash at the end.
        proxy: the proxy to go through.
    """

    base: str
    proxy: Proxy | None = None

    def url(self, path: str, /) -> str:
        return self.base + path

    @property
    def has_v1(self) -> bool:
        return self.base.endswith(_USUAL)

    def other(self, path: str, /) -> str | None:
        """The URL as it would be without `/v1`, or with it; `None` where the path has a version of its own."""
        base = self.base
        if self.has_v1:
            return base.removesuffix(_USUAL) + path
        parts = urlsplit(base).path.split("/")
        return None if any(re.match(_VERSION, part) for part in parts) else base + _USUAL + path

    @property
    def forwarded(self) -> bool:
        """Whether a proxy passes requests on as they are, in place of opening a tunnel."""
        return self.proxy is not None and self.base.startswith("http:")

    @property
    def encrypted(self) -> bool:
        """Whether TLS is spoken, to the server or to the proxy."""
        return any(url.startswith("https:") for url in (self.base, self.proxy.url if self.proxy else ""))


class Query(dict[str, str]):
    """What every request carries behind its path; its values are in no repr."""

    def __repr__(self) -> str:
        return f"Query({', '.join(self)})"

    @property
    def sent(self) -> str:
        """As it is sent, with its `?`; "" for none."""
        return self._written(self)

    @property
    def shown(self) -> str:
        """As others may see it: stars stand for what looks secret by its name."""
        return self._written({name: "***" if is_secret(name) else value for name, value in self.items()})

    @staticmethod
    def _written(fields: Mapping[str, str]) -> str:
        pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='*')}" for name, value in fields.items())
        return f"?{pairs}" if pairs else ""

    def secrets(self) -> Iterator[str]:
        """The values that look secret, as they were given and as they are sent."""
        for name, value in self.items():
            if is_secret(name):
                yield from (value, quote(value, safe="*"))


def parse(base_url: str, proxy: str | None = None, /) -> Address:
    """The address that a base URL names.

    Args:
        base_url: without a path `/v1` is meant, any other stands as it is, and one that ends in `/chat/completions`
            is that endpoint; such as "http://localhost:1234", "https://NAME.openai.azure.com/openai/v1/".
        proxy: a proxy's URL, "" for none; by default `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` decide. A
            loopback host is never reached through a proxy of the environment.

    Raises:
        RequestError: another scheme than http and https, no host or one that is no name, userinfo, a query or a
            fragment; a proxy of another kind.

    Source: OpenAI's libraries, whose base URL is followed by the path of the endpoint.
    """
    parts = _split(base_url, "a base URL")
    if parts.username is not None or parts.password is not None:
        raise RequestError(
            "expected a base URL without a user and password in it: a key goes into api_key=..., "
            'other credentials into headers={"Authorization": ...}'
        )
    if parts.query or base_url.rstrip().endswith("?"):
        raise RequestError(
            'expected a base URL without a query: it goes into query={...}, such as {"api-version": "2024-10-21"}'
        )
    if parts.fragment or base_url.rstrip().endswith("#"):
        raise RequestError("expected a base URL without a fragment: what stands behind # is sent to no server")
    path = quote(parts.path.rstrip("/"), safe=_IN_PATH)
    path = path.removesuffix(CHAT).rstrip("/") if path.endswith(CHAT) else path or _USUAL
    host = str(parts.hostname)
    chosen, source = (proxy, "") if proxy is not None else _from_environment(parts.scheme, host, parts.netloc)
    return Address(f"{parts.scheme}://{parts.netloc}{path}", _proxy(chosen, source) if chosen else None)


def query(fields: Mapping[str, str] | None, /) -> Query:
    """The query of every request. No value is in any message.

    Raises:
        RequestError: it is no mapping, or a name or a value is no string.
    """
    if not isinstance(fields, Mapping | None):
        raise RequestError(f"expected a mapping or None as query, got {fields.__class__.__name__}")
    for name, value in (fields or {}).items():
        if not isinstance(name, str):
            raise RequestError(f"expected strings as the names in query, got {name.__class__.__name__}")
        if not isinstance(value, str):
            raise RequestError(f"expected a string as {clip(name)} in query, got {value.__class__.__name__}")
        if any("\ud800" <= sign <= "\udfff" for sign in name + value):
            raise RequestError("expected text in query, got half of a character")
    return Query(fields or {})


def without_query(url: str, /) -> str:
    """Where a redirect points: tokens of a login stand in its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "another place"
    return clip(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else parts.path)


def _split(url: str, what: str, example: str = "http://localhost:1234") -> Any:
    if any(sign <= " " or sign == "\x7f" for sign in url):
        raise RequestError(f"expected {what} without blanks and control characters")
    parts: Any = None
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise RequestError(f"expected {what} such as {example}, got one without http(s), host or port")
    if not ("[" in parts.netloc or re.fullmatch(_NAME, parts.hostname)):
        raise RequestError(f"expected {what} whose host has ASCII letters, digits and single dots (or its xn-- form)")
    return parts


def _proxy(url: str, source: str) -> Proxy:
    what = f"a proxy's URL in {source}" if source else "a proxy's URL"
    scheme, is_url, _ = url.partition("://")
    if is_url and scheme.lower() not in ("http", "https") and re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        cure = "; NO_PROXY=... or proxy=... goes before it" if source else ""
        raise RequestError(f"expected an http or https proxy in {source or 'proxy'}, got {scheme.lower()}://{cure}")
    parts = _split(url if is_url else f"http://{url}", what, "http://localhost:3128")
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    return Proxy(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", user, password, source)


def _from_environment(scheme: str, host: str, netloc: str) -> tuple[str | None, str]:
    """The proxy that the environment names for a server, and the variable that does."""
    if _is_loopback(host):
        return None, ""
    from urllib import request

    proxies = request.getproxies_environment()
    if request.proxy_bypass_environment(netloc, proxies):  # type: ignore[attr-defined]
        return None, ""
    kind = scheme if proxies.get(scheme) else "all"
    url = proxies.get(kind)
    names = (name for name, value in os.environ.items() if name.lower() == f"{kind}_proxy" and value == url)
    return url, next(names, f"{kind.upper()}_PROXY")


def _is_loopback(host: str) -> bool:
    """Whether a host is this machine; `0.0.0.0` is what local servers print as their address."""
    host = host.rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
