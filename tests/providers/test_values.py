"""What travels between rooms is whole, cannot be changed, and is made by name."""

from __future__ import annotations

import pytest
from tests.values import assert_is_a_value, values_of

import dotnetdiag.providers


@pytest.mark.parametrize("kind", values_of(dotnetdiag.providers), ids=lambda kind: kind.__name__)
def test_a_value_is_frozen_has_slots_and_is_made_by_name(kind: type) -> None:
    assert_is_a_value(kind)
