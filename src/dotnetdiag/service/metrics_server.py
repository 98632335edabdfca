"""HTTP for those who collect metrics: GET and HEAD of ``/metrics``, which is what somebody else has made, and nothing else.

Rule 1: a request has some kilobytes and some seconds, TLS and the answer included; who takes longer is hung up on, and so are those beyond
:data:`MOST_CONNECTIONS`.
Rule 2: beyond loopback nobody is answered who does not show the token (``Authorization: Bearer …``), unless that is wanted.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import BufferedIOBase
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any, Protocol, Self
from urllib.parse import urlsplit

from dotnetdiag.errors import ConnectFailed, GrammarError, UsageError, WrongCombination

MOST_CONNECTIONS = 32
REQUEST_BYTES = 16 << 10
"""Of the first line and all headers."""
REQUEST_S = 10.0
"""For a request and its answer, or for the next one on the same connection."""
POLL_S = 0.5
METRICS, HEALTHY = "/metrics", "/-/healthy"
_METHODS = ("GET", "HEAD")
_SCHEME = "bearer"
"""Of ``Authorization``, in lower case: HTTP takes any."""


class _Page(Protocol):
    @property
    def body(self) -> bytes: ...
    @property
    def content_type(self) -> str: ...


def parse_bind(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[::1]:PORT``, ``:PORT`` (every address of this machine, as ``0.0.0.0`` is). Raises GrammarError."""
    host, colon, port = text.rpartition(":")
    at = len(host) + 1 if colon else len(text)
    if not colon:
        raise GrammarError("address", text, at, "':' and a port are expected")
    if not (port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 1 << 16):
        raise GrammarError("address", text, at, "a port from 0 to 65535 is expected")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise GrammarError("address", text, 0, "brackets are expected around an address of IPv6")
    return host, int(port)


class MetricsServer:
    """Serves from the moment when it is made until it is closed, in threads of its own.

    ``page`` makes what an ``Accept`` header asks for, and is called in those threads. ``certificate`` (PEM) means TLS; its key is in the same
    file, or in ``key``. ``insecure``: anybody may ask, from anywhere.

    Raises ConnectFailed where the address cannot be had, and UsageError for one beyond loopback without ``token``, a token that cannot be one, and
    for a certificate or key that cannot be read.
    """

    def __init__(
        self,
        page: Callable[[str], _Page],
        bind: tuple[str, int],
        *,
        token: str = "",
        insecure: bool = False,
        certificate: str | Path = "",
        key: str | Path = "",
    ) -> None:
        if not token.isascii() or not token.isprintable() or " " in token:
            raise UsageError("a token in a header has letters, digits and signs of ASCII, and no blanks")
        tls = _tls(certificate, key)
        family, address = _resolved(*bind)
        if not (token or insecure or ipaddress.ip_address(address[0].partition("%")[0]).is_loopback):
            raise WrongCombination(
                f"{_shown(*bind)} is beyond loopback, where only who shows a token is answered", lacking="token"
            )
        try:
            self._server = _Server(family, address, page, token, tls)
        except OSError as error:
            raise ConnectFailed(error.strerror or str(error), address=_shown(*bind), errno=error.errno) from error
        self._scheme = "http" if tls is None else "https"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(POLL_S,), name="dotnetdiag metrics", daemon=True
        )
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where the metrics are."""
        host, port = self._server.server_address[:2]
        return f"{self._scheme}://{_shown(str(host), int(port))}{METRICS}"

    def close(self) -> None:
        """Hang up on everybody. Idempotent."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self._server.hang_up()


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, Any]:
    try:
        family, *_, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
    except OSError as error:
        raise ConnectFailed(error.strerror or str(error), address=_shown(host, port), errno=error.errno) from error
    return family, address


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tls(certificate: str | Path, key: str | Path) -> ssl.SSLContext | None:
    if not certificate:
        if key:
            raise WrongCombination("a key is of a certificate, and there is none", lacking="certificate")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key or None, password="")
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{certificate}: no certificate and key can be read: {reason}") from error
    return context


