"""How traces begin: the Trace object or block, and the heads of objects (nettrace.md §2, §4, §5.1, §6.1)."""

from __future__ import annotations

import struct

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.arguments import REFUSED
from dotnetdiag.nettrace.info import (
    KEYS_LIMIT,
    PROCESSORS_UNKNOWN,
    parse_trace,
    parse_trace_v6,
    stated_keys,
    system_time,
)
from dotnetdiag.nettrace.records import pack_string8
from dotnetdiag.wire import Cursor, Packer


def pack_trace(
    *,
    version: int,
    start_ns: int | None,
    sync_ticks: int,
    frequency: int,
    pointer_size: int,
    process_id: int | None,
    processors: int | None,
    sampling_ns: int | None,
    key_values: tuple[tuple[str, str], ...] = (),
) -> bytes:
    """What the Trace object (versions 3 to 5) or block (6) holds. UsageError for what would be read as something else."""
    v6 = version == 6
    if key_values and not v6:
        raise UsageError(f"nettrace {version} has no keys and values: {key_values[:5]}")
    clock = Packer()
    try:
        for value in (0,) * 8 if start_ns is None else system_time(start_ns):
            clock.i16(value)
        clock.i64(sync_ticks).i64(frequency).i32(pointer_size)
        if v6:
            given = {key for key, _ in key_values}
            stated = stated_keys(process_id, processors, sampling_ns)
            key_values += tuple((key, value) for key, value in stated if key not in given)
            if len(key_values) > KEYS_LIMIT:
                raise UsageError(f"{len(key_values)} keys; readers take {KEYS_LIMIT}")
            clock.i32(len(key_values))
            for key, text in key_values:
                pack_string8(clock, key)
                pack_string8(clock, text)
        else:
            unknown = PROCESSORS_UNKNOWN if processors is None else processors
            clock.u32(process_id or 0).i32(unknown).i32(sampling_ns or 0)
        body = bytes(clock)
        read = (parse_trace_v6 if v6 else parse_trace)(Cursor(body))
    except UsageError:
        raise
    except REFUSED as error:
        raise UsageError(f"the trace's clock or process does not fit the format: {error}") from error
    wanted = {
        "start_ns": None if start_ns is None else start_ns // 1_000_000 * 1_000_000,
        "process_id": process_id,
        "processors": processors,
        "sampling_ns": sampling_ns,
        "key_values": key_values,
    }
    for name, wish in wanted.items():
        if wish is not None and getattr(read, name) != wish:
            raise UsageError(f"{name} {str(wish)[:100]} does not fit the format: it would be read as something else")
    return body


def object_head(name: str, version: int, min_reader: int, *, tag: int = 5) -> bytes:
    """Up to the end of the object's type. ``tag``: 4 in NetPerf, 5 in nettrace."""
    raw = name.encode()
    return struct.pack("<3Biii", tag, tag, 1, version, min_reader, len(raw)) + raw + b"\x06"
