"""A recording of very many awaits, made and not recorded: five in each other, again and again."""

from __future__ import annotations

import struct
from pathlib import Path

from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer

AWAITS, DEEP, THREADS = 1_600_000, 5, 16
STEP = 100
"""Ticks from one event to the next."""
PROVIDER = "System.Threading.Tasks.TplEventSource"
_BEGUN = ("OriginatingTaskSchedulerID", "OriginatingTaskID", "TaskID", "Behavior", "ContinueWithTaskID")
_ENDED = _BEGUN[:3]
ASYNCHRONOUS = 2


def make(path: Path) -> None:
    """Write the begins and ends of :data:`AWAITS`."""
    number = FieldType(code=TypeCode.INT32)
    with path.open("wb") as file, Writer(file) as writer:
        for kind, (name, fields) in {10: ("TaskWaitBegin", _BEGUN), 11: ("TaskWaitEnd", _ENDED)}.items():
            told = tuple(Field(name=field, type=number) for field in fields)
            writer.add_metadata(Metadata(metadata_id=kind, provider=PROVIDER, event_id=kind, name=name, fields=told))
        stacks = [writer.add_stack([0x1000 * one, 0x9000000]) for one in range(1, DEEP + 1)]
        time = 0
        for first in range(1, AWAITS + 1, DEEP):
            thread = 1 + first // DEEP % THREADS
            tasks = range(first, first + DEEP)
            for place, task in enumerate(tasks):
                begun = struct.pack("<iiiii", 1, 0, task, ASYNCHRONOUS, task - 1 if place else 0)
                writer.write_event(10, time, begun, thread=thread, stack=stacks[place], is_sorted=True)
                time += STEP
            for task in reversed(tasks):
                writer.write_event(11, time, struct.pack("<iii", 1, 0, task), thread=thread, is_sorted=True)
                time += STEP
