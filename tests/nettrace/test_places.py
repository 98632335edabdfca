"""What is wrong is told with its exact place and numbers, from a file as from a stream, and in every form of the loops."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable

import pytest
from tests.nettrace import by_hand
from tests.nettrace.kernel_forms import FORM_IDS, FORMS, without_kernels
from tests.nettrace.traces import PLAIN, SMALL

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace import Block, Contents, Reader, Writer, fallback, iter_blocks, kernels, labels, read, state
from dotnetdiag.nettrace.framing import Framer
from dotnetdiag.nettrace.ids import IdMap
from dotnetdiag.nettrace.stacks import STACK_COST, StackTable, parse_stacks
from dotnetdiag.nettrace.type_header import TypeHeader, read_type
from dotnetdiag.wire import Cursor

OPENING = (by_hand.metadata(by_hand.event_type(1)), by_hand.threads(by_hand.thread(1)))
GOOD = by_hand.events(by_hand.event(1))
START = len(by_hand.trace(*OPENING, end=b"")) + 4
"""Of the content of a block behind these."""


@pytest.fixture(params=FORMS, ids=FORM_IDS, autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param is fallback:
        without_kernels(monkeypatch)


def read_both(data: bytes) -> Contents:
    """From a file; a stream says the same."""
    contents = read(data)
    for piece in (1, 13, len(data) + 1):
        reader = Reader()
        events = sum(sum(map(len, reader.feed(data[at : at + piece]))) for at in range(0, len(data), piece))
        events += sum(map(len, reader.close()))
        assert (events, reader.damage, reader.warnings) == (len(contents), contents.damage, contents.warnings)
        assert reader.damage_offset == contents.damage_offset
    return contents


def header(count: int, first: int = 1) -> bytes:
    return struct.pack("<II", first, count)


def point(count: int, rows: bytes = b"") -> bytes:
    return struct.pack("<qII", 5, 0, count) + rows


KEY = b"\5\1k\1v"
BROKEN: dict[str, tuple[int, bytes, int, str]] = {
    "threads that are not there": (4, point(3, bytes(5)), 16, "3 threads in 5 bytes"),
    "more threads than numbers": (4, point(0xFFFFFFFF, bytes(8)), 16, "4294967295 threads in 8 bytes"),
    "a thread that is cut": (4, point(2, b"\1\2\3\x84"), 19, "sequence number"),
    "a sequence point that is cut": (4, bytes(7), 0, "timestamp"),
    "flags that are cut": (4, bytes(11), 8, "flags"),
    "a count that is cut": (4, bytes(15), 12, "thread count"),
    "a removed thread that is cut": (7, b"\1\2\3", 3, "sequence number"),
    "a removed index that is cut": (7, b"\1\2\x80", 2, "thread index"),
    "label lists from 0": (8, header(1, 0) + b"\x89\1", 8, "1 label lists from 0 in 2 bytes"),
    "label lists that are not there": (8, header(3) + b"\x89\1", 8, "3 label lists from 1 in 2 bytes"),
    "label ids beyond 32 bits": (
        8,
        header(2, 0xFFFFFFFF) + b"\x89\1\x89\2",
        8,
        "label list ids 4294967295 + 2 do not fit",
    ),
    "a label of no kind": (8, header(1) + b"\x09\1\x0b", 11, "label of unknown kind 11"),
    "a label of kind 0": (8, header(1) + b"\x80", 9, "label of unknown kind 0"),
    "a label that is cut": (8, header(1) + b"\x01" + bytes(15), 9, "activity id"),
    "stacks that are not there": (5, header(2) + bytes(7), 8, "2 stacks in 7 bytes"),
    "stack ids beyond 32 bits": (5, header(2, 0xFFFFFFFF) + bytes(8), 8, "stack ids 4294967295 + 2 do not fit"),
    "a stack that is cut": (
        5,
        header(3) + b"\x08\0\0\0" + bytes(8) + b"\x09\0\0\0" + bytes(8),
        20,
        "stack of 9 bytes, 8 left",
    ),
    "a stack whose size is cut": (5, header(2) + b"\x08\0\0\0" + bytes(8) + b"\1\0\0", 20, "stack 2 is cut"),
    "a header that is none": (2, struct.pack("<hhqq", 20, 1, 0, 0)[:19], 0, "19 bytes hold no header"),
    "a header that is short": (2, struct.pack("<hhqq", 19, 1, 0, 0), 0, "a block header of 19 bytes in 20"),
    "a header of no size": (2, struct.pack("<hhqq", -1, 1, 0, 0), 0, "a block header of -1 bytes in 20"),
    "a header that is long": (2, struct.pack("<hhqq", 21, 1, 0, 0), 0, "a block header of 21 bytes in 20"),
    "an event that is cut": (
        2,
        by_hand.events(by_hand.event(1), by_hand.event(1))[4:] + b"\x80\1\x09" + bytes(7),
        40,
        "an event reaches beyond the block by 2 bytes",
    ),
    "an event header that is cut": (2, GOOD[4:] + b"\x80\1", 30, "an event header is broken or cut"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_damage_in_a_block_is_told_with_its_place_and_costs_no_other_block(name: str) -> None:
    kind, content, at, problem = BROKEN[name]
    contents = read_both(by_hand.trace(*OPENING, by_hand.block(kind, content), GOOD, by_hand.sequence_point()))
    assert contents.damage_offset == START + at
    assert contents.damage is not None
    assert problem in contents.damage
    assert f"0x{START + at:x}" in contents.damage
    (warning,) = (line for line in contents.warnings if line.startswith("damaged"))
    assert warning.endswith(f": 1, first at 0x{START + at:x}")
    assert not contents.complete
    assert len(contents) == (3 if name == "an event that is cut" else 2 if "event header" in name else 1)


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (4, point(2, b"\1\2\3\4")),
        (4, point(0)),
        (7, b"\1\2"),
        (8, header(1, 0xFFFFFFFF) + b"\x89\1"),
        (8, header(2) + b"\x89\1\x89\2"),
        (5, header(1, 0xFFFFFFFF) + bytes(4)),
        (5, header(2) + bytes(8)),
        (5, header(1) + b"\x08\0\0\0" + bytes(8)),
        (2, struct.pack("<hhqq", 20, 1, 0, 0)),
        (2, struct.pack("<hhqq", 24, 1, 0, 0) + bytes(4)),
        (2, struct.pack("<hhqq", 24, 0, 0, 0) + bytes(4)),
    ],
)
def test_block_that_just_holds_what_it_says_is_no_damage(kind: int, content: bytes) -> None:
    contents = read_both(by_hand.trace(*OPENING, by_hand.block(kind, content), GOOD))
    assert (contents.damage, len(contents)) == (None, 1)


def test_damaged_event_is_counted_from_the_first_of_its_block() -> None:
    for before in range(5):
        block = by_hand.events(*[by_hand.event(1)] * before, b"\x80\1\x05\0")
        contents = read_both(by_hand.trace(*OPENING, GOOD, block))
        begin = START + len(GOOD)
        at = begin + 20 + before * len(by_hand.event(1))
        assert contents.damage == (
            f"EventBlock at 0x{begin - 4:x}, event {before + 1} at 0x{at:x}: an event reaches beyond the block by 4 bytes"
        )


def full(payload: int, size: int | None = None) -> bytes:
    blob = struct.pack("<IIQQIIqII", 1, 1, 1, 1, 0, 0, 1, 0, payload)
    return struct.pack("<I", len(blob) if size is None else size) + blob


@pytest.mark.parametrize(
    ("blob", "problem"),
    [
        (full(1), "the sizes of an event disagree"),
        (full(0, 49), "an event reaches beyond the block"),
        (full(0, 47), "the sizes of an event disagree"),
        (full(0)[:51], "an event header is broken or cut"),
    ],
)
def test_damaged_event_in_full_is_told_with_its_number_and_place(blob: bytes, problem: str) -> None:
    contents = read_both(by_hand.trace(*OPENING, by_hand.uncompressed(full(0), full(0), blob)))
    assert len(contents) == 2
    assert contents.damage == f"EventBlock at 0x{START - 4:x}, event 3 at 0x{START + 20 + 2 * 52:x}: {problem}"


ODD: dict[str, tuple[tuple[bytes, ...], str, str]] = {
    "flags of a header": (
        (by_hand.block(2, struct.pack("<hhqq", 20, 3, 0, 0)),),
        "block header flags of unknown meaning: 1",
        "block",
    ),
    "high flags of a header": (
        (by_hand.block(2, struct.pack("<hhqq", 20, -32767, 0, 0)),) * 2,
        "block header flags of unknown meaning: 2",
        "block",
    ),
    "a second Trace": ((by_hand.trace()[20:-4],) * 3, "Trace objects after the first: 3", "block"),
    "unknown types": (
        (by_hand.events(*[by_hand.event(9)] * 3), by_hand.events(by_hand.event(8))),
        "events with an unknown metadata id: 4",
        "block",
    ),
    "unknown stacks": (
        (by_hand.events(*[by_hand.event(1, stack=4)] * 3),),
        "events with a stack id that is not there: 3",
        "block",
    ),
    "unknown labels": (
        (by_hand.events(*[by_hand.event(1, labels=4)] * 2),),
        "events with a label list that is not there: 2",
        "block",
    ),
    "type 0": ((by_hand.metadata(by_hand.event_type(0)),), "metadata with id 0: 1", "row"),
    "a type that differs": (
        (by_hand.metadata(by_hand.event_type(1, "X")),),
        "metadata ids defined twice, differently: the first counts: 1",
        "row",
    ),
    "a thread that ends twice": (
        (by_hand.removed((1, 1), (1, 1)),),
        "threads removed that were not there: 1",
        "second",
    ),
    "stacks twice": ((by_hand.stacks(1, 5, 6), by_hand.stacks(1, 6, 6)), "stack ids given twice: 1", "later"),
    "label lists twice": (
        (by_hand.labels(1, by_hand.level(1)), by_hand.labels(1, by_hand.level(2))),
        "label lists given twice: 1",
        "label",
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_oddity_is_counted_and_told_with_the_place_of_the_first(name: str) -> None:
    blocks, warning, place = ODD[name]
    contents = read_both(by_hand.trace(*OPENING, *blocks))
    places = {"block": START - 4, "row": START + 4, "second": START + 4}
    places["later"] = START - 4 + len(blocks[0])
    places["label"] = START + len(blocks[0]) + 8
    (line,) = contents.warnings
    assert line.removesuffix(" (id 9)") == f"{warning}, first at 0x{places[place]:x}"
    assert contents.damage is None


def test_date_that_is_none_is_told_with_the_place_of_the_clock() -> None:
    data = by_hand.trace(*OPENING, GOOD)
    contents = read_both(data[:24] + bytes(2) + data[26:])
    assert contents.warnings == ["the start date is none: 1, first at 0x18"]
    assert contents.info is not None
    assert contents.info.start_ns is None


@pytest.mark.parametrize("limit", [1, 3, 4])
def test_threads_of_a_sequence_point_beyond_the_limit_are_counted_and_the_first_are_followed(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "THREADS_LIMIT", limit)
    rows = [(thread, 5) for thread in range(1, 5)]
    contents = read_both(by_hand.trace(*OPENING, by_hand.sequence_point(*rows, time=7)))
    assert contents.sequence_points == [(7, False, rows[:limit])]
    what = "threads of sequence points beyond what a reader follows"
    assert contents.warnings == ([] if limit == 4 else [f"{what}: {4 - limit}, first at 0x{START + 16:x}"])


def test_label_list_may_have_so_many_values_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labels, "VALUES_LIMIT", 3)
    last = b"\x85" + KEY[1:]
    contents = read_both(by_hand.trace(*OPENING, by_hand.labels(1, KEY * 2 + last)))
    assert (contents.damage, len(contents.labels[1].values)) == (None, 3)
    contents = read_both(by_hand.trace(*OPENING, by_hand.labels(1, KEY * 3 + last)))
    assert contents.damage_offset == START + 8 + 4 * len(KEY)
    assert "more than 3 values" in str(contents.damage)


def test_what_a_stream_keeps_is_told_when_it_is_over_and_comes_again_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stacks fit; the ids are free again behind a sequence point, the addresses are not."""
    room = 3 * STACK_COST + 2 * 8
    monkeypatch.setattr(state, "STREAM_TABLES_LIMIT", 10_000 + room)
    reader = Reader()
    budget = reader._state._budget
    data = by_hand.trace(*OPENING, end=b"")
    reader.feed(data)
    budget.left = 2 * (STACK_COST + 8)
    reader.feed(by_hand.stacks(1, 5, 6, 7))
    assert reader.warnings == [f"definitions beyond what a reader keeps: 1, first at 0x{START - 4:x}"]
    assert (budget.left, len(reader._state.stacks)) == (0, 3)
    reader.feed(by_hand.sequence_point())
    # the ids and addresses are given back, the table of three stacks costs as much for as long as it is there
    assert budget.left == 2 * (STACK_COST + 8) - 3 * STACK_COST - 16


