"""The certificates of authorities: those of the system by default, and what to do where there are none."""

from __future__ import annotations

import os
import ssl
from functools import cache
from typing import Any

from urllib3.util.ssl_ import create_urllib3_context

_HINT = (
    '; no certificates of authorities are installed here: run "Install Certificates.command" from the folder of a '
    "Python of python.org (macOS), or pass ssl_context=ssl.create_default_context(cafile=certifi.where())"
)


@cache
def verifying() -> ssl.SSLContext:
    """A context that verifies certificates and names.

    urllib3 would make one for each connection, which takes longer than its handshake.
    """
    context = create_urllib3_context()
    context.load_default_certs()
    return context


def lacking(context: Any, /) -> str:
    """How to get certificates, for an error of verification; "" where a context has some."""
    return "" if _has_some(context) else _HINT


def _has_some(context: Any) -> bool:
    counted = getattr(context, "cert_store_stats", None)
    if counted is None or counted()["x509_ca"]:
        return True
    # Those of a folder are read when they are needed, and not counted before.
    paths: Any = ssl.get_default_verify_paths()
    return paths.cafile is not None or (paths.capath is not None and _holds_some(paths.capath))


def _holds_some(folder: str) -> bool:
    try:
        return bool(os.listdir(folder))
    except OSError:
        return False
