"""The programs that ``server.py`` looks at: ``python benchmarks/programs.py WHAT WITH``, which print what they took as JSON.

``crowd``: ten threads 30 Python frames deep, which compute a fixed amount, so that one of them always runs. ``idle``: nothing is done for some
seconds. Both say that they are ready, begin when they are told to, by a line, and end at the end of their input. ``start`` says how long the
server takes to load and to install, ``turns`` what work takes longer beside it.

WITH: ``nothing``, ``server`` (an installed server that nobody speaks to), ``session`` (one session of the sampler at 100 Hz, read at once),
``python-session`` (the same without the kernel of the sampler) or ``pyinstrument`` (which sees the thread that starts it: one in each thread).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

THREADS, DEPTH = 10, 30
ROUNDS_OF_EACH, ROUNDS_OF_TURN, TURNS = 6_000, 2_000, 60
IDLE_S = 5.0


def compute(rounds: int) -> int:
    """Fixed work, in calls of some tens of microseconds."""
    return sum(add(turn) for turn in range(rounds))


def add(turn: int) -> int:
    total = 0
    for number in range(1500):
        total += number & turn
    return total


def dive(depth: int, act: Callable[[], object]) -> None:
    """Act at that depth."""
    if depth:
        dive(depth - 1, act)
    else:
        act()


def crowd(beside: Callable[[], AbstractContextManager[object]]) -> None:
    """The work of ten threads, each of which has this beside it."""

    def work() -> None:
        with beside():
            dive(DEPTH - 4, lambda: compute(ROUNDS_OF_EACH))

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextmanager
def session(compiled: bool) -> Iterator[None]:
    """As of a tool that reads at once."""
    from tests.server.recorded import recording

    from dotnetdiag.server import kernels
    from dotnetdiag.server.registry import Registry
    from dotnetdiag.server.sampling import PROVIDER, SampleProfiler

    if not compiled:
        kernels.KERNELS = None
    from dotnetdiag.server.code_addresses import CodeAddresses

    registry = Registry()
    registry.add(SampleProfiler(CodeAddresses()))
    with tempfile.TemporaryDirectory() as folder, recording(Path(folder) / "x.nettrace", registry, PROVIDER):
        yield


@contextmanager
def server() -> Iterator[None]:
    """Nobody speaks to it."""
    from dotnetdiag.server import install

    installed = install()
    assert installed is not None
    with installed:
        yield


def pyinstrument() -> AbstractContextManager[object]:
    """Of the calling thread."""
    from pyinstrument import Profiler

    profiler: AbstractContextManager[object] = Profiler(interval=0.01, async_mode="disabled")
    return profiler


def resident_mb() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def start() -> None:
    """How long it takes to load the server, and to install it."""
    begin = time.perf_counter()
    import dotnetdiag.server

    loaded = time.perf_counter()
    installed = dotnetdiag.server.install()
    ended = time.perf_counter()
    assert installed is not None
    installed.close()
    print(json.dumps({"import_s": loaded - begin, "install_s": ended - loaded}))


def turns() -> None:
    """The ratios of a fixed amount of work while a server is installed and while none is, in one process, in turns."""
    from dotnetdiag.server import install

    def took() -> tuple[float, float]:
        begin, used = time.perf_counter(), time.process_time()
        compute(ROUNDS_OF_TURN)
        return time.perf_counter() - begin, time.process_time() - used

    pairs = []
    for turn in range(TURNS):
        without = took() if turn % 2 else None
        server = install()
        assert server is not None
        with server:
            beside = took()
        pairs.append((beside, without or took()))
    wall, cpu = (statistics.median(one[at] / other[at] for one, other in pairs) for at in (0, 1))
    print(json.dumps({"wall": wall, "cpu": cpu}))


def main(what: str, beside: str) -> None:
    if what in ("start", "turns"):
        (start if what == "start" else turns)()
        return
    process_wide: AbstractContextManager[object] = nullcontext()
    in_each: Callable[[], AbstractContextManager[object]] = nullcontext
    if beside == "server":
        process_wide = server()
    elif beside in ("session", "python-session"):
        process_wide = session(beside == "session")
    elif beside == "pyinstrument":
        in_each = pyinstrument
        in_each()  # it is loaded
    with process_wide:
        print("ready", flush=True)
        sys.stdin.readline()
        begin, used = time.perf_counter(), time.process_time()
        if what == "crowd":
            crowd(in_each)
        else:
            time.sleep(IDLE_S)
        took = {"wall_s": time.perf_counter() - begin, "cpu_s": time.process_time() - used}
        print(json.dumps({**took, "resident_mb": resident_mb()}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "nothing")
