"""The meter ``System.Runtime``: .NET's instruments where they mean the same in Python, and ``cpython.*`` beside them.

===================================  ============  ==========================================================
instrument                           unit          tags
===================================  ============  ==========================================================
dotnet.process.cpu.time              s             cpu.mode: user, system
dotnet.process.cpu.count             {cpu}
dotnet.process.memory.working_set    By            (Linux)
dotnet.gc.collections                {collection}  gc.heap.generation: gen0, gen1, gen2
cpython.gc.collected_objects         {object}      cpython.gc.generation: 0, 1, 2
cpython.gc.uncollectable_objects     {object}      cpython.gc.generation: 0, 1, 2
cpython.allocated_blocks             {block}
cpython.thread.count                 {thread}
cpython.module.count                 {module}
===================================  ============  ==========================================================

Names, units, descriptions and tags of the first four are those of .NET 10; the two of the collector are OpenTelemetry's conventions.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from dotnetdiag.server.instruments import Instrument, InstrumentKind, Reading
from dotnetdiag.server.process_usage import by_generation, cpu_seconds, processor_count, thread_count, working_set_bytes

METER = "System.Runtime"
_Read = Callable[[], Mapping[str, float]]
"""Values by tags."""


def _counter(name: str, unit: str, description: str) -> Instrument:
    return Instrument(
        meter=METER, name=name, kind=InstrumentKind.OBSERVABLE_COUNTER, unit=unit, description=description
    )


def _up_down(name: str, unit: str, description: str) -> Instrument:
    kind = InstrumentKind.OBSERVABLE_UP_DOWN_COUNTER
    return Instrument(meter=METER, name=name, kind=kind, unit=unit, description=description)


def _working_set() -> dict[str, float]:
    size = working_set_bytes()
    return {} if size is None else {"": size}


def _of_generations(what: str, tag: str) -> _Read:
    return lambda: {f"{tag}{number}": value for number, value in enumerate(by_generation(what))}


_INSTRUMENTS: tuple[tuple[Instrument, _Read], ...] = (
    (
        _counter("dotnet.process.cpu.time", "s", "CPU time used by the process."),
        lambda: {f"cpu.mode={mode}": seconds for mode, seconds in cpu_seconds().items()},
    ),
    (
        _up_down("dotnet.process.cpu.count", "{cpu}", "The number of processors available to the process."),
        lambda: {"": processor_count()},
    ),
    (
        _up_down(
            "dotnet.process.memory.working_set",
            "By",
            "The number of bytes of physical memory mapped to the process context.",
        ),
        _working_set,
    ),
    (
        _counter(
            "dotnet.gc.collections",
            "{collection}",
            "The number of garbage collections that have occurred since the process has started.",
        ),
        _of_generations("collections", "gc.heap.generation=gen"),
    ),
    (
        _counter(
            "cpython.gc.collected_objects",
            "{object}",
            "The total number of objects collected inside a generation since interpreter start.",
        ),
        _of_generations("collected", "cpython.gc.generation="),
    ),
    (
        _counter(
            "cpython.gc.uncollectable_objects",
            "{object}",
            "The total number of objects which were found to be uncollectable inside a generation since interpreter start.",
        ),
        _of_generations("uncollectable", "cpython.gc.generation="),
    ),
    (
        _up_down("cpython.allocated_blocks", "{block}", "The number of memory blocks allocated by the interpreter."),
        lambda: {"": sys.getallocatedblocks()},
    ),
    (
        _up_down("cpython.thread.count", "{thread}", "The number of threads of the program."),
        lambda: {"": thread_count()},
    ),
    (
        _up_down("cpython.module.count", "{module}", "The number of modules that are loaded."),
        lambda: {"": len(sys.modules)},
    ),
)


def runtime_instruments() -> list[Instrument]:
    """Those that this platform has."""
    return [instrument for instrument, read in _INSTRUMENTS if _values(read)]


def read_runtime() -> list[Reading]:
    """All of them, now."""
    return [
        Reading(instrument=instrument, tags=tags, value=value)
        for instrument, read in _INSTRUMENTS
        for tags, value in _values(read).items()
    ]


def _values(read: _Read) -> Mapping[str, float]:
    """None of what cannot be read now: of the system, or of a program that has replaced what is asked."""
    try:
        return read()
    except Exception:
        return {}
