"""Commands by age, against the table that was measured (ipc-protocol.md §21.6)."""

from __future__ import annotations

import itertools

import pytest

from dotnetdiag.ipc.commands import Command
from dotnetdiag.server.ages import NEWEST, Age

MEASURED = {
    Age.NET_CORE_3_1: {0x0101, 0x0201, 0x0202, 0x0203, 0x0301},
    Age.NET_8: set(Command) - {0x0204, 0x0205, 0x0206, 0x0207},
    Age.NET_9: set(Command) - {0x0206, 0x0207},
    Age.NET_10: set(Command) - {0x0207},
}


@pytest.mark.parametrize("age", MEASURED)
def test_an_age_knows_what_was_measured(age: Age) -> None:
    assert set(age.commands) == MEASURED[age]


def test_the_newest_age_knows_everything() -> None:
    assert set(NEWEST.commands) == set(Command)


def test_an_age_knows_all_that_older_ones_do() -> None:
    ages = list(Age)
    assert all(older.commands <= newer.commands for older, newer in itertools.pairwise(ages))
