"""A dump is told as written only when it can be there."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

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