# stacks by themselves -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base", [0, 1000])
def test_place_of_a_broken_stack_counts_from_the_beginning_of_the_file(base: int) -> None:
    good = b"\x08\0\0\0" + bytes(8)
    for whole in range(4):
        data = b"head" + header(5) + good * whole + b"\xff\0\0\0" + bytes(16)
        with pytest.raises(FormatError, match="stack of 255 bytes, 16 left") as raised:
            parse_stacks(Cursor(data, position=4, base=base, where="S"), StackTable(), IdMap(), 1 << 20)
        assert (raised.value.offset, raised.value.where) == (base + 12 + 12 * whole, "S")


def test_stack_has_room_when_its_cost_is_exactly_what_is_left() -> None:
    data = header(2) + b"\x08\0\0\0" + bytes(8) + b"\x10\0\0\0" + bytes(16)
    cost = 2 * STACK_COST + 24
    for room, refused in ((cost, 0), (cost - 1, 1), (STACK_COST + 8, 1), (STACK_COST + 7, 2), (0, 2)):
        table, ids = StackTable(), IdMap()
        assert parse_stacks(Cursor(data), table, ids, room) == (0, refused)
        assert len(ids) == 2 - refused


# containers -----------------------------------------------------------------------------------------------------------

TYPE = struct.pack("<3Biii", 5, 5, 1, 2, 2, 10) + b"EventBlock\x06"


