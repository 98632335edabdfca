"""dotnet-trace, unchanged, through our router, in each mode; and what becomes of all when one of them is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.live.routing import FLOOD, PATIENCE_S, Routing, dotnet_trace, ended, held_at, own_socket, routed
from tests.live.runtimes import Target, workload
from tests.shared import needs
from tests.transport.certificates import security

import dotnetdiag as dd

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]

EVENTS = 20_000
WORK: tuple[Any, ...] = ("flood", "threads=2", f"each={EVENTS}", "size=400")
COLLECT = ("collect", "--providers", FLOOD)


def floods(file: Path, each: int = EVENTS) -> None:
    """The file has all that the workload has sent, and nothing is wrong with it."""
    trace = dd.open(file)
    assert trace.counts()["Workload-Manifest"]["Blob"] == 2 * each
    assert trace.lost.total == 0
    assert trace.complete


def test_tools_dial_and_runtimes_dial(tmp_path: Path) -> None:
    tools, runtimes, file = tmp_path / "tools", tmp_path / "runtimes", tmp_path / "x.nettrace"
    with (
        routed("server-server", "--ipc-server", tools, "--runtimes", runtimes) as router,
        workload("10", *WORK, suspended=True, **held_at(runtimes)) as target,
    ):
        ended(dotnet_trace(*COLLECT, "--diagnostic-port", f"{tools},connect", "-o", file))
        assert router.wait_for("connected")["namespace_pid"] == target.pid
        assert target.expect("done")
    floods(file)
    assert os.listdir(tmp_path) == ["x.nettrace"]


@pytest.mark.parametrize("by", ["port", "pid"])
def test_tools_dial_and_we_dial_the_runtime(by: str, tmp_path: Path) -> None:
    file = tmp_path / "x.nettrace"
    with workload("10", *WORK, suspended=True) as target:
        own = own_socket(target)
        words = ("--ipc-server", tmp_path / "tools") if by == "port" else ()
        with routed("server-client", *words, "--ipc-client", own) as router:
            to = ("--diagnostic-port", f"{tmp_path / 'tools'},connect") if by == "port" else ("-p", router.process.pid)
            ended(dotnet_trace(*COLLECT, *to, "-o", file))
            assert target.expect("done")
    floods(file)


def test_we_dial_the_tool_and_runtimes_dial(tmp_path: Path) -> None:
    port, runtimes, file = tmp_path / "port", tmp_path / "runtimes", tmp_path / "x.nettrace"
    with (
        routed("client-server", "--ipc-client", port, "--runtimes", runtimes) as router,
        workload("10", *WORK, suspended=True, **held_at(runtimes)) as target,
    ):
        assert router.wait_for("connected")["namespace_pid"] == target.pid
        tool = dotnet_trace(*COLLECT, "--diagnostic-port", port, "-o", file)
        assert target.expect("done")
        ended(tool)
    floods(file)


def test_we_dial_the_tool_and_the_runtime(tmp_path: Path) -> None:
    port, file = tmp_path / "port", tmp_path / "x.nettrace"
    with (
        workload("10", *WORK, suspended=True) as target,
        routed("client-client", "--ipc-client", port, "--runtimes", own_socket(target)),
    ):
        tool = dotnet_trace(*COLLECT, "--diagnostic-port", port, "-o", file)
        assert target.expect("done")
        ended(tool)
    floods(file)


def test_across_machines_a_suspended_program_is_recorded_over_tls(tmp_path: Path) -> None:
    """Runtimes dial the router beside them; it dials the one beside the tools, over TCP."""
    tools, runtimes, file = tmp_path / "tools", tmp_path / "runtimes", tmp_path / "x.nettrace"
    ours = security(tmp_path)
    secured: tuple[object, ...] = ("--tls-cert", ours.certificate, "--tls-key", ours.key, "--tls-ca", ours.ca)
    there = routed(
        "server-server", "--ipc-server", tools, "--tcp-server", "127.0.0.1:0", *secured, DOTNETDIAG_TOKEN=ours.token
    )
    with there as near_tools:
        address = near_tools.runtimes_address
        with (
            routed("client-server", "--tools", address, "--runtimes", runtimes, *secured, DOTNETDIAG_TOKEN=ours.token),
            workload("10", *WORK, suspended=True, **held_at(runtimes)) as target,
        ):
            ended(dotnet_trace(*COLLECT, "--diagnostic-port", f"{tools},connect", "-o", file))
            assert target.expect("done")
    floods(file)


def test_a_server_of_ours_records_a_program_of_another_machine(tmp_path: Path) -> None:
    ours, runtimes, file = security(tmp_path), tmp_path / "runtimes", tmp_path / "x.nettrace"
    secured = ("--tls-cert", ours.certificate, "--tls-key", ours.key, "--tls-ca", ours.ca)
    with (
        dd.listen("127.0.0.1:0", security=ours) as server,
        routed(
            "client-server", "--tools", server.address, "--runtimes", runtimes, *secured, DOTNETDIAG_TOKEN=ours.token
        ),
        workload("10", *WORK, suspended=True, **held_at(runtimes)) as target,
    ):
        runtime = server.wait(timeout_s=PATIENCE_S)
        assert runtime.info.pid == target.pid
        with runtime.client.trace(FLOOD) as session:
            runtime.resume()
            session.save(file)  # until the program has ended
    floods(file)


def test_across_machines_a_running_program_is_recorded(tmp_path: Path) -> None:
    """The tools' router dials the one beside the runtime, which has its address from the runtime's own socket."""
    tools, file = tmp_path / "tools", tmp_path / "x.nettrace"
    with (
        workload("10", *WORK, suspended=True) as target,
        routed("server-client", "--tools", "127.0.0.1:0", "--runtimes", own_socket(target)) as near_runtime,
        routed("server-client", "--ipc-server", tools, "--tcp-client", near_runtime.address),
    ):
        ended(dotnet_trace(*COLLECT, "--diagnostic-port", f"{tools},connect", "-o", file))
        assert target.expect("done")
    floods(file)


def test_over_a_websocket(tmp_path: Path) -> None:
    pytest.importorskip("websockets")
    tools, runtimes, file = tmp_path / "tools", tmp_path / "runtimes", tmp_path / "x.nettrace"
    with routed("server-websocket", "--ipc-server", tools, "-ws", "ws://127.0.0.1:0/diagnostics") as near_tools:
        url = near_tools.runtimes_address
        with (
            routed("client-server", "--tools", url, "--runtimes", runtimes),
            workload("10", *WORK, suspended=True, **held_at(runtimes)) as target,
        ):
            ended(dotnet_trace(*COLLECT, "--diagnostic-port", f"{tools},connect", "-o", file))
            assert target.expect("done")
    floods(file)


@pytest.mark.slow
def test_300_megabytes_are_recorded_through_it(tmp_path: Path) -> None:
    tools, runtimes, file = tmp_path / "tools", tmp_path / "runtimes", tmp_path / "x.nettrace"
    with (
        routed("server-server", "--ipc-server", tools, "--runtimes", runtimes) as router,
        workload("10", "flood", "threads=2", "each=160000", "size=1000", suspended=True, **held_at(runtimes)) as target,
    ):
        ended(dotnet_trace(*COLLECT, "--buffersize", 400, "--diagnostic-port", f"{tools},connect", "-o", file))
        assert target.expect("done")
        assert router.wait_for("ended", command="CollectTracing2")["bytes_to_tool"] > 300_000_000
    floods(file, 160_000)


LONG: tuple[Any, ...] = ("flood", "threads=2", "each=10000000", "size=1000")


@contextmanager
def flooded(mode: str, folder: Path) -> Iterator[tuple[Routing, Target, subprocess.Popen[str]]]:
    """A router in this mode, a program that floods without end, and dotnet-trace, which has recorded 20 MB of it."""
    place, runtimes, file = folder / "place", folder / "runtimes", folder / "x.nettrace"
    dials = mode.startswith("server")
    word, to = ("--ipc-server", f"{place},connect") if dials else ("--ipc-client", str(place))
    with ExitStack() as stack:
        if mode.endswith("client"):
            target = stack.enter_context(workload("10", *LONG, suspended=True))
            router = stack.enter_context(routed(mode, word, place, "--runtimes", own_socket(target)))
        else:
            router = stack.enter_context(routed(mode, word, place, "--runtimes", runtimes))
            target = stack.enter_context(workload("10", *LONG, suspended=True, **held_at(runtimes)))
        tool = dotnet_trace(*COLLECT, "--diagnostic-port", to, "-o", file)
        try:
            until(lambda: file.exists() and file.stat().st_size > 20_000_000)
            yield router, target, tool
        finally:
            tool.kill()
            tool.communicate()


@pytest.mark.parametrize("mode", ["server-server", "server-client", "client-server", "client-client"])
@pytest.mark.parametrize("killed", ["target", "router", "tool"])
def test_whoever_is_killed_the_others_go_on_and_the_file_has_what_came(killed: str, mode: str, tmp_path: Path) -> None:
    with flooded(mode, tmp_path) as (router, target, tool):
        begin = time.monotonic()
        victims: dict[str, subprocess.Popen[Any]]
        victims = {"target": target.process, "router": router.process, "tool": tool}
        victims[killed].kill()
        victims[killed].wait()
        if killed != "tool":
            tool.communicate(timeout=PATIENCE_S)
        if killed != "router":
            router.wait_for("ended", command="CollectTracing2")
        assert time.monotonic() - begin < 10
        if killed != "target":
            works(target)
            assert dd.Client(target.pid, timeout_s=5).process_info().pid == target.pid  # it serves others
    file = tmp_path / "x.nettrace"
    trace = dd.open(file)
    assert trace.counts()["Workload-Manifest"]["Blob"] > 10_000


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.02)


def works(target: Target, ticks: int = 1) -> None:
    """Wait until the program has done so much more of its own work, in hundredths of a second of processor time."""

    def done() -> int:
        return sum(map(int, Path(f"/proc/{target.pid}/stat").read_text().rpartition(")")[2].split()[11:13]))

    wanted = done() + ticks
    until(lambda: done() >= wanted)


def test_a_tool_that_is_stopped_costs_the_router_no_memory(tmp_path: Path) -> None:
    with flooded("server-server", tmp_path) as (router, target, tool):
        tool.send_signal(signal.SIGSTOP)
        works(target, 200)
        status = Path(f"/proc/{router.process.pid}/status").read_text()
        (peak_kb,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
        assert peak_kb < 64_000
        tool.kill()
        assert router.wait_for("ended", command="CollectTracing2")["bytes_to_tool"] > 20_000_000
