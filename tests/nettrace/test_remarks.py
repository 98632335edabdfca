"""Of several damaged places the first in the file is told, in whatever order they are found; oddities are counted by kind."""

from __future__ import annotations

from itertools import permutations

import pytest
from tests.nettrace.by_hand import block, event, event_type, events, metadata, stacks, thread, threads, trace
from tests.nettrace.kernel_forms import without_kernels

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace import BlockKind, Reader, arena, fallback, iter_blocks, read, scan
from dotnetdiag.nettrace.constants import WARNINGS_LIMIT
from dotnetdiag.nettrace.remarks import Remarks


def test_first_of_three_damages_is_told_in_whatever_order_they_are_found() -> None:
    for order in permutations((10, 20, 30)):
        remarks = Remarks()
        for offset in order:
            remarks.add_damage(FormatError(f"at {offset}", offset=offset, where=f"Block at {offset:x}"))
        assert remarks.error is not None
        assert remarks.error.offset == 10
        assert remarks.warnings == ["damaged Block: 3, first at 0xa"]


def test_file_with_two_broken_blocks_says_where_the_first_is() -> None:
    cut = b"\xc1\x01"  # an event that states its type, and ends there
    data = trace(
        metadata(event_type(1)),
        threads(thread(1)),
        events(cut),
        stacks(1, 7),
        events(event(1)),
        block(BlockKind.STACK, b"1234"),
    )
    broken = next(each for each in iter_blocks(data) if each.kind is BlockKind.EVENT)
    contents, reader = read(data), Reader()
    assert contents.damage_offset is not None
    assert broken.start < contents.damage_offset < broken.end
    reader.feed(data)
    reader.close()
    assert (reader.damage, reader.damage_offset) == (contents.damage, contents.damage_offset)
    assert len(contents) == 1


def test_kinds_of_oddities_and_of_unknown_blocks_are_bounded() -> None:
    remarks = Remarks()
    for number in range(WARNINGS_LIMIT + 5):
        remarks.warn(f"kind {number}", number)
        remarks.skip(f"Block{number}")
    remarks.warn("kind 3", 1, 4)
    assert len(remarks.warnings) == WARNINGS_LIMIT
    assert "kind 3: 5, first at 0x1" in remarks.warnings
    assert len(remarks.skipped) == WARNINGS_LIMIT + 1
    assert remarks.skipped["others"] == 5


def test_what_is_said_of_the_first_place_may_come_with_a_later_piece_of_it() -> None:
    remarks = Remarks()
    for offset, detail in ((20, ""), (20, " (id 5)"), (20, " (id 6)"), (30, " (id 7)")):
        remarks.warn("odd", offset, detail=detail)
    assert remarks.warnings == ["odd: 4, first at 0x14 (id 5)"]
    remarks.warn("odd", 10)
    assert remarks.warnings == ["odd: 5, first at 0xa"]


@pytest.mark.parametrize("form", ["compiled", "fall-back"])
def test_an_unknown_id_is_told_alike_whether_a_block_is_decoded_whole_or_in_pieces(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "fall-back":
        without_kernels(monkeypatch)
    for module in (arena, fallback):
        monkeypatch.setattr(module, "BATCH_ROWS", 10)
    data = trace(metadata(event_type(1)), events(*[b"\0\0"] * 30, event(5)))
    contents, scanned, reader = read(data), scan(data), Reader()
    assert len(list(scanned.iter_batches())) + len(list(reader.feed(data))) > 2
    reader.close()
    assert contents.warnings == scanned.warnings == reader.warnings
    assert contents.warnings[0] == "events with an unknown metadata id: 31, first at 0x50 (id 5)"