def test_type_of_an_object_needs_all_its_bytes() -> None:
    for base in (0, 77):
        for have in range(len(TYPE)):
            assert read_type(memoryview(b"??" + TYPE[:have]), base, base + 2) == (15 if have < 15 else 26)
        assert read_type(memoryview(b"??" + TYPE + b"?"), base, base + 2) == TypeHeader("EventBlock", 2, 2, 26)


@pytest.mark.parametrize(
    ("change", "at", "problem"),
    [
        ({0: 3}, 0, "expected the begin of an object, found tag 3"),
        ({0: 6}, 0, "expected the begin of an object, found tag 6"),
        ({1: 4}, 1, "expected a type, found tags 4 1"),
        ({2: 5}, 1, "expected a type, found tags 5 5"),
        ({11: 39}, 11, "type name of 39 bytes"),
        ({14: 0x80}, 11, "type name of -2147483638 bytes"),
        ({25: 5}, 25, "the type does not end"),
        ({7: 3}, 0, "needs a reader of version 3"),
    ],
)
def test_type_that_is_none_is_told_with_the_place_of_what_is_wrong(
    change: dict[int, int], at: int, problem: str
) -> None:
    data = bytearray(TYPE)
    for place, value in change.items():
        data[place] = value
    for base in (0, 77):
        with pytest.raises(FormatError) as raised:
            read_type(memoryview(b"??" + data + bytes(20)), base, base + 2)
        assert (raised.value.offset, raised.value.problem) == (base + 2 + at, problem)
    if 11 in change:
        data[11] = 38
        assert read_type(memoryview(data), 0, 0) == 54


