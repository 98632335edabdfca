"""Small changes of a runtime: looked at as a whole, then made."""

from __future__ import annotations

import pytest

from dotnetdiag.client import Client
from dotnetdiag.errors import DangerousRequest, NotPossible, UsageError
from dotnetdiag.recipes.details import set_variables


class FakeClient(Client):
    """Has a variable ``OLD``; may be a NativeAOT."""

    def __init__(self, *, native: bool = False) -> None:
        self.native = native
        self.changes: list[tuple[str, str | None]] = []

    def environment(self) -> dict[str, str]:  # type: ignore[override]
        return {"OLD": "1"}

    def set_environment_variable(self, name: str, value: str | None) -> None:  # type: ignore[override]
        if value is None and self.native:
            raise DangerousRequest("SetEnvironmentVariable", "removing a variable kills a NativeAOT runtime")
        self.changes.append((name, value))


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("A=1 B=2 C", "C: is no variable of the runtime"),
        ("A=1 OLD C D", "C, D: is no variable"),
        ("A=1 =2", "=2: write NAME=VALUE"),
        ("A=1 B=\udce9", "write NAME=VALUE"),
        ("A=1 OLD A=2", "A: is there twice"),
    ],
)
def test_a_wrong_assignment_is_named_and_nothing_is_set(words: str, problem: str) -> None:
    client = FakeClient()
    with pytest.raises(UsageError) as wrong:
        set_variables(client, words.split())
    assert str(wrong.value).startswith(problem) or problem in str(wrong.value)
    assert client.changes == []


def test_what_would_kill_a_native_aot_is_not_possible_and_nothing_is_set() -> None:
    client = FakeClient(native=True)
    with pytest.raises(NotPossible, match="kills a NativeAOT runtime"):
        set_variables(client, ["A=1", "OLD"])
    assert client.changes == []


def test_variables_are_set_and_removed() -> None:
    client = FakeClient()
    set_variables(client, ["A=1=2", "OLD", "B="])
    assert sorted(client.changes, key=str) == [("A", "1=2"), ("B", ""), ("OLD", None)]
