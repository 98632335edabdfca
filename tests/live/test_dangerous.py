"""Every kind of request that kills or corrupts a target (ipc-protocol.md §21.1), tried through Python and the command line.

Nothing of it leaves, each refusal says why, and the target answers afterwards. Kinds that our types cannot even express (an empty
payload, a cut one, a filter whose count lies) are tried in the last test, on the messages themselves.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from uuid import UUID

import pytest
from tests.live.runtimes import Target, names, workload
from tests.shared import skip_without

from dotnetdiag.client import Client
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.errors import (
    DangerousRequest,
    ProtocolError,
    RequestRefused,
    UnsupportedCommand,
    UsageError,
)
from dotnetdiag.ipc import dump, environment, process, process_info, profiler, tracing
from dotnetdiag.ipc.eventpipe import Provider, Tracepoints, TracepointSet
from dotnetdiag.ipc.requests import ALL_REQUESTS
from dotnetdiag.ipc.session_life import State
from dotnetdiag.nettrace import scan

pytestmark = pytest.mark.live

PROVIDERS = ",".join(f"P{number}:1:4" for number in range(1001))
DUPLICATE = Provider(name="X", tracepoints=Tracepoints(sets=(TracepointSet(name="t", ids=(1, 1)),)))
NOT_AN_ASSEMBLY, NO_HOOK = "/etc/passwd", "the demo program"


def no_hook() -> str:
    """A managed assembly without a class StartupHook."""
    return str(files("dotnetdiag.recipes") / "demo" / "demo.dll")


ATTEMPTS: dict[str, Callable[[Client], object]] = {
    "format 2": lambda client: client.trace("X", format=2),
    "a buffer of 0 MB": lambda client: client.trace("X", buffer_mb=0),
    "1001 providers": lambda client: client.trace(PROVIDERS),
    "a dump without a name": lambda client: client.write_dump(None),  # type: ignore[arg-type]
    "a hook that is missing": lambda client: client.apply_startup_hook("/nonexistent/hook.dll"),
    "a hook by a relative path": lambda client: client.apply_startup_hook("hook.dll"),
    "a hook that is no assembly": lambda client: client.apply_startup_hook(NOT_AN_ASSEMBLY),
    "an assembly that is no hook": lambda client: client.apply_startup_hook(no_hook()),
    "a list of hooks": lambda client: client.apply_startup_hook("/a.dll:/b.dll"),
    "a hook without a name": lambda client: client.apply_startup_hook(""),
    "an id for two tracepoints": lambda client: client.trace_user_events(None, [DUPLICATE]),
}
COMMAND_LINES: dict[str, list[str]] = {
    "a buffer of 0 MB": ["trace", "collect", "--buffersize", "0", "--duration", "1s"],
    "1001 providers": ["trace", "collect", "--providers", PROVIDERS, "--duration", "1s"],
    "a hook that is missing": ["startup-hook", "/nonexistent/hook.dll"],
    "a hook by a relative path": ["startup-hook", "hook.dll"],
    "a hook that is no assembly": ["startup-hook", NOT_AN_ASSEMBLY],
    "an assembly that is no hook": ["startup-hook", NO_HOOK],
    "a list of hooks": ["startup-hook", "/a.dll:/b.dll"],
    "a hook without a name": ["startup-hook", ""],
    "two tracepoints, no kernel": ["trace", "user-events", "--providers", "X,X", "--tracepoint", "t"],
}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dotnetdiag.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def answers(target: Target) -> bool:
    """It lives, and still gives sessions."""
    with Client(target.pid, timeout_s=10).trace("Nobody", rundown_keyword=0) as session:
        pass
    return target.alive and session.state is State.ENDED and session.problem is None


@pytest.mark.parametrize("name", ATTEMPTS)
def test_python_refuses_what_kills(target: Target, name: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        ATTEMPTS[name](Client(target.pid, timeout_s=10))
    assert len(str(caught.value)) > 30, "it says why"
    assert answers(target)


@pytest.mark.parametrize("name", COMMAND_LINES)
def test_command_line_refuses_what_kills(target: Target, name: str, tmp_path: Path) -> None:
    words = [no_hook() if word == NO_HOOK else word for word in COMMAND_LINES[name]]
    split = 2 if words[0] == "trace" else 1
    done = run(*words[:split], "-p", str(target.pid), *words[split:])
    assert done.returncode == (4 if "offers no user_events" in done.stderr else 3), done
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert "Traceback" not in done.stderr
    assert answers(target)


@pytest.fixture(params=[name for name in names() if not name.startswith("3.1")] or ["none"])
def suspended(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A process that waits for ``resume``, on each runtime that can wait (3.1 cannot)."""
    if request.param == "none":
        skip_without("the workload on real runtimes")
    with workload(request.param, "idle", "seconds=100", suspended=True) as started:
        yield started


