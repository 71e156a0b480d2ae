"""Where the server is: the base URL in its one form, and the proxy on the way."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import unquote, urlsplit

import urllib3
from msgspec import Struct

from ..errors import RequestError, clip
from .headers import Headers


class Proxy(Struct, frozen=True):
    """A proxy; its credentials are in no repr."""

    url: str
    user: str | None = None
    password: str | None = None

    def __repr__(self) -> str:
        return f"Proxy({self.url!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("url", self.url)]

    @property
    def headers(self) -> dict[str, str]:
        """What the proxy is told of who asks."""
        if self.user is None:
            return {}
        return urllib3.make_headers(proxy_basic_auth=f"{self.user}:{self.password or ''}")

    def manager(self, options: dict[str, Any], /) -> urllib3.ProxyManager:
        # One context for both: a proxy behind TLS is verified as the server is.
        tls = options.get("ssl_context")
        return urllib3.ProxyManager(self.url, proxy_headers=Headers(self.headers), proxy_ssl_context=tls, **options)


class Address(Struct, frozen=True):
    """A server.

    Args:
        base: scheme, host, port and path up to and with `/v1`, without a slash at the end.
        proxy: the proxy to go through.
    """

    base: str
    proxy: Proxy | None = None

    def url(self, path: str, /) -> str:
        return self.base + path

    @property
    def encrypted(self) -> bool:
        """Whether TLS is spoken, to the server or to the proxy."""
        return any(url.startswith("https:") for url in (self.base, self.proxy.url if self.proxy else ""))

    @property
    def shown(self) -> str:
        """Scheme, host and port, for a message."""
        parts = urlsplit(self.base)
        return f"{parts.scheme}://{parts.netloc}"


def parse(base_url: str, proxy: str | None = None, /) -> Address:
    """The address that a base URL names, with or without `/v1`, with or without slashes at its end.

    Args:
        base_url: such as "http://localhost:1234", "https://NAME.openai.azure.com/openai/v1/".
        proxy: a proxy's URL; by default `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` decide. A loopback host is never
            reached through a proxy of the environment.

    Raises:
        RequestError: another scheme than http and https, no host, userinfo, a query or a fragment.
    """
    parts = _split(base_url, "a base URL")
    if parts.username is not None or parts.password is not None:
        raise RequestError("expected a base URL without a user and password in it (api_key=... takes the key)")
    if parts.query or parts.fragment or base_url.rstrip().endswith(("?", "#")):
        raise RequestError("expected a base URL without a query and a fragment")
    path = parts.path.rstrip("/")
    if path.rpartition("/")[2] != "v1":
        path += "/v1"
    host = str(parts.hostname)
    chosen = proxy if proxy is not None else _from_environment(parts.scheme, host, parts.netloc)
    return Address(f"{parts.scheme}://{parts.netloc}{path}", _proxy(chosen) if chosen else None)


def without_query(url: str, /) -> str:
    """Where a redirect points: tokens of a login stand in its query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "another place"
    return clip(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}" if parts.netloc else parts.path)


def _split(url: str, what: str) -> Any:
    if any(sign <= " " or sign == "\x7f" for sign in url):
        raise RequestError(f"expected {what} without blanks and control characters")
    parts = None
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid:
        raise RequestError(f"expected {what} such as http://localhost:1234, got one without http(s), host or port")
    return parts


def _proxy(url: str) -> Proxy:
    parts = _split(url if "://" in url else f"http://{url}", "a proxy's URL")
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    return Proxy(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", user, password)


def _from_environment(scheme: str, host: str, netloc: str) -> str | None:
    if _is_loopback(host):
        return None
    from urllib import request

    proxies = request.getproxies_environment()
    if request.proxy_bypass_environment(netloc, proxies):  # type: ignore[attr-defined]
        return None
    return proxies.get(scheme) or proxies.get("all")


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
