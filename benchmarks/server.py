"""What sessions cost a Python program: user events per second from one thread, an event that nobody wants, and the sampler.

Events: one thread calls an event a million times into a session whose reader takes everything; ``in the call`` is until its last call returns,
``to the end`` until the reader has the end of the stream. Nothing may be lost. Three forms: two numbers, a number and a text, and the first
without the compiled kernels.

Sampler: ten threads 30 Python frames deep, one session samples them at 100 Hz for some seconds; processor time of the sampler's thread as a
share of one core. ``waiting``: none of them runs. ``busy``: each does something between any two samples, so that each stack is looked at anew. Each
also without its kernel.

Beside it the samplers of others, on a program of ten threads 30 frames deep, of which one always runs (``programs.py``), at 100 Hz each. What
they cost is what the program takes longer for the same work (``longer %``; ``more processor %``, which a busy machine disturbs less and a
program that stands still does not show; medians of pairs with and without), and what a process of the tool's own uses meanwhile (``tool % of a
core``, from when it samples). py-spy stops the program for each sample, or does not (``nonblocking``: its stacks may be wrong then);
pyinstrument sees the thread that starts it, and so is started in each. Ours is a session that is read at once.

Server: what an installed one costs to which nobody speaks: processor time and memory of a program that sleeps, with and without it; the time of
a fixed amount of work in one process, while it is installed and while it is not, in turns; and how long it takes to load and to install.

Wanted: ≥ 500,000 events per second with the compiled kernels; the sampler ≤ 1 % of a core; an idle server ≤ 1 %.
Run: ``python benchmarks/server.py [rounds [events|sampler|idle|others …]]``, in an environment with the extra ``bench``; without it the
samplers of others are left out.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.programs import IDLE_S
from benchmarks.record import RESULTS, append
from tests.server.recorded import recording

import dotnetdiag
from dotnetdiag.nettrace import kernels
from dotnetdiag.server import kernels as frame_kernels
from dotnetdiag.server.code_addresses import CodeAddresses
from dotnetdiag.server.event_source import EventSource
from dotnetdiag.server.periodic import OWN_THREADS
from dotnetdiag.server.registry import Registry
from dotnetdiag.server.sampling import PROVIDER, SampleProfiler, _thread_clock

EVENTS = 1_000_000
THREADS, DEPTH, SAMPLED_S = 10, 30, 5.0
FORMS: dict[str, tuple[dict[str, object], tuple[object, ...]]] = {
    "numbers": ({"id": int, "price": float}, (7, 9.5)),
    "text": ({"id": int, "name": str}, (7, "hello world")),
}


def flood(form: str, place: Path) -> tuple[float, float]:
    """Events per second in the call, and to the end."""
    fields, values = FORMS[form]
    registry = Registry()
    event = EventSource("Benchmark", registry=registry).event("Event", fields=fields)
    path = place / "x.nettrace"
    begin = time.perf_counter()
    with recording(path, registry, "Benchmark", buffer_mb=256):
        for _ in range(EVENTS):
            event(*values)
        called = time.perf_counter() - begin
    ended = time.perf_counter() - begin
    trace = dotnetdiag.open(path)
    assert not trace.lost.total
    assert trace.counts()["Benchmark"]["Event"] == EVENTS
    return EVENTS / called, EVENTS / ended


def unwanted_ns() -> float:
    """A call while no session wants the event, with the loop around it."""
    event = EventSource("Benchmark", registry=Registry()).event("Event", fields={"id": int, "price": float})
    begin = time.perf_counter_ns()
    for _ in range(EVENTS):
        event(7, 9.5)
    return (time.perf_counter_ns() - begin) / EVENTS


def dive(depth: int, ready: Callable[[], object], until: threading.Event, pause_s: float | None) -> None:
    if depth:
        dive(depth - 1, ready, until, pause_s)
        return
    ready()
    while not until.is_set():
        until.wait(pause_s)


def sampler_share(place: Path, pause_s: float | None, addresses: CodeAddresses) -> float:
    """Processor time of the sampler, in per cent of a core; its threads do something every ``pause_s``, or nothing."""
    registry, until = Registry(), threading.Event()
    registry.add(SampleProfiler(addresses))
    ready = threading.Semaphore(0)
    threads = [threading.Thread(target=dive, args=(DEPTH - 6, ready.release, until, pause_s)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
        ready.acquire()
    try:
        with recording(place / "x.nettrace", registry, PROVIDER):
            (sampler,) = [one for one in threading.enumerate() if one.name == f"{OWN_THREADS}sampler"]
            clock = _thread_clock(sampler.native_id or 0)
            time.sleep(0.5)  # until all code has its addresses
            begin, own = time.monotonic_ns(), time.clock_gettime_ns(clock)
            time.sleep(SAMPLED_S)
            return 100 * (time.clock_gettime_ns(clock) - own) / (time.monotonic_ns() - begin)
    finally:
        until.set()


def addresses(compiled: bool) -> CodeAddresses:
    """In either form."""
    kernel = frame_kernels.KERNELS
    try:
        if not compiled:
            frame_kernels.KERNELS = None
        return CodeAddresses()
    finally:
        frame_kernels.KERNELS = kernel


def run(what: str, beside: str = "nothing", spy: Sequence[str] = ()) -> dict[str, float]:
    """What a program of ``programs.py`` says of itself, and ``tool_s``, what a tool has used meanwhile that looks at it."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        command = [sys.executable, str(Path(__file__).with_name("programs.py")), what, beside]
        program = stack.enter_context(
            subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": folder}
            )
        )
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == b"ready\n"
        clock = None
        if spy:
            asked = [*spy, "--pid", str(program.pid), "--format", "raw", "--output", f"{folder}/stacks"]
            tool = stack.enter_context(subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
            assert tool.stdout is not None
            while b"Sampling process" not in (line := tool.stdout.readline()):
                assert line, "the tool has ended"
            clock = ~tool.pid << 3 | 2  # of all its threads
        used = time.clock_gettime_ns(clock) if clock else 0
        program.stdin.write(b"\n")
        program.stdin.flush()
        said: dict[str, float] = json.loads(program.stdout.readline())
        tool_s = (time.clock_gettime_ns(clock) - used) / 1e9 if clock else 0.0
        program.stdin.close()
        return {**said, "tool_s": tool_s}


def py_spy() -> str | None:
    """The program, where it is installed."""
    path = Path(sysconfig.get_path("scripts")) / "py-spy"
    return str(path) if path.exists() else None


def samplers(rounds: int) -> dict[str, object]:
    """What each costs, beside the same program without one."""
    forms: dict[str, tuple[str, Sequence[str]]] = {"ours": ("session", ()), "ours, fall-back": ("python-session", ())}
    if spy := py_spy():
        forms["py-spy"] = "nothing", [spy, "record", "--rate", "100"]
        forms["py-spy nonblocking"] = "nothing", [spy, "record", "--rate", "100", "--nonblocking"]
    with suppress(PackageNotFoundError):
        version("pyinstrument")
        forms["pyinstrument"] = "pyinstrument", ()
    figures: dict[str, object] = {}
    for name, (beside, command) in forms.items():
        runs = in_turns(partial(run, "crowd", beside, command), partial(run, "crowd"), rounds)
        figures[f"{name} longer %"] = per_cent_more(runs, "wall_s")
        figures[f"{name} more processor %"] = per_cent_more(runs, "cpu_s")
        if command:
            figures[f"{name} tool % of a core"] = statistics.median(
                100 * one["tool_s"] / one["wall_s"] for one, _ in runs
            )
    return figures


Runs: TypeAlias = list[tuple[dict[str, float], dict[str, float]]]


def in_turns(act: Callable[[], dict[str, float]], other: Callable[[], dict[str, float]], rounds: int) -> Runs:
    """What both have said, pair by pair, the one before the other or behind it."""
    return [(act(), other()) if turn % 2 else (other(), act())[::-1] for turn in range(rounds)]


def per_cent_more(runs: Runs, name: str) -> float:
    """Of the first of each pair."""
    return 100 * (statistics.median(one[name] / other[name] for one, other in runs) - 1)


def idle_server(rounds: int) -> dict[str, object]:
    """Nobody speaks to it."""
    figures: dict[str, object] = {}
    asleep = in_turns(partial(run, "idle", "server"), partial(run, "idle"), rounds)
    used = statistics.median(one["cpu_s"] - other["cpu_s"] for one, other in asleep)
    figures["idle server % of a core"] = 100 * used / IDLE_S
    figures["idle server MB more"] = statistics.median(
        one["resident_mb"] - other["resident_mb"] for one, other in asleep
    )
    run_alone("start")  # its bytecode is written
    started = [run_alone("start") for _ in range(rounds)]
    for name in ("import", "install"):
        figures[f"{name} ms"] = 1000 * statistics.median(one[f"{name}_s"] for one in started)
    worked = [run_alone("turns") for _ in range(rounds)]
    for name, what in (("wall", "longer"), ("cpu", "more processor")):
        figures[f"idle server: work {what} %"] = 100 * (statistics.median(one[name] for one in worked) - 1)
    return figures


def run_alone(what: str) -> dict[str, float]:
    """What a program of ``programs.py`` says that needs nothing beside it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(Path(__file__).with_name("programs.py")), what]
        environment = {**os.environ, "TMPDIR": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # as an installation has it
        done = subprocess.run(command, capture_output=True, check=True, env=environment)
    said: dict[str, float] = json.loads(done.stdout)
    return said


def others() -> dict[str, str]:
    """Versions of those that are installed."""
    found: dict[str, str] = {}
    for name in ("py-spy", "pyinstrument"):
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def events(rounds: int) -> dict[str, object]:
    """User events."""
    figures: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for form in FORMS:
            found = [flood(form, place) for _ in range(rounds)]
            figures[f"{form} events/s in the call"] = statistics.median(one for one, _ in found)
            figures[f"{form} events/s to the end"] = statistics.median(other for _, other in found)
        compiled, kernels.KERNELS = kernels.KERNELS, None
        figures["numbers events/s to the end, fall-back"] = flood("numbers", place)[1]
        kernels.KERNELS = compiled
    figures["unwanted event ns"] = statistics.median(unwanted_ns() for _ in range(rounds))
    return figures


def sampler(rounds: int) -> dict[str, object]:
    """Ours, waiting and busy, in both forms."""
    figures: dict[str, object] = {}
    walks = {", fall-back": False, **({"": True} if frame_kernels.COMPILED else {})}
    with tempfile.TemporaryDirectory() as folder:
        for name, pause_s in (("waiting", None), ("busy", 0.005)):
            shares = [
                [sampler_share(Path(folder), pause_s, addresses(walk)) for walk in walks.values()]
                for _ in range(rounds)
            ]
            for walk, of_it in zip(walks, zip(*shares, strict=True), strict=True):
                figures[f"sampler % of a core, {name}{walk}"] = statistics.median(of_it)
    return figures


PARTS: dict[str, Callable[[int], dict[str, object]]] = {
    "events": events,
    "sampler": sampler,
    "idle": idle_server,
    "others": samplers,
}


def main(rounds: int, parts: Sequence[str]) -> None:
    figures: dict[str, object] = {"kernels": "compiled" if kernels.COMPILED else "fall-back"}
    for part in parts or PARTS:
        figures |= PARTS[part](rounds)
    figures |= {"rounds": rounds, "load": os.getloadavg()[0]}
    for label, value in figures.items():
        print(f"{label:<40} {value:,.3f}" if isinstance(value, float) else f"{label:<40} {value}")
    print("wanted: events/s >= 500,000 with the compiled kernels, sampler <= 1 % of a core, idle server <= 1 %")
    append("server.py", figures, file=RESULTS, **others())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3, sys.argv[2:])
