"""What a scripted runtime does wrong: its texts, and what becomes of bytes."""

from __future__ import annotations

import pytest

from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.ipc.replies import SessionReply
from dotnetdiag.testing.misbehaviour import Misbehaviour

REPLY = SessionReply(session_id=5).pack()
TEXTS = {
    "delay:2s": Misbehaviour(delay_s=2),
    "garbage": Misbehaviour(garbage_from=0),
    "garbage:28": Misbehaviour(garbage_from=28),
    "close:0x1c": Misbehaviour(close_at=28),
    "silent": Misbehaviour(silent=True),
    "Ignore": Misbehaviour(ignores=True),
    "error": Misbehaviour(hresult=0x80004005),
    "error:0x80131515": Misbehaviour(hresult=0x80131515),
    "magic": Misbehaviour(wrong_magic=True),
    "size:7": Misbehaviour(size=7),
    "delay:1m + close:3": Misbehaviour(delay_s=60, close_at=3),
}


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_what_it_says(text: str) -> None:
    assert Misbehaviour.parse(text) == TEXTS[text]


@pytest.mark.parametrize(
    "text", ["", "nonsense", "delay", "delay:2", "close", "close:x", "silent:1", "delay:1s+", "size:"]
)
def test_a_text_that_is_none_says_what_to_write(text: str) -> None:
    with pytest.raises(GrammarError, match="write delay:2s"):
        Misbehaviour.parse(text)


@pytest.mark.parametrize("text", ["size:65536", "close:-1", "garbage:-1"])
def test_a_number_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        Misbehaviour.parse(text)


def test_good_bytes_stay_as_they_are() -> None:
    assert Misbehaviour().spoil(REPLY) == REPLY


def test_a_wrong_magic_is_the_first_bytes_alone() -> None:
    spoiled = Misbehaviour(wrong_magic=True).spoil(REPLY)
    assert spoiled[:14] != REPLY[:14]
    assert spoiled[14:] == REPLY[14:]
    assert Misbehaviour(wrong_magic=True).spoil(REPLY, 28) == REPLY


def test_a_size_that_lies_is_the_two_bytes_of_the_header_alone() -> None:
    spoiled = Misbehaviour(size=0x1234).spoil(REPLY)
    assert spoiled == REPLY[:14] + b"\x34\x12" + REPLY[16:]


@pytest.mark.parametrize("at", range(40))
def test_what_is_cut_is_the_same_whether_the_bytes_come_whole_or_in_two(at: int) -> None:
    data = bytes(range(40))
    for what in (Misbehaviour(close_at=17), Misbehaviour(garbage_from=17), Misbehaviour(garbage_from=9, close_at=30)):
        assert what.spoil(data) == what.spoil(data[:at]) + what.spoil(data[at:], at)


def test_garbage_begins_where_it_is_said() -> None:
    spoiled = Misbehaviour(garbage_from=20).spoil(bytes(100_000))
    assert spoiled[:20] == bytes(20)
    assert len(set(spoiled[20:])) == 256
