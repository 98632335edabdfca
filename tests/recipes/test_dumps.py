"""A dump is told as written only when it can be there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import pytest
from tests.client.scripted import DONE, REFUSAL, ScriptedRuntime, says

from dotnetdiag.client import Client
from dotnetdiag.errors import NotSupported, OutputError, ServerError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.recipes import dumps
from dotnetdiag.recipes.dumps import write_dump
from dotnetdiag.transport.diagnosis import RuntimeKind

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="knows the peer's process by its socket")


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder)


def asked_of(folder: Path, answer: bytes, path: str) -> dumps.Dump:
    runtime = ScriptedRuntime(folder / "runtime", {Command.GenerateCoreDump3: says(answer)})
    try:
        return write_dump(Client.connect(str(folder / "runtime")), path, "Mini")
    finally:
        runtime.close()


def test_a_dump_that_is_not_there_is_an_error_whatever_the_runtime_says(folder: Path) -> None:
    with pytest.raises(
        OutputError, match=r"x\.dmp: the runtime says that it wrote the dump, but there is no such file"
    ):
        asked_of(folder, DONE, str(folder / "x.dmp"))


def test_a_dump_that_is_there_has_its_size(folder: Path) -> None:
    (folder / "x.dmp").write_bytes(b"12345")
    assert asked_of(folder, DONE, str(folder / "x.dmp")).size_bytes == 5


def test_a_name_that_the_runtime_makes_is_found(folder: Path) -> None:
    """By what placeholders may become: the newest file."""
    (folder / "core-77-a.dmp").write_bytes(b"123")
    os.utime(folder / "core-77-a.dmp", (1, 1))
    assert asked_of(folder, DONE, str(folder / "core-%p-%e.dmp")).size_bytes is None, "one of another time"
    (folder / "core-x-a.dmp").write_bytes(b"1234567")
    (folder / "core-78-my app.dmp").write_bytes(b"12345")
    found = asked_of(folder, DONE, str(folder / "core-%p-%e.dmp"))
    assert (found.path, found.host_path, found.size_bytes) == (*[str(folder / "core-78-my app.dmp")] * 2, 5)


def test_a_folder_that_the_runtime_makes_is_not_looked_for(folder: Path) -> None:
    found = asked_of(folder, DONE, str(folder / "%p" / "x.dmp"))
    assert (found.path, found.size_bytes) == (str(folder / "%p" / "x.dmp"), None)


def test_what_lacks_dumps_is_said_of_native_aot_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError) as refused:
        asked_of(folder, REFUSAL, str(folder / "x.dmp"))
    assert type(refused.value) is ServerError
    monkeypatch.setattr(dumps, "kind_of", lambda pid: RuntimeKind(dotnet=True, native=True))
    with pytest.raises(NotSupported, match="NativeAOT writes no dumps"):
        asked_of(folder, REFUSAL, str(folder / "x.dmp"))


@pytest.fixture
def elsewhere(folder: Path) -> Iterator[int]:
    """The pid of a process whose root is the folder, and whose working directory is ``/work`` in it."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        pytest.skip("needs root to change a root")
    (folder / "work").mkdir()
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        os.chroot(folder)
        os.chdir("/work")
        os.write(tell, b"x")
        signal.pause()
    try:
        os.read(ready, 1)
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)


class Writes:
    """A client of a process, whose runtime writes a dump of three bytes in the folder that is the process's root."""

    def __init__(self, pid: int, root: Path) -> None:
        self.pid, self.root, self.told = pid, root, list[str]()

    def target_pid(self) -> int:
        return self.pid

    def write_dump(self, path: str, *_: int) -> None:
        self.told.append(path)
        if not os.path.islink(self.root / path[1:]):
            (self.root / path[1:]).write_bytes(b"123")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_default_path_is_in_the_working_directory_of_a_process_with_another_root(
    folder: Path, elsewhere: int
) -> None:
    root = f"/proc/{elsewhere}/root"
    assert (dumps.host_path(elsewhere, "x.dmp"), dumps.host_path(elsewhere, "/x.dmp")) == (
        f"{root}/work/x.dmp",
        f"{root}/x.dmp",
    )
    client = Writes(elsewhere, folder)
    dump = write_dump(cast(Client, client), None, "Mini")
    assert [dump.path] == client.told
    assert os.path.dirname(dump.path) == "/work"
    assert (dump.host_path, dump.size_bytes) == (root + dump.path, 3)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_dump_behind_links_without_end_has_no_known_size(folder: Path, elsewhere: int) -> None:
    (folder / "loop").symlink_to("/loop")
    dump = write_dump(cast(Client, Writes(elsewhere, folder)), "/loop", "Mini")
    assert (dump.path, dump.host_path, dump.size_bytes) == ("/loop", f"/proc/{elsewhere}/root/loop", None)
