"""Event headers against a model: every field at the edges of its bytes, every place where a block can be cut."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.nettrace.by_hand import varuint
from tests.nettrace.kernel_forms import COMPILED_FORMS, FORM_IDS, FORMS, decoded, without_kernels

from dotnetdiag.nettrace import blobs, fallback, uncompressed
from dotnetdiag.nettrace.columns import COLUMN_NAMES, COLUMN_TYPES, HeaderColumns
from dotnetdiag.nettrace.group import Form
from dotnetdiag.nettrace.kernels import BAD_SIZE, BROKEN_HEADER, CUT_PAYLOAD, NO_PROBLEM
from dotnetdiag.nettrace.piece import Place

SHORT = [
    0,
    1,
    0x7F,
    0x80,
    0x81,
    0xFF,
    0x100,
    0x3FFF,
    0x4000,
    0x4080,
    0x1FFFFF,
    0x200000,
    0xFFFFFFF,
    1 << 28,
    0xFFFFFFFF,
]
LONG = [*SHORT, 1 << 32, (1 << 35) - 1, 1 << 42, (1 << 49) - 1, 1 << 56, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
SIZES = [0, 1, 2, 0x7F, 0x80, 0x81, 0x100, 0x3FFF, 0x4000]
STATES = {1: ["metadata"], 2: ["sequence", "capture", "processor"], 4: ["thread"], 8: ["stack"]}
WIDE = {"capture", "thread", "time"}
FORM_OF = {5: Form.COMPRESSED, 6: Form.COMPRESSED_V6}


@dataclass
class Block:
    """Compressed events packed one by one, and what they say."""

    v6: bool
    data: bytearray = field(default_factory=lambda: bytearray(b"???"))
    now: dict[str, int] = field(default_factory=dict)
    rows: list[dict[str, int]] = field(default_factory=list)
    bounds: list[tuple[int, int, int]] = field(default_factory=list)
    """Of each event: where it, its payload, and the next one begin."""
    jumps: list[int] = field(default_factory=list)
    guids: list[int] = field(default_factory=list)

    def add(self, flags: int, payload: int = 0, **stated: int) -> None:
        begin, now = len(self.data), self.now
        self.data.append(flags)
        for bit, names in STATES.items():
            if flags & bit:
                for name in names:
                    self.data += varuint(stated[name])
                    now[name] = stated[name] if name != "sequence" else now.get(name, 0) + stated[name] + 1
        if not flags & 2:
            now["sequence"] = now.get("sequence", 0) + (self.v6 or now.get("metadata", 0) != 0)
        self.data += varuint(stated["time"])
        now["time"] = now.get("time", 0) + stated["time"] & (1 << 64) - 1
        now["sequence"] &= 0xFFFFFFFF
        for bit, name in ((16, "activity"), (32, "related")):
            if flags & bit and not self.v6:
                self.guids.append(len(self.data))
                now[name] = len(self.guids)
                self.data += bytes(range(len(self.rows), len(self.rows) + 16))
        if flags & 16 and self.v6:
            self.data += varuint(stated["labels"])
            now["labels"] = stated["labels"]
        if flags & 128:
            self.data += varuint(payload)
            now["size"] = payload
        if flags & 2 or not self.rows:
            self.jumps.append(len(self.rows))
        start = len(self.data)
        self.data += b"\xee" * now.get("size", 0)
        self.bounds.append((begin, start, len(self.data)))
        self.rows.append({**now, "is_sorted": flags >> 6 & 1, "payload": start})

    def expected(self, rows: int, *, compiled: bool) -> dict[str, list[Any]]:
        """The columns of the first so many rows; compiled forms without what needs a table of ids."""
        names = dict(zip(COLUMN_NAMES, COLUMN_NAMES, strict=True)) | {
            "metadata_id": "metadata", "capture_thread": "capture", "label_list": "labels",
            "payload_offset": "payload", "payload_length": "size",
        }  # fmt: skip
        found: dict[str, list[Any]] = {}
        for column, name in names.items():
            found[column] = [row.get(name, 0) for row in self.rows[:rows]]
            if compiled and column in ("stack", "label_list"):
                found[column] = [0] * rows
        found["time"] = [time - (time >> 63 << 64) for time in found["time"]]
        return found


def random_block(rng: np.random.Generator, *, v6: bool, events: int) -> Block:
    block = Block(v6)
    while len(block.rows) < events:
        flags = int(rng.integers(0, 256)) if rng.random() < 0.6 else int(rng.choice([0, 64]))
        stated = {
            name: int(rng.choice(np.array(LONG if name in WIDE else SHORT, np.uint64)))
            for names in STATES.values()
            for name in names
        }
        stated["labels"] = int(rng.choice(SHORT))
        if rng.random() < 0.2:
            stated["metadata"] = 0
        for _ in range(1 if flags & 0xBF else int(rng.integers(1, 9))):
            stated["time"] = int(rng.choice(np.array(LONG, np.uint64)))
            block.add(flags, int(rng.choice(SIZES[:6])) if rng.random() < 0.97 else int(rng.choice(SIZES)), **stated)
            flags = flags ^ 64 if not flags & 0xBF else flags
    return block


def columns_of(headers: HeaderColumns) -> dict[str, list[Any]]:
    return {name: getattr(headers, name).tolist() for name in COLUMN_NAMES}


@pytest.mark.parametrize("by", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize("version", [5, 6])
def test_every_event_is_what_its_header_and_those_before_it_say(by: Any, version: int) -> None:
    rng = np.random.default_rng(version)
    for _ in range(60):
        block = random_block(rng, v6=version == 6, events=25)
        piece = decoded(by, bytes(block.data), FORM_OF[version])
        assert columns_of(piece.headers) == block.expected(len(block.rows), compiled=by is not fallback)
        assert (piece.jumps.tolist(), piece.guids.tolist()) == (block.jumps, block.guids)
        (said,) = piece.blocks.tolist()
        assert said[:6] == (len(block.rows), len(block.jumps), len(block.guids), len(block.data), NO_PROBLEM, 0)
        assert piece.remainder is None


@pytest.mark.parametrize("by", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize("version", [5, 6])
def test_cut_anywhere_the_events_before_are_whole_and_it_is_told_what_is_missing(by: Any, version: int) -> None:
    block = random_block(np.random.default_rng(8), v6=version == 6, events=14)
    for cut in range(3, min(len(block.data), 900)):
        piece = decoded(by, bytes(block.data[:cut]), FORM_OF[version])
        whole = [end for _, _, end in block.bounds if end <= cut]
        begin, start, end = block.bounds[len(whole)]
        problem = NO_PROBLEM if begin == cut else BROKEN_HEADER if start > cut else CUT_PAYLOAD
        said = {name: int(piece.blocks[name][0]) for name in ("rows", "stop", "problem", "missing")}
        assert said == {
            "rows": len(whole), "stop": begin, "problem": problem, "missing": end - cut if problem == CUT_PAYLOAD else 0
        }, cut  # fmt: skip
        assert columns_of(piece.headers) == block.expected(len(whole), compiled=by is not fallback)


TOO_LONG = {5: [b"\x80" * 5 + b"\0", b"\xff\xff\xff\xff\x10"], 10: [b"\x80" * 10 + b"\0", b"\xff" * 9 + b"\2"]}
NUMBERS = [(1, 5, 0), (2, 5, 0), (2, 10, 1), (2, 5, 2), (4, 10, 0), (8, 5, 0), (0, 10, 0), (128, 5, 1), (16, 5, 1)]


@pytest.mark.parametrize("by", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize(("flags", "most", "before"), NUMBERS)
def test_number_of_more_bits_than_its_field_breaks_the_header(by: Any, flags: int, most: int, before: int) -> None:
    """``before``: how many numbers stand before it in the header."""
    for wrong in TOO_LONG[most]:
        good = b"???\x80\1\0"
        behind = bytes(20)
        piece = decoded(by, good + bytes([flags]) + bytes(before) + wrong + behind, Form.COMPRESSED_V6)
        assert piece.blocks[["rows", "stop", "problem"]].tolist() == [(1, 6, BROKEN_HEADER)], wrong
        longest = b"\x80" * (most - 1) + b"\0"
        piece = decoded(by, good + bytes([flags]) + bytes(before) + longest + behind, Form.COMPRESSED_V6)
        assert int(piece.blocks["rows"][0]) > 1


# encoding -------------------------------------------------------------------------------------------------------------


def random_columns(rng: np.random.Generator, rows: int, *, v6: bool) -> HeaderColumns:
    """Columns whose values change now and then, to edges."""
    headers = HeaderColumns.allocate(rows)
    for name, kind in COLUMN_TYPES.items():
        column = getattr(headers, name)
        if kind is np.bool_:
            column[:] = rng.random(rows) < 0.5
            continue
        edges = np.array(LONG if np.dtype(kind).itemsize == 8 else SHORT, np.uint64).astype(kind)
        changes = np.sort(rng.integers(0, rows, rows // 3))
        column[:] = rng.choice(edges, len(changes) + 1)[np.searchsorted(changes, np.arange(rows), side="right")]
    run = np.cumsum(rng.random(rows) < 0.4).astype(np.uint32)
    headers.sequence[:] = np.arange(rows, dtype=np.uint32) + run * np.uint32(0x3FFFFFFF)
    headers.activity[:], headers.related[:] = rng.integers(0, 3, rows), np.repeat(rng.integers(0, 3, rows // 2), 2)
    if v6:
        headers.activity[:] = headers.related[:] = 0
    else:
        headers.label_list[:] = 0
    headers.payload_length[:] = np.repeat(rng.choice(SIZES[:6], rows // 2), 2)
    headers.payload_offset[:] = rng.integers(0, 300, rows)
    return headers


GUIDS = bytes(range(48))
PAYLOAD = np.random.default_rng(2).integers(0, 256, 1000).astype(np.uint8)


def encoded(by: Any, headers: HeaderColumns, first: int, room: int, *, v6: bool) -> tuple[int, bytes]:
    if by is fallback:
        return fallback.encode(headers, first, GUIDS, PAYLOAD, room, v6=v6)
    out, columns = np.zeros(room, np.uint8), [np.ascontiguousarray(one) for one in blobs.kernel_columns(headers)]
    rows, size = by.encode(first, len(headers), v6, *columns, np.frombuffer(GUIDS, np.uint8), PAYLOAD, out)
    return rows, out[:size].tobytes()


@pytest.mark.parametrize("by", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize("v6", [False, True])
def test_columns_that_are_encoded_are_decoded_again(by: Any, v6: bool) -> None:
    rng = np.random.default_rng(7)
    for first in (0, 3):
        headers = random_columns(rng, 120, v6=v6)
        rows, data = encoded(by, headers, first, 1 << 20, v6=v6)
        assert rows == 120 - first
        data = b"???" + data
        piece = decoded(fallback, data, Form.COMPRESSED_V6 if v6 else Form.COMPRESSED)
        expected = headers[first:]
        for name in set(COLUMN_NAMES) - {"activity", "related", "payload_offset"}:
            assert getattr(piece.headers, name).tolist() == getattr(expected, name).tolist(), name
        places = zip(piece.headers.payload_offset.tolist(), expected.payload_offset.tolist(), strict=True)
        for (at, old), size in zip(places, expected.payload_length.tolist(), strict=True):
            assert data[at : at + size] == PAYLOAD[old : old + size].tobytes()
        for name in ("activity", "related"):
            stated = [data[at : at + 16] for at in piece.guids.tolist()]
            made = [stated[number - 1] if number else bytes(16) for number in getattr(piece.headers, name).tolist()]
            wanted = [GUIDS[16 * number :][:16] for number in getattr(expected, name).tolist()]
            # before anything is stated there is none; later the first of the table says it
            assert [GUIDS[:16] if one == bytes(16) else one for one in made] == wanted


@pytest.mark.parametrize("by", COMPILED_FORMS)
@pytest.mark.parametrize("v6", [False, True])
def test_random_columns_are_encoded_the_same_in_every_form_whatever_room_there_is(by: ModuleType, v6: bool) -> None:
    rng = np.random.default_rng(3)
    headers = random_columns(rng, 40, v6=v6)
    for first in (0, 5):
        for room in range(1500):
            assert encoded(by, headers, first, room, v6=v6) == encoded(fallback, headers, first, room, v6=v6), room


@pytest.mark.parametrize("v6", [False, True])
def test_event_like_the_one_before_takes_two_bytes(v6: bool) -> None:
    """The state before the first is zero throughout; a number is stated where it does not follow."""
    headers = HeaderColumns.allocate(3)
    for name in COLUMN_NAMES:
        getattr(headers, name)[:] = 0
    headers.sequence[:] = [1, 2, 4] if v6 else [0, 0, 2]
    headers.time[:] = [5, 5, 6]
    rows, data = encoded(fallback, headers, 0, 1000, v6=v6)
    assert (rows, data.hex(" ")) == (3, "00 05 00 00 02 01 00 00 01")
    headers.metadata_id[:] = [0, 1, 1]
    headers.sequence[:] = [1, 2, 3] if v6 else [0, 1, 2]
    assert encoded(fallback, headers, 0, 1000, v6=v6)[1].hex(" ") == "00 05 01 01 00 00 01"
    headers.is_sorted[:] = True
    assert encoded(fallback, headers, 0, 1000, v6=v6)[1].hex(" ") == "40 05 41 01 00 40 01"


# events in full -------------------------------------------------------------------------------------------------------


def walked(by: Any, data: bytes, start: int, end: int, trailing: bool, most: int) -> tuple[list[int], int, int]:
    if by is fallback:
        positions, stop, problem = fallback.walk(memoryview(data), start, end, 12, 8, trailing, most)
        return positions.tolist(), stop, problem
    room = np.zeros(most, np.int64)
    found, stop, problem = by.walk(memoryview(data), start, end, 12, 8, trailing, room)
    return room[:found].tolist(), stop, problem


def full_event(payload: int, stack: int | None, *, extent: int = 0, lie: int = 0, stack_lie: int = 0) -> bytes:
    """``extent``: bytes more than it needs; the others are added to what it says of its parts."""
    content = bytes(4) + struct.pack("<I", payload + lie) + bytes(payload)
    if stack is not None:
        content += struct.pack("<I", stack + stack_lie) + bytes(stack)
    return struct.pack("<I", len(content) + extent) + content + bytes(max(0, extent))


@pytest.mark.parametrize("by", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize("stack", [None, 0, 8])
def test_sizes_of_an_event_in_full_have_to_fit_into_each_other(by: Any, stack: int | None) -> None:
    trailing = stack is not None
    good = full_event(3, stack)
    for extent in range(-11 - (stack or 0), 6):
        for lie in range(-3, 9):
            for stack_lie in range(-(stack or 0), 9) if trailing else (0,):
                odd = full_event(3, stack, extent=extent, lie=lie, stack_lie=stack_lie)
                data = b"???" + good + odd + good + b"!"
                # as the odd one says: where it ends, where its payload ends, where its stack ends
                begin, size = 3 + len(good), struct.unpack_from("<I", odd)[0] + 4
                needed = 12 + 3 + lie
                if trailing and needed + 4 <= size:
                    needed += 4 + struct.unpack_from("<I", data, begin + needed)[0]
                elif trailing:
                    needed += 4
                found, stop, problem = walked(by, data, 3, 3 + len(good) + len(odd), trailing, 9)
                if needed > size or size > len(odd):
                    assert (found, stop) == ([3], begin)
                    assert problem == (CUT_PAYLOAD if size > len(odd) else BAD_SIZE)
                else:
                    assert found[:2] == [3, begin]


@pytest.mark.parametrize("by", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize("stack", [None, 8])
def test_events_in_full_are_found_up_to_the_end_and_as_many_as_are_wanted(by: Any, stack: int | None) -> None:
    one = full_event(3, stack)
    data = b"???" + 4 * one + b"!"
    starts = [3 + number * len(one) for number in range(5)]
    for most in (1, 2, 4):
        assert walked(by, data, 3, starts[4], stack is not None, most) == (starts[:most], starts[most], NO_PROBLEM)
    for end in range(3, starts[4] + 1):
        whole, rest = divmod(end - 3, len(one))
        problem = NO_PROBLEM if not rest else BROKEN_HEADER if rest < 12 else CUT_PAYLOAD
        assert walked(by, data, 3, end, stack is not None, 9) == (starts[:whole], starts[whole], problem)


FULL: dict[Form, list[tuple[str, str]]] = {
    Form.UNCOMPRESSED: [
        ("metadata_id", "I"), ("sequence", "I"), ("thread", "Q"), ("capture_thread", "Q"), ("processor", "I"),
        ("stack", "I"), ("time", "q"), ("activity", "16s"), ("related", "16s"), ("payload_length", "I"),
    ],
    Form.UNCOMPRESSED_V6: [
        ("metadata_id", "I"), ("sequence", "I"), ("thread", "Q"), ("capture_thread", "Q"), ("processor", "I"),
        ("stack", "I"), ("time", "q"), ("label_list", "I"), ("payload_length", "I"),
    ],
    Form.NETPERF: [
        ("metadata_id", "I"), ("thread", "I"), ("time", "q"), ("activity", "16s"), ("related", "16s"),
        ("payload_length", "I"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("by", FORMS, ids=FORM_IDS)
@pytest.mark.parametrize("form", FULL, ids=lambda form: form.name)
def test_event_in_full_says_every_field(by: Any, form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    if by is fallback:
        without_kernels(monkeypatch)
    rng = np.random.default_rng(4)
    netperf, layout = form is Form.NETPERF, struct.Struct("<" + "".join(code for _, code in FULL[form]))
    data, rows, frames, begins = b"???", list[dict[str, Any]](), list[tuple[int, int]](), list[int]()
    for _ in range(60):
        row: dict[str, Any] = dict.fromkeys(COLUMN_NAMES, 0)
        for name, code in FULL[form]:
            if code == "16s":
                row[name] = bytes(16) if rng.random() < 0.4 else rng.bytes(15) + b"\1"
            else:
                edges = np.array(SHORT if code == "I" else LONG, np.uint64)
                value = int(rng.choice(edges if rng.random() < 0.6 else edges[:4]))
                row[name] = value - (value >> 63 << 64) if code == "q" else value
        size = row["payload_length"] = int(rng.choice(SIZES[:7]))
        if not netperf and rng.random() < 0.5 and rows:  # that follows
            row["sequence"] = rows[-1]["sequence"] + 1 & 0xFFFFFFFF
            row["capture_thread"] = rows[-1]["capture_thread"]
        body = layout.pack(*(row[name] for name, _ in FULL[form])) + b"\xee" * size
        row["payload_offset"] = len(data) + 4 + layout.size
        begins.append(len(data))
        if netperf:
            stack = int(rng.choice([0, 3, 8, 16]))
            body += struct.pack("<I", stack)
            frames.append((len(data) + 4 + len(body), stack))
            body += bytes(stack)
        body += bytes(int(rng.choice([0, 0, 3])))
        data += struct.pack("<I", len(body)) + body
        rows.append(row)
    piece = uncompressed.decode(memoryview(data + b"!"), 3, len(data), form, Place())
    said = piece.headers
    for row in rows:
        unsorted = not netperf and bool(row["metadata_id"] >> 31)
        row["is_sorted"] = not unsorted
        if not netperf:
            row["metadata_id"] &= 0x7FFFFFFF
        else:
            row["capture_thread"], row["processor"] = row["thread"], 0xFFFFFFFF
    for name in set(COLUMN_NAMES) - {"activity", "related"}:
        assert getattr(said, name).tolist() == [row[name] for row in rows], name
        assert getattr(said, name).dtype == COLUMN_TYPES[name]
    for name in ("activity", "related"):
        found = [
            data[(at := int(piece.guids[number - 1])) : at + 16] if number else bytes(16)
            for number in getattr(said, name).tolist()
        ]
        assert found == [row[name] or bytes(16) for row in rows]
    jumps = [] if netperf else [
        at for at in range(60)
        if not at or rows[at]["capture_thread"] != rows[at - 1]["capture_thread"]
        or (rows[at]["sequence"] - rows[at - 1]["sequence"]) % (1 << 32) != 1
    ]  # fmt: skip
    assert piece.jumps.tolist() == jumps
    assert piece.blocks[["rows", "stop", "problem"]].tolist() == [(60, len(data), NO_PROBLEM)]
    assert piece.remainder is None
    if netperf:
        assert piece.frames is not None
        assert piece.positions is not None
        assert list(zip(*(one.tolist() for one in piece.frames), strict=True)) == frames
        assert piece.positions.tolist() == begins
    monkeypatch.setattr(uncompressed, "BATCH_ROWS", 7)
    monkeypatch.setattr(fallback, "BATCH_ROWS", 7)
    times, place, seen = list[int](), Place(), 0
    while True:
        piece = uncompressed.decode(memoryview(data), 3, len(data), form, place)
        times += piece.headers.time.tolist()
        seen += 7
        if piece.remainder is None:
            break
        place = piece.remainder
        assert (place.block, place.rows, place.state) == (0, 7, begins[seen])
    assert times == [row["time"] for row in rows]


@pytest.mark.parametrize("form", FULL, ids=lambda form: form.name)
def test_no_events_in_full_are_no_rows(form: Form) -> None:
    piece = uncompressed.decode(memoryview(b"???"), 3, 3, form, Place())
    assert (len(piece.headers), len(piece.jumps), len(piece.guids), piece.remainder) == (0, 0, 0, None)


@pytest.mark.parametrize("most", [1, 4, 5, 7, 10, 30])
@pytest.mark.parametrize("payload", [0, 1, 130])
def test_run_of_bare_events_ends_where_a_piece_is_full(
    most: int, payload: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fallback, "BATCH_ROWS", most)
    block = Block(v6=False)
    block.add(0xCF, payload, metadata=1, sequence=0, capture=1, processor=0, thread=1, stack=0, time=5)
    for number in range(29):
        block.add(64 * (number % 2), time=number % 3 + 1)
    times, place = list[int](), Place()
    while True:
        piece = decoded(fallback, bytes(block.data), Form.COMPRESSED, place)
        assert len(piece.headers) <= most
        times += piece.headers.time.tolist()
        if piece.remainder is None:
            break
        assert len(piece.headers) == most
        assert piece.remainder.rows == most
        place = piece.remainder
    assert times == [row["time"] for row in block.rows]
