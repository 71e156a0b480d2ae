"""A certificate for TLS on loopback, made by `openssl` for one run: no key is kept in the repository."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def made(folder: Path, /) -> Path | None:
    """A self-signed certificate for 127.0.0.1 and its key in one file, `None` without the openssl command."""
    if shutil.which("openssl") is None:
        return None
    key, certificate, both = (folder / f"{part}.pem" for part in ("key", "certificate", "both"))
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=svir benchmark", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both


def server(certificate: str, /) -> ssl.SSLContext:
    """A server's context with the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def client(certificate: str, /) -> ssl.SSLContext:
    """A client's context that trusts the certificate and nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(certificate)
    return context
