"""The clock of a trace and what else its opening says: exact in whole numbers, and at the edges of 64 bits."""

from __future__ import annotations

import struct
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from tests.nettrace.traces import CLOCK, SYNC

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.info import (
    KEYS_LIMIT,
    NO_TIME,
    PROCESSORS_UNKNOWN,
    TraceInfo,
    parse_flat,
    parse_trace,
    parse_trace_v6,
    stated_keys,
    system_time,
    system_time_ns,
)
from dotnetdiag.wire import Cursor

LEAST, MOST = -(1 << 63), (1 << 63) - 1
EDGES = [LEAST, LEAST + 1, -(1 << 62), -(10**9), -7, -1, 0, 1, 7, 10**9 - 1, 10**9, 1 << 62, MOST - 1, MOST]
EXACT = [1, 3, 1000, 10_000_000, 24_000_000, 999_999_999, 10**9, 10**9 + 1, 3 * 10**9, 9 * 10**9 - 1]
FAST = [9 * 10**9, 10**10, 1 << 40, MOST]


def elapsed(ticks: int, frequency: int) -> int:
    """Nanoseconds; the edge of 64 bits where these do not hold them, or the ticks."""
    reach = min(MOST * frequency // 10**9, MOST)
    return ticks * 10**9 // frequency if abs(ticks) <= reach else LEAST if ticks < 0 else MOST


def info_of(frequency: int, sync: int = 0, start: int | None = 0) -> TraceInfo:
    return TraceInfo(start_ns=start, sync_ticks=sync, frequency=frequency)


def ticks_around(sync: int, frequency: int) -> list[int]:
    reach = MOST * frequency // 10**9
    near = [sync + sign * at + more for at in (0, frequency, reach) for sign in (1, -1) for more in range(-2, 3)]
    return [tick for tick in (*near, *EDGES) if LEAST <= tick <= MOST]


@pytest.mark.parametrize("frequency", EXACT)
@pytest.mark.parametrize("sync", [0, SYNC, -5, MOST, LEAST])
def test_elapsed_time_is_the_exact_quotient_rounded_down(frequency: int, sync: int) -> None:
    ticks = ticks_around(sync, frequency)
    found = info_of(frequency, sync).elapsed_ns(np.array(ticks, np.int64)).tolist()
    assert found == [elapsed(tick - sync, frequency) for tick in ticks]
    assert info_of(frequency, sync).elapsed_ns(np.zeros(0, np.int64)).dtype == np.int64


@pytest.mark.parametrize("frequency", FAST)
@pytest.mark.parametrize("sync", [0, SYNC, LEAST])
def test_elapsed_time_of_a_clock_beyond_9_ghz_is_right_to_a_nanosecond(frequency: int, sync: int) -> None:
    ticks = ticks_around(sync, frequency)
    found = info_of(frequency, sync).elapsed_ns(np.array(ticks, np.int64)).tolist()
    for tick, nanoseconds in zip(ticks, found, strict=True):
        assert abs(nanoseconds - elapsed(tick - sync, frequency)) <= 1


def test_sync_ticks_beyond_64_bits_wrap() -> None:
    ticks = np.array([5, -5], np.int64)
    for turns in (-1, 1, 2):
        assert info_of(1000, (turns << 64) + 3).elapsed_ns(ticks).tolist() == [2_000_000, -8_000_000]
    assert info_of(10**9, 1 << 63).elapsed_ns(np.array([LEAST + 4], np.int64)).tolist() == [4]


@pytest.mark.parametrize("start", [0, 1, -1, 10**18, -(10**18), MOST, LEAST + 1, 1 << 64, -(1 << 64), None])
def test_time_of_day_is_start_and_elapsed_time_or_none(start: int | None) -> None:
    first = start or 0
    ticks = [tick for edge in (-first, MOST - first, LEAST - first) for tick in range(edge - 3, edge + 4)]
    ticks = [tick for tick in (*ticks, *EDGES) if LEAST <= tick <= MOST]
    found = info_of(10**9, 0, start).utc_ns(np.array(ticks, np.int64)).tolist()
    for tick, time in zip(ticks, found, strict=True):
        # what may have been cut off to the edges of 64 bits is none
        is_inside = LEAST < tick < MOST and LEAST < tick + first < MOST
        assert time == (tick + first if is_inside else NO_TIME), tick


# SYSTEMTIME -----------------------------------------------------------------------------------------------------------

MOMENTS = [
    ((1970, 1, 4, 1, 0, 0, 0, 0), 0),
    ((1970, 1, 4, 1, 0, 0, 0, 1), 1_000_000),
    ((1969, 12, 3, 31, 23, 59, 59, 999), -1_000_000),
    ((2024, 2, 4, 29, 12, 34, 56, 789), 1_709_210_096_789_000_000),
    ((2023, 12, 0, 31, 23, 0, 0, 0), 1_704_063_600_000_000_000),
    ((1, 1, 1, 1, 0, 0, 0, 0), -62_135_596_800 * 10**9),
    ((9999, 12, 5, 31, 23, 59, 59, 999), 253_402_300_799_999_000_000),
]


@pytest.mark.parametrize(("fields", "ns"), MOMENTS)
def test_date_of_a_file_and_its_nanoseconds(fields: tuple[int, ...], ns: int) -> None:
    assert system_time_ns(fields) == ns
    assert system_time(ns) == system_time(ns + 999_999) == fields
    for weekday in range(-1, 8):  # some writers count from Monday
        assert system_time_ns((*fields[:2], weekday, *fields[3:])) == ns


@pytest.mark.parametrize(
    ("place", "value"),
    [(0, 0), (0, 10_000), (1, 0), (1, 13), (3, 0), (3, 32), (4, -1), (4, 24), (5, 60), (6, 60), (7, -1), (7, 1000)],
)
def test_date_that_is_none_is_none(place: int, value: int) -> None:
    fields = [2024, 1, 1, 31, 23, 59, 59, 999]
    assert system_time_ns(tuple(fields)) is not None
    fields[place] = value
    assert system_time_ns(tuple(fields)) is None


# openings -------------------------------------------------------------------------------------------------------------

START_NS = int(datetime(2018, 2, 9, 23, 53, tzinfo=UTC).timestamp()) * 10**9 + 806_000_000
OLD = TraceInfo(
    start_ns=START_NS, sync_ticks=SYNC, frequency=10**9, pointer_size=4, process_id=77, processors=3, sampling_ns=5
)


def opening(pointers: int = 4, pid: int = 77, processors: int = 3, sampling: int = 5) -> bytes:
    return CLOCK + struct.pack("<4i", pointers, pid, processors, sampling)


def test_opening_of_version_5_says_clock_pointers_process_processors_and_sampling() -> None:
    assert parse_trace(Cursor(opening())) == OLD
    assert parse_trace(Cursor(opening(8))).pointer_size == 8
    for processors, known in (
        (PROCESSORS_UNKNOWN, None),
        (0, None),
        (-1, None),
        (1, 1),
        (65534, 65534),
        (65536, 65536),
    ):
        assert parse_trace(Cursor(opening(processors=processors))) == replace(OLD, processors=known)
    for pid, known in ((0, None), (1, 1), (-1, 0xFFFFFFFF), (-(1 << 31), 1 << 31)):
        assert parse_trace(Cursor(opening(pid=pid))) == replace(OLD, process_id=known)
    assert parse_trace(Cursor(opening(sampling=0))) == replace(OLD, sampling_ns=None)
    flat = TraceInfo(start_ns=START_NS, sync_ticks=SYNC, frequency=10**9)
    assert parse_flat(Cursor(b"skip" + CLOCK)) == flat
    for cut in range(48):
        with pytest.raises(FormatError):
            parse_trace(Cursor(opening()[:cut]))


@pytest.mark.parametrize("parse", [parse_trace, parse_trace_v6])
def test_clock_that_does_not_tick_and_pointers_of_other_sizes_are_damage(parse: object) -> None:
    assert callable(parse)
    for frequency in (0, -1, LEAST):
        data = CLOCK[:24] + struct.pack("<q", frequency) + opening()[32:]
        with pytest.raises(FormatError, match=f"{frequency} ticks per second") as raised:
            parse(Cursor(data, base=100))
        assert raised.value.offset == 132
    for size in (-4, 0, 2, 3, 5, 7, 9, 16):
        with pytest.raises(FormatError, match=f"pointers of {size} bytes") as raised:
            parse(Cursor(opening(size), base=100))
        assert raised.value.offset == 136


def opening_6(count: int, *pairs: tuple[bytes, bytes], behind: bytes = b"") -> bytes:
    texts = b"".join(bytes([len(text)]) + text for pair in pairs for text in pair)
    return CLOCK + struct.pack("<ii", 8, count) + texts + behind


def test_opening_of_version_6_says_the_rest_in_keys() -> None:
    pairs = [(b"HardwareThreadCount", b"12"), (b"x", b""), (b"ProcessId", b"99"), (b"ExpectedCPUSamplingRate", b"7")]
    found = parse_trace_v6(Cursor(opening_6(4, *pairs, behind=b"more")))
    assert found == TraceInfo(
        start_ns=START_NS,
        sync_ticks=SYNC,
        frequency=10**9,
        process_id=99,
        processors=12,
        sampling_ns=7,
        key_values=tuple((key.decode(), value.decode()) for key, value in pairs),
    )
    assert parse_trace_v6(Cursor(opening_6(0))).key_values == ()
    odd = parse_trace_v6(Cursor(opening_6(1, (b"ProcessId", b"none"))))
    assert (odd.process_id, odd.processors, odd.sampling_ns) == (None, None, None)


def test_more_keys_than_there_can_be_are_damage() -> None:
    for count, left in ((-1, 40), (3, 4), (3, 5), (1, 0), (1, 1), (KEYS_LIMIT + 1, 2 * KEYS_LIMIT + 2)):
        with pytest.raises(FormatError, match=f"{count} keys in {left} bytes") as raised:
            parse_trace_v6(Cursor(opening_6(count, behind=bytes(left)), base=7))
        assert raised.value.offset == 7 + 40
    for count in (1, 2, KEYS_LIMIT):
        assert len(parse_trace_v6(Cursor(opening_6(count, behind=bytes(2 * count)))).key_values) == count


def test_what_older_versions_have_fields_for_are_keys_of_version_6() -> None:
    assert stated_keys(None, None, None) == ()
    assert stated_keys(0, 2, 3) == (("ProcessId", "0"), ("HardwareThreadCount", "2"), ("ExpectedCPUSamplingRate", "3"))
    assert stated_keys(None, 2, None) == (("HardwareThreadCount", "2"),)
