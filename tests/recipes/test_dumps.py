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


def test_a_name_that_the_runtime_makes_is_not_looked_for(folder: Path) -> None:
    assert asked_of(folder, DONE, str(folder / "%p.dmp")).size_bytes is None


def test_what_lacks_dumps_is_said_of_native_aot_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ServerError) as refused:
        asked_of(folder, REFUSAL, str(folder / "x.dmp"))
    assert type(refused.value) is ServerError
    os.unlink(folder / "runtime")
    monkeypatch.setattr(dumps, "kind_of", lambda pid: RuntimeKind(dotnet=True, native=True))
    with pytest.raises(NotSupported, match="NativeAOT writes no dumps"):
        asked_of(folder, REFUSAL, str(folder / "x.dmp"))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root to change a root")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_default_path_is_in_the_working_directory_of_a_process_with_another_root(folder: Path) -> None:
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
        root = f"/proc/{child}/root"
        assert (dumps.host_path(child, "x.dmp"), dumps.host_path(child, "/x.dmp")) == (
            f"{root}/work/x.dmp",
            f"{root}/x.dmp",
        )
        told: list[str] = []

        class Target:
            def target_pid(self) -> int:
                return child

            def write_dump(self, path: str, *_: int) -> None:
                told.append(path)
                (folder / path[1:]).write_bytes(b"123")

        dump = write_dump(cast(Client, Target()), None, "Mini")
        assert [dump.path] == told
        assert os.path.dirname(told[0]) == "/work"
        assert (dump.host_path, dump.size_bytes) == (root + told[0], 3)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)
