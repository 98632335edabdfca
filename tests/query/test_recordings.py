"""Recordings that are opened when they are read."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from tests.nettrace.recordings import data_of

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


def test_what_is_read_when_the_shelf_closes_stays_open_until_it_was() -> None:
    """As of a query that was interrupted: another thread reads still."""
    shelf, read, idle = Shelf(), Counted(), Counted()
    with shelf.opened(idle):
        pass
    with shelf.opened(read) as trace:
        shelf.close()
        assert (idle.closed, read.closed) == (1, 0)
        assert len(trace)
    assert (read.opened, read.closed) == (1, 1)
    shelf.close()
    assert (read.closed, idle.closed) == (1, 1)


@pytest.mark.parametrize("together", [False, True])
def test_few_stay_open(together: bool) -> None:
    shelf, many = Shelf(), [Counted() for _ in range(2 * KEPT_OPEN + 1)]
    with ExitStack() as all_of_them:
        for one in many:
            all_of_them.enter_context(shelf.opened(one))
            if not together:
                all_of_them.close()
        assert sum(one.opened - one.closed for one in many) == (len(many) if together else KEPT_OPEN)
    assert sum(one.opened - one.closed for one in many) == KEPT_OPEN
    shelf.close()
    assert all(one.opened == one.closed for one in many)
