"""What the router costs between a runtime that floods and a collector, and how soon it serves good runtimes beside silent ones.

Cost: the ``flood`` workload (2 threads × 160,000 events of 1,000 bytes, suspended until the collector resumes it) recorded by dotnet-trace and
by ours through ``router server-server`` over Unix sockets, with 400 MB of buffer in the target, so that nothing is lost. Processor time: of
the collector's whole process; of the router's from ``listening on`` to the end of the recording (``whole``: its start included). Peak memory
is the router's.

Serving: 100 runtimes and 100 that say nothing dial ``router client-server`` in turns; until the tool has the hundredth advertise. The worst of
the rounds counts.

Wanted: router's processor time ≤ 0.5 of the collector's, memory ≤ 64 MB, 100 runtimes within 100 ms. Run: ``python benchmarks/router.py [rounds]``.
"""

from __future__ import annotations

import os
import signal
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import Usage, start
from benchmarks.record import append
from tests.live.routing import held_at
from tests.live.runtimes import unpack, workload

import dotnetdiag
from dotnetdiag.ipc.advertise import Advertise

OURS = str(Path(sysconfig.get_path("scripts")) / "dotnetdiag")
THREADS, EACH, SIZE = 2, 160_000, 1000
BUFFER_MB = "400"
MANY = 100
PROVIDERS = "Workload-Manifest:0xffffffffffffffff:5"
TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def routed(*words: str) -> Iterator[int]:
    """The pid of a router that listens."""
    router = subprocess.Popen([OURS, "router", *words, "-v", "none"], stderr=subprocess.PIPE)
    assert router.stderr is not None
    try:
        assert router.stderr.readline().startswith(b"listening on ")
        yield router.pid
    finally:
        router.send_signal(signal.SIGTERM)
        router.communicate()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mb(pid: int) -> float:
    line = next(one for one in Path(f"/proc/{pid}/status").read_text().splitlines() if one.startswith("VmHWM"))
    return int(line.split()[1]) / 1e3


def record(tool: list[str], environment: dict[str, str], place: Path) -> tuple[Usage, float, float, float, float]:
    """The collector's usage; the router's processor time, the same with its start, and its peak memory; megabytes."""
    tools, runtimes, file = place / "tools", place / "runtimes", place / "x.nettrace"
    flood = ("flood", f"threads={THREADS}", f"each={EACH}", f"size={SIZE}")
    with (
        routed("server-server", "--ipc-server", str(tools), "--runtimes", str(runtimes)) as router,
        workload("10", *flood, suspended=True, **held_at(runtimes)) as target,
    ):
        before = cpu_s(router)
        where = ("--diagnostic-port", f"{tools},connect", "--buffersize", BUFFER_MB, "-o", str(file))
        words = ("collect", "--providers", PROVIDERS, *where)
        collector = start([*tool, *words], environment)
        target.expect("done flood")
        usage = collector.finish()
        whole, memory = cpu_s(router), peak_mb(router)
    assert usage.exit_code == 0, usage
    megabytes = file.stat().st_size / 1e6
    trace = dotnetdiag.open(file)
    assert trace.complete
    assert trace.counts()["Workload-Manifest"]["Blob"] + trace.lost.total == THREADS * EACH
    file.unlink()
    return usage, whole - before, whole, memory, megabytes


def serve(place: Path, rounds: int) -> list[float]:
    """Seconds from the first dial to the last advertise at the tool, one for each round."""
    found = []
    with socket.socket(socket.AF_UNIX) as port:
        port.bind(str(place / "port"))
        port.listen(2 * MANY)
        with routed("client-server", "--ipc-client", str(place / "port"), "--runtimes", str(place / "runtimes")):
            for turn in range(rounds + 1):
                cookies = [UUID(int=turn * MANY + number) for number in range(MANY)]
                expected = [Advertise(cookie=cookie, pid=cookie.int).pack() for cookie in cookies]
                with ExitStack() as stack:
                    begin = time.monotonic()
                    for advertise in expected:
                        for data in (b"", advertise):
                            runtime = stack.enter_context(socket.socket(socket.AF_UNIX))
                            runtime.connect(str(place / "runtimes"))
                            runtime.sendall(data)
                    came = set[bytes]()
                    while len(came) < MANY:
                        tool = stack.enter_context(port.accept()[0])
                        said = tool.recv(34, socket.MSG_WAITALL)
                        if said in expected:  # else of one of the round before, which has just gone
                            came.add(said)
                    found.append(time.monotonic() - begin)
                time.sleep(1.5)  # until they are forgotten
    return found[1:]  # the first loads what is loaded when it is first used


def main(rounds: int) -> None:
    folder = unpack()
    environment = {"DOTNET_ROOT": str(folder / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    collectors = {
        "dotnet-trace": [str(folder / "dotnet" / "dotnet"), str(folder / "dotnet-trace" / "dotnet-trace.dll")],
        "ours": [OURS, "trace"],
    }
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as place:
        for name, tool in collectors.items():
            runs = [record(tool, environment, Path(place)) for _ in range(rounds)]
            figures[f"{name} cpu ratio"] = statistics.median(cost / usage.cpu_s for usage, cost, *_ in runs)
            figures[f"{name} cpu ratio whole"] = statistics.median(whole / usage.cpu_s for usage, _, whole, *_ in runs)
            figures[f"{name} cpu s"] = statistics.median(usage.cpu_s for usage, *_ in runs)
            figures[f"router cpu s for {name}"] = statistics.median(cost for _, cost, *_ in runs)
            figures["router MB"] = max(memory for _, _, _, memory, _ in runs)
            figures["recorded MB"] = runs[-1][4]
        served = serve(Path(place), rounds)
        figures |= {"served median ms": statistics.median(served) * 1e3, "served worst ms": max(served) * 1e3}
    figures["rounds"] = rounds
    for name, value in figures.items():
        print(f"{name:<28} {value:,.3f}" if isinstance(value, float) else f"{name:<28} {value}")
    print("wanted: cpu ratio <= 0.5, router MB <= 64, served <= 100 ms")
    append("router.py", figures, dotnet="10.0.14")


if __name__ == "__main__":
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
