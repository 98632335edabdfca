"""What sessions cost a Python program: user events per second from one thread, an event that nobody wants, and the sampler.

Events: one thread calls an event a million times into a session whose reader takes everything; ``in the call`` is until its last call returns,
``to the end`` until the reader has the end of the stream. Nothing may be lost. Three forms: two numbers, a number and a text, and the first
without the compiled kernels.

Sampler: ten threads 30 Python frames deep, one session samples them at 100 Hz for some seconds; processor time of the sampler's thread as a
share of one core. ``waiting``: none of them runs. ``busy``: each does something between any two samples, so that each stack is looked at anew.

Wanted: ≥ 500,000 events per second with the compiled kernels; the sampler ≤ 1 % of a core. Run: ``python benchmarks/server.py [rounds]``.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import append
from tests.server.recorded import recording

import dotnetdiag
from dotnetdiag.nettrace import kernels
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


def sampler_share(place: Path, pause_s: float | None) -> float:
    """Processor time of the sampler, in per cent of a core; its threads do something every ``pause_s``, or nothing."""
    registry, until = Registry(), threading.Event()
    registry.add(SampleProfiler())
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


def main(rounds: int) -> None:
    figures: dict[str, object] = {"kernels": "compiled" if kernels.COMPILED else "fall-back"}
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
        for name, pause_s in (("waiting", None), ("busy", 0.005)):
            shares = [sampler_share(place, pause_s) for _ in range(rounds)]
            figures[f"sampler % of a core, {name}"] = statistics.median(shares)
    figures["rounds"] = rounds
    for label, value in figures.items():
        print(f"{label:<40} {value:,.3f}" if isinstance(value, float) else f"{label:<40} {value}")
    print("wanted: events/s >= 500,000 with the compiled kernels, sampler <= 1 % of a core")
    append("server.py", figures)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
