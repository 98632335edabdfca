"""A client of a pid is one of the process that had it first, finds it where it is, and says at once when it stands still."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.client.scripted import INFO, PATIENCE_S, eventually, says
from tests.client.shells import Stage, within_limits

from dotnetdiag.client import Client, arguments
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.client.routes import PidRoute, WhileOpen
from dotnetdiag.errors import ProcessNotFound, TargetStopped, TimedOut, TransportError, UsageError
from dotnetdiag.transport import Deadline, UnixAddress, attempts, candidates, processes

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc")

US = os.getpid()


@pytest.fixture
def tmpdir(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sockets of this test's processes are looked for."""
    monkeypatch.setenv("TMPDIR", str(stage.folder))
    return stage.folder


def of_pid(stage: Stage, pid: int) -> Any:
    return stage.shell.wrap(AsyncClient(pid, timeout_s=5) if stage.is_async else Client(pid, timeout_s=5))


def of_endpoints(stage: Stage, known: list[Any]) -> Any:
    return stage.shell.wrap((AsyncClient if stage.is_async else Client).at(known, timeout_s=5))


def route_of(stage: Stage, client: Any) -> Any:
    return client.inner._route.route if stage.is_async else client._route


def set_timeout(stage: Stage, client: Any, timeout_s: float) -> None:
    (client.inner if stage.is_async else client).timeout_s = timeout_s


def us_as_runtime(stage: Stage, tmpdir: Path) -> Any:
    """A runtime in this process, where that of its pid is looked for."""
    runtime = stage.runtime(says(INFO.pack()))
    runtime.path = runtime.path.rename(tmpdir / f"dotnet-diagnostic-{US}-{processes.start_time_ticks(US)}-socket")
    return runtime


def test_a_pid_that_was_given_away_is_not_followed(stage: Stage, tmpdir: Path) -> None:
    runtime = us_as_runtime(stage, tmpdir)
    client = of_pid(stage, US)
    assert client.process_info().pid == INFO.pid
    process = route_of(stage, client)._process
    process.found = replace(process.found, started_ticks=process.found.started_ticks - 1)
    asked = list(runtime.asked)
    with pytest.raises(ProcessNotFound, match="its number now belongs to another process"):
        within_limits(client.process_info)
    with pytest.raises(ProcessNotFound):
        within_limits(lambda: client.trace("A"))
    assert runtime.asked == asked, "the heir was asked nothing"


def test_the_process_is_known_before_it_was_asked_anything(stage: Stage, tmpdir: Path) -> None:
    runtime = us_as_runtime(stage, tmpdir)
    assert of_pid(stage, US).target_pid() == US
    assert runtime.asked == []


def test_a_socket_may_move_between_two_commands(stage: Stage, tmpdir: Path) -> None:
    runtime = us_as_runtime(stage, tmpdir)
    client = of_pid(stage, US)
    assert client.process_info().pid == INFO.pid
    (tmpdir / "elsewhere").mkdir()
    os.environ["TMPDIR"] = str(tmpdir / "elsewhere")
    runtime.path = runtime.path.rename(tmpdir / "elsewhere" / runtime.path.name)
    assert client.process_info().pid == INFO.pid


def test_endpoints_that_are_out_of_date_are_looked_for_again(stage: Stage, tmpdir: Path) -> None:
    us_as_runtime(stage, tmpdir)
    (found,) = [endpoint for endpoint in candidates(US) if str(tmpdir) in str(endpoint.address)]
    gone = replace(found, address=UnixAddress(str(tmpdir / "gone")))
    client = of_endpoints(stage, [gone])
    assert within_limits(client.process_info).pid == INFO.pid
    assert within_limits(client.process_info).pid == INFO.pid


def test_endpoints_of_another_process_than_is_there_now_are_refused(stage: Stage, tmpdir: Path) -> None:
    runtime = us_as_runtime(stage, tmpdir)
    (found,) = [endpoint for endpoint in candidates(US) if str(tmpdir) in str(endpoint.address)]
    client = of_endpoints(stage, [replace(found, started_ticks=1)])
    with pytest.raises(ProcessNotFound, match="another process"):
        within_limits(client.process_info)
    assert runtime.asked == []


@pytest.mark.parametrize("pid", [0, -1, True])
def test_what_is_no_pid_is_refused(pid: int) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(UsageError):
            kind(pid)


CHILD = """
import signal, sys
from dotnetdiag.testing import Runtime
with Runtime(pid=int(sys.argv[1])):
    print("ready", flush=True)
    signal.pause()
"""


