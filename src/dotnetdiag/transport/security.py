"""Who may talk over TCP: TLS with certificates on both sides, and a token that both know. The protocol itself has neither.

The token goes first, after the TLS handshake, from the side that dials. It is no part of Diagnostic IPC; both ends have to be ours.

======  ======  =====================================
offset  type    field
0       8       ``DDTOKEN`` and a zero
8       32      SHA-256 of the token's UTF-8
======  ======  =====================================

Nothing answers it: a listener that expects another one hangs up.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import hmac
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.errors import ConnectFailed, ConnectionEnded, InsecureAddress, TransportError, UsageError
from dotnetdiag.transport.addresses import Address, TcpAddress
from dotnetdiag.transport.forks import close_in_forked_child
from dotnetdiag.transport.sockets import SocketStream, reason
from dotnetdiag.transport.waiting import Ready, Steps, is_ready

if TYPE_CHECKING:
    import ssl

MAGIC = b"DDTOKEN\0"
SIZE = 40
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 1024
AUTHENTICATION_S = 5.0
"""For the handshake and the token of one connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Files in PEM form, and the token. ``certificate`` (with ``key``, unless that is in the same file) is what we show; ``ca`` holds whom we
    believe, about the other side's certificate. Without ``certificate`` and ``ca`` there is no TLS, without ``token`` none is sent or expected.

    A certificate must be for the name or number that is dialled. Raises UsageError for half of a set, and for a token that is short.
    """

    certificate: str = ""
    key: str = ""
    ca: str = ""
    token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if bool(self.certificate) != bool(self.ca):
            have, lack = (
                ("a certificate", "the CA that signs the other side's")
                if self.certificate
                else ("a CA", "a certificate")
            )
            raise UsageError(f"TLS with {have} needs {lack} too: both sides show one")
        if self.key and not self.certificate:
            raise UsageError("a key without its certificate")
        if self.token and not SHORTEST_TOKEN <= len(self.token) <= LONGEST_TOKEN:
            raise UsageError(f"a token has {SHORTEST_TOKEN} to {LONGEST_TOKEN} characters, this one {len(self.token)}")

    @property
    def is_complete(self) -> bool:
        """Whether it is enough beyond loopback: TLS with certificates on both sides, and a token."""
        return bool(self.certificate and self.token)

    @property
    def digest(self) -> bytes:
        """What is sent of the token."""
        return hashlib.sha256(self.token.encode()).digest()

    @property
    def preamble(self) -> bytes:
        """What a dialler sends first."""
        return MAGIC + self.digest


NO_SECURITY = Security()


def read_token(path: str) -> str:
    """The token in a file, without blanks around it. Raises UsageError where there is none."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(LONGEST_TOKEN * 4 + 1).decode().strip()
    except (OSError, ValueError) as exc:
        raise UsageError(f"{path}: no token can be read from there: {getattr(exc, 'strerror', '') or exc}") from exc
    if not text:
        raise UsageError(f"{path}: there is no token in it")
    return text


def require_secure(address: Address, security: Security, *, insecure: bool) -> None:
    """Raise UsageError for TCP beyond loopback without TLS and a token, unless that is wanted."""
    is_local = not isinstance(address, TcpAddress) or address.is_loopback
    if not (is_local or insecure or security.is_complete):
        raise InsecureAddress(str(address))


def introducing(stream: SocketStream, security: Security, host: str) -> Steps[SocketStream]:
    """The dialler's side: the handshake, then the token. The stream is closed when it fails. Raises ConnectFailed."""
    stream = yield from _with_tls(stream, security, host=host)
    if security.token:
        try:
            yield from stream.sending(security.preamble)
        except BaseException:
            stream.close()
            raise
    return stream


def welcoming(stream: SocketStream, security: Security) -> Steps[SocketStream]:
    """The listener's side. The stream is closed when it fails. Raises ConnectFailed for who is not let in, ConnectionEnded."""
    stream = yield from _with_tls(stream, security, host=None)
    try:
        if security.token:
            said = bytearray(SIZE)
            view = memoryview(said)
            while view:
                count = yield from stream.receiving_into(view)
                if not count:
                    raise ConnectionEnded(
                        "the peer closed the connection before it sent its token", address=stream.address
                    )
                view = view[count:]
            if not hmac.compare_digest(bytes(said), security.preamble):
                raise ConnectFailed("the peer has not sent our token", address=stream.address, errno=errno.EACCES)
    except BaseException:
        stream.close()
        raise
    return stream


