"""One message of the protocol, and bytes in any cut."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.errors import ProtocolError, UsageError
from dotnetdiag.ipc.frames import MAGIC, Frame, FrameHeader, FrameReader


def test_a_frame_has_these_bytes() -> None:
    frame = Frame(command_set=0x12, command_id=0x34, payload=b"abc", reserved=0x5678)
    assert frame.pack().hex() == "444f544e45545f4950435f563100" + "1700" + "12" + "34" + "7856" + "616263"
    assert Frame.parse(frame.pack()) == frame
    assert frame.code == 0x1234
    header = FrameHeader.parse(frame.pack())
    assert (header.size, header.command_set, header.command_id, header.reserved) == (23, 0x12, 0x34, 0x5678)
    assert Frame.parse(memoryview(frame.pack())) == frame


def test_a_header_says_how_much_follows() -> None:
    for size in (20, 21, 39, 40, 41, 255, 65535):
        assert FrameHeader.parse(header(size)).size == size
    assert FrameHeader(size=20, command_set=0, command_id=0).reserved == 0


def test_a_message_has_65535_bytes_at_most() -> None:
    whole = Frame(command_set=1, command_id=2, payload=bytes(65515)).pack()
    assert len(whole) == 65535
    assert Frame.parse(whole).pack() == whole
    reader = FrameReader()
    assert reader.feed(whole[:-1]) is None
    assert reader.wanted == 1
    frame = reader.feed(whole[-1:])
    assert frame is not None
    assert frame.pack() == whole
    with pytest.raises(UsageError) as caught:
        Frame(command_set=2, command_id=3, payload=bytes(65516)).pack()
    assert str(caught.value) == "CollectTracing2: 65536 bytes are more than a message's 65535"


@pytest.mark.parametrize(
    ("command_set", "command_id", "reserved"),
    [(256, 0, 0), (-1, 0, 0), (0, 256, 0), (0, -1, 0), (0, 0, 65536), (0, 0, -1)],
)
def test_numbers_that_do_not_fit_the_header_are_usage_errors(command_set: int, command_id: int, reserved: int) -> None:
    frame = Frame(command_set=command_set, command_id=command_id, reserved=reserved)
    with pytest.raises(UsageError) as caught:
        frame.pack()
    assert str(caught.value) == (
        f"command set {command_set} and id {command_id} are bytes, reserved {reserved} has 16 bits"
    )


def test_the_largest_and_smallest_numbers_fit() -> None:
    for byte, word in ((0, 0), (255, 65535)):
        frame = Frame(command_set=byte, command_id=byte, reserved=word)
        assert Frame.parse(frame.pack()) == frame


def header(size: int, magic: bytes = MAGIC) -> bytes:
    return struct.pack("<14sHBBH", magic, size, 4, 0, 0)


@pytest.mark.parametrize(
    ("data", "problem", "offset"),
    [
        (b"", "0 bytes are too few for a header of 20", 0),
        (header(20)[:19], "19 bytes are too few for a header of 20", 0),
        (header(19), "size 19 is less than the header", 14),
        (header(0), "size 0 is less than the header", 14),
        (header(19, b"HTTP/1.1 400 B"), "size 19 is less than the header", 14),  # the size first, as runtimes do
        (header(20, b"HTTP/1.1 400 B"), "magic is b'HTTP/1.1 400 B', not DOTNET_IPC_V1", 0),
        (header(20, b"ABCDEFGHIJKLMN"), "magic is b'ABCDEFGHIJKLMN', not DOTNET_IPC_V1", 0),
        (header(20, MAGIC[:13] + b"2"), "magic is b'DOTNET_IPC_V12', not DOTNET_IPC_V1", 0),
    ],
)
def test_a_header_that_is_none_is_refused(data: bytes, problem: str, offset: int) -> None:
    for parse in (FrameHeader.parse, Frame.parse):
        with pytest.raises(ProtocolError) as caught:
            parse(data)
        assert (caught.value.problem, caught.value.offset, caught.value.where) == (problem, offset, "message")


@pytest.mark.parametrize(("size", "there"), [(21, 20), (20, 21), (65535, 20)])
def test_a_message_is_exactly_as_long_as_it_says(size: int, there: int) -> None:
    with pytest.raises(ProtocolError) as caught:
        Frame.parse(header(size) + bytes(there - 20))
    assert str(caught.value) == f"message at 0xe: header says {size} bytes, there are {there}"


# the reader -----------------------------------------------------------------------------------------------------------------

FRAMES = st.lists(
    st.builds(
        Frame,
        command_set=st.integers(0, 255),
        command_id=st.integers(0, 255),
        payload=st.binary(max_size=40),
        reserved=st.integers(0, 65535),
    ),
    max_size=5,
)


@given(FRAMES, st.lists(st.integers(1, 50), min_size=1), st.binary(max_size=19))
def test_several_frames_come_out_of_any_cuts(frames: list[Frame], cuts: list[int], rest: bytes) -> None:
    stream = b"".join(frame.pack() for frame in frames) + rest
    reader, found, at, turn = FrameReader(), [], 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        turn += 1
        frame = reader.feed(stream[at : at + size])
        at += size
        while frame is not None:
            found.append(frame)
            # a second frame may be there already, whole, and then nothing is wanted for it
            frame = reader.feed(b"") if len(reader.leftover) < 20 or not reader.wanted else None
    assert found == frames
    assert reader.leftover == rest
    assert reader.wanted == 20 - len(rest)


@given(FRAMES.filter(bool))
def test_a_reader_that_is_given_what_it_wants_takes_no_byte_of_the_next_frame(frames: list[Frame]) -> None:
    stream, at, reader = b"".join(frame.pack() for frame in frames), 0, FrameReader()
    found = []
    while at < len(stream):
        wanted = reader.wanted
        assert wanted > 0
        frame = reader.feed(stream[at : at + wanted])
        at += wanted
        if frame is not None:
            assert reader.leftover == b""
            found.append(frame)
    assert found == frames


def test_nothing_is_wanted_while_a_frame_is_there() -> None:
    one, two = (Frame(command_set=1, command_id=number, payload=b"x" * number) for number in (1, 2))
    reader = FrameReader()
    assert reader.wanted == 20
    assert reader.feed(one.pack() + two.pack()) == one
    assert reader.leftover == two.pack()
    assert reader.wanted == 0
    assert reader.feed(b"") == two
    assert reader.feed(b"") is None
    assert reader.wanted == 20
    assert reader.feed(one.pack()[:20]) is None
    assert reader.wanted == 1


@pytest.mark.parametrize("bad", [header(19), header(20, b"HTTP/1.1 400 B")])
def test_after_an_error_a_reader_says_so_again_and_takes_nothing_more(bad: bytes) -> None:
    reader = FrameReader()
    assert reader.feed(bad[:19]) is None
    with pytest.raises(ProtocolError) as first:
        reader.feed(bad[19:])
    good = Frame(command_set=1, command_id=1).pack()
    for _ in range(3):
        with pytest.raises(ProtocolError) as again:
            reader.feed(good)
        assert again.value is first.value
        with pytest.raises(ProtocolError) as again:
            _ = reader.wanted
        assert again.value is first.value
    assert reader.leftover == bad


def test_an_error_in_the_second_frame_leaves_the_first() -> None:
    good = Frame(command_set=1, command_id=1)
    reader = FrameReader()
    assert reader.feed(good.pack() + header(3)) == good
    with pytest.raises(ProtocolError, match="size 3"):
        reader.feed(b"")
