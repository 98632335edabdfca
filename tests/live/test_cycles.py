"""Many attachments: no descriptor is left on either side, and the target still answers."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.descriptors import descriptors
from tests.live.runtimes import Target, workload

from dotnetdiag.client import Client
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.errors import UnsupportedCommand

pytestmark = pytest.mark.live

PROVIDERS = "Microsoft-Windows-DotNETRuntime:GC:4"
CYCLES, PARALLEL = 1000, 50


def sockets(target: Target) -> int:
    """Of the target: it opens files of its own as it likes."""
    folder = f"/proc/{target.pid}/fd"
    found = 0
    for name in os.listdir(folder):
        try:
            found += os.readlink(f"{folder}/{name}").startswith("socket:")
        except FileNotFoundError:
            pass
    return found


def ask(client: Client) -> None:
    try:
        client.process_info()
    except UnsupportedCommand:
        pass  # 3.1, which has answered


def settle(target: Target, wanted: int) -> int:
    """The number of the target's sockets, once it has closed what it is about to close."""
    client = Client(target.pid)
    for _ in range(50):
        if sockets(target) <= wanted:
            break
        ask(client)  # takes a moment, and makes the server look at its connections
    return sockets(target)


def test_a_thousand_attachments_leave_nothing() -> None:
    """Sixteen at a time: the runtime takes 0.1 s to end a session."""
    with workload("10", "idle", "seconds=600") as target:
        client = Client(target.pid)
        ours, theirs = descriptors(), sockets(target)

        def cycle(_: int) -> bool:
            with client.trace(PROVIDERS, rundown_keyword=0, buffer_mb=1) as session:
                same = client.process_info().pid == target.pid
                session.stop()
                return same and sum(map(len, session)) > 0

        with ThreadPoolExecutor(16) as pool:
            assert all(pool.map(cycle, range(CYCLES)))
        assert descriptors() == ours
        assert settle(target, theirs) <= theirs
        assert client.process_info().pid == target.pid


def test_fifty_at_a_time_from_threads(runtime: str) -> None:
    with workload(runtime, "idle", "seconds=600") as target:
        client = Client(target.pid)  # one client, used by all

        def cycle(_: int) -> int:
            with client.trace(PROVIDERS, rundown_keyword=0, buffer_mb=1) as session:
                session.stop()
                return sum(map(len, session))

        before, theirs = descriptors(), sockets(target)
        with ThreadPoolExecutor(PARALLEL) as pool:
            assert all(size > 0 for size in pool.map(cycle, range(PARALLEL)))
        assert descriptors() == before
        assert settle(target, theirs) <= theirs
        ask(client)


def test_fifty_at_a_time_from_asyncio(runtime: str) -> None:
    with workload(runtime, "idle", "seconds=600") as target:

        async def cycle(client: AsyncClient) -> int:
            async with await client.trace(PROVIDERS, rundown_keyword=0, buffer_mb=1) as session:
                session.stop()
                size = 0
                async for part in session:
                    size += len(part)
                return size

        async def all_at_once() -> list[int]:
            client = AsyncClient(target.pid)
            return await asyncio.gather(*(cycle(client) for _ in range(PARALLEL)))

        before, theirs = descriptors(), sockets(target)
        assert all(size > 0 for size in asyncio.run(all_at_once()))
        assert descriptors() == before
        assert settle(target, theirs) <= theirs