def test_a_perf_map_while_suspended_is_refused_where_it_kills(suspended: Target) -> None:
    client = Client(suspended.pid, timeout_s=10)
    assert client.is_suspended()
    if suspended.kind in ("8", "9"):
        with pytest.raises(DangerousRequest, match="suspended"):
            client.enable_perf_map()
        done = run("perfmap", "enable", "-p", str(suspended.pid))
        assert (done.returncode, done.stdout) == (3, "")
        assert "resume it first" in done.stderr
    assert client.is_suspended()
    client.resume()
    assert suspended.expect("ready")
    assert answers(suspended)


@pytest.mark.parametrize("runtime", [name for name in names() if not name.startswith("3.1")] or ["none"])
def test_a_session_stopped_while_suspended_poisons_no_runtime(runtime: str) -> None:
    """§21.1: a StopTracing there would, as seen on 9 and 10 in every run and on 8 in some; ours is none.

    NativeAOT 9 alone dies now and then (about 1 in 100, on a busy machine) when it is resumed after *any* session that was given up, or,
    seen once, does not go on.
    """
    if runtime == "none":
        skip_without("the workload on real runtimes")
    for left in reversed(range(3 if runtime == "NativeAOT" else 1)):
        with workload(runtime, "idle", "seconds=100", suspended=True) as target:
            try:
                _end_sessions_and_resume(target)
                return
            except AssertionError:
                if not left or target.alive:
                    raise


def _end_sessions_and_resume(suspended: Target) -> None:
    client = Client(suspended.pid, timeout_s=10)
    for _ in range(2):
        with client.trace("Microsoft-Windows-DotNETRuntime:GC", rundown_keyword=0) as session:
            session.stop()
            assert b"".join(session) == b""
        assert session.state is State.ENDED
        assert session.problem is None
    asyncio.run(_start_and_stop(suspended.pid))
    with client.trace("Microsoft-Windows-DotNETRuntime:GC", rundown_keyword=0) as session:
        client.resume()
        assert suspended.expect("ready")
        session.stop()
        assert scan(b"".join(session)).complete
    assert answers(suspended)


async def _start_and_stop(pid: int) -> None:
    async with await AsyncClient(pid, timeout_s=10).trace("Microsoft-Windows-DotNETRuntime:GC") as session:
        session.stop()
        assert [data async for data in session] == []


def test_a_hook_that_would_kill_after_resuming_is_refused_while_suspended(suspended: Target) -> None:
    client = Client(suspended.pid, timeout_s=10)
    for path in ("/nonexistent/hook.dll", "hook.dll", NOT_AN_ASSEMBLY, no_hook(), "/a:/b"):
        with pytest.raises(DangerousRequest):
            client.apply_startup_hook(path)
    client.resume()
    assert suspended.expect("ready")
    assert answers(suspended)


def test_removing_a_variable_is_refused_where_it_kills(target: Target) -> None:
    client = Client(target.pid, timeout_s=10)
    if target.kind == "NativeAOT":
        with pytest.raises(DangerousRequest, match="NativeAOT"):
            client.set_environment_variable("PATH", None)
        done = run("setenv", "-p", str(target.pid), "A=1", "PATH")
        assert done.returncode == 4
        assert "NativeAOT" in done.stderr
        assert "A" not in client.environment()
    elif target.kind == "3.1":
        with pytest.raises(UnsupportedCommand):
            client.set_environment_variable("X", None)
    else:
        assert run("setenv", "-p", str(target.pid), "X=1", "Y=2").returncode == 0
        client.set_environment_variable("Y", None)
        assert run("setenv", "-p", str(target.pid), "X").returncode == 0
    assert answers(target)


def test_messages_that_kill_cannot_be_packed() -> None:
    """What no interface of ours can even say: extra payload, fields that are missing, counts that lie."""
    for kind in (
        process_info.ProcessInfo,
        process_info.ProcessInfo2,
        process_info.ProcessInfo3,
        environment.ProcessEnvironment,
        process.ResumeRuntime,
        process.DisablePerfMap,
    ):
        with pytest.raises(DangerousRequest):
            kind(trailing=b"x").pack()
    for made in (
        dump.GenerateCoreDump(path=None),
        dump.GenerateCoreDump2(path=None),
        dump.GenerateCoreDump3(path=None),
        environment.SetEnvironmentVariable(name=None, value="x"),
        process.ApplyStartupHook(path=None),
        process.EnablePerfMap(perf_map_type=0),
        profiler.AttachProfiler(timeout_ms=1, clsid=UUID(int=1), path=None),
        profiler.StartupProfiler(clsid=UUID(int=1), path=None),
        tracing.CollectTracing2(providers=()),
        tracing.CollectTracing5(providers=(Provider(name=""),)),
        tracing.CollectTracing5UserEvents(providers=(DUPLICATE,)),
    ):
        with pytest.raises(UsageError):
            made.pack()
    for request in ALL_REQUESTS:  # and every payload that is cut is no message of ours
        if request.FIELDS:
            with pytest.raises((ProtocolError, TypeError)):
                request.parse(
                    bytes.fromhex("444f544e45545f4950435f5631001400")
                    + int(request.COMMAND).to_bytes(2, "big")
                    + b"\0\0"
                )
