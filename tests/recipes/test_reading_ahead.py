"""Bytes that a thread receives ahead are those of the session, in its order, and what ends it ends who reads."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

from dotnetdiag.client import TraceSession
from dotnetdiag.errors import ConnectionEnded, TimedOut
from dotnetdiag.recipes import reading_ahead
from dotnetdiag.recipes.reading_ahead import ReadingAhead

WAIT_S = 10.0


class Session:
    """Says what it is given: bytes, silence (None), an error; then its end."""

    problem: Exception | None = None

    def __init__(self, said: Sequence[bytes | Exception | None]) -> None:
        self._said: Iterator[bytes | Exception | None] = iter(said)
        self._rest = b""
        self.threads: set[int] = set()

    def read_into(self, view: memoryview, *, timeout_s: float) -> int:
        self.threads.add(threading.get_ident())
        data = self._rest or next(self._said, b"")
        if data is None:
            raise TimedOut("nothing arrived", timeout_s=timeout_s)
        if isinstance(data, Exception):
            raise data
        size = min(len(data), len(view))
        view[:size], self._rest = data[:size], data[size:]
        return size


def filled(session: Session, view: memoryview, *, timeout_s: float, quiet_s: float) -> int:
    size = session.read_into(view, timeout_s=timeout_s)
    with suppress(TimedOut):
        while 0 < size < len(view) and (more := session.read_into(view[size:], timeout_s=quiet_s)):
            size += more
    return size


@pytest.fixture(autouse=True)
def _made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_ahead, "fill_from", filled)


def ahead(*said: bytes | Exception | None) -> tuple[ReadingAhead, Session]:
    session = Session(said)
    return ReadingAhead(cast(TraceSession, cast(Any, session))), session


def all_of(reading: ReadingAhead) -> bytes:
    data = b""
    while piece := read(reading):
        data += piece
    return data


def read(reading: ReadingAhead) -> bytes:
    """The next piece, before which there is room."""
    found = reading.read(WAIT_S)
    assert found is not None
    memory, start, end = found
    memory[:start] = bytes(start)
    return bytes(memory[start:end])


def test_all_bytes_come_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_ahead, "PIECE_BYTES", 100)
    chance = random.Random(3)
    said = [chance.randbytes(chance.randrange(1, 250)) for _ in range(200)]
    reading, session = ahead(*said)
    assert all_of(reading) == b"".join(said)
    assert session.threads.isdisjoint({threading.get_ident()})


def test_what_came_before_a_silence_is_given_out() -> None:
    reading, _ = ahead(None, b"one", b"two", None, None, b"three")
    assert read(reading) == b"onetwo"
    assert all_of(reading) == b"three"


def test_what_breaks_a_session_is_raised_behind_what_came() -> None:
    reading, _ = ahead(b"one", None, ConnectionEnded("gone"))
    assert read(reading) == b"one"
    with pytest.raises(ConnectionEnded, match="gone"):
        reading.read(WAIT_S)


def test_nothing_for_so_long_is_none() -> None:
    silence = threading.Event()

    class Silent(Session):
        def read_into(self, view: memoryview, *, timeout_s: float) -> int:
            assert silence.wait(WAIT_S)
            return super().read_into(view, timeout_s=timeout_s)

    reading = ReadingAhead(cast(TraceSession, cast(Any, Silent([b"x"]))))
    assert reading.read(0.001) is None
    silence.set()
    assert all_of(reading) == b"x"


def test_nobody_reads_any_more_and_the_thread_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading_ahead, "PIECE_BYTES", 1)
    before = set(threading.enumerate())
    reading, _ = ahead(b"many pieces, more than wait")
    assert read(reading) == b"m"
    own = set(threading.enumerate()) - before
    reading.close()
    for thread in own:
        thread.join(WAIT_S)
        assert not thread.is_alive()


def test_a_session_that_did_not_end_in_time_is_broken_and_not_over() -> None:
    late = TimedOut("the session did not end", timeout_s=0.0)
    session = Session([late])
    session.problem = late
    reading = ReadingAhead(cast(TraceSession, cast(Any, session)))
    with pytest.raises(TimedOut, match="did not end"):
        reading.read(WAIT_S)