def test_type_of_the_greatest_version_that_is_understood_is_taken() -> None:
    for name, greatest in (("Trace", 4), ("EventBlock", 2), ("MetadataBlock", 2), ("StackBlock", 2), ("SPBlock", 2)):
        for needs in (greatest, greatest + 1):
            data = struct.pack("<3Biii", 4, 4, 1, 9, needs, len(name)) + name.encode() + b"\x06"
            if needs == greatest:
                assert read_type(memoryview(data), 0, 0) == TypeHeader(name, 9, needs, len(data))
            else:
                with pytest.raises(FormatError, match=f"needs a reader of version {needs}"):
                    read_type(memoryview(data), 0, 0)
    data = struct.pack("<3Biii", 4, 4, 1, 9, 99, 1) + b"X\x06"
    assert read_type(memoryview(data), 0, 0) == TypeHeader("X", 9, 99, 17)


def object_trace(change: Callable[[bytearray, int, int], None]) -> tuple[bytes, int, int]:
    """A trace of version 5 with one EventBlock, of which ``change`` is given the bytes, the block's start and its end."""
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_metadata(PLAIN)
        writer.write_event(1, 5, b"abc", thread=1)
    data = bytearray(out.getvalue())
    (block,) = (block for block in iter_blocks(bytes(data)) if block.name == "EventBlock")
    change(data, block.start, block.end)
    return bytes(data), block.offset, block.end


