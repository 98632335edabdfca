"""The Trace object: when the trace began, how fast its clock ticks, what machine and process it comes from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace.records import string8
from dotnetdiag.wire import Cursor, decimal

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NO_TIME = int(np.iinfo(np.int64).min)
"""What numpy takes for no time (NaT)."""
PROCESSORS_UNKNOWN = 65535
"""NativeAOT writes this (nettrace.md §4)."""
KEYS_LIMIT = 10_000
"""Most keys of a Trace block; writers know five."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceInfo:
    """What the Trace object says. Values that the format or the writer does not state are None.

    ``start_ns`` is UTC in nanoseconds since 1970, with the millisecond resolution of the file (None when the date in
    the file is none). ``sync_ticks`` is the clock at that moment, ``frequency`` its ticks per second (> 0),
    ``pointer_size`` 4 or 8. ``sampling_ns`` is the expected sampling period. ``key_values`` are those of version 6,
    as text, in file order.
    """

    start_ns: int | None
    sync_ticks: int
    frequency: int
    pointer_size: int = 8
    process_id: int | None = None
    processors: int | None = None
    sampling_ns: int | None = None
    key_values: tuple[tuple[str, str], ...] = ()

    def elapsed_ns(self, ticks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Nanoseconds since the start of the trace, in whole numbers: ``(ticks - sync) * 10**9 // frequency``.

        What 64 bits do not hold is the least or the greatest that they hold.
        """
        if not len(ticks):
            return np.zeros(0, np.int64)
        sync, most = _wrap(self.sync_ticks), ~NO_TIME
        reach = min(most * self.frequency // 1_000_000_000, most)
        low, high = max(sync - reach, NO_TIME), min(sync + reach, most)
        if int(ticks.min()) < low or int(ticks.max()) > high:
            inside = self.elapsed_ns(np.clip(ticks, low, high))
            return np.where(ticks < low, NO_TIME, np.where(ticks > high, most, inside))
        delta = ticks - np.int64(sync)
        if self.frequency == 1_000_000_000:
            return delta
        seconds, rest = np.divmod(delta, np.int64(self.frequency))
        if self.frequency < 9_000_000_000:
            fraction = rest * np.int64(1_000_000_000) // np.int64(self.frequency)
        else:
            fraction = (rest.astype(np.float64) * (1e9 / self.frequency)).astype(np.int64)
        with np.errstate(over="ignore"):
            return seconds * np.int64(1_000_000_000) + fraction

    def utc_ns(self, ticks: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """UTC in nanoseconds since 1970 (from 1970 itself when the file has no valid date).

        What 64 bits do not hold, before 1677 and after 2262, is :data:`NO_TIME`.
        """
        elapsed, start = self.elapsed_ns(ticks), self.start_ns or 0
        low, high = NO_TIME + 1 + max(0, -start), ~NO_TIME - 1 - max(0, start)  # within what may have been cut off
        if low > high:
            return np.full(len(elapsed), NO_TIME, np.int64)
        utc = (elapsed.view(np.uint64) + np.uint64(start % (1 << 64))).view(np.int64)
        utc[(elapsed < low) | (elapsed > high)] = NO_TIME
        return utc


def _wrap(value: int) -> int:
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def system_time_ns(fields: tuple[int, ...]) -> int | None:
    """UTC ns of a SYSTEMTIME (year, month, dayOfWeek, day, hour, minute, second, ms), None when there is no such time.

    dayOfWeek is not looked at: one-collect counts from Monday (nettrace.md §12).
    """
    year, month, _, day, hour, minute, second, ms = fields
    if not 0 <= ms < 1000:
        return None
    try:
        moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return ((moment - _EPOCH) // timedelta(seconds=1) * 1000 + ms) * 1_000_000


def system_time(ns: int) -> tuple[int, ...]:
    """The SYSTEMTIME of a UTC time, cut to milliseconds. OverflowError outside of the years 1 to 9999."""
    ms = ns // 1_000_000
    moment = _EPOCH + timedelta(milliseconds=ms)
    weekday = (moment.weekday() + 1) % 7
    return (
        moment.year,
        moment.month,
        weekday,
        moment.day,
        moment.hour,
        moment.minute,
        moment.second,
        moment.microsecond // 1000,
    )


def _clock(cursor: Cursor) -> tuple[int | None, int, int]:
    start = system_time_ns(tuple(cursor.i16("SYSTEMTIME") for _ in range(8)))
    sync = cursor.i64("sync ticks")
    frequency = cursor.i64("frequency")
    if frequency <= 0:
        raise cursor.fail(f"{frequency} ticks per second")
    return start, sync, frequency


def _pointer_size(cursor: Cursor) -> int:
    size = cursor.i32("pointer size")
    if size not in (4, 8):
        raise cursor.fail(f"pointers of {size} bytes")
    return size


def parse_trace(cursor: Cursor) -> TraceInfo:
    """The 48 bytes of NetPerf 3 and nettrace 4, 5 (nettrace.md §4, §5.2)."""
    start, sync, frequency = _clock(cursor)
    pointer_size = _pointer_size(cursor)
    process_id, processors, sampling = cursor.i32("pid"), cursor.i32("processors"), cursor.i32("sampling rate")
    return TraceInfo(
        start_ns=start,
        sync_ticks=sync,
        frequency=frequency,
        pointer_size=pointer_size,
        process_id=process_id & 0xFFFFFFFF or None,
        processors=None if processors == PROCESSORS_UNKNOWN or processors <= 0 else processors,
        sampling_ns=sampling or None,
    )


def parse_flat(cursor: Cursor) -> TraceInfo:
    """The opening of NetPerf 1, 2: pointers are taken to have 8 bytes, pid and processors are unknown
    (nettrace.md §3).
    """
    cursor.skip(4, "forward reference")
    start, sync, frequency = _clock(cursor)
    return TraceInfo(start_ns=start, sync_ticks=sync, frequency=frequency)


def parse_trace_v6(cursor: Cursor) -> TraceInfo:
    """The Trace block of version 6 (nettrace.md §6.1)."""
    start, sync, frequency = _clock(cursor)
    pointer_size = _pointer_size(cursor)
    count = cursor.i32("key count")
    if not 0 <= count <= min(cursor.left // 2, KEYS_LIMIT):
        raise cursor.fail(f"{count} keys in {cursor.left} bytes")
    pairs = tuple((string8(cursor), string8(cursor)) for _ in range(count))
    known = dict(pairs)
    return TraceInfo(
        start_ns=start,
        sync_ticks=sync,
        frequency=frequency,
        pointer_size=pointer_size,
        process_id=decimal(known.get("ProcessId")),
        processors=decimal(known.get("HardwareThreadCount")),
        sampling_ns=decimal(known.get("ExpectedCPUSamplingRate")),
        key_values=pairs,
    )


def stated_keys(process_id: int | None, processors: int | None, sampling_ns: int | None) -> tuple[tuple[str, str], ...]:
    """The keys of version 6 for what older versions have fields for; without those that are not known."""
    known = {"ProcessId": process_id, "HardwareThreadCount": processors, "ExpectedCPUSamplingRate": sampling_ns}
    return tuple((key, str(value)) for key, value in known.items() if value is not None)
