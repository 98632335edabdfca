"""A recording of very many samples of threads, made and not recorded: an hour of a small service, or minutes of a large one."""

from __future__ import annotations

import struct
from pathlib import Path

from dotnetdiag.nettrace import Metadata, Writer

SAMPLES, THREADS, STACKS = 3_200_000, 8, 100
STEP = 125_000
"""Ticks, of a nanosecond, from one event to the next: each thread is sampled once in a millisecond."""
PROVIDER = "Microsoft-DotNETCore-SampleProfiler"


def make(path: Path) -> None:
    """Write :data:`SAMPLES` of threads that run two times of three, in one of as many stacks."""
    states = [struct.pack("<I", state) for state in (2, 2, 1)]
    with path.open("wb") as file, Writer(file) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider=PROVIDER, event_id=0, name="ThreadSample"))
        stacks = [writer.add_stack([0x1000 * one, 0x9000000, 0x9001000]) for one in range(1, STACKS + 1)]
        for one in range(SAMPLES):
            payload, stack = states[one // THREADS % 3], stacks[one * 7 % STACKS]
            writer.write_event(1, one * STEP, payload, thread=1 + one % THREADS, stack=stack, is_sorted=True)