def test_end_of_an_object_that_is_not_there_is_told_with_its_place() -> None:
    def other(data: bytearray, _: int, end: int) -> None:
        data[end - 1] = 9

    data, _, end = object_trace(other)
    contents = read_both(data)
    assert contents.damage == f"EventBlock at 0x{end - 1:x}: expected the end of the object, found tag 9"
    assert len(contents) == 1

    def cut(data: bytearray, _: int, end: int) -> None:
        del data[end - 1 :]

    data, begin, _ = object_trace(cut)
    contents = read_both(data)
    assert contents.damage == f"EventBlock at 0x{begin:x}: the end of the object is missing"
    assert len(contents) == 1


def test_size_below_zero_is_told_with_the_place_of_the_block() -> None:
    def negative(data: bytearray, start: int, _: int) -> None:
        at = data.rindex(b"EventBlock\x06", 0, start) + 11
        data[at : at + 4] = b"\xff\xff\xff\xff"

    data, begin, _ = object_trace(negative)
    assert read_both(data).damage == f"EventBlock at 0x{begin:x}: block size -1"


@pytest.mark.parametrize("name", SMALL)
def test_every_byte_that_is_asked_for_is_needed_and_more_is_not(name: str) -> None:
    """A framer that is given as many bytes as it asks for comes on, block by block, as one that has them all."""
    data = SMALL[name]
    framer, size, found = Framer(), 0, []
    for _ in range(len(data)):
        part = framer.next(memoryview(data)[:size], 0, final=size == len(data))
        if isinstance(part, Block):
            found.append(part)
        elif framer.done or framer.error is not None:
            break
        else:
            position = framer.container.position if framer.container else 0
            assert part > size - position
            size = min(len(data), position + part)
    assert framer.done
    assert found == list(iter_blocks(data))


# the first bytes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "needs"),
    [("nettrace 5", [12, 32, 47]), ("nettrace 6", [12, 20, 24]), ("NetPerf 3", [24, 39]), ("NetPerf 2", [24, 39])],
)
def test_framer_asks_for_the_bytes_that_tell_the_formats_apart(name: str, needs: list[int]) -> None:
    for have in range(needs[-1]):
        framer = Framer()
        asked = framer.next(memoryview(SMALL[name])[:have], 0, final=False)
        expected = 24 if have < 8 else next(need for need in needs if have < need)
        assert asked == (4 if name == "nettrace 6" and have >= 20 else expected), have
        assert framer.error is None
        assert (framer.format != "") == (name == "nettrace 6" and have >= 20)


