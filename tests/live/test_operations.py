"""Every operation of the client on every runtime: what works, what answers which error; the target lives on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.descriptors import descriptors
from tests.live import supported
from tests.live.runtimes import Target, unpack, workload

from dotnetdiag.client import Client
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.errors import (
    DangerousRequest,
    DiagnosticsError,
    NotSupported,
    RequestRefused,
    RuntimeTooOld,
    ServerError,
    UnsupportedCommand,
)
from dotnetdiag.ipc.eventpipe import EventFilter, Provider, Tracepoints
from dotnetdiag.nettrace import read

pytestmark = pytest.mark.live

Expected = type[Exception] | None
GC = "Microsoft-Windows-DotNETRuntime:GC:4"


def session(**options: object) -> Callable[[Client], object]:
    def start(client: Client) -> object:
        with client.trace(GC, **options) as started:  # type: ignore[arg-type]
            return started.command

    return start


def filtered(client: Client) -> object:
    provider = Provider(
        name="Microsoft-Windows-DotNETRuntime", keywords=1, level=4, event_filter=EventFilter(enable=True, ids=(1, 2))
    )
    with client.trace([provider]) as started:
        return started.command


def user_events(client: Client) -> object:
    provider = Provider(name="X", tracepoints=Tracepoints(default="x"))
    with client.trace_user_events(None, [provider]) as started:
        return started.session_id


# operation -> expected on each kind of runtime; None: it works (ipc-protocol.md §21.6). In the order of the commands.
OPERATIONS: dict[str, tuple[Callable[[Client], object], dict[str, Expected]]] = {
    "ProcessInfo": (Client.process_info, {"3.1": UnsupportedCommand}),
    "environment": (Client.environment, {"3.1": UnsupportedCommand}),
    "set a variable": (lambda c: c.set_environment_variable("A", "b"), {"3.1": UnsupportedCommand}),
    "remove a variable": (
        lambda c: c.set_environment_variable("A", None),
        {"3.1": UnsupportedCommand, "NativeAOT": DangerousRequest},
    ),
    "resume": (Client.resume, {"3.1": UnsupportedCommand}),
    "perf map on": (Client.enable_perf_map, {"3.1": UnsupportedCommand, "NativeAOT": NotSupported}),
    "perf map off": (Client.disable_perf_map, {"3.1": UnsupportedCommand, "NativeAOT": NotSupported}),
    "session": (session(), {}),
    "session of NetPerf 3": (session(format=0), {}),
    "session without rundown": (session(rundown_keyword=0), {}),
    "session without stacks": (session(stackwalk=False), {"3.1": RuntimeTooOld, "8": RuntimeTooOld}),
    "session with a rundown keyword": (session(rundown_keyword=1), {"3.1": RuntimeTooOld, "8": RuntimeTooOld}),
    "session with an event filter": (
        filtered,
        {"3.1": RuntimeTooOld, "8": RuntimeTooOld, "9": RuntimeTooOld, "NativeAOT": RuntimeTooOld},
    ),
    "session that blocks": (
        session(buffering_mode=1),
        dict.fromkeys(("3.1", "8", "9", "10", "NativeAOT"), RuntimeTooOld),
    ),
    "session into user_events": (user_events, dict.fromkeys(("3.1", "8", "9", "10", "NativeAOT"), RequestRefused))
    if not os.path.exists("/sys/kernel/tracing/user_events_data")
    else (user_events, {"3.1": RuntimeTooOld, "8": RuntimeTooOld, "9": RuntimeTooOld, "NativeAOT": RuntimeTooOld}),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_does_on_each_runtime_what_the_table_says(target: Target, name: str) -> None:
    operation, expected = OPERATIONS[name]
    wanted = expected.get(target.kind)
    client = Client(target.pid, timeout_s=10)
    before = descriptors()
    if wanted is None:
        answer = operation(client)
        supported.note(name, target.runtime, f"works ({answer})" if isinstance(answer, str) else "works")
    else:
        with pytest.raises(wanted) as caught:
            operation(client)
        assert isinstance(caught.value, DiagnosticsError)
        hresult = getattr(caught.value, "hresult", None)
        supported.note(
            name, target.runtime, type(caught.value).__name__ + (f" 0x{hresult:08X}" if hresult is not None else "")
        )
    assert target.alive
    assert descriptors() == before


def test_a_running_program_is_not_taken_for_suspended(target: Target) -> None:
    found = Client(target.pid).is_suspended()
    if target.kind != "NativeAOT":  # it is known there once the program handles a signal
        assert found is (None if target.kind == "3.1" else False)
    supported.note("is it suspended?", target.runtime, "unknown" if found is None else "works")


@pytest.mark.parametrize("kind", [1, 2, 3, 4], ids=["Mini", "Heap", "Triage", "Full"])
def test_dump_is_written_where_the_runtime_can(target: Target, tmp_path: Path, kind: int) -> None:
    path = tmp_path / "core"
    name = f"dump {('Mini', 'Heap', 'Triage', 'Full')[kind - 1]}"
    if target.kind == "NativeAOT":
        with pytest.raises(ServerError, match="0x80004005"):
            Client(target.pid).write_dump(str(path), kind)
        supported.note(name, target.runtime, "ServerError 0x80004005")
    else:
        Client(target.pid).write_dump(str(path), kind)
        with path.open("rb") as file:
            assert file.read(4) == b"\x7fELF"
        path.unlink()
        supported.note(name, target.runtime, "works")
    assert target.alive


def test_trace_is_recorded_whole(target: Target, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with Client(target.pid).trace("Microsoft-Windows-DotNETRuntime:GC:4", duration="300ms") as started:
        size = started.save(path)
    assert path.stat().st_size == size == started.received_bytes
    contents = read(path.read_bytes())
    assert contents.complete
    assert contents.lost.total == 0
    assert target.alive


def test_async_client_does_the_same(target: Target, tmp_path: Path) -> None:
    async def run() -> tuple[bytes, bytes]:
        client = AsyncClient(target.pid, timeout_s=10)
        assert not await client.is_suspended()
        session = await client.trace("Microsoft-Windows-DotNETRuntime:GC:4")
        session.stop()
        data = b"".join([part async for part in session])
        await session.aclose()
        async with await client.trace("Microsoft-Windows-DotNETRuntime:GC:4", duration=0.2) as session:
            assert await session.save(tmp_path / "y.nettrace") == session.received_bytes
        return data, (tmp_path / "y.nettrace").read_bytes()

    before = descriptors()
    for data in asyncio.run(run()):
        assert read(data).complete
    assert target.alive
    assert descriptors() == before


def test_startup_hook_runs_in_a_running_target(runtime: str, tmp_path: Path) -> None:
    hook, mark = unpack() / "workload" / "hook" / "hook.dll", tmp_path / "mark"
    with workload(runtime, "idle", "seconds=100", WL_HOOK_FILE=str(mark)) as started:
        client = Client(started.pid)
        refusal = {"3.1": UnsupportedCommand, "NativeAOT": NotSupported}.get(runtime)
        if refusal is None:
            client.apply_startup_hook(str(hook))
            assert mark.read_text(encoding="utf-8").strip()
            supported.note("startup hook", runtime, "works")
        else:
            with pytest.raises(refusal) as caught:
                client.apply_startup_hook(str(hook))
            assert not mark.exists()
            supported.note("startup hook", runtime, f"{refusal.__name__} 0x{caught.value.hresult:08X}")
        assert started.alive


def test_a_variable_set_while_suspended_is_seen_by_the_program(runtime: str) -> None:
    if runtime == "3.1":
        return  # it cannot be suspended (ipc-protocol.md §21.6): nothing to see
    with workload(runtime, "env", "prefix=DDTEST", suspended=True) as started:
        client = Client(started.pid)
        assert client.is_suspended()
        client.set_environment_variable("DDTEST_A", "grün=1")
        client.set_environment_variable("DDTEST_B", "")
        client.resume()
        assert started.expect("env DDTEST_A").endswith("grün=1")
