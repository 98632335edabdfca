"""Traces of samples made by hand: ``traced(managed(0, 1, "Leaf", "Main"), external(2, 1, "Wait", "Main"))``."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from tests.trace.made import RUNTIME, MadeTrace, varuint, z16

from dotnetdiag.analysis.cpu import KERNEL, SAMPLER
from dotnetdiag.nettrace import Field, FieldType, Metadata, ThreadInfo, TypeCode, Writer
from dotnetdiag.trace.trace import Trace

MS = 1_000_000
PROCESS = 77


@dataclass(frozen=True, kw_only=True)
class Seen:
    """An event with a stack, leaf first: names of methods, or addresses that nothing is known of."""

    ms: float
    thread: int
    stack: tuple[str | int, ...]
    provider: str
    number: int
    payload: bytes
    name: str = ""
    version: int = 0
    fields: tuple[Field, ...] = ()
    activity: UUID | None = None


def said(ms: float, thread: int, *stack: str | int, provider: str, number: int, name: str, **values: int | str) -> Seen:
    """An event of an EventSource: numbers are 64 bits wide."""
    codes = {True: TypeCode.STRING, False: TypeCode.INT64}
    fields = tuple(
        Field(name=field, type=FieldType(code=codes[isinstance(value, str)])) for field, value in values.items()
    )
    payload = b"".join(z16(value) if isinstance(value, str) else struct.pack("<q", value) for value in values.values())
    return Seen(
        ms=ms, thread=thread, stack=stack, provider=provider, number=number, payload=payload, name=name, fields=fields
    )


def managed(ms: float, thread: int, *stack: str | int) -> Seen:
    return Seen(ms=ms, thread=thread, stack=stack, provider=SAMPLER, number=0, payload=struct.pack("<I", 2))


def external(ms: float, thread: int, *stack: str | int) -> Seen:
    return Seen(ms=ms, thread=thread, stack=stack, provider=SAMPLER, number=0, payload=struct.pack("<I", 1))


def allocation(ms: float, thread: int, *stack: str | int, size: int = 100) -> Seen:
    payload = struct.pack("<IIHQQ", size, 0, 1, size, 0) + b"A\0\0\0" + struct.pack("<I", 0)
    return Seen(ms=ms, thread=thread, stack=stack, provider=RUNTIME, number=10, payload=payload, version=2)


def allocation_tick(ms: float, type_name: str, amount: int, size: int, *, kind: int = 0, type_id: int = 0) -> Seen:
    """GC/AllocationTick as .NET 8 writes it."""
    payload = struct.pack("<IIHQQ", amount, kind, 0, amount, type_id) + z16(type_name) + struct.pack("<IQQ", 0, 0, size)
    return Seen(ms=ms, thread=1, stack=("Make", "Main"), provider=RUNTIME, number=10, payload=payload, version=4)


def allocation_sample(ms: float, type_name: str, size: int, *, kind: int = 0) -> Seen:
    """AllocationSampling of .NET 10."""
    payload = struct.pack("<IHQ", kind, 0, 0) + z16(type_name) + struct.pack("<QQQ", 0, size, 0)
    return Seen(ms=ms, thread=1, stack=("Make", "Main"), provider=RUNTIME, number=303, payload=payload)


def on_cpu(ms: float, thread: int, *stack: str | int, value: int = 1) -> Seen:
    payload = varuint(value)
    return Seen(ms=ms, thread=thread, stack=stack, provider=KERNEL, number=1, payload=payload, name="cpu")


def off_cpu(ms: float, thread: int, *stack: str | int, length_ms: float) -> Seen:
    payload = varuint(int(length_ms * MS))
    return Seen(ms=ms, thread=thread, stack=stack, provider=KERNEL, number=2, payload=payload, name="cswitch")


def event_source(ms: float, thread: int, *stack: str | int) -> Seen:
    return Seen(ms=ms, thread=thread, stack=stack, provider="My-EventSource", number=5, payload=b"", name="Said")


def worker_start(ms: float, thread: int) -> Seen:
    payload = struct.pack("<IIH", 1, 0, 0)
    return Seen(ms=ms, thread=thread, stack=(), provider=RUNTIME, number=50, payload=payload)


def runtime_is(ms: float, thread: int, version: str, command_line: str = "", path: str = "", sku: int = 2) -> Seen:
    """What a rundown says of the runtime: ``9.0.22``."""
    numbers = [int(part) for part in version.split(".")]
    payload = struct.pack("<10HIB", 1, sku, *numbers, 0, *numbers, 0, 0, 0) + z16(command_line) + bytes(16) + z16(path)
    provider = f"{RUNTIME}Rundown"
    return Seen(ms=ms, thread=thread, stack=(), provider=provider, number=187, payload=payload, name="Runtime/Start")


def traced(
    *events: Seen,
    modules: dict[str, str] | None = None,
    version: int = 5,
    lost: int = 0,
    processes: dict[int, int] | None = None,
    **more: Any,
) -> Trace:
    """The trace of these events in this order; ``processes`` of threads, in version 6. Methods are ``Type.Method`` of ``app.dll``, or of the module
    that ``modules`` has for the type; each has 256 bytes. Frames that end in ``]`` are symbols of a perf map.
    """
    made = MadeTrace()
    paths = {"": "/x/app.dll", **(modules or {})}
    numbers = {path: number for number, path in enumerate(sorted(set(paths.values())), 1)}
    for path, number in numbers.items():
        made.module(number, path)
    where: dict[str, int] = {}
    for event in events:
        for frame in event.stack:
            if isinstance(frame, str) and frame not in where:
                where[frame] = 0x10000 + 0x100 * len(where)
                if frame.endswith("]"):
                    made.symbol(1, where[frame], where[frame] + 0x100, frame)
                    continue
                type_name, _, method = frame.rpartition(".")
                module = numbers[paths.get(type_name, paths[""])]
                made.method(where[frame], 0x100, method, type_name=type_name, module=module, method_id=where[frame])
    if any(frame.endswith("]") for frame in where):
        made.mapping(1, 0x10000, 0x10000 + 0x100 * len(where), "/memfd:doublemapper (deleted)")
    out = io.BytesIO()
    with Writer(out, version=version, process_id=PROCESS, start_ns=1_700_000_000_000_000_000, **more) as writer:
        kinds = {}
        for (provider, number, name, kind_version), kind in made.kinds.items():
            writer.add_metadata(_metadata(kind, provider, number, name, kind_version))
            kinds[provider, number, name, kind_version] = kind
        for event in events:
            key = (event.provider, event.number, event.name, event.version)
            if key not in kinds:
                kinds[key] = len(kinds) + 1
                writer.add_metadata(replace(_metadata(kinds[key], *key), fields=event.fields))
        if version == 6:
            for thread in sorted({event.thread for event in events}):
                process = (processes or {}).get(thread, PROCESS)
                row = ThreadInfo(index=thread, name=f"worker {thread}", process_id=process, os_thread_id=thread + 4000)
                writer.add_thread(row)
            writer.add_thread(ThreadInfo(index=99))
        for event in events:
            stack = writer.add_stack([_address(where, frame) for frame in event.stack]) if event.stack else 0
            key = (event.provider, event.number, event.name, event.version)
            writer.write_event(
                kinds[key],
                round(event.ms * MS),
                event.payload,
                thread=event.thread,
                stack=stack,
                activity=event.activity,
                is_sorted=True,
            )
        if lost:
            writer.add_dropped(events[0].thread, lost)
        for kind, time, _, payload in made.events:
            writer.write_event(kind, time + 10**12, payload, thread=99)
    return Trace(out.getvalue(), name="made")


def _metadata(kind: int, provider: str, number: int, name: str, version: int) -> Metadata:
    return Metadata(metadata_id=kind, provider=provider, event_id=number, name=name, version=version)


def _address(where: dict[str, int], frame: str | int) -> int:
    return where[frame] + 0x10 if isinstance(frame, str) else frame


def weights(rows: Sequence[Any]) -> dict[str, tuple[float, float]]:
    """(exclusive, inclusive) by the short name of each row of ``top``."""
    from dotnetdiag.trace.method_names import Style

    return {row.name(Style.SHORT): (round(row.exclusive, 6), round(row.inclusive, 6)) for row in rows}
