"""What travels between rooms is whole, cannot be changed, and is made by name; the steps and kinds, which do not travel, by position."""

from __future__ import annotations

import pytest
from tests.values import assert_is_a_value, values_of

import dotnetdiag.ipc

BY_POSITION = {"Dial", "Send", "SendDescriptor", "Receive", "Close", "Unsigned", "Field", "Constant", "Providers"}
KINDS = values_of(dotnetdiag.ipc)


def test_there_are_many() -> None:
    assert len(KINDS) > 50


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_value_is_frozen_has_slots_and_is_made_by_name(kind: type) -> None:
    assert_is_a_value(kind, kw_only=kind.__name__ not in BY_POSITION)
