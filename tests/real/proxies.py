"""Real proxies as processes on loopback, each with a configuration of its own; skipped where they are not installed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

import pytest
from processes import free_port, running

USER, PASSWORD = "someone", "a-password"

_PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
"""Debian has its servers where only root's shell looks for programs."""

_NGINX = """
daemon off;
master_process off;
pid $folder/nginx.pid;
events {}
http {
    access_log off;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxied;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    server {
        listen 127.0.0.1:$port;
        client_max_body_size 64m;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        location / {
            proxy_pass $upstream;
            $directives
        }
    }
}
"""

_HAPROXY = """
global
    maxconn 64
defaults
    mode http
    retries 0
    timeout connect 10s
    timeout client 60s
    timeout server 60s
listen tests
    bind 127.0.0.1:$port
    server upstream $upstream
    $directives
"""

_TINYPROXY = """
Listen 127.0.0.1
Port $port
Timeout 60
MaxClients 16
LogLevel Warning
Allow 127.0.0.1
BasicAuth $user $password
"""

_MITMPROXY = """
listen_host: 127.0.0.1
listen_port: $port
ssl_insecure: true
$directives
"""


@contextmanager
def nginx(folder: Path, upstream: str, *directives: str) -> Iterator[str]:
    """The URL of an nginx before the server at `upstream`.

    Args:
        directives: for its location, without their semicolons.
    """
    options = ["-e", "stderr", "-p", str(folder), "-c"]
    with _started("nginx", options, folder, _NGINX, upstream=upstream, directives="; ".join([*directives, ""])) as url:
        yield url


@contextmanager
def haproxy(folder: Path, upstream: str, *directives: str) -> Iterator[str]:
    """The URL of an HAProxy before the server at `upstream`.

    Args:
        directives: for the section of its only proxy.
    """
    upstream, lines = upstream.removeprefix("http://"), "\n".join(directives)
    with _started("haproxy", ["-db", "-f"], folder, _HAPROXY, upstream=upstream, directives=lines) as url:
        yield url


@contextmanager
def tinyproxy(folder: Path) -> Iterator[str]:
    """The URL of a tinyproxy, which opens tunnels and passes requests on, for `USER` with `PASSWORD`."""
    with _started("tinyproxy", ["-d", "-c"], folder, _TINYPROXY, user=USER, password=PASSWORD) as url:
        yield url


@contextmanager
def mitmproxy(folder: Path, *directives: str) -> Iterator[tuple[str, Path]]:
    """The URL of a mitmproxy, and the certificate of the authority that it makes for itself.

    Args:
        directives: more lines of its configuration.
    """
    options = ["-q", "--set", f"confdir={folder}"]
    with _started("mitmdump", options, folder, _MITMPROXY, file="config.yaml", directives="\n".join(directives)) as url:
        yield url, folder / "mitmproxy-ca-cert.pem"


def with_password(url: str, password: str = PASSWORD, /) -> str:
    """The URL of a proxy, with the user and a password in it."""
    return url.replace("http://", f"http://{USER}:{password}@")


@contextmanager
def _started(
    program: str, options: list[str], folder: Path, configuration: str, *, file: str = "", **values: str
) -> Iterator[str]:
    """The URL of a proxy, once it takes connections.

    Args:
        options: of its command; the last one is followed by the name of its configuration, unless that has a `file`
            name of its own.
        values: what stands in the configuration, beside folder and port.
    """
    path, port = _path(program), free_port()
    written = folder / (file or "configuration")
    written.write_text(Template(configuration).substitute(values, folder=folder, port=port))
    with running([*_lifeline(), path, *options, *([] if file else [str(written)])], folder) as server:
        server.listening(port)
        yield f"http://127.0.0.1:{port}"


def _path(program: str) -> str:
    path = shutil.which(program, path=_PATH)
    if path is None:
        cure = "pip install mitmproxy" if program == "mitmdump" else f"apt-get install {program}"
        pytest.skip(f"{program} not installed: {cure}")
    return path


def _lifeline() -> list[str]:
    """Lets a program end with its parent: even a test run that is killed leaves none."""
    setpriv = shutil.which("setpriv", path=_PATH)
    return [setpriv, "--pdeathsig", "TERM"] if setpriv else []
