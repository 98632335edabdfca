"""The connections that have been accepted on one side: how many there may be, and how many of them may be strangers.

Rule 1: each side has places of its own. Who crowds the one does not shut out the other, nor who asks for the status.
Rule 2: a stranger, who has not shown who he is (certificate, token, advertise) or what he wants, takes a place among ``most_strangers``
only. One that comes when half of those are taken has ``HURRY_S`` to do it; so others behind him get their turn soon, however many are silent.
"""

from __future__ import annotations

from collections.abc import Callable

MOST_STRANGERS = 256
"""Of a side, at the same time."""
HURRY_S = 0.25
"""What the reference client allows a runtime for its 34 bytes (ipc-protocol.md §12). Longer than a packet to the other side of the world
and back takes."""


class Places:
    """``others`` counts the connections of this side that were accepted and are somebody else's by now."""

    def __init__(
        self, most: int, *, most_strangers: int = MOST_STRANGERS, others: Callable[[], int] = lambda: 0
    ) -> None:
        self._most, self._most_strangers, self._others = most, most_strangers, others
        self._taken: set[Place] = set()
        self._strangers: set[Place] = set()

    def has_room(self) -> bool:
        """Whether one more may be accepted."""
        return len(self._strangers) < self._most_strangers and len(self._taken) + self._others() < self._most

    def take(self) -> Place:
        """For a stranger."""
        place = Place(self, in_a_hurry=2 * len(self._strangers) >= self._most_strangers)
        self._taken.add(place)
        self._strangers.add(place)
        return place

    def leave(self, place: Place) -> None:
        self._taken.discard(place)
        self._strangers.discard(place)

    def introduce(self, place: Place) -> None:
        self._strangers.discard(place)

    def is_stranger(self, place: Place) -> bool:
        return place in self._strangers


class Place:
    """Of one connection, until ``leave``. ``in_a_hurry``: it has ``HURRY_S`` to show who it is."""

    def __init__(self, places: Places, *, in_a_hurry: bool) -> None:
        self._places, self.in_a_hurry = places, in_a_hurry

    @property
    def is_strangers(self) -> bool:
        return self._places.is_stranger(self)

    def introduce(self) -> None:
        """It has shown who it is, and what it wants."""
        self._places.introduce(self)

    def leave(self) -> None:
        """It has ended."""
        self._places.leave(self)
