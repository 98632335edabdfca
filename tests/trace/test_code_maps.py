"""Places in code to IL offsets: which map is of which code, which entry is of which place."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from tests.trace.made import RUNDOWN, RUNTIME, MadeTrace

from dotnetdiag.events import resolve
from dotnetdiag.trace.code_maps import EPILOG, NO_MAPPING, NOT_KNOWN, PROLOG, CodeMaps, is_code_map

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


def answers(
    maps: CodeMaps, *codes: tuple[int, int, int, int], places: Sequence[tuple[int, int]]
) -> list[tuple[int, bool]]:
    """(IL offset, whether the map says it) of each place. ``codes`` are (process, method, version, size), ``places`` (index of a code, bytes behind
    its begin).
    """
    process, method, version, size = zip(*codes, strict=True)
    columns = (np.array(process, np.int64), *(np.array(column, np.uint64) for column in (method, version, size)))
    which, native = zip(*places, strict=True)
    il, told = maps.il_offsets(columns, np.array(which), np.array(native, np.uint64))
    return list(zip(il.tolist(), told.tolist(), strict=True))


def asked(maps: CodeMaps, *codes: tuple[int, int, int, int], places: Sequence[tuple[int, int]]) -> list[int]:
    return [il for il, _ in answers(maps, *codes, places=places)]


@pytest.mark.parametrize("event", [(RUNTIME, 190), (RUNDOWN, 149), (RUNDOWN, 150)])
def test_a_place_is_of_the_last_entry_before_it(event: tuple[str, int]) -> None:
    maps = maps_of((event, payload_of(7, ENTRIES), 1))
    places = {0: 0, 3: 0, 4: 0, 19: 0, 20: 0, 29: 0, 30: 9, 49: 9, 50: 5, 59: 5, 60: 5, 63: 5, 1 << 31: 5}
    assert asked(maps, (0, 7, 0, 64), places=[(0, place) for place in places]) == list(places.values())


def test_entries_need_not_be_in_the_order_of_the_code() -> None:
    """As .NET 5 and later write them."""
    maps = maps_of(((RUNDOWN, 150), payload_of(7, ENTRIES[::-1]), 1))
    assert asked(maps, (0, 7, 0, 64), places=[(0, 0), (0, 25), (0, 30), (0, 55)]) == [0, 0, 9, 5]


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param(ENTRIES, {0: (0, True), 4: (0, True), 20: (0, False), 30: (9, True), 60: (5, True)}, id="before"),
        pytest.param(
            [(PROLOG, 0), (NO_MAPPING, 8), (NO_MAPPING, 12), (161, 20)],
            {0: (161, False), 8: (161, False), 12: (161, False), 20: (161, True)},
            id="behind, at the begin: the loop that OSR enters",
        ),
        pytest.param(
            [(PROLOG, 0), (0, 4), (30, 16), (EPILOG, 20), (PROLOG, 24), (10, 28), (EPILOG, 40)],
            {0: (0, True), 20: (30, True), 24: (10, True), 40: (10, True)},
            id="a handler's prolog and epilog",
        ),
        pytest.param(
            [(PROLOG, 0), (0, 4), (NO_MAPPING, 10), (EPILOG, 20), (9, 30)],
            {10: (0, False), 20: (0, False), 30: (9, True)},
            id="an epilog behind code of no place",
        ),
        pytest.param(
            [(PROLOG, 0), (0, 4), (EPILOG, 20), (NO_MAPPING, 26), (9, 40), (NO_MAPPING, 50)],
            {20: (0, True), 26: (9, False), 50: (9, False)},
            id="an epilog does not run on",
        ),
        pytest.param(
            [(PROLOG, 0), (0, 4), (EPILOG, 20), (NO_MAPPING, 26), (PROLOG, 40), (NO_MAPPING, 44), (9, 50)],
            {26: (NOT_KNOWN, False), 40: (9, False), 44: (9, False)},
            id="nor does code run on into a handler",
        ),
        pytest.param(
            [(PROLOG, 0), (NO_MAPPING, 4), (EPILOG, 20)],
            {0: (NOT_KNOWN, False), 4: (NOT_KNOWN, False), 20: (NOT_KNOWN, False)},
            id="nothing but that",
        ),
        pytest.param(
            # a Main that was replaced in its loop: most of the time in the long part was of the five statements behind that of IL 181
            [(174, 794), (181, 814), (NO_MAPPING, 1096), (312, 3331), (NO_MAPPING, 3387), (312, 3399)],
            {1095: (181, True), 1096: (181, False), 3330: (181, False), 3331: (312, True), 3398: (312, False)},
            id="recorded",
        ),
    ],
)
def test_code_without_a_place_in_the_il_has_that_of_code_beside_and_the_map_does_not_say_it(
    entries: Sequence[tuple[int, int]], expected: dict[int, tuple[int, bool]]
) -> None:
    for shown in (entries, entries[::-1]):
        maps = maps_of(((RUNDOWN, 150), payload_of(7, shown), 1))
        assert answers(maps, (0, 7, 0, 4000), places=[(0, place) for place in expected]) == list(expected.values())


def test_a_return_without_code_is_told_of_by_the_epilog_in_its_place() -> None:
    maps = maps_of(((RUNDOWN, 150), payload_of(7, [(PROLOG, 0), (0, 0), (8, 7), (EPILOG, 7)]), 1))
    assert answers(maps, (0, 7, 0, 8), places=[(0, 0), (0, 7)]) == [(0, True), (8, True)]


def test_code_without_a_place_takes_none_of_other_code() -> None:
    maps = maps_of(
        ((RUNDOWN, 150), payload_of(7, [(1, 0)]), 1),
        ((RUNDOWN, 150), payload_of(8, [(NO_MAPPING, 0)]), 1),
        ((RUNDOWN, 150), payload_of(9, [(3, 0)]), 1),
    )
    codes = [(0, 7, 0, 9), (0, 8, 0, 9), (0, 9, 0, 9)]
    assert answers(maps, *codes, places=[(at, 5) for at in range(3)]) == [(1, True), (NOT_KNOWN, False), (3, True)]


def test_a_map_that_is_longer_than_the_code_says_nothing() -> None:
    maps = maps_of(((RUNDOWN, 150), payload_of(7, ENTRIES), 1))
    assert answers(maps, (0, 7, 0, 59), places=[(0, 5)]) == [(NOT_KNOWN, False)]


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
