"""A fake ``/proc`` tree, and a count of descriptors around every test."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.descriptors import open_files

from dotnetdiag.errors import TargetError
from dotnetdiag.transport import Stream, aio, discovery, waiting
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.attempts import connecting_pid
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.discovery import Endpoint


class FakeProc:
    """Builds a ``/proc`` in ``path``. Real sockets can be put anywhere below ``base``; they are closed at the end."""

    def __init__(self, base: Path) -> None:
        self.base, self.path = base, base / "proc"
        self.path.mkdir()
        self._sockets: list[socket.socket] = []
        self.link("self", "ns/mnt", "mnt:[1]")
        self.link("self", "ns/pid", "pid:[1]")

    def process(
        self,
        pid: int,
        *,
        start: int = 1000,
        comm: str = "dotnet",
        inner: tuple[int, ...] = (),
        environ: bytes | None = b"",
        mounts: str = "mnt:[1]",
        root: Path | None = None,
        cwd: str = "",
        uid: int | None = None,
        state: str = "S",
        maps: bytes = b"",
    ) -> Path:
        """``inner``: the pids in nested namespaces. ``environ`` None: unreadable. ``root``: another root directory."""
        folder = self.path / str(pid)
        folder.mkdir()
        (folder / "stat").write_text(f"{pid} ({comm}) {state} " + "0 " * 18 + f"{start} 0 0\n")
        user = os.geteuid() if uid is None else uid
        numbers = "\t".join(map(str, (pid, *inner)))
        (folder / "status").write_text(
            f"Name:\t{comm}\nTgid:\t{pid}\nUid:\t{user}\t{user}\t{user}\t{user}\nNSpid:\t{numbers}\n"
        )
        (folder / "comm").write_text(comm + "\n")
        (folder / "cmdline").write_bytes(comm.encode() + b"\0")
        (folder / "maps").write_bytes(maps)
        if environ is not None:
            (folder / "environ").write_bytes(environ)
        self.link(str(pid), "ns/mnt", mounts)
        self.link(str(pid), "ns/pid", "pid:[2]" if inner else "pid:[1]")
        self.link(str(pid), "root", str(root) if root else "/")
        if cwd:
            self.link(str(pid), "cwd", cwd)
        return folder

    def thread(self, pid: int, thread_id: int, name: str) -> None:
        folder = self.path / str(pid) / "task" / str(thread_id)
        folder.mkdir(parents=True)
        (folder / "comm").write_text(name + "\n")

    def link(self, pid: str, name: str, target: str) -> None:
        path = self.path / pid / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    def socket(self, directory: Path, name: str, *, stale: bool = False, modified_s: float | None = None) -> Path:
        """A listening socket, or with ``stale`` the file that a killed process leaves."""
        directory.mkdir(parents=True, exist_ok=True)
        made = socket.socket(socket.AF_UNIX)
        handle = os.open(directory, os.O_PATH)
        try:
            made.bind(f"/proc/self/fd/{handle}/{name}")
        finally:
            os.close(handle)
        if stale:
            made.close()
        else:
            made.listen(8)
            self._sockets.append(made)
        if modified_s is not None:
            os.utime(directory / name, (modified_s, modified_s))
        return directory / name

    def close(self) -> None:
        for made in self._sockets:
            made.close()


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """A directory whose sockets fit into a socket address."""
    path = Path(tempfile.mkdtemp(prefix="dd-"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def plain_tmp(monkeypatch: pytest.MonkeyPatch, short_tmp: Path) -> Path:
    """Stands for /tmp, so that the machine's own is not looked into."""
    path = short_tmp / "tmp"
    path.mkdir()
    monkeypatch.setattr(discovery, "DEFAULT_TMPDIR", str(path))
    return path


@pytest.fixture
def tool_tmp(short_tmp: Path) -> Path:
    path = short_tmp / "tool"
    path.mkdir()
    return path


@pytest.fixture
def fake(short_tmp: Path) -> Iterator[FakeProc]:
    made = FakeProc(short_tmp)
    yield made
    made.close()


@pytest.fixture
def child_pid() -> Iterator[int]:
    """A process of ours that does nothing until the test is over."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as child:
        yield child.pid
        child.communicate(b"\n")


@pytest.fixture
def no_leaks() -> Iterator[None]:
    """The test leaves no descriptor open. (A thread that an earlier one left may close one meanwhile.)"""
    before = open_files()
    yield
    assert open_files() - before == set()


def paths(found: list[Endpoint]) -> list[str]:
    return [endpoint.address.path for endpoint in found if isinstance(endpoint.address, UnixAddress)]


def connect_pid(pid: int, deadline: Deadline, **how: Any) -> tuple[Stream, Endpoint]:
    """What the synchronous client does."""
    return waiting.run(connecting_pid(pid, **how), deadline)


async def connect_pid_awaited(pid: int, deadline: Deadline, **how: Any) -> tuple[aio.AsyncStream, Endpoint]:
    """What the asyncio client does."""
    stream, endpoint = await aio.drive(connecting_pid(pid, **how), deadline)
    return aio.AsyncStream(stream), endpoint


def reach(fake: FakeProc, pid: int, tool: Path, **how: Any) -> Endpoint:
    """Connect with both kinds; they must come to the same endpoint."""
    stream, endpoint = connect_pid(pid, Deadline(10), proc=fake.path, tmpdir=str(tool), **how)
    stream.close()

    async def again() -> Endpoint:
        made, found = await connect_pid_awaited(pid, Deadline(10), proc=fake.path, tmpdir=str(tool), **how)
        await made.aclose()
        return found

    assert asyncio.run(again()) == endpoint
    return endpoint


def refusal(fake: FakeProc, pid: int, tool: Path, kind: type[TargetError] = TargetError, **how: Any) -> str:
    """The error that both kinds of connecting raise, which is one line."""
    with pytest.raises(kind) as caught:
        connect_pid(pid, Deadline(10), proc=fake.path, tmpdir=str(tool), **how)
    with pytest.raises(type(caught.value)) as again:
        asyncio.run(connect_pid_awaited(pid, Deadline(10), proc=fake.path, tmpdir=str(tool), **how))
    text = str(caught.value)
    assert str(again.value) == text
    assert "\n" not in text
    return text
