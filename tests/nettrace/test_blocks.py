"""Blocks of a file with their offsets and header fields, as a dump shows them."""

from __future__ import annotations

import mmap
import struct
import sys
from itertools import pairwise

import pytest
from tests.nettrace.kernel_forms import without_kernels
from tests.nettrace.traces import SMALL, SYNC

from dotnetdiag.nettrace import BlockKind, Reader, header_fields, iter_blocks
from dotnetdiag.nettrace.framing import Framer


def shown(name: str) -> list[tuple[str, dict[str, int]]]:
    data = SMALL[name]
    return [(block.name, header_fields(block, data)) for block in iter_blocks(data)]


@pytest.mark.parametrize("name", [name for name in SMALL if name.startswith("nettrace")])
def test_header_fields_say_what_is_in_a_block(name: str) -> None:
    found = shown(name)
    flags = 0 if "uncompressed" in name else 1
    events = [fields for kind, fields in found if kind == "EventBlock"]
    assert events[0] == {"header_size": 20, "flags": flags, "min_time": SYNC + 10, "max_time": SYNC + 30}
    stacks = [fields for kind, fields in found if kind == "StackBlock"]
    assert stacks == [{"first_id": 1, "count": 2}, {"first_id": 1, "count": 1}]
    points = [fields for kind, fields in found if kind in ("SPBlock", "SequencePoint")]
    assert [(fields["time"], fields["threads"]) for fields in points] == [(SYNC + 40, 2), (SYNC + 64, 2)]


@pytest.mark.parametrize("name", SMALL)
def test_blocks_follow_each_other_without_a_gap(name: str) -> None:
    blocks = list(iter_blocks(SMALL[name]))
    assert blocks[0].kind is BlockKind.TRACE
    assert all(block.whole for block in blocks)
    for one, next_one in pairwise(blocks):
        assert one.end == next_one.offset
        assert one.start + one.size <= one.end


def test_netperf_blocks_have_no_header_fields() -> None:
    for name in ("NetPerf 1", "NetPerf 2", "NetPerf 3"):
        assert all(fields == {} for _, fields in shown(name))


def test_header_of_a_cut_block_shows_what_is_there() -> None:
    data = SMALL["nettrace 6"]
    block = next(block for block in iter_blocks(data) if block.kind is BlockKind.EVENT)
    cut = list(iter_blocks(data[: block.start + 4]))[-1]
    assert not cut.whole
    assert header_fields(cut, data) == {"header_size": 20, "flags": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="memory that nobody touches takes room elsewhere")
@pytest.mark.parametrize("limit", [None, 1 << 31, 1 << 32, 1 << 70])
@pytest.mark.parametrize("form", ["compiled", "fallback"])
def test_size_with_the_sign_bit_is_damage(form: str, limit: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "fallback":
        without_kernels(monkeypatch)
    data = SMALL["nettrace 5"]
    block = next(block for block in iter_blocks(data) if block.kind is BlockKind.EVENT)
    with mmap.mmap(-1, block.start + (1 << 31) + 1) as memory:
        memory[: block.start + 20] = data[: block.start + 20]
        at = data.index(struct.pack("<i", block.size), block.offset)
        memory[at : at + 4] = struct.pack("<I", 1 << 31)
        memory[-1] = 6
        with memoryview(memory) as view:
            framer = Framer(limit=limit)
            while framer.usual_run(view, 0) or framer.next(view, 0, final=True):
                assert framer.position <= block.offset
    assert "EventBlock" in str(framer.error)
    assert "block size -2147483648" in str(framer.error)


def test_limit_of_a_block_may_be_any_number() -> None:
    reader = Reader(block_limit=1 << 70)
    assert sum(map(len, reader.feed(SMALL["nettrace 5"])))
    assert reader.damage is None
