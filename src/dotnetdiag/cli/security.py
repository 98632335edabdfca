"""The options of TLS and token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--tls-cert", metavar="FILE", help="Our certificate (PEM), shown to the other side of TCP."),
    click.option("--tls-key", metavar="FILE", help="Its key, unless the certificate's file has it."),
    click.option("--tls-ca", metavar="FILE", help="The CA that signed the other side's certificate."),
    click.option("--token-file", metavar="FILE", help="The shared token; else that in DOTNETDIAG_TOKEN."),
)


def security_options(function: F) -> F:
    """``--tls-cert``, ``--tls-key``, ``--tls-ca``, ``--token-file``."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
