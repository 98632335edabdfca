"""The three forms of the loops over events give the same: compiled, the same file uncompiled, numpy
and plain Python.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.nettrace.kernel_forms import FORMS
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import SMALL, flood

from dotnetdiag.nettrace import BlockKind, Reader, arena, decode, group, plain, read, scan, scanning, stacks, writer
from dotnetdiag.nettrace.columns import COLUMN_NAMES, HeaderColumns
from dotnetdiag.nettrace.decode import Form, Job, Translation
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.kernels import KERNELS

BARE = Translation()
DELTAS = [0, 1, 127, 128, 20_000, 1 << 30, (1 << 64) - 1]


def made_by(kernels: Any, data: bytes, form: Form) -> tuple[Any, ...]:
    """Everything a decoder says about one block, ids untranslated: to compare."""
    view = memoryview(data)
    if kernels is plain:
        columns, runs, guids, stop, problem, detail, _ = plain.decode(view, 3, len(data), v6=form is Form.COMPRESSED_V6)
        values = {name: getattr(columns, name).tolist() for name in COLUMN_NAMES}
        values["stack"] = values["label_list"] = []
        return values, runs.tolist(), guids.tolist(), stop, problem, detail if problem == 2 else 0
    found = decode.decode_with(kernels, view, Job(form, 3, len(data), BARE))
    values = {name: getattr(found.headers, name).tolist() for name in COLUMN_NAMES}
    values["stack"] = values["label_list"] = []  # translated by the kernels: without a table all are 0
    detail = found.detail if found.problem == 2 else 0
    return values, found.runs.tolist(), found.guids.tolist(), found.stop, found.problem, detail


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
    rows = 0
    for turn in range(400):
        data = random_blobs(rng, honest=turn % 2 == 0)
        said = made_by(plain, data, form)
        rows += len(said[0]["time"])
        for kernels in FORMS:
            assert made_by(kernels, data, form) == said
    assert rows > 2000


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
        said = made_by(plain, bytes(out[:cut]), form)
        for kernels in FORMS:
            assert made_by(kernels, bytes(out[:cut]), form) == said
        assert len(said[0]["time"]) >= 199


@pytest.mark.parametrize("name", [name for name in recordings() if "nettrace" in name][:8])
def test_blocks_of_recordings_decode_the_same_in_every_form(name: str) -> None:
    data = data_of(name)
    blocks = [block for block in scan(data).blocks if block.kind is BlockKind.EVENT]
    form = Form.COMPRESSED_V6 if read(data).format.startswith("nettrace 6") else Form.COMPRESSED
    for block in blocks[:: max(1, len(blocks) // 4)]:
        content = data[block.start + 17 : block.start + block.size]
        said = made_by(plain, content, form)
        assert said[4] == 0
        for kernels in FORMS:
            assert made_by(kernels, content, form) == said


@pytest.fixture
def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (decode, group, scanning, stacks, writer):
        monkeypatch.setattr(module, "KERNELS", None)


@pytest.mark.parametrize("name", [*SMALL, *recordings()])
def test_whole_files_read_the_same_without_a_compiler(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = SMALL[name] if name in SMALL else data_of(name)
    compiled, counts = read(data), scan(data).counts()
    for module in (decode, group, scanning, stacks, writer):
        monkeypatch.setattr(module, "KERNELS", None)
    plainly = read(data)
    assert plainly.headers.equals(compiled.headers)
    assert plainly.warnings == compiled.warnings
    assert plainly.broke == compiled.broke
    assert plainly.lost.by_thread == compiled.lost.by_thread
    assert list(plainly.guids) == list(compiled.guids)
    assert scan(data).counts() == counts


def encoded(kernels: Any, headers: HeaderColumns, payload: bytes, *, v6: bool, room: int) -> tuple[int, bytes]:
    guids, data = GuidTable().bytes(), np.frombuffer(payload, np.uint8)
    if kernels is plain:
        return plain.encode(headers, 5, guids.tobytes(), data, room, v6=v6)
    out, result = np.zeros(room, np.uint8), np.zeros(2, np.int64)
    columns = [np.ascontiguousarray(column).data for column in writer._kernel_columns(headers)]
    kernels.encode(5, len(headers), v6, *columns, guids.data, data.data, out, result)
    return int(result[0]), out[: int(result[1])].tobytes()


@pytest.mark.parametrize("v6", [False, True])
def test_blobs_are_encoded_the_same_in_every_form(v6: bool) -> None:
    headers, payload = flood(300)
    for room in (500, 20_000, 1 << 20):
        said = encoded(plain, headers, payload, v6=v6, room=room)
        assert said[0] > 0
        for kernels in FORMS:
            assert encoded(kernels, headers, payload, v6=v6, room=room) == said


@pytest.mark.skipif(KERNELS is None, reason="nothing is compiled here")
def test_walk_finds_the_same_rows_in_every_form() -> None:
    data = SMALL["NetPerf 3"]
    block = next(block for block in scan(data).blocks if block.kind is BlockKind.EVENT)
    for cut in range(block.size):
        view = memoryview(data)[: block.start + cut]
        said = plain.walk(view, block.start, len(view), header=56, size_at=52, trailing=True, most_rows=10)
        for kernels in FORMS:
            result, positions = np.zeros(3, np.int64), np.zeros(10, np.int64)
            kernels.walk(view, block.start, len(view), 56, 52, True, positions, result)
            assert positions[: result[0]].tolist() == said[0].tolist()
            assert tuple(result[1:].tolist()) == said[1:]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_blocks_in_pieces_are_the_whole_blocks(name: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data = SMALL[name]
    whole = read(data)
    if not compiled:
        for module in (decode, group, scanning, stacks, writer):
            monkeypatch.setattr(module, "KERNELS", None)
    for rows in (1, 2, 3):
        for module in (arena, decode, group):
            monkeypatch.setattr(module, "BATCH_ROWS", rows)
        parts = read(data)
        assert parts.headers.equals(whole.headers)
        assert max(len(batch) for batch in scan(data).iter_batches()) <= rows + (
            rows if name.startswith("NetPerf") else 0
        )
        assert parts.segment_starts.tolist() == whole.segment_starts.tolist()
        assert (parts.warnings, parts.broke) == (whole.warnings, whole.broke)
        assert (parts.lost.gaps, parts.lost.restarts) == (whole.lost.gaps, whole.lost.restarts)
        assert list(parts.guids) == list(whole.guids)
        assert [parts.payload(row) for row in range(len(parts))] == [whole.payload(row) for row in range(len(whole))]
        reader, fed = Reader(), []
        for batch in (*reader.feed(data), *reader.close()):
            fed += [batch.payload(row) for row in range(len(batch))]
        assert fed == [whole.payload(row) for row in range(len(whole))]
        assert reader.lost.by_thread == whole.lost.by_thread


def pieces_of(kernels: Any, data: bytes, form: Form) -> tuple[Any, ...]:
    """Like :func:`made_by`, of a block that is decoded a few events at a time."""
    view, place = memoryview(data), None
    parts: list[tuple[dict[str, list[Any]], list[int]]] = []
    while True:
        if kernels is plain:
            state = None if place is None else place.state
            columns, runs, guids, stop, problem, detail, state = plain.decode(
                view, 3, len(data), v6=form is Form.COMPRESSED_V6, most_rows=3, state=state
            )
            place = None if state is None else decode.Place(0, 0, state)
        else:
            found = decode.decode_with(kernels, view, Job(form, 3, len(data), BARE), 0, place)
            columns, runs, guids = found.headers, found.runs, found.guids
            stop, problem, detail, place = found.stop, found.problem, found.detail, found.rest
        values: dict[str, list[Any]] = {name: getattr(columns, name).tolist() for name in COLUMN_NAMES}
        for name in ("activity", "related"):  # the ids' places
            values[name] = [int(guids[number - 1]) if number else None for number in values[name]]
        values["stack"] = values["label_list"] = []
        before = sum(len(part["time"]) for part, _ in parts)
        parts.append((values, (runs + before).tolist()))
        if place is None:
            break
    joined = {name: [value for part, _ in parts for value in part[name]] for name in COLUMN_NAMES}
    return joined, [row for _, rows in parts for row in rows], stop, problem, detail if problem == 2 else 0


@pytest.mark.parametrize("form", [Form.COMPRESSED, Form.COMPRESSED_V6])
def test_random_blocks_in_pieces_are_the_whole_blocks(form: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    for turn in range(200):
        data = random_blobs(rng, honest=turn % 2 == 0)
        whole, runs, guids, *rest = made_by(plain, data, form)
        for name in ("activity", "related"):
            whole[name] = [guids[number - 1] if number else None for number in whole[name]]
        monkeypatch.setattr(decode, "BATCH_ROWS", 3)
        for kernels in (plain, *FORMS):
            assert pieces_of(kernels, data, form) == (whole, runs, *rest)
        monkeypatch.undo()
