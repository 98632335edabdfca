"""What a reader may keep of a file's definitions (docs/limits.md). Further ones are not kept, and that is told once."""

from __future__ import annotations

from collections import Counter

from dotnetdiag.nettrace.remarks import Remarks

COST, PARSED_COST, NESTED_TYPE_COST, ID_COST = 600, 32, 64, 160
"""Bytes that a definition takes, each byte of it once it is a tree of values, each array type (which is one byte), and an id."""
BEYOND = "definitions beyond what a reader keeps"


class Budget:
    """So many bytes, spent on definitions by their kinds."""

    def __init__(self, size_bytes: int, remarks: Remarks) -> None:
        self.left = size_bytes
        self._spent: Counter[str] = Counter()
        self._remarks = remarks

    def affords(self, what: str, cost: int, offset: int) -> bool:
        """Whether one more definition fits, and from now on it is paid for."""
        if not self.has_room(cost, offset):
            return False
        self.left -= cost
        self._spent[what] += cost
        return True

    def has_room(self, cost: int, offset: int) -> bool:
        """Whether so many bytes may be taken at all."""
        if cost <= self.left:
            return True
        self._remarks.warn(BEYOND, offset)
        return False

    def refuse(self, offset: int, count: int) -> None:
        """So many definitions have no room."""
        self._remarks.warn(BEYOND, offset, count)

    def add(self, what: str, cost: int) -> None:
        """So much more was taken."""
        self.set(what, self._spent[what] + cost)

    def set(self, what: str, cost: int = 0) -> None:
        """What there is of such definitions takes so much."""
        self.left += self._spent[what] - cost
        self._spent[what] = cost


def parsed_cost(size: int) -> int:
    """Bytes that a definition of ``size`` bytes in the file takes."""
    return COST + PARSED_COST * size