@pytest.fixture
def child(tmpdir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A runtime in a process of its own, where that is looked for. It says of itself what ``INFO`` does."""
    words = [sys.executable, "-c", CHILD, str(INFO.pid)]
    environment = {**os.environ, "TMPDIR": str(tmpdir), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdout.close()
        yield process
        process.kill()
        process.wait(PATIENCE_S)


def stop(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED)


@pytest.fixture
def by_each_way(stage: Stage, tmpdir: Path, child: subprocess.Popen[bytes]) -> list[Any]:
    """A client by pid, by endpoint, and by address."""
    known = candidates(child.pid)
    return [of_pid(stage, child.pid), of_endpoints(stage, known), stage.client(str(known[0].address))]


def test_a_target_that_stands_still_is_told_at_once(
    stage: Stage, child: subprocess.Popen[bytes], by_each_way: list[Any]
) -> None:
    stop(child)
    for client in by_each_way:
        client.timeout_s = 3600.0
        with pytest.raises(TargetStopped, match=rf"state T.*kill -CONT {child.pid}"):
            within_limits(client.process_info)
        with pytest.raises(TargetStopped):
            within_limits(lambda client=client: client.trace("A"))  # type: ignore[misc]
    os.kill(child.pid, signal.SIGCONT)
    for client in by_each_way:
        assert within_limits(client.process_info).pid == INFO.pid


def test_a_target_that_stands_still_hears_that_its_session_is_to_end(
    stage: Stage, child: subprocess.Popen[bytes]
) -> None:
    """Also where nobody waits for its answer: what it was sent is there when it goes on."""
    route = PidRoute(child.pid)
    first = route.dial(Deadline(PATIENCE_S))
    stop(child)
    with pytest.raises(TargetStopped):
        route.dial(Deadline(PATIENCE_S))
    WhileOpen(route, first).dial(Deadline(PATIENCE_S)).close()
    unknown = PidRoute(child.pid)
    with pytest.raises(TimedOut):
        WhileOpen(unknown, first).dial(Deadline(0.1))
    os.kill(child.pid, signal.SIGCONT)
    first.close()


def test_a_target_that_was_killed_is_told_at_once(
    stage: Stage, child: subprocess.Popen[bytes], by_each_way: list[Any]
) -> None:
    for client in by_each_way:
        assert client.process_info().pid == INFO.pid
    child.kill()
    child.wait(PATIENCE_S)
    for client, error in zip(by_each_way, (ProcessNotFound, ProcessNotFound, ConnectionError), strict=True):
        with pytest.raises(error):
            within_limits(client.process_info)


class Stalled:
    """A folder of a file server that is gone."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def __call__(self, *_: object, **__: object) -> Any:
        self.goes_on.wait(PATIENCE_S)
        return []


@pytest.fixture
def stalled() -> Iterator[Stalled]:
    folder = Stalled()
    yield folder
    folder.goes_on.set()


@pytest.mark.parametrize("what", ["target_pid", "is_suspended", "enable_perf_map", "process_info"])
def test_a_folder_that_does_not_answer_holds_no_call(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, stalled: Stalled, what: str
) -> None:
    monkeypatch.setattr(attempts, "candidates", stalled)
    client = of_pid(stage, US)
    set_timeout(stage, client, 0.05)
    call = (lambda: client.target_pid(timeout_s=0.05)) if what == "target_pid" else getattr(client, what)
    with pytest.raises(TimedOut, match=f"the folders where process {US} may have its socket do not answer"):
        within_limits(call)
    stalled.goes_on.set()


def test_a_hook_in_a_folder_that_does_not_answer_holds_nobody(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, stalled: Stalled, tmpdir: Path
) -> None:
    monkeypatch.setattr(arguments, "require_usable_hook", stalled)
    runtime = us_as_runtime(stage, tmpdir)
    client = of_pid(stage, US)
    set_timeout(stage, client, 2.0)  # finding the socket takes its share of it, on a busy machine
    with pytest.raises(TimedOut, match="cannot be looked at"):
        within_limits(lambda: client.apply_startup_hook("/hook.dll"))
    assert runtime.asked == [], "it is looked at before anything is sent"
    stalled.goes_on.set()


def test_a_client_of_no_endpoints_is_refused(stage: Stage) -> None:
    with pytest.raises(UsageError, match="no endpoint was given"):
        of_endpoints(stage, [])


def test_a_connection_is_closed_when_it_cannot_be_said_whose_it_is(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where no descriptor is left to look into /proc."""

    def no_descriptor(*_: object) -> None:
        raise TransportError("this program has no free file descriptor left")

    runtime = stage.runtime(says(INFO.pack()))
    monkeypatch.setattr(processes, "start_time_ticks", no_descriptor)
    with pytest.raises(TransportError, match="no free file descriptor") as kept:
        stage.client(runtime).process_info()
    eventually(runtime.is_idle, f"its connection is still open beside {kept.value}")
