"""A collector of OpenTelemetry: where it is, how it is spoken to, and what has become of what it was sent.

What sends is in :mod:`~dotnetdiag.recipes.exporters`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.errors import UsageError, WrongCombination
from dotnetdiag.transport.loopback_users import is_loopback

ENDPOINT, HEADERS, PROTOCOL = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_PROTOCOL"
"""Variables that say the same for programs that send by themselves."""
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
_SCHEMES = {"http": (False, False), "https": (False, True), "grpc": (True, False), "grpcs": (True, True)}
"""Whether it is gRPC, and whether with TLS."""
_PROTOCOLS = {"": None, "http/protobuf": False, "grpc": True}
_GRPC_PORT, _HTTP_PORT = 4317, 4318


class Signal(StrEnum):
    """What is sent. The value is the last part of its path over HTTP."""

    METRICS = "metrics"
    LOGS = "logs"
    TRACES = "traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """Whether a collector has taken something. ``again``: it makes sense to send it once more. ``why`` not, in one line.

    ``apart``: of several parcels it may take some, in smaller requests. ``rejected``: records that it has not kept, although it took the request.
    """

    taken: bool
    again: bool = False
    why: str = ""
    apart: bool = False
    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorOptions:
    """Where a collector is. ``base`` is a URL without the path of a signal, or, for gRPC, ``HOST:PORT``; ``ca`` a file of certificates (PEM),
    empty: the system's. ``headers`` have values that nobody is to see.
    """

    base: str
    grpc: bool = False
    tls: bool = False
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    ca: str = ""
    timeout_s: float | None = None
    """For one delivery, with all that is tried again; None: OpenTelemetry's ten seconds, or what its variable says."""

    @property
    def is_here(self) -> bool:
        """Whether it is on this machine."""
        return _is_here(self.base)

    @property
    def url(self) -> str:
        """For people, without anything secret."""
        return f"{'grpcs' if self.tls else 'grpc'}://{self.base}" if self.grpc else self.base


def collector_options(
    to: str = "",
    *,
    headers: Mapping[str, str] | None = None,
    ca: str = "",
    insecure: bool = False,
    environment: Mapping[str, str] | None = None,
    timeout_s: float | None = None,
) -> CollectorOptions:
    """What a URL means (``http``, ``https``, ``grpc``, ``grpcs``). ``environment`` has what is not given here: the address, how it is spoken to,
    and headers, as OpenTelemetry's variables say them.

    Raises UsageError for what makes no sense, and for headers that would go in clear text beyond this machine unless that is wanted
    (``insecure``).
    """
    environment = environment or {}
    given = to.strip() or environment.get(ENDPOINT, "").strip()
    if not given:
        raise WrongCombination(f"no collector is named, and {ENDPOINT} does not say one", lacking="collector")
    made = _parsed(given, "" if to.strip() else environment.get(PROTOCOL, "").strip())
    said = {
        **_variable_headers(environment.get(HEADERS, "")),
        **{key.lower(): one for key, one in (headers or {}).items()},
    }
    for name, value in said.items():
        if not _NAME.fullmatch(name) or not _VALUE.fullmatch(value):
            raise UsageError(
                f"header {name!r}: a name of letters, digits and dashes, and a value of printable ASCII are expected"
            )
    if said and not made.tls and not insecure and not _is_here(made.base):
        raise WrongCombination(
            f"{made.url} has no TLS: everybody on the way could read the headers", lacking="insecure"
        )
    if ca and not made.tls:
        raise UsageError(f"{made.url} has no TLS, so there is nothing that certificates could prove")
    if ca and not Path(ca).is_file():
        raise UsageError(f"{ca}: there is no such file")
    return CollectorOptions(base=made.base, grpc=made.grpc, tls=made.tls, headers=said, ca=ca, timeout_s=timeout_s)


def _parsed(text: str, protocol: str) -> CollectorOptions:
    if protocol not in _PROTOCOLS:
        raise UsageError(f"{PROTOCOL}={protocol}: http/protobuf or grpc is expected")
    url = _split(text)
    scheme = _SCHEMES.get(url.scheme.lower())
    if scheme is None or not url.hostname or url.query or url.fragment:
        raise UsageError(f"{text!r} is no collector: http://HOST:{_HTTP_PORT} or grpc://HOST:{_GRPC_PORT} is expected")
    if url.username or url.password:
        raise UsageError("a URL has no name and password here: give a header")
    is_grpc = scheme[0] or bool(_PROTOCOLS[protocol])
    try:
        port = url.port
    except ValueError as error:
        raise UsageError(f"{text!r} has no port that could be one") from error
    host = f"[{url.hostname}]" if ":" in url.hostname else url.hostname
    if is_grpc:
        if url.path.strip("/"):
            raise UsageError(f"{text!r}: gRPC has no path")
        return CollectorOptions(base=f"{host}:{port or _GRPC_PORT}", grpc=True, tls=scheme[1])
    place = host if port is None else f"{host}:{port}"
    return CollectorOptions(base=f"{url.scheme.lower()}://{place}{url.path.rstrip('/')}", tls=scheme[1])


def _split(text: str) -> SplitResult:
    try:
        return urlsplit(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no URL: {error}") from error


def _variable_headers(text: str) -> dict[str, str]:
    """``key=value,key=value``, with values as in a URL."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair.strip())
    return {key.strip().lower(): unquote(value.strip()) for key, _, value in pairs}


def _is_here(base: str) -> bool:
    host = urlsplit(base if "://" in base else f"//{base}").hostname or ""
    try:
        return host == "localhost" or is_loopback(host)
    except ValueError:
        return False
