"""TLS and token, from files and the environment."""

from __future__ import annotations

import os

from dotnetdiag.errors import UsageError
from dotnetdiag.transport.security import Security, read_token

TOKEN_VARIABLE = "DOTNETDIAG_TOKEN"  # noqa: S105 - the name of a variable


def security_of(*, certificate: str = "", key: str = "", ca: str = "", token_file: str = "") -> Security:
    """Without ``token_file`` the token is that of the variable DOTNETDIAG_TOKEN, if there is one and TLS is asked for. Raises UsageError."""
    token = read_token(token_file) if token_file else ""
    if not token and certificate:
        token = os.environ.get(TOKEN_VARIABLE, "")
    return Security(certificate=certificate, key=key, ca=ca, token=token)


def token_of(*, file: str = "", variable: str = "") -> str:
    """The token in a file, or in a variable of the environment; empty where neither is named. Raises UsageError for one that is none."""
    if file:
        return security_of(token_file=file).token
    if not variable:
        return ""
    token = os.environ.get(variable, "").strip()
    if not token:
        raise UsageError(f"{variable}: there is no such variable, or nothing in it")
    return Security(token=token).token
