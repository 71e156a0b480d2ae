"""Certificates for TLS on loopback, made by `openssl` when a test needs them: no key is kept in the repository."""

import atexit
import shutil
import ssl
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest


@cache
def _made(name: str) -> Path:
    """A self-signed certificate for `name` and its key in one file, until the process ends."""
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command: apt-get install openssl")
    directory = tempfile.mkdtemp(prefix="svir-tls-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    key, certificate, both = (Path(directory, f"{part}.pem") for part in ("key", "certificate", "both"))
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=svir test", "-addext", f"subjectAltName={name}"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    return both


def server_tls(name: str = "IP:127.0.0.1") -> ssl.SSLContext:
    """A server's context with a certificate for `name`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(_made(name))
    return context


def client_tls(*names: str) -> ssl.SSLContext:
    """A client's context that trusts the certificates of `server_tls` for these names, and checks them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for name in names or ("IP:127.0.0.1",):
        context.load_verify_locations(_made(name))
    return context
