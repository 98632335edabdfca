from __future__ import annotations

from collections.abc import Callable
from typing import SupportsIndex

import pytest

from dotnetdiag.transport.refcount import RefCount


def test_the_last_one_who_releases_frees() -> None:
    said: list[str] = []
    refs = RefCount(lambda: said.append("freed"))
    assert refs.acquire()
    assert refs.acquire()
    refs.close(lambda: said.append("woken"))
    refs.close(lambda: said.append("woken twice"))
    assert said == ["woken"]
    assert not refs.acquire()
    refs.release()
    assert said == ["woken"]
    refs.release()
    assert said == ["woken", "freed"]


def test_nobody_uses_it() -> None:
    said: list[str] = []
    refs = RefCount(lambda: said.append("freed"))
    refs.close(lambda: None)
    assert said == ["freed"]


class Interrupted(list[bool]):
    """A list at whose steps a signal comes, before or after them: its handler calls ``handler``, once."""

    def __init__(self, at: int, handler: Callable[[], None]) -> None:
        super().__init__()
        self.left, self.handler = at, handler

    def _moment(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.handler()

    def append(self, item: bool) -> None:
        self._moment()
        super().append(item)
        self._moment()

    def pop(self, index: SupportsIndex = -1) -> bool:
        self._moment()
        item = super().pop(index)
        self._moment()
        return item


@pytest.mark.parametrize("moment", range(1, 13))
def test_a_close_that_interrupts_any_step_frees_once_and_waits_for_nothing(moment: int) -> None:
    """Two uses and a close of the interrupted: twelve moments."""
    said: list[str] = []
    refs = RefCount(lambda: said.append("freed"))
    refs._users = Interrupted(moment, lambda: refs.close(lambda: said.append("woken")))
    for _ in range(2):
        if refs.acquire():
            assert "freed" not in said, "it is in use"
            refs.release()
    refs.close(lambda: said.append("woken"))
    assert said.count("freed") == 1
    assert said.count("woken") == 1 or moment > 8
    assert not refs.acquire()
