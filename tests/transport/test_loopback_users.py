"""Whose the other end of a TCP connection is, of real sockets and of a table."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dotnetdiag.transport import loopback_users
from dotnetdiag.transport.loopback_users import NOBODY, is_loopback, loopback_user

linux = pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the system has no such table")
DIALS = """
import encodings.idna, os, socket, sys  # the other user may not read the library
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
made = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print(os.geteuid(), flush=True)
sys.stdin.readline()
"""


@contextmanager
def connected(
    family: int = socket.AF_INET, host: str = "127.0.0.1", dial: str = ""
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The end that was accepted, and the one that has dialled."""
    with socket.socket(family) as listener:
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((host, 0))
        listener.listen()
        with socket.create_connection((dial or host, listener.getsockname()[1])) as theirs:
            ours, _ = listener.accept()
            with ours:
                yield ours, theirs


@linux
@pytest.mark.parametrize(
    ("family", "host", "dial"),
    [
        (socket.AF_INET, "127.0.0.1", ""),
        (socket.AF_INET, "127.0.0.5", ""),
        (socket.AF_INET6, "::1", ""),
        (socket.AF_INET6, "::", "127.0.0.1"),
    ],
)
def test_the_user_is_that_of_the_process_that_has_dialled(family: int, host: str, dial: str) -> None:
    with connected(family, host, dial) as (ours, theirs):
        assert loopback_user(ours) == os.geteuid()
        theirs.close()
        assert loopback_user(ours) == NOBODY


@linux
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user_is_another_user() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        words = [sys.executable, "-c", DIALS, "127.0.0.1", str(listener.getsockname()[1])]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            ours, _ = listener.accept()
            with ours:
                assert process.stdout is not None
                assert process.stdout.readline() == "65534\n"
                assert loopback_user(ours) == 65534
                process.communicate("\n")
                assert loopback_user(ours) == NOBODY


def test_without_a_table_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_users, "TABLES", {socket.AF_INET: ("/nonexistent",)})
    with connected() as (ours, _):
        assert loopback_user(ours) is None


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_loopback_is_known_in_all_its_forms(host: str, local: bool) -> None:
    assert is_loopback(host) is local


class Elsewhere:
    """A connection from another machine."""

    family = socket.AF_INET

    def getsockname(self) -> tuple[str, int]:
        return ("10.0.0.2", 1)

    def getpeername(self) -> tuple[str, int]:
        return ("10.0.0.1", 2)


def test_of_another_machine_no_user_is_known() -> None:
    assert loopback_user(Elsewhere()) is None  # type: ignore[arg-type]
