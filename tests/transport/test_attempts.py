"""Connecting to a process, sync and async (``reach`` and ``refusal`` do both)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dotnetdiag.errors import NoDiagnostics, ProcessNotFound, TargetStopped, TimedOut
from dotnetdiag.transport import attempts, diagnosis, discovery, processes
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.discovery import Endpoint, Search, candidates

from .conftest import FakeProc, connect_pid, connect_pid_awaited, paths, reach, refusal

pytestmark = pytest.mark.usefixtures("no_leaks", "plain_tmp")


@pytest.mark.parametrize("moved", [False, True])
def test_when_no_known_endpoint_answers_the_process_is_looked_at_again(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path, moved: bool
) -> None:
    fake.process(7)
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket", modified_s=1)
    (live,) = candidates(7, proc=fake.path, tmpdir=str(tool_tmp))
    old = replace(live, address=UnixAddress(f"{plain_tmp}/gone")) if moved else live
    assert reach(fake, 7, tool_tmp, known=[old]) == live
    assert reach(fake, 7, tool_tmp, known=[]) == live


def test_an_endpoint_that_answers_is_not_looked_for(fake: FakeProc, plain_tmp: Path, tool_tmp: Path) -> None:
    fake.process(7)
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")
    (live,) = candidates(7, proc=fake.path, tmpdir=str(tool_tmp))
    renamed = replace(live, address=UnixAddress(f"{plain_tmp}/renamed"))
    os.rename(f"{plain_tmp}/dotnet-diagnostic-7-1000-socket", f"{plain_tmp}/renamed")
    assert reach(fake, 7, tool_tmp, known=[renamed]) == renamed


def test_a_pid_that_now_belongs_to_another_process_is_said_to(fake: FakeProc, plain_tmp: Path, tool_tmp: Path) -> None:
    fake.process(7, start=1000)
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")
    known = candidates(7, proc=fake.path, tmpdir=str(tool_tmp))
    assert [endpoint.started_ticks for endpoint in known] == [1000]
    assert reach(fake, 7, tool_tmp, started_ticks=1000) == known[0]
    (fake.path / "7" / "comm").write_text("sleep\n")
    stat = fake.path / "7" / "stat"
    stat.write_text(stat.read_text().replace(" 1000 ", " 2000 "))
    text = "process 7 has ended; its number now belongs to another process (sleep)"
    assert refusal(fake, 7, tool_tmp, ProcessNotFound, started_ticks=1000) == text
    assert refusal(fake, 7, tool_tmp, ProcessNotFound, known=known) == text, "the one that the endpoints were found for"
    (plain_tmp / "dotnet-diagnostic-7-1000-socket").unlink()
    assert refusal(fake, 7, tool_tmp, ProcessNotFound, started_ticks=1000) == text, "without a candidate too"


def test_a_process_that_has_ended_since_is_said_to_have(fake: FakeProc, tool_tmp: Path) -> None:
    assert refusal(fake, 7, tool_tmp, ProcessNotFound, started_ticks=1000) == "process 7 has ended"


def test_a_stopped_process_is_told_at_once(fake: FakeProc, plain_tmp: Path, tool_tmp: Path) -> None:
    fake.process(7, state="T")
    fake.process(8, state="t")
    fake.process(70, state="T", inner=(9,))
    for name in ("7-1000", "8-1000", "9-1000"):
        fake.socket(plain_tmp, f"dotnet-diagnostic-{name}-socket")
    text = "process 7 is stopped (state T): it answers nothing until it is continued (kill -CONT 7)"
    assert refusal(fake, 7, tool_tmp, TargetStopped) == text
    assert "kill -CONT 70" in refusal(fake, 9, tool_tmp, TargetStopped), "the number that a signal can be sent to"
    assert reach(fake, 8, tool_tmp).pid == 8, "a debugger stops it for a moment only"


def test_a_real_process_is_stopped_and_continued(plain_tmp: Path) -> None:
    with subprocess.Popen(["sleep", "100"]) as child:
        os.kill(child.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, child.pid, os.WSTOPPED)
        with pytest.raises(TargetStopped) as caught:
            connect_pid(child.pid, Deadline(10), tmpdir=str(plain_tmp))
        assert caught.value.pid == child.pid
        os.kill(child.pid, signal.SIGCONT)
        os.waitid(os.P_PID, child.pid, os.WCONTINUED)
        with pytest.raises(NoDiagnostics, match=r"sleep is not a \.NET process"):
            connect_pid(child.pid, Deadline(10), tmpdir=str(plain_tmp))
        child.kill()


def test_a_process_that_takes_no_connection_is_timed_out(fake: FakeProc, plain_tmp: Path, tool_tmp: Path) -> None:
    fake.process(7)
    path = f"{plain_tmp}/dotnet-diagnostic-7-1000-socket"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
        server.bind(path)
        server.listen(0)
        first.connect(path)
        with pytest.raises(TimedOut) as caught:
            connect_pid(7, Deadline(0.02), proc=fake.path, tmpdir=str(tool_tmp))
        assert caught.value.address == path
        with pytest.raises(TimedOut) as caught:
            asyncio.run(connect_pid_awaited(7, Deadline(0.02), proc=fake.path, tmpdir=str(tool_tmp)))
        assert caught.value.address == path


def test_an_error_gives_one_cause(fake: FakeProc, plain_tmp: Path, tool_tmp: Path) -> None:
    fake.process(7, maps=b"1-2 r-xp 0 0:0 1 /shared/Microsoft.NETCore.App/8.0.1/libcoreclr.so\n")
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket", stale=True, modified_s=1)
    text = refusal(fake, 7, tool_tmp, NoDiagnostics)
    assert text == (
        f"process 7: no socket of it answers: {plain_tmp}/dotnet-diagnostic-7-1000-socket: nobody listens there;"
        " its diagnostic server is gone: restart the process"
    )


def test_who_answers_must_be_the_process_that_was_meant(plain_tmp: Path, tool_tmp: Path) -> None:
    meant = Endpoint(
        pid=7,
        namespace_pid=7,
        address=UnixAddress("/x"),
        key=1,
        modified_ns=0,
        other_namespace=False,
        other_tmpdir=False,
    )
    assert discovery.verify_peer(meant, 7) is None
    assert discovery.verify_peer(meant, None) is None
    assert "process 8" in str(discovery.verify_peer(meant, 8))
    assert "another namespace" in str(discovery.verify_peer(meant, 0))


def test_a_socket_named_for_us_but_held_by_another_process_is_passed_over(
    plain_tmp: Path, tool_tmp: Path, child_pid: int
) -> None:
    """With the real /proc: the socket carries the pid and key of a child of ours, but it is we who listen."""
    proc = FakeProc(tool_tmp)
    key = processes.start_time_ticks(child_pid)
    proc.socket(plain_tmp, f"dotnet-diagnostic-{child_pid}-{key}-socket")
    with pytest.raises(NoDiagnostics, match=rf"belongs to process {os.getpid()}"):
        connect_pid(child_pid, Deadline(10), tmpdir=str(plain_tmp))
    proc.socket(plain_tmp, f"dotnet-diagnostic-{os.getpid()}-5-socket")
    stream, endpoint = connect_pid(os.getpid(), Deadline(10), tmpdir=str(plain_tmp))
    stream.close()
    assert endpoint.key == 5
    proc.close()


@pytest.mark.parametrize("awaited", [False, True])
def test_a_runtime_that_does_not_listen_yet_is_asked_again(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path, awaited: bool
) -> None:
    """It binds its socket first and listens a moment later: seen to be refused in between, on a busy machine."""
    fake.process(7)
    path = plain_tmp / "dotnet-diagnostic-7-1000-socket"
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
        starts = threading.Timer(0.1, bound.listen)
        starts.start()
        if awaited:
            found = asyncio.run(_reach_awaited(fake, tool_tmp))
        else:
            stream, found = connect_pid(7, Deadline(10), proc=fake.path, tmpdir=str(tool_tmp))
            stream.close()
        starts.join()
    assert paths([found]) == [str(path)]


async def _reach_awaited(fake: FakeProc, tool: Path) -> Endpoint:
    stream, found = await connect_pid_awaited(7, Deadline(10), proc=fake.path, tmpdir=str(tool))
    await stream.aclose()
    return found


def test_a_socket_left_behind_is_not_asked_again(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.process(7)
    path = fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket", stale=True)
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    monkeypatch.setattr(attempts, "YOUNG_S", 0.2)
    with pytest.raises(NoDiagnostics, match="nobody listens"):
        connect_pid(7, Deadline(10), proc=fake.path, tmpdir=str(tool_tmp))
    assert waits, "it is young: tried again"
    os.utime(path, (1, 1))
    waits.clear()
    with pytest.raises(NoDiagnostics, match="nobody listens"):
        connect_pid(7, Deadline(10), proc=fake.path, tmpdir=str(tool_tmp))
    assert waits == []


def test_a_young_process_is_looked_at_again_when_only_an_old_socket_has_its_number(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path
) -> None:
    """A process that ended left it; the runtime of this one has made none yet."""
    fake.process(7, start=1000)
    (fake.path / "uptime").write_text(f"{1000 / os.sysconf('SC_CLK_TCK') + 0.1} 1\n")
    left = fake.socket(plain_tmp, "dotnet-diagnostic-7-0-socket", stale=True, modified_s=1)
    assert paths(candidates(7, proc=fake.path, tmpdir=str(tool_tmp))) == [str(left)]
    starts = threading.Timer(0.1, fake.socket, (plain_tmp, "dotnet-diagnostic-7-1000-socket"))
    starts.start()
    stream, found = connect_pid(7, Deadline(10), proc=fake.path, tmpdir=str(tool_tmp))
    starts.join()
    stream.close()
    assert found.key == 1000


# folders that do not answer -----------------------------------------------------------------------------------------------


@pytest.fixture
def stalled() -> Iterator[threading.Event]:
    """Whoever waits for it waits for a file server that is gone, until the end of the test."""
    goes_on = threading.Event()
    yield goes_on
    goes_on.set()
    for thread in threading.enumerate():
        if thread.name == "dotnetdiag transport":
            thread.join(20)


def test_a_folder_that_does_not_answer_holds_nobody_who_looks_for_sockets(
    fake: FakeProc, tool_tmp: Path, stalled: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "Directory", lambda _: stalled.wait(20))
    fake.process(7)
    with pytest.raises(TimedOut, match="the folders where process 7 may have its socket do not answer"):
        attempts.find_endpoints(7, Deadline(0.02), fake.path, str(tool_tmp))
    (finding,) = diagnosis.diagnose(7, proc=fake.path, tmpdir=str(tool_tmp), timeout_s=0.02)
    assert (finding.code, finding.ok) == ("stalled-folder", False)


def test_a_folder_that_stalls_while_a_failure_is_explained_holds_nobody(
    fake: FakeProc, tool_tmp: Path, stalled: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.process(7)
    monkeypatch.setattr(diagnosis, "Search", lambda *_: stalled.wait(20))
    with pytest.raises(NoDiagnostics, match="process 7: a folder where it may have its socket does not") as caught:
        connect_pid(7, Deadline(0.2), proc=fake.path, tmpdir=str(tool_tmp))
    assert caught.value.code == "stalled-folder"


def test_a_reason_is_found_on_a_busy_machine_though_the_deadline_is_all_but_over(
    fake: FakeProc, tool_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that takes longer than what was left said of a good folder that it does not answer."""
    fake.process(7)

    def slow(*given: Any) -> Search:
        time.sleep(0.3)
        return Search(*given)

    monkeypatch.setattr(diagnosis, "Search", slow)
    with pytest.raises(NoDiagnostics) as caught:
        connect_pid(7, Deadline(0.2), proc=fake.path, tmpdir=str(tool_tmp))
    assert caught.value.code != "stalled-folder", caught.value
