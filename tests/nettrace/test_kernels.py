"""Both forms of the loops over events give the same: compiled, and numpy with Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nettrace.kernel_forms import COMPILED_FORMS, decoded, without_kernels
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import SMALL, flood, large_trace

from dotnetdiag.nettrace import (
    Block,
    BlockKind,
    Framer,
    Reader,
    arena,
    blobs,
    decode,
    fallback,
    read,
    scan,
    uncompressed,
)
from dotnetdiag.nettrace.columns import COLUMN_NAMES, HeaderColumns
from dotnetdiag.nettrace.group import Form
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.kernels import BAD_SIZE, BROKEN_HEADER, CUT_PAYLOAD, KERNELS, NO_PROBLEM
from dotnetdiag.nettrace.piece import Piece, Place

DELTAS = [0, 1, 127, 128, 20_000, 1 << 30, (1 << 64) - 1]


def said_of(piece: Piece) -> tuple[Any, ...]:
    """Everything a decoder says about one block: to compare."""
    values = {name: getattr(piece.headers, name).tolist() for name in COLUMN_NAMES}
    (block,) = piece.blocks[["rows", "stop", "problem", "missing", "unknown_stack", "unknown_labels"]].tolist()
    return values, piece.jumps.tolist(), piece.guids.tolist(), block


def made_by(by: Any, data: bytes, form: Form) -> tuple[Any, ...]:
    return said_of(decoded(by, data, form, is_translated=True))


def random_blobs(rng: np.random.Generator, *, honest: bool) -> bytes:
    """Bytes in which event headers are likely: flags with few bits, short payloads, now and then nonsense."""
    out = bytearray(b"???")
    for _ in range(int(rng.integers(1, 60))):
        if rng.random() < 0.5:
            out += bytes([int(rng.choice([0, 0, 0, 64])), int(rng.integers(0, 128))])
        else:
            out += (
                bytes([int(rng.integers(0, 256))])
                + rng.integers(0, 140, int(rng.integers(1, 50))).astype(np.uint8).tobytes()
            )
        if rng.random() < 0.05 and not honest:
            out += b"\xff" * int(rng.integers(1, 12))
    return bytes(out)


@pytest.mark.parametrize("form", [Form.COMPRESSED, Form.COMPRESSED_V6])
def test_random_blocks_decode_the_same_in_every_form(form: Form) -> None:
    rng = np.random.default_rng(5)
    rows = stacks = unknown = 0
    for turn in range(400):
        data = random_blobs(rng, honest=turn % 2 == 0)
        said = made_by(fallback, data, form)
        rows += len(said[0]["time"])
        stacks += len({*said[0]["stack"]} - {0})
        unknown += said[3][-2]
        for kernels in COMPILED_FORMS:
            assert made_by(kernels, data, form) == said
    assert rows > 2000
    assert min(stacks, unknown) > 200


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("payload", [0, 1, 40])
def test_runs_of_bare_events_decode_the_same_in_every_form(version: int, payload: int) -> None:
    rng = np.random.default_rng(payload)
    out = bytearray(b"???" + bytes([0xCF, 1, 0, 9, 0, 9, 1, 5, payload]) + bytes(payload))
    for _ in range(200):
        delta = DELTAS[int(rng.integers(len(DELTAS)))]
        out.append(int(rng.choice([0, 0, 0, 64])))
        while delta > 0x7F:
            out.append(delta & 0x7F | 0x80)
            delta >>= 7
        out.append(delta)
        out += rng.bytes(payload)
    form = Form.COMPRESSED if version == 5 else Form.COMPRESSED_V6
    for cut in (len(out), len(out) - 1, len(out) - payload - 1):
        said = made_by(fallback, bytes(out[:cut]), form)
        for kernels in COMPILED_FORMS:
            assert made_by(kernels, bytes(out[:cut]), form) == said
        assert len(said[0]["time"]) >= 199


@pytest.mark.parametrize("name", [name for name in recordings() if "nettrace" in name][:8])
def test_blocks_of_recordings_decode_the_same_in_every_form(name: str) -> None:
    data = data_of(name)
    blocks = [block for block in scan(data).blocks if block.kind is BlockKind.EVENT]
    form = Form.COMPRESSED_V6 if read(data).format.startswith("nettrace 6") else Form.COMPRESSED
    for block in blocks[:: max(1, len(blocks) // 4)]:
        content = data[block.start + 17 : block.start + block.size]
        said = made_by(fallback, content, form)
        assert said[3][2] == NO_PROBLEM
        for kernels in COMPILED_FORMS:
            assert made_by(kernels, content, form) == said


@pytest.mark.parametrize("name", [*SMALL, *recordings()])
def test_whole_files_read_the_same_without_a_compiler(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = SMALL[name] if name in SMALL else data_of(name)
    compiled, counts = read(data), scan(data).counts()
    without_kernels(monkeypatch)
    plainly = read(data)
    assert plainly.headers.equals(compiled.headers)
    assert plainly.warnings == compiled.warnings
    assert plainly.damage == compiled.damage
    assert plainly.lost.by_thread == compiled.lost.by_thread
    assert list(plainly.guids) == list(compiled.guids)
    assert scan(data).counts() == counts


def encoded(kernels: Any, headers: HeaderColumns, payload: bytes, *, v6: bool, room: int) -> tuple[int, bytes]:
    guids, data = GuidTable().bytes(), np.frombuffer(payload, np.uint8)
    if kernels is fallback:
        return fallback.encode(headers, 5, guids.tobytes(), data, room, v6=v6)
    out = np.zeros(room, np.uint8)
    columns = [np.ascontiguousarray(column).data for column in blobs.kernel_columns(headers)]
    rows, size = kernels.encode(5, len(headers), v6, *columns, guids.data, data.data, out)
    return rows, out[:size].tobytes()


@pytest.mark.parametrize("v6", [False, True])
def test_blobs_are_encoded_the_same_in_every_form(v6: bool) -> None:
    headers, payload = flood(300)
    for room in (500, 20_000, 1 << 20):
        said = encoded(fallback, headers, payload, v6=v6, room=room)
        assert said[0] > 0
        for kernels in COMPILED_FORMS:
            assert encoded(kernels, headers, payload, v6=v6, room=room) == said


@pytest.mark.skipif(KERNELS is None, reason="nothing is compiled here")
def test_walk_finds_the_same_rows_in_every_form() -> None:
    data = SMALL["NetPerf 3"]
    block = next(block for block in scan(data).blocks if block.kind is BlockKind.EVENT)
    for cut in range(block.size):
        view = memoryview(data)[: block.start + cut]
        said = fallback.walk(view, block.start, len(view), 56, 52, True, 10)
        for kernels in COMPILED_FORMS:
            positions = np.zeros(10, np.int64)
            found, *rest = kernels.walk(view, block.start, len(view), 56, 52, True, positions)
            assert positions[:found].tolist() == said[0].tolist()
            assert tuple(rest) == said[1:]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_blocks_in_pieces_are_the_whole_blocks(name: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = SMALL[name]
    whole = read(data)
    if not compiled:
        without_kernels(monkeypatch)
    for rows in (1, 2, 3):
        for module in (arena, decode, fallback, uncompressed):
            monkeypatch.setattr(module, "BATCH_ROWS", rows)
        parts = read(data)
        assert parts.headers.equals(whole.headers)
        assert max(len(batch) for batch in scan(data).iter_batches()) <= rows + (
            rows if name.startswith("NetPerf") else 0
        )
        assert parts.segment_starts.tolist() == whole.segment_starts.tolist()
        assert (parts.warnings, parts.damage) == (whole.warnings, whole.damage)
        assert (parts.lost.gaps, parts.lost.restarts) == (whole.lost.gaps, whole.lost.restarts)
        assert list(parts.guids) == list(whole.guids)
        assert [parts.payload(row) for row in range(len(parts))] == [whole.payload(row) for row in range(len(whole))]
        reader, fed = Reader(), []
        for batch in (*reader.feed(data), *reader.close()):
            fed += [batch.payload(row) for row in range(len(batch))]
        assert fed == [whole.payload(row) for row in range(len(whole))]
        assert reader.lost.by_thread == whole.lost.by_thread


def pieces_of(by: Any, data: bytes, form: Form) -> tuple[Any, ...]:
    """Like :func:`made_by`, of a block that is decoded a few events at a time."""
    place: Place | None = Place()
    joined: dict[str, list[Any]] = {name: [] for name in COLUMN_NAMES}
    jumps: list[int] = []
    while place is not None:
        piece = decoded(by, data, form, place, most_rows=3, is_translated=True)
        jumps += (piece.jumps + len(joined["time"])).tolist()
        for name in COLUMN_NAMES:
            values = getattr(piece.headers, name).tolist()
            if name in ("activity", "related"):  # the ids' places
                values = [int(piece.guids[number - 1]) if number else None for number in values]
            joined[name] += values
        place = piece.remainder
    (block,) = piece.blocks[["stop", "problem", "missing"]].tolist()
    return joined, jumps, block


@pytest.mark.parametrize("form", [Form.COMPRESSED, Form.COMPRESSED_V6])
def test_random_blocks_in_pieces_are_the_whole_blocks(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    for turn in range(200):
        data = random_blobs(rng, honest=turn % 2 == 0)
        whole, jumps, guids, block = made_by(fallback, data, form)
        for name in ("activity", "related"):
            whole[name] = [guids[number - 1] if number else None for number in whole[name]]
        monkeypatch.setattr(fallback, "BATCH_ROWS", 3)
        for kernels in (fallback, *COMPILED_FORMS):
            assert pieces_of(kernels, data, form) == (whole, jumps, block[1:4])
        monkeypatch.undo()


@pytest.mark.parametrize("name", ["nettrace 5", "nettrace 6"])
def test_block_of_exactly_the_limit_is_found_with_the_others(name: str) -> None:
    blocks = [block for block in scan(SMALL[name]).blocks if block.kind is BlockKind.EVENT]
    for limit, found in ((blocks[0].size, True), (blocks[0].size - 1, False)):
        framer, view = Framer(), memoryview(SMALL[name])
        for _ in range(scan(SMALL[name]).blocks.index(blocks[0])):
            framer.next(view, 0, final=True)
        assert framer.container is not None
        framer.container.limit = limit
        run = framer.usual_run(view, 0)
        assert (run is not None and run[0] == blocks[0]) == (found and KERNELS is not None)
        framer.container.position = blocks[0].offset
        assert isinstance(framer.next(view, 0, final=True), Block) == found


@pytest.mark.skipif(KERNELS is None, reason="nothing is compiled here")
def test_both_forms_have_the_same_numbers() -> None:
    assert KERNELS is not None
    assert KERNELS.PROBLEMS == (NO_PROBLEM, BROKEN_HEADER, CUT_PAYLOAD, BAD_SIZE)


def test_a_batch_of_several_blocks_keeps_to_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (decode, fallback, uncompressed):
        monkeypatch.setattr(module, "BATCH_ROWS", 1500)
    without_kernels(monkeypatch)
    data = large_trace(20_000)
    whole, batches = read(data).headers, [batch.headers for batch in scan(data).iter_batches()]
    assert len(batches) > 10
    assert max(map(len, batches)) <= 1500
    assert HeaderColumns.concatenate(batches).equals(whole)