class _Server(ThreadingMixIn, HTTPServer):
    """A thread for each connection."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(
        self,
        family: socket.AddressFamily,
        address: Any,
        page: Callable[[str], _Page],
        token: str,
        tls: ssl.SSLContext | None,
    ) -> None:
        self.address_family = family
        self.page, self.tls = page, tls
        self.token = token.encode()
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, _Connection] = {}
        """By the socket that was accepted, which is empty once TLS has taken it over."""
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer's own asks the resolver for the name of this machine, and may wait for it
        if self.address_family == socket.AF_INET6:
            with suppress(OSError):
                self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether there is room for one more."""
        del client_address
        with self._lock:
            if len(self._connections) >= MOST_CONNECTIONS:
                return False
            self._connections[request] = _Connection(request)
            return True

    def extend(self, accepted: socket.socket) -> None:
        """A request is done: there is time for the next."""
        with self._lock:
            if accepted in self._connections:
                self._connections[accepted].until_s = time.monotonic() + REQUEST_S

    def with_tls(self, accepted: socket.socket, context: ssl.SSLContext) -> ssl.SSLSocket:
        """The socket that stands for an accepted one from now on; the handshake is still to be done."""
        with self._lock:
            made = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
            self._connections[accepted].socket = made
            return made

    def service_actions(self) -> None:
        """Hang up on those who take too long."""
        now = time.monotonic()
        with self._lock:
            for connection in self._connections.values():
                if connection.until_s < now:
                    connection.hang_up()

    def hang_up(self) -> None:
        """On everybody."""
        with self._lock:
            for connection in self._connections.values():
                connection.hang_up()

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that fails is nobody's business but the peer's."""


class _Connection:
    """One, and until when it may take."""

    __slots__ = ("socket", "until_s")

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.until_s = time.monotonic() + REQUEST_S

    def hang_up(self) -> None:
        """Whoever reads or writes in another thread is told that it has ended."""
        with suppress(OSError):  # not by the method of TLS, which takes away what the other thread has in hand
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)


class _Bounded:
    """Lines of requests: so many bytes of each."""

    def __init__(self, file: BufferedIOBase) -> None:
        self._file = file
        self.left = REQUEST_BYTES

    def readline(self, size: int = -1) -> bytes:
        """The next line. Raises LineTooLong beyond the limit."""
        line = self._file.readline(min(size, self.left + 1) if size >= 0 else self.left + 1)
        self.left -= len(line)
        if self.left < 0:
            raise LineTooLong("request")
        return line

    def close(self) -> None:
        self._file.close()

    @property
    def closed(self) -> bool:
        return self._file.closed


class _Handler(BaseHTTPRequestHandler):
    """Requests of one connection, one after another."""

    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # who says none gets a status too
    timeout = REQUEST_S
    server: _Server
    server_version, sys_version = "dotnetdiag", ""
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(code)d %(message)s\n"

    def setup(self) -> None:
        self._raw = self.request
        if self.server.tls is not None:
            self.request = self.server.with_tls(self._raw, self.server.tls)
            try:
                self.request.settimeout(self.timeout)
                self.request.do_handshake()
            except BaseException:
                self.request.close()
                raise
        super().setup()
        self._lines = _Bounded(self.rfile)
        self.rfile = self._lines  # type: ignore[assignment]

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()
        if self.request is not self._raw:
            with suppress(OSError):
                self.request.close()

    def handle_one_request(self) -> None:
        self._lines.left = REQUEST_BYTES
        try:
            super().handle_one_request()
        except LineTooLong:
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_URI_TOO_LONG)
            self.close_connection = True
        except OSError:  # the peer has gone, or was hung up on
            self.close_connection = True
        self.server.extend(self._raw)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def _answer(self) -> None:
        if self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self.close_connection = True  # what it sends besides is not read
        try:
            path = urlsplit(self.path).path
        except ValueError:  # brackets around what is no address
            self._send(HTTPStatus.BAD_REQUEST, b"the address cannot be read\n")
            return
        allowed = path == HEALTHY or self._has_token()
        if self.command not in _METHODS:
            self._send(HTTPStatus.METHOD_NOT_ALLOWED, b"only GET and HEAD\n", headers={"Allow": ", ".join(_METHODS)})
        elif not allowed:
            self._send(HTTPStatus.UNAUTHORIZED, b"the token is missing\n", headers={"WWW-Authenticate": "Bearer"})
        elif path == METRICS:
            self._send_page()
        elif path == HEALTHY:
            self._send(HTTPStatus.OK, b"healthy\n")
        elif path == "/":
            self._send(HTTPStatus.OK, f"Counters of .NET processes, for Prometheus: {METRICS}\n".encode())
        else:
            self._send(HTTPStatus.NOT_FOUND, f"there is only {METRICS}\n".encode())

    def _send_page(self) -> None:
        try:
            page = self.server.page(", ".join(self.headers.get_all("Accept", [])))
        except Exception as error:  # who asks learns of it, and the next one is answered
            problem = f"the page could not be made: {type(error).__name__}: {error}\n"
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, problem.encode("utf-8", "backslashreplace"))
        else:
            self._send(HTTPStatus.OK, page.body, page.content_type)

    def _has_token(self) -> bool:
        wanted = self.server.token
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        said = token.strip(" ").encode("utf-8", "replace")
        return not wanted or (hmac.compare_digest(said, wanted) and scheme.lower() == _SCHEME)

    def _send(
        self,
        status: HTTPStatus,
        body: bytes,
        content_type: str = "text/plain; charset=utf-8",
        headers: dict[str, str] | None = None,
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": content_type,
            "Content-Length": str(len(body)),
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *_: Any) -> None:
        """Nobody wants a line for each scrape."""
