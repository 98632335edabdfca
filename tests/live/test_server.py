"""A Python process that serves, seen by the reference tools and by ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.live.routing import dotnet_trace, ended, listed_by_dotnet_trace
from tests.live.runtimes import command, unpack
from tests.nettrace.recordings import data_of, recording
from tests.shared import CHECKOUT

import dotnetdiag as dd
from dotnetdiag.errors import NotSupported, UnsupportedCommand
from dotnetdiag.server.ages import Age

pytestmark = pytest.mark.live

RECORDING = "cpu-only-10.nettrace"
PROGRAM = Path(__file__).with_name("served.py")
CLSID = "5F1A6C2E-3B7D-4A8E-9C10-D0E5A1B2C3D4"
PATIENCE_S = 60


@contextmanager
def serving(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """The process, once it serves."""
    path = os.pathsep.join((str(Path(dd.__file__).parents[1]), str(CHECKOUT)))
    process = subprocess.Popen(
        [sys.executable, "-X", "dev", str(PROGRAM), str(recording(RECORDING)), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"ready {process.pid}\n"
        yield process
        said, _ = process.communicate("\n", timeout=PATIENCE_S)
        assert (process.returncode, said.replace("resumed\n", "")) == (0, "")
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def served() -> Iterator[int]:
    """Its pid."""
    unpack()
    with serving() as process:
        yield process.pid


def reference(*words: object) -> dict[str, Any]:
    """What the reference client library says, as its command line prints it."""
    folder = unpack()
    program = [str(folder / "dotnet" / "dotnet"), str(folder / "dotnet-trace" / "refclient.dll")]
    environment = {**os.environ, **command("10")[1]}
    done = subprocess.run(
        [*program, *map(str, words)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env=environment,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# the reference client -------------------------------------------------------------------------------------------------


def test_the_reference_client_finds_the_process(served: int) -> None:
    assert served in reference("processes")["processes"]


def test_the_reference_client_is_told_who_the_process_is(served: int) -> None:
    info = reference(served, "info")
    assert int(info["ProcessId"]) == served
    assert info["CommandLine"].startswith(f"{sys.executable} -X dev {PROGRAM}")
    assert info["ManagedEntrypointAssemblyName"] == "served"
    ours = dd.Client(served).process_info()
    assert UUID(info["RuntimeInstanceCookie"]) == ours.cookie
    assert info["OperatingSystem"] == ours.os
    assert info["ProcessArchitecture"] == ours.arch
    assert info["PortableRuntimeIdentifier"] == ours.runtime_identifier
    assert info["ClrProductVersionString"] == ours.runtime_version


def test_the_reference_client_reads_and_changes_the_environment(served: int) -> None:
    assert reference(served, "setenv", "DD_REFERENCE", "a=ü=b") == {"ok": True}
    theirs = reference(served, "env")
    assert theirs["DD_REFERENCE"] == "a=ü=b"
    assert theirs == dd.Client(served).environment()


def test_the_reference_client_may_resume_what_runs(served: int) -> None:
    assert reference(served, "resume") == {"ok": True}


@pytest.mark.parametrize(
    "words",
    [
        ("attach", CLSID, "/p.so"),
        ("startup", CLSID, "/p.so"),
        ("perfmap", "1"),
        ("hook", "/hook.dll"),
        ("dump", "Full", "/dump"),
        ("dump", "Normal", "/dump"),
    ],
)
def test_what_has_no_meaning_is_not_supported(served: int, words: tuple[str, ...]) -> None:
    answer = reference(served, *words)
    assert answer["error"] == "ServerErrorException"
    assert "Not supported" in answer["message"] or "0x80131515" in answer["message"]


def test_a_session_of_the_reference_client_is_the_recording(served: int, tmp_path: Path) -> None:
    path = tmp_path / "a.nettrace"
    assert reference(served, "session", "A:1:5", 1, path) == {"ok": True, "bytes": len(data_of(RECORDING))}
    assert path.read_bytes() == data_of(RECORDING)


# dotnet-trace ---------------------------------------------------------------------------------------------------------


def test_dotnet_trace_lists_the_process(served: int) -> None:
    assert f" {served} " in listed_by_dotnet_trace()


def test_dotnet_trace_collects_what_the_source_gives(served: int, tmp_path: Path) -> None:
    path = tmp_path / "a.nettrace"
    words = ("--duration", "00:00:01", "--providers", "A", "-o", path)
    assert "Trace completed" in ended(dotnet_trace("collect", "-p", served, *words))
    assert path.read_bytes() == data_of(RECORDING)


# ours -----------------------------------------------------------------------------------------------------------------


def test_our_list_shows_the_process(served: int) -> None:
    (found,) = [process for process in dd.processes() if process.pid == served]
    assert found.entry_assembly == "served"


def test_our_client_takes_a_session_to_its_end(served: int, tmp_path: Path) -> None:
    path = tmp_path / "a.nettrace"
    with dd.Client(served).trace("A", duration=0.1) as session:
        session.save(path)
    assert path.read_bytes() == data_of(RECORDING)


def test_a_process_that_serves_does_not_look_suspended(served: int) -> None:
    assert not dd.Client(served).is_suspended()


def test_our_client_is_refused_what_has_no_meaning(served: int) -> None:
    with pytest.raises(NotSupported):
        dd.Client(served).write_dump("/tmp/x")


@pytest.mark.parametrize("age", Age)
def test_our_client_falls_back_at_every_age(age: Age, tmp_path: Path) -> None:
    path = tmp_path / "a.nettrace"
    with serving(age.value) as process:
        client = dd.Client(process.pid)
        with client.trace("A", duration=0.1) as session:
            session.save(path)
        if age is Age.NET_CORE_3_1:
            with pytest.raises(UnsupportedCommand):
                client.process_info()
        else:
            assert client.process_info().pid == process.pid
    assert path.read_bytes() == data_of(RECORDING)


# suspended, and dialling ----------------------------------------------------------------------------------------------


def test_a_suspended_process_is_resumed_by_the_reference_client() -> None:
    with serving(DOTNET_DefaultDiagnosticPortSuspend="1") as process:
        assert int(reference(process.pid, "info")["ProcessId"]) == process.pid
        assert reference(process.pid, "resume") == {"ok": True}
        assert process.stdout is not None
        assert process.stdout.readline() == "resumed\n"


def test_a_process_dials_a_port_of_ours_and_waits_there(tmp_path: Path) -> None:
    with (
        dd.listen(str(tmp_path / "p")) as port,
        serving(DOTNET_DiagnosticPorts=f"{tmp_path}/p") as process,
    ):
        runtime = port.wait(timeout_s=PATIENCE_S)
        assert runtime.pid == process.pid
        assert runtime.info.cookie == runtime.cookie
        with runtime.client.trace("A") as session:
            runtime.resume()
            assert process.stdout is not None
            assert process.stdout.readline() == "resumed\n"
            session.stop()
            session.save(tmp_path / "a.nettrace")
        assert (tmp_path / "a.nettrace").read_bytes() == data_of(RECORDING)


def test_a_process_dials_a_port_of_dotnet_trace(tmp_path: Path) -> None:
    port, path = tmp_path / "p", tmp_path / "a.nettrace"
    words = ("--duration", "00:00:01", "--providers", "A", "-o", path)
    tool = dotnet_trace("collect", "--diagnostic-port", port, *words)
    try:
        with serving(DOTNET_DiagnosticPorts=str(port)) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "resumed\n"
            assert "Trace completed" in ended(tool)
    finally:
        tool.kill()
        tool.communicate()
    assert path.read_bytes() == data_of(RECORDING)
