"""Sockets of runtimes that have no pid here."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dotnetdiag.transport import foreign
from dotnetdiag.transport.foreign import foreign_sockets
from dotnetdiag.transport.sockets import SocketStream


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(foreign, "_sees_a_part", lambda: True)
    with TemporaryDirectory(dir="/tmp") as made:
        yield Path(made)


def listener(path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen()
    return made


def test_a_socket_of_another_namespace_is_told_and_one_of_ours_and_a_dead_one_are_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, other, dead = (folder / f"dotnet-diagnostic-{number}-7-socket" for number in (1, 2, 3))
    listener(dead).close()
    with listener(own), listener(other), listener(folder / "something"):
        assert foreign_sockets(folders=[str(folder)]) == []
        real = SocketStream.peer_pid
        monkeypatch.setattr(SocketStream, "peer_pid", lambda self: 0 if str(self.address) == str(other) else real(self))
        assert foreign_sockets(folders=[str(folder), str(folder)]) == [str(other)]
        assert foreign_sockets({str(other)}, [str(folder)]) == []


def test_where_every_process_is_seen_nobody_is_asked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "_sees_a_part", lambda: False)
    monkeypatch.setattr(foreign, "_is_foreign", lambda _: True)
    with listener(folder / "dotnet-diagnostic-1-7-socket"):
        assert foreign_sockets(folders=[str(folder)]) == []


def test_a_folder_that_is_not_there_has_none(folder: Path) -> None:
    assert foreign_sockets(folders=[str(folder / "none")]) == []