def _with_tls(stream: SocketStream, security: Security, *, host: str | None) -> Steps[SocketStream]:
    if not security.certificate:
        return stream
    import ssl

    try:
        context = context_of(security, for_server=host is None)
        encrypted = context.wrap_socket(
            stream.detach(), server_side=host is None, server_hostname=host, do_handshake_on_connect=False
        )
    except OSError as exc:
        stream.close()
        raise ConnectFailed(f"no TLS: {_tls_reason(exc)}", address=stream.address) from exc
    except BaseException:
        stream.close()
        raise
    made = TlsStream(encrypted, address=stream.address)
    stream.goes_on_as(encrypted)
    if host is None:
        close_in_forked_child(made)
    try:
        while True:
            try:
                encrypted.do_handshake()
                return made
            except ssl.SSLWantReadError:
                yield Ready(encrypted, False, "no TLS handshake", stream.address)
            except ssl.SSLWantWriteError:
                yield Ready(encrypted, True, "no TLS handshake", stream.address)
    except BaseException as exc:
        made.close()
        if isinstance(exc, OSError) and not isinstance(exc, TransportError):
            raise ConnectFailed(f"the TLS handshake failed: {_tls_reason(exc)}", address=stream.address) from exc
        raise


@functools.lru_cache(maxsize=16)
def context_of(security: Security, *, for_server: bool) -> ssl.SSLContext:
    """For connections. Raises UsageError for files that cannot be used."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if for_server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.check_hostname = not for_server
    # the end of a half is TCP's own: OpenSSL's cannot be told without waiting for the other. A trace that was cut is seen to be
    context.options |= getattr(ssl, "OP_IGNORE_UNEXPECTED_EOF", 0)
    try:
        context.load_verify_locations(security.ca)
        context.load_cert_chain(security.certificate, security.key or None, password=_no_password)
    except OSError as exc:
        for path in filter(None, (security.certificate, security.key, security.ca)):
            try:
                with open(path, "rb"):
                    pass
            except OSError as unread:
                raise UsageError(f"{path}: no certificate or key can be read from there: {unread.strerror}") from unread
        raise UsageError(f"TLS with {security.certificate} and {security.ca}: {_tls_reason(exc)}") from exc
    if for_server:
        context.num_tickets = 0  # nobody resumes a session, and one that was not read makes of an end a reset
    return context


def _no_password() -> str:
    raise UsageError("the key has a password, and nobody is asked for one: give it without")


def _tls_reason(exc: OSError) -> str:
    return getattr(exc, "verify_message", "") or getattr(exc, "reason", "") or reason(exc)


def check(security: Security) -> None:
    """Read the files, so that what is wrong with them is said before anybody dials. Raises UsageError."""
    if security.certificate:
        context_of(security, for_server=True)


class TlsStream(SocketStream):
    """A stream over TLS. OpenSSL takes one call at a time."""

    IS_PLAIN = False

    def __init__(self, connection: ssl.SSLSocket, *, address: str = "") -> None:
        super().__init__(connection, address=address)
        self._tls, self._lock = connection, threading.Lock()

    def send_nowait(self, data: bytes | memoryview) -> int:
        import ssl

        with self._lock:
            try:
                return self._tls.send(data)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as exc:
                raise BlockingIOError from exc
            except ssl.SSLError as exc:
                raise _broken(exc) from exc

    def receive_nowait(self, view: memoryview) -> int:
        import ssl

        with self._lock:
            try:
                return self._tls.recv_into(view)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as exc:
                raise BlockingIOError from exc
            except ssl.SSLError as exc:
                raise _broken(exc) from exc

    def has_arrived(self, size: int = 1) -> bool:
        """Also for what is no data, as the end that TLS itself tells. More than one byte is encrypted, and cannot be counted: False."""
        if size > 1 or not self._refs.acquire():
            return False
        try:
            return is_ready(self._tls.fileno(), False, 0) or self._is_read_ahead()
        except OSError:
            return True  # it is reset: that is its end
        finally:
            self._refs.release()

    def _is_read_ahead(self) -> bool:
        with self._lock:
            return self._tls.pending() > 0


def _broken(exc: ssl.SSLError) -> OSError:
    """TLS has numbers of its own, which are no errno."""
    import ssl

    if isinstance(exc, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return ConnectionResetError(errno.ECONNRESET, "the peer closed the connection")
    return OSError(errno.EPROTO, f"TLS: {_tls_reason(exc)}")
