"""What travels between rooms is whole, cannot be changed, and is made by name; the steps and kinds, which do not travel, by position."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import pytest
from tests.values import assert_is_a_value, values_of

import dotnetdiag.ipc
from dotnetdiag.ipc.environment import SetEnvironmentVariable
from dotnetdiag.ipc.process import EnablePerfMap
from dotnetdiag.ipc.values import Value

BY_POSITION = {"Dial", "Send", "SendDescriptor", "Receive", "Close", "Unsigned", "Field", "Constant", "Providers"}
KINDS = [kind for kind in values_of(dotnetdiag.ipc) if not issubclass(kind, Value)]
MESSAGE: Any = SetEnvironmentVariable(name="A", value=None)


def test_there_are_many() -> None:
    assert len(KINDS) > 10


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_value_is_frozen_has_slots_and_is_made_by_name(kind: type) -> None:
    assert_is_a_value(kind, kw_only=kind.__name__ not in BY_POSITION)


def test_a_message_is_made_by_name_and_whole() -> None:
    map_kind: Any = EnablePerfMap
    set_kind: Any = SetEnvironmentVariable
    assert EnablePerfMap() == EnablePerfMap(perf_map_type=1, trailing=b"")
    assert EnablePerfMap(perf_map_type=2).perf_map_type == 2
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'value'"):
        set_kind(name="A")
    with pytest.raises(TypeError, match="unexpected keyword argument 'kind'"):
        map_kind(kind=1)
    with pytest.raises(TypeError):
        map_kind(2)


def test_a_message_is_never_changed() -> None:
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        MESSAGE.name = "B"
    with pytest.raises(FrozenInstanceError):
        MESSAGE.other = 1
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'value'"):
        del MESSAGE.value
    assert replace(MESSAGE, value="x") == SetEnvironmentVariable(name="A", value="x")
    assert MESSAGE.value is None


def test_messages_are_compared_by_kind_and_values() -> None:
    assert MESSAGE == SetEnvironmentVariable(name="A", value=None) == pickle.loads(pickle.dumps(MESSAGE))
    assert hash(MESSAGE) == hash(SetEnvironmentVariable(name="A", value=None))
    assert SetEnvironmentVariable(name="A", value="") != MESSAGE
    assert MESSAGE != "SetEnvironmentVariable"
    assert repr(MESSAGE) == "SetEnvironmentVariable(trailing=b'', name='A', value=None)"
    assert all(field.kw_only for field in fields(MESSAGE))
