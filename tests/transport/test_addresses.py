"""Texts to addresses and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.errors import GrammarError
from dotnetdiag.transport.addresses import Address, PipeAddress, TcpAddress, UnixAddress, parse_address

PIPE = "\\\\.\\pipe\\"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("/tmp/a.sock", UnixAddress("/tmp/a.sock")),
        ("dir/a.sock", UnixAddress("dir/a.sock")),
        ("./a:1", UnixAddress("./a:1")),
        ("uds:/tmp/a", UnixAddress("/tmp/a")),
        ("unix:a", UnixAddress("a")),
        ("unix:///tmp/a", UnixAddress("/tmp/a")),
        ("uds:1.2.3.4:5", UnixAddress("1.2.3.4:5")),
        ("namedpipe:x", PipeAddress("x")),
        (PIPE + "dotnet-diagnostic-7", PipeAddress("dotnet-diagnostic-7")),
        ("namedpipe:" + PIPE + "x", PipeAddress("x")),
        ("\\\\.\\PIPE\\x", PipeAddress("x")),
        ("tcp://localhost:9000", TcpAddress("localhost", 9000)),
        ("TCP://localhost:9000/", TcpAddress("localhost", 9000)),
        ("net.tcp://1.2.3.4:0", TcpAddress("1.2.3.4", 0)),
        ("127.0.0.1:9000", TcpAddress("127.0.0.1", 9000)),
        ("[::1]:9000", TcpAddress("::1", 9000)),
        ("[fe80::1%eth0]:9000", TcpAddress("fe80::1%eth0", 9000)),
        ("*:65535", TcpAddress("*", 65535)),
    ],
)
def test_text_means_address(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(text, platform="win32") == address


def test_bare_word_is_a_socket_on_posix_and_a_pipe_on_windows() -> None:
    assert parse_address("word", platform="linux") == UnixAddress("word")
    assert parse_address("word", platform="win32") == PipeAddress("word")


@pytest.mark.parametrize(
    "text",
    [
        "", "  ", "uds:", "namedpipe:", PIPE, "tcp://", "tcp://host", "host:", ":9000", "tcp://:9000", "host:65536",
        "host:99999999999", "host:nine", "host:٣", "::1:9000", "[::1]", "tcp://a b:9", "http://host:80", "/a\0b", "/a\ud800b",
        "tcp://host:80/path", "[]:9", "host:-1", "uds:a\0",
    ],
)  # fmt: skip
def test_bad_text_is_a_grammar_error_that_points_into_the_text(text: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_address(text)
    assert 0 <= caught.value.position <= len(text)


@pytest.mark.parametrize("make", [lambda: UnixAddress(""), lambda: TcpAddress("a b", 1), lambda: TcpAddress("a", -1)])
def test_an_address_that_has_no_text_cannot_be_made(make: object) -> None:
    with pytest.raises(GrammarError):
        make()  # type: ignore[operator]


_ADDRESSES = st.one_of(
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1).map(UnixAddress),
    st.text("abc/:\\.*[] ", min_size=1).map(UnixAddress),
    st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1)
    .filter(lambda name: not name.lower().startswith(PIPE))
    .map(PipeAddress),
    st.builds(TcpAddress, st.sampled_from(["*", "::1", "localhost", "10.0.0.1", "fe80::1%lo"]), st.integers(0, 65535)),
)


@given(_ADDRESSES, st.sampled_from(["linux", "win32", "darwin"]))
def test_every_address_parses_back_from_its_text(address: Address, platform: str) -> None:
    assert parse_address(str(address), platform=platform) == address


@given(st.text())
def test_any_text_is_an_address_or_a_grammar_error(text: str) -> None:
    try:
        address = parse_address(text)
    except GrammarError:
        return
    assert parse_address(str(address)) == address
