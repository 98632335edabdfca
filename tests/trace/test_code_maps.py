"""Places in code to IL offsets: which map is of which code, which entry is of which place."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from tests.trace.made import RUNDOWN, RUNTIME, MadeTrace

from dotnetdiag.events import resolve
from dotnetdiag.trace.code_maps import EPILOG, NO_MAPPING, PROLOG, CodeMaps, is_code_map

ENTRIES = ((PROLOG, 0), (0, 4), (NO_MAPPING, 20), (9, 30), (5, 50), (EPILOG, 60))


def payload_of(method: int, entries: Sequence[tuple[int, int]], version: int = 0) -> bytes:
    """Of Method/ILToNativeMap and those of rundown."""
    count = len(entries)
    il, native = (struct.pack(f"<{count}I", *(entry[at] for entry in entries)) for at in (0, 1))
    return struct.pack("<QQBH", method, version, 0, count) + il + native + struct.pack("<HQ", 0, 0)


def maps_of(*payloads: tuple[tuple[str, int], bytes, int]) -> CodeMaps:
    """(provider and id, payload, thread) of each event."""
    made = MadeTrace()
    for thread in sorted({thread for *_, thread in payloads}):
        if thread > 1:
            made.process(thread, thread * 100)
    for (provider, number), payload, thread in payloads:
        made.event(provider, number, payload, 0, version=1 if number == 190 else 0, thread=thread)
    schemas = {number: resolve(record) for number, record in made.metadata.items()}
    assert all(map(is_code_map, schemas.values()))
    return CodeMaps(schemas, made.headers, made.threads, made.buffer)


def asked(maps: CodeMaps, *codes: tuple[int, int, int, int], places: Sequence[tuple[int, int]]) -> list[int]:
    """``codes`` are (process, method, version, size), ``places`` (index of a code, bytes behind its begin)."""
    process, method, version, size = zip(*codes, strict=True)
    columns = (np.array(process, np.int64), *(np.array(column, np.uint64) for column in (method, version, size)))
    which, native = zip(*places, strict=True)
    found: list[int] = maps.il_offsets(columns, np.array(which), np.array(native, np.uint64)).tolist()
    return found


@pytest.mark.parametrize("event", [(RUNTIME, 190), (RUNDOWN, 149), (RUNDOWN, 150)])
def test_a_place_is_of_the_last_entry_before_it(event: tuple[str, int]) -> None:
    maps = maps_of((event, payload_of(7, ENTRIES), 1))
    places = {0: 0, 3: 0, 4: 0, 19: 0, 20: 0, 29: 0, 30: 9, 49: 9, 50: 5, 59: 5, 60: 5, 63: 5, 1 << 31: 5}
    assert asked(maps, (0, 7, 0, 64), places=[(0, place) for place in places]) == list(places.values())


def test_entries_need_not_be_in_the_order_of_the_code() -> None:
    """As .NET 5 and later write them."""
    maps = maps_of(((RUNDOWN, 150), payload_of(7, ENTRIES[::-1]), 1))
    assert asked(maps, (0, 7, 0, 64), places=[(0, 0), (0, 25), (0, 30), (0, 55)]) == [0, 0, 9, 5]


def test_each_version_of_a_method_and_each_process_has_its_own_map() -> None:
    maps = maps_of(
        ((RUNDOWN, 150), payload_of(7, [(1, 0)]), 2),
        ((RUNDOWN, 150), payload_of(7, [(2, 0)], version=3), 2),
        ((RUNDOWN, 150), payload_of(7, [(3, 0)]), 3),
        ((RUNDOWN, 150), payload_of(8, [(4, 0)]), 3),
    )
    codes = [(200, 7, 0, 9), (200, 7, 3, 9), (300, 7, 0, 9), (300, 8, 0, 9), (200, 8, 0, 9), (300, 7, 3, 9)]
    assert asked(maps, *codes, places=[(at, 5) for at in range(6)]) == [1, 2, 3, 4, -1, -1]


def test_maps_of_net_core_3_are_of_the_versions_in_their_order() -> None:
    """Its maps say the version 0, whatever their code's is."""
    maps = maps_of(
        ((RUNTIME, 190), payload_of(7, [(9, 0)]), 1),
        ((RUNDOWN, 150), payload_of(7, [(1, 0)]), 1),
        ((RUNDOWN, 150), payload_of(8, [(3, 0)]), 1),
        ((RUNDOWN, 150), payload_of(7, [(2, 0)]), 1),
        ((RUNTIME, 190), payload_of(9, [(4, 0)]), 1),
        ((RUNTIME, 190), payload_of(9, [(5, 0)]), 1),
    )
    codes = [(0, 7, 0, 9), (0, 7, 1, 9), (0, 7, 2, 9), (0, 8, 0, 9), (0, 8, 1, 9), (0, 9, 1, 9)]
    assert asked(maps, *codes, places=[(at, 5) for at in range(6)]) == [1, 2, -1, 3, -1, 5]


def test_of_several_maps_of_a_code_the_one_that_fits_best_is_taken() -> None:
    maps = maps_of(
        *(
            ((RUNDOWN, 150), payload_of(7, [(il, 0), (il, end)], version=2), 1)
            for il, end in [(1, 40), (2, 64), (3, 65)]
        )
    )
    assert asked(maps, (0, 7, 2, 64), (0, 7, 2, 41), (0, 7, 2, 39), places=[(0, 5), (1, 5), (2, 5)]) == [2, 1, -1]


def test_a_map_without_entries_says_nothing() -> None:
    assert asked(maps_of(((RUNDOWN, 150), payload_of(7, []), 1)), (0, 7, 0, 64), places=[(0, 5)]) == [-1]


def test_code_before_the_first_entry_says_nothing() -> None:
    assert asked(maps_of(((RUNDOWN, 150), payload_of(7, [(3, 10)]), 1)), (0, 7, 0, 64), places=[(0, 9)]) == [-1]


def test_without_maps_nothing_is_known() -> None:
    maps = CodeMaps({}, MadeTrace().headers, {}, MadeTrace().buffer)
    assert len(maps) == 0
    assert asked(maps, (0, 7, 0, 64), places=[(0, 9)]) == [-1]


def test_a_payload_that_breaks_off_is_left_out_and_the_others_count() -> None:
    whole = payload_of(7, ENTRIES)
    for size in range(len(whole)):
        maps = maps_of(((RUNDOWN, 150), whole[:size], 1), ((RUNDOWN, 150), payload_of(8, [(3, 0)]), 1))
        found = asked(maps, (0, 7, 0, 64), (0, 8, 0, 64), places=[(0, 50), (1, 9)])
        assert found[1] == 3
        assert found[0] == (5 if size >= len(whole) - 10 else -1), size


def test_random_bytes_in_it_do_not_raise() -> None:
    whole, chance = payload_of(7, ENTRIES), random.Random(16)
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(8, len(data))] = chance.randrange(256)
        (found,) = asked(maps_of(((RUNDOWN, 150), bytes(data), 1)), (0, 7, 0, 64), places=[(0, 50)])
        assert -1 <= found < 1 << 32
