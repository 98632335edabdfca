"""Segments of a capture: in any order, twice, overlapping, with holes, around the end of the sequence numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.recipes.tcp_way import MOST_HELD, MOST_SEGMENTS, TcpWay

DATA = bytes(range(200))


def test_segments_in_order_come_as_they_are() -> None:
    way = TcpWay()
    assert way.feed(5, b"ab") == [b"ab"]
    assert way.feed(7, b"c") == [b"c"]
    assert way.end() == []


def test_a_hole_is_told_once_nothing_can_fill_it() -> None:
    way = TcpWay()
    way.begin(1)
    assert way.feed(11, b"xy") == []
    assert way.has_hole
    assert way.end() == [10, b"xy"]
    full = TcpWay()
    full.begin(0)
    assert full.feed(5, bytes(MOST_HELD)) == []
    assert full.feed(5 + MOST_HELD, b"z") == [5, bytes(MOST_HELD), b"z"]
    many = TcpWay()
    many.begin(0)
    found = [part for number in range(MOST_SEGMENTS + 1) for part in many.feed(2 * number + 1, b"a")]
    assert found == [1, b"a"]


def test_what_was_not_captured_of_a_segment_is_told_in_its_place() -> None:
    way = TcpWay()
    assert way.feed(1, b"ab", 3) == [b"ab", 3]
    assert way.feed(6, b"", 2) == [2]
    assert way.feed(1, b"ab", 3) == []
    assert way.feed(9, b"later") == []
    assert way.feed(8, b"x", 0) == [b"x", b"later"]
    again = TcpWay()
    again.begin(1)
    assert again.feed(2, b"b", 2) == []
    assert again.feed(2, b"bcd") == []  # said again, and captured whole
    assert again.feed(1, b"a") == [b"a", b"bcd"]


def test_the_end_tells_what_is_missing_before_it() -> None:
    way = TcpWay()
    assert way.feed(2**32 - 2, b"ab") == [b"ab"]
    assert not way.knows_its_end
    way.finish(3)
    assert way.knows_its_end
    assert not way.has_ended
    assert way.feed(2, b"e") == []
    assert way.feed(0, b"cd") == [b"cd", b"e"]
    assert way.has_ended
    assert way.end() == []
    cut = TcpWay()
    cut.feed(1, b"ab")
    cut.finish(10)
    assert cut.end() == [7]
    assert cut.has_ended
    silent = TcpWay()
    silent.finish(77)
    assert silent.has_ended


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.tuples(st.integers(0, 199), st.integers(1, 60)), max_size=20),
    st.randoms(use_true_random=False),
)
def test_whatever_the_order_every_byte_comes_once(first: int, extra: list[tuple[int, int]], random: object) -> None:
    cuts = [(at, 20) for at in range(0, 200, 20)] + extra
    random.shuffle(cuts)  # type: ignore[attr-defined]
    way = TcpWay()
    way.begin(first)
    found: list[bytes | int] = []
    for at, size in cuts:
        found += way.feed((first + at) % 2**32, DATA[at : at + size])
    assert b"".join(part for part in found if isinstance(part, bytes)) == DATA
    assert not any(isinstance(part, int) for part in found)
