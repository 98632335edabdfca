"""Certificates for tests: a CA, and what it signs for this machine, made with ``openssl`` when they are asked for."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from contextlib import suppress
from enum import Enum
from pathlib import Path

import pytest

from dotnetdiag.transport.security import Security, context_of

TOKEN = "a token of the tests"


def security(folder: Path, *, name: str = "ours", token: str = TOKEN) -> Security:
    """Files in ``folder`` for both sides; another ``name`` has another CA."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    ca, certificate, request, key = (folder / f"{name}.{end}" for end in ("ca", "pem", "csr", "key"))
    if not certificate.exists():
        made = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        _openssl("req", "-x509", *made, "-keyout", f"{ca}.key", "-out", ca, "-subj", f"/CN={name} CA", "-days", "2")
        _openssl("req", *made, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        extensions = folder / f"{name}.ext"
        extensions.write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
        signed = ("-CA", ca, "-CAkey", f"{ca}.key", "-CAcreateserial", "-days", "2", "-extfile", extensions)
        _openssl("x509", "-req", "-in", request, *signed, "-out", certificate)
    return Security(certificate=str(certificate), key=str(key), ca=str(ca), token=token)


class Goodbye(Enum):
    """How a TLS peer may end."""

    CLOSED = "it has closed the connection"
    UNREAD = "it has said something before that, which nobody reads"
    TOLD = "it has told so in TLS, and has closed the connection"
    TOLD_ONLY = "it has told so in TLS, and waits for the same from us"


def dialled_with_tls(address: tuple[str, int], ours: Security, data: bytes = b"") -> ssl.SSLSocket:
    """A connection whose dialler has shown certificate and token, and said this."""
    connection = socket.create_connection(address, timeout=30)
    dialled = context_of(ours, for_server=False).wrap_socket(connection, server_hostname="127.0.0.1")
    dialled.sendall(ours.preamble + data)
    return dialled


def say(goodbye: Goodbye, dialled: ssl.SSLSocket) -> None:
    """End it that way, as far as can be done without waiting."""
    if goodbye is Goodbye.UNREAD:
        dialled.sendall(b"x")
    elif goodbye is not Goodbye.CLOSED:
        dialled.setblocking(False)
        with suppress(ssl.SSLWantReadError):
            dialled.unwrap()
    if goodbye is not Goodbye.TOLD_ONLY:
        dialled.close()


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=30)
