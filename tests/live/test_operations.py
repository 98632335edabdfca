"""Every operation of the client on every runtime: what works, what answers which error; the target lives on."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.live.runtimes import Target

from dotnetdiag.client import Client
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.errors import DangerousRequest, DiagnosticsError, NotSupported, ServerError, UnsupportedCommand
from dotnetdiag.nettrace import read

pytestmark = pytest.mark.live

# operation -> (on 3.1, on 8, 9 and 10, on NativeAOT); None: it works (ipc-protocol.md §21.6)
OPERATIONS: dict[
    str, tuple[Callable[[Client], object], type[Exception] | None, type[Exception] | None, type[Exception] | None]
] = {
    "process_info": (Client.process_info, UnsupportedCommand, None, None),
    "environment": (Client.environment, UnsupportedCommand, None, None),
    "resume": (Client.resume, UnsupportedCommand, None, None),
    "set variable": (lambda c: c.set_environment_variable("A", "b"), UnsupportedCommand, None, None),
    "unset variable": (lambda c: c.set_environment_variable("A", None), UnsupportedCommand, None, DangerousRequest),
    "enable_perf_map": (Client.enable_perf_map, UnsupportedCommand, None, NotSupported),
    "disable_perf_map": (Client.disable_perf_map, UnsupportedCommand, None, NotSupported),
    "is_suspended": (Client.is_suspended, None, None, None),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_does_on_each_runtime_what_the_table_says(target: Target, name: str) -> None:
    operation, *expected = OPERATIONS[name]
    wanted = expected[{"3.1": 0, "NativeAOT": 2}.get(target.runtime, 1)]
    client = Client(target.pid, timeout_s=10)
    before = len(os.listdir("/proc/self/fd"))
    if wanted is None:
        operation(client)
    else:
        with pytest.raises(wanted) as caught:
            operation(client)
        assert isinstance(caught.value, DiagnosticsError)
    assert target.alive
    assert len(os.listdir("/proc/self/fd")) == before


def test_trace_is_recorded_whole(target: Target, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with Client(target.pid).trace("Microsoft-Windows-DotNETRuntime:GC:4") as session:
        size = session.save(path, duration=0.3)
    assert path.stat().st_size == size
    contents = read(path.read_bytes())
    assert contents.complete
    assert contents.lost.total == 0
    assert target.alive


@pytest.mark.parametrize("path", ["/nonexistent/hook.dll", "hook.dll", "/etc/passwd", "/a.dll:/b.dll"])
def test_startup_hook_that_would_kill_is_refused_and_the_target_lives(target: Target, path: str) -> None:
    with pytest.raises(DangerousRequest):
        Client(target.pid).apply_startup_hook(path)
    assert target.alive


def test_async_client_does_the_same(target: Target) -> None:
    async def run() -> bytes:
        client = AsyncClient(target.pid, timeout_s=10)
        assert not await client.is_suspended()
        session = await client.trace("Microsoft-Windows-DotNETRuntime:GC:4")
        session.stop()
        data = b"".join([part async for part in session])
        await session.aclose()
        return data

    before = len(os.listdir("/proc/self/fd"))
    assert read(asyncio.run(run())).complete
    assert target.alive
    assert len(os.listdir("/proc/self/fd")) == before


def test_dump_is_written_where_the_runtime_can(target: Target, tmp_path: Path) -> None:
    path = tmp_path / "core"
    if target.runtime == "NativeAOT":
        with pytest.raises(ServerError, match="0x80004005"):
            Client(target.pid).write_dump(str(path), 1)
    else:
        Client(target.pid).write_dump(str(path), 1)
        assert path.read_bytes()[:4] == b"\x7fELF"
    assert target.alive