FIRST_BYTES: list[tuple[str, int, bytes, int, str]] = [
    ("nettrace 5", 0, b"X", 0, "neither a NetPerf nor a nettrace file"),
    ("nettrace 5", 7, b"X", 0, "neither a NetPerf nor a nettrace file"),
    ("NetPerf 3", 23, b"X", 0, "neither a NetPerf nor a nettrace file"),
    ("nettrace 5", 8, b"\x15", 8, "no FastSerialization header follows"),
    ("nettrace 5", 31, b"X", 8, "no FastSerialization header follows"),
    ("nettrace 6", 12, b"\5", 8, "nettrace version 5.0 is not known"),
    ("nettrace 6", 12, b"\7\0\0\0\3", 8, "nettrace version 7.3 is not known"),
    ("nettrace 5", 35, b"\3", 32, "Trace version 3 is not known here"),
    ("nettrace 5", 35, b"\5", 32, "Trace version 5 is not known here"),
    ("NetPerf 3", 27, b"\4", 24, "Trace version 4 is not known here"),
    ("NetPerf 3", 31, b"\4", 24, "Trace version 3 is not known here"),
    ("NetPerf 2", 27, b"\3", 24, "EventPipeFile version 3 is not known"),
    ("NetPerf 2", 27, b"\0", 24, "EventPipeFile version 0 is not known"),
    ("nettrace 5", 47, b"Frace", 32, "the first object is 'Frace'"),
]


@pytest.mark.parametrize(("name", "at", "value", "place", "problem"), FIRST_BYTES)
def test_what_is_no_trace_is_told_with_its_place(name: str, at: int, value: bytes, place: int, problem: str) -> None:
    data = SMALL[name]
    contents = read_both(data[:at] + value + data[at + len(value) :])
    assert (contents.damage_offset, len(contents)) == (place, 0)
    assert str(contents.damage).endswith(f": {problem}")


def test_minor_version_of_nettrace_6_is_told() -> None:
    data = bytearray(SMALL["nettrace 6"])
    data[16] = 9
    assert (read_both(bytes(data)).format, read_both(bytes(data)).complete) == ("nettrace 6.9", True)


@pytest.mark.parametrize("name", ["nettrace 5", "nettrace 6"])
def test_end_that_is_missing_is_told_with_what_is_left_of_a_block(name: str) -> None:
    data = SMALL[name]
    last = list(iter_blocks(data))[-1].end
    for left in range(1 if name == "nettrace 5" else 4):
        contents = read_both(data[: last + left])
        told = f" ({left} bytes of a next block)" if left else ""
        assert contents.damage == f"end of data at 0x{last:x}: the data ends here, without the end marker{told}"
    assert read_both(b"").damage == "end of data at 0x0: the file is empty"


def test_blocks_behind_one_that_is_broken_are_not_taken_for_usual_ones() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_metadata(PLAIN)
        for _ in range(3):
            writer.write_event(1, 5, thread=1)
            writer.flush()
    data = bytearray(out.getvalue())
    ends = [block.end for block in iter_blocks(bytes(data)) if block.name == "EventBlock"]
    for at, end in enumerate(ends, 1):
        broken = bytes(data[: end - 1] + b"\7" + data[end:])
        assert len(read_both(broken)) == at
    view, framer = memoryview(data), Framer()
    assert framer.usual_run(view, 0) is None  # what it is is not known yet
    framer.next(view[:40], 0, final=False)
    assert framer.usual_run(view, 0) is None
    blocks = [framer.next(view, 0, final=True) for _ in range(2)]
    assert all(isinstance(block, Block) for block in blocks)
    framer.error = FormatError("none")
    assert framer.usual_run(view, 0) is None
    framer.error = None
    assert framer.container is not None
    framer.container.pending = FormatError("none")
    assert framer.usual_run(view, 0) is None
    framer.container.pending = None
    framer.container.done = True
    assert framer.usual_run(view, 0) is None
    framer.container.done = False
    run = framer.usual_run(view, 0)
    assert (run is None) == (kernels.KERNELS is None)
    assert run is None or [block.end for block in run] == ends
