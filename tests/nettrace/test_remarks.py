"""Of several damaged places the first in the file is told, in whatever order they are found; oddities are counted by kind."""

from __future__ import annotations

from itertools import permutations

from tests.nettrace.by_hand import block, event, event_type, events, metadata, stacks, thread, threads, trace

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace import BlockKind, Reader, iter_blocks, read
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
