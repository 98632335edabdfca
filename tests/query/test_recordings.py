"""Recordings that are opened when they are read."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pytest
from tests.nettrace.recordings import data_of

from dotnetdiag.errors import FormatError
from dotnetdiag.query.recordings import KEPT_OPEN, Shelf
from dotnetdiag.trace.trace import Trace


class Counted:
    """A recording that knows whether it is open."""

    name = "counted"

    def __init__(self) -> None:
        self.opened = self.closed = 0

    def open(self) -> Trace:
        self.opened += 1
        return Trace(data_of("gccollect-10.nettrace"))

    def close(self, trace: Trace) -> None:
        self.closed += 1
        trace.close()


def traces(shelf: Shelf, one: Counted) -> Generator[Trace, None, None]:
    """Its trace, open until this is closed."""
    return shelf.each([one], lambda _, trace: [trace])


def test_what_is_read_when_the_shelf_closes_stays_open_until_it_was() -> None:
    """As of a query that was interrupted: another thread reads still."""
    shelf, read, idle = Shelf(), Counted(), Counted()
    assert len(list(traces(shelf, idle))) == 1
    reading = traces(shelf, read)
    trace = next(reading)
    shelf.close()
    assert (idle.closed, read.closed) == (1, 0)
    assert len(trace)
    reading.close()
    assert (read.opened, read.closed) == (1, 1)
    shelf.close()
    assert (read.closed, idle.closed) == (1, 1)


@pytest.mark.parametrize("together", [False, True])
def test_few_stay_open(together: bool) -> None:
    shelf, many = Shelf(), [Counted() for _ in range(2 * KEPT_OPEN + 1)]
    reading = [traces(shelf, one) for one in many]
    for one in reading:
        next(one)
        if not together:
            one.close()
    assert sum(one.opened - one.closed for one in many) == (len(many) if together else KEPT_OPEN)
    for one in reading:
        one.close()
    assert sum(one.opened - one.closed for one in many) == KEPT_OPEN
    shelf.close()
    assert all(one.opened == one.closed for one in many)


def test_one_that_cannot_be_read_to_its_end_is_let_go_of() -> None:
    shelf, one = Shelf(), Counted()

    def read(name: str, trace: Trace) -> Iterable[int]:
        yield 1
        raise FormatError("odd", where=name)

    reading = shelf.each([one], read)
    assert next(reading) == 1
    with pytest.raises(FormatError, match="counted: odd"):
        next(reading)
    assert (one.opened, one.closed) == (1, 0)
    shelf.close()
    assert one.closed == 1
