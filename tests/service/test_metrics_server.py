"""Requests, over real sockets on loopback."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.transport.certificates import security

from dotnetdiag.errors import ConnectFailed, GrammarError, UsageError, WrongCombination
from dotnetdiag.service import metrics_server
from dotnetdiag.service.metrics_server import MetricsServer, parse_bind
from dotnetdiag.service.prometheus import Page

PATIENCE_S = 30.0
TOKEN = "a-token-of-some-length"


def page(accept: str) -> Page:
    return Page(body=f"asked for {accept}".encode(), content_type="text/x")


@contextmanager
def serving(
    page: Callable[[str], Page] = page, *, host: str = "127.0.0.1", **options: object
) -> Iterator[tuple[str, int]]:
    """Host and port of a server."""
    with MetricsServer(page, (host, 0), **options) as server:  # type: ignore[arg-type]
        yield server._server.server_address[:2]  # type: ignore[misc]


def answer(
    at: tuple[str, int], path: str = "/metrics", method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    with closing(http.client.HTTPConnection(*at, timeout=PATIENCE_S)) as connection:
        connection.request(method, path, headers=headers or {})
        said = connection.getresponse()
        return said.status, said.headers, said.read()


def raw(at: tuple[str, int], request: bytes) -> bytes:
    """All that comes back until the server hangs up."""
    with socket.create_connection(at, timeout=PATIENCE_S) as connection:
        connection.sendall(request)
        return read_all(connection)


def read_all(connection: socket.socket) -> bytes:
    made = b""
    try:
        while data := connection.recv(1 << 16):
            made += data
    except ConnectionResetError:  # it had more to say than was read
        pass
    return made


def test_metrics_are_what_the_header_asks_for() -> None:
    with serving() as at:
        status, headers, body = answer(at, "/metrics?x=y", headers={"Accept": "text/z"})
        assert (status, headers["Content-Type"], body) == (200, "text/x", b"asked for text/z")
        assert headers["Cache-Control"] == "no-store"
        status, headers, body = answer(at, method="HEAD")
        assert (status, headers["Content-Length"], body) == (200, "10", b"")


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/", 200, b"Counters of .NET processes, for Prometheus: /metrics\n"),
        ("GET", "/-/healthy", 200, b"healthy\n"),
        ("GET", "/metrics/", 404, b"there is only /metrics\n"),
        ("POST", "/metrics", 405, b"only GET and HEAD\n"),
        ("DELETE", "/x", 405, b"only GET and HEAD\n"),
        ("BREW", "/metrics", 405, b"only GET and HEAD\n"),
    ],
)
def test_there_is_nothing_else(method: str, path: str, status: int, body: bytes) -> None:
    with serving() as at:
        said, headers, text = answer(at, path, method)
        assert (said, text) == (status, body)
        assert headers.get("Allow") == ("GET, HEAD" if status == 405 else None)


def test_a_connection_is_for_many_requests() -> None:
    with serving() as at, closing(http.client.HTTPConnection(*at, timeout=PATIENCE_S)) as connection:
        for number in range(3):
            connection.request("GET", "/metrics", headers={"Accept": str(number)})
            assert connection.getresponse().read() == f"asked for {number}".encode()


@pytest.mark.parametrize("header", [b"Content-Length: 40", b"Transfer-Encoding: chunked"])
def test_what_comes_with_a_request_is_no_request(header: bytes) -> None:
    with serving() as at:
        said = raw(at, b"GET /metrics HTTP/1.1\r\n" + header + b"\r\n\r\nGET /-/healthy HTTP/1.1\r\n\r\n")
        assert said.count(b"HTTP/1.1 ") == 1
        assert b"Connection: close" in said


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nA: " + b"x" * 20_000 + b"\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5_000 + b"\r\n", b"431"),
        (b"GET / HTTP/3.0\r\n\r\n", b"505"),
        (b"GET http://[ HTTP/1.1\r\nConnection: close\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x00\x05hello\r\n", b"400"),
    ],
    ids=["line", "header", "headers", "version", "address", "no request", "TLS"],
)
def test_a_request_has_some_kilobytes_and_is_one(request_bytes: bytes, status: bytes) -> None:
    with serving() as at:
        assert re.match(rb"HTTP/1\.1 %b " % status, raw(at, request_bytes))
        assert answer(at)[0] == 200, "others are served"


def test_who_takes_too_long_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "REQUEST_S", 0.2)
    monkeypatch.setattr(metrics_server._Handler, "timeout", PATIENCE_S)
    with serving() as at, socket.create_connection(at, timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET /metr")
        assert read_all(connection) == b""


def test_who_says_nothing_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server._Handler, "timeout", 0.05)
    with serving() as at, socket.create_connection(at, timeout=PATIENCE_S) as connection:
        assert read_all(connection) == b""


def test_beyond_the_limit_of_connections_nobody_is_served_until_one_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "MOST_CONNECTIONS", 2)
    with serving() as at:
        held = [http.client.HTTPConnection(*at, timeout=PATIENCE_S) for _ in range(2)]
        for one in held:
            one.request("GET", "/metrics")
            one.getresponse().read()
        with socket.create_connection(at, timeout=PATIENCE_S) as connection:
            assert read_all(connection) == b""
        held[0].close()
        for _ in range(1000):  # the server learns of it when it reads
            try:
                assert answer(at)[0] == 200
                break
            except (http.client.RemoteDisconnected, ConnectionResetError):
                continue
        else:
            raise AssertionError("there was no room again")
        held[1].close()


def test_a_page_that_takes_long_does_not_hold_up_the_others() -> None:
    begun, ready = threading.Event(), threading.Event()

    def slow(_: str) -> Page:
        begun.set()
        ready.wait(PATIENCE_S)
        return page("")

    with serving(slow) as at:
        asking = threading.Thread(target=answer, args=(at,))
        asking.start()
        assert begun.wait(PATIENCE_S)
        assert answer(at, "/-/healthy")[0] == 200
        ready.set()
        asking.join(PATIENCE_S)
        assert not asking.is_alive()


def test_a_page_that_fails_is_told_to_who_asks() -> None:
    def fails(accept: str) -> Page:
        raise ValueError(accept)

    with serving(fails) as at:
        status, _, body = answer(at, headers={"Accept": "why"})
        assert (status, body) == (500, b"the page could not be made: ValueError: why\n")
        assert answer(at, "/-/healthy")[0] == 200


def test_closing_hangs_up_on_everybody_and_twice_is_once() -> None:
    server = MetricsServer(page, ("127.0.0.1", 0))
    with socket.create_connection(("127.0.0.1", server._server.server_port), timeout=PATIENCE_S) as connection:
        connection.sendall(b"GET /-/healthy HTTP/1.1\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        server.close()
        server.close()
        read_all(connection)  # which ends
    assert server.url.endswith("/metrics")


# who may ask ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        ("", 401),
        (TOKEN, 401),
        (f"Bearer {TOKEN}x", 401),
        (f"bearer {TOKEN}", 200),
        (f"BEARER  {TOKEN}", 200),
        (f"bearer {TOKEN[:-1]}", 401),
        (f"Basic {TOKEN}", 401),
        (f" {TOKEN}", 401),
        ("Basic YTpi", 401),
        ("Bearer é", 401),
    ],
)
def test_who_has_not_the_token_gets_nothing(said: str, status: int) -> None:
    with serving(token=TOKEN) as at:
        for path in ("/metrics", "/", "/x"):
            got, headers, body = answer(at, path, headers={"Authorization": said} if said else {})
            assert got == (404 if path == "/x" and status == 200 else status)
            if status == 401:
                assert (headers["WWW-Authenticate"], body) == ("Bearer", b"the token is missing\n")
        assert answer(at, "/-/healthy")[0] == 200, "which tells nothing of anybody"


@pytest.mark.parametrize("host", ["0.0.0.0", ""])
def test_beyond_loopback_a_token_is_needed_or_somebody_who_wants_none(host: str) -> None:
    with pytest.raises(WrongCombination, match="beyond loopback") as caught, serving(host=host):
        pass
    assert caught.value.lacking == "token"
    for options in ({"token": TOKEN}, {"insecure": True}):
        with serving(host=host, **options) as (_, port):
            assert answer(("127.0.0.1", port), "/-/healthy")[0] == 200


@pytest.mark.parametrize("token", ["with blanks in it", "zażółć-gęślą-jaźń", "line\nline-line-line"])
def test_a_token_that_no_header_can_have_is_refused(token: str) -> None:
    with pytest.raises(UsageError, match="a token in a header"), serving(token=token):
        pass


def test_with_a_certificate_it_is_https(tmp_path: Path) -> None:
    made = security(tmp_path)
    with MetricsServer(page, ("127.0.0.1", 0), certificate=made.certificate, key=made.key) as server:
        at = server._server.server_address[:2]
        assert server.url == f"https://127.0.0.1:{at[1]}/metrics"
        context = ssl.create_default_context(cafile=made.ca)
        with closing(
            http.client.HTTPSConnection("localhost", at[1], context=context, timeout=PATIENCE_S)
        ) as connection:
            connection.request("GET", "/metrics")
            assert connection.getresponse().status == 200
        with socket.create_connection(at, timeout=PATIENCE_S) as connection:  # type: ignore[arg-type]
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert b"200" not in read_all(connection)


def test_who_takes_too_long_for_a_handshake_is_hung_up_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_server, "REQUEST_S", 0.2)
    monkeypatch.setattr(metrics_server._Handler, "timeout", PATIENCE_S)
    made = security(tmp_path)
    with (
        serving(certificate=made.certificate, key=made.key) as at,
        socket.create_connection(at, timeout=PATIENCE_S) as connection,
    ):
        connection.sendall(b"\x16\x03\x01")
        assert read_all(connection) == b""


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("nothing")
    for path in (tmp_path / "x.pem", tmp_path / "absent.pem"):
        with pytest.raises(UsageError, match=r"\.pem: no certificate and key can be read"), serving(certificate=path):
            pass
    with pytest.raises(WrongCombination, match="a key is of a certificate"), serving(key=tmp_path / "x.pem"):
        pass


def test_an_address_that_is_taken_is_told_in_a_line() -> None:
    with serving() as (host, port), pytest.raises(ConnectFailed, match=rf"127\.0\.0\.1:{port}: Address already in use"):
        MetricsServer(page, (host, port))
    with pytest.raises(ConnectFailed, match=r"no-such-host\.invalid:1"):
        MetricsServer(page, ("no-such-host.invalid", 1))


@pytest.mark.parametrize(
    ("text", "bind"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("localhost:65535", ("localhost", 65535)),
        ("[::1]:80", ("::1", 80)),
        (":9", ("", 9)),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, bind: tuple[str, int]) -> None:
    assert parse_bind(text) == bind


@pytest.mark.parametrize("text", ["", "9879", "host", "host:", "host:x", "host:65536", "::1:80", "host:-1", "host:١"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        parse_bind(text)
