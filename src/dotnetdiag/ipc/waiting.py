"""The runtimes that wait at a port of ours, as a table: who is kept, who is resumed, who is dropped (ipc-protocol.md §12, §21.3).

A runtime keeps one connection waiting; it carries one command, then the runtime dials again, at once. Rules:

1. The key is the cookie, not the pid. A newer connection of a cookie replaces the older one.
2. Once one runtime was chosen, each other one is resumed, whenever it dialled and as often as it dials, until it has said that it
   was: what the chosen program starts inherits the port, and would wait at its start for ever. While it is being asked, a newer
   connection of it is kept: it says nothing of what became of the older one.
3. A connection of a runtime that nobody meant is kept, not closed: a runtime dials again without a pause, thousands of times a second.
4. A connection whose runtime is gone is dropped; so is one whose runtime has said something, for it was asked nothing.
5. Who serves one program after another lets go of the chosen one when it is forgotten; until that is known nobody is resumed for its sake.
6. A runtime is there as long as it has a connection, or one that was taken is in use (during a dump it does not dial). Between two it
   has none for a moment: it is forgotten when two looks in a row find none.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Generic, TypeVar
from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.ipc.advertise import Advertise

C = TypeVar("C")
MOST_REMEMBERED = 4096
"""Cookies of runtimes that were resumed. A forgotten one is resumed once more, which harms nobody."""


class Decision(Enum):
    """What to do with a connection that has just said who it is."""

    KEEP = "keep"
    RESUME = "resume"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Generic[C]):
    """One runtime's connection."""

    advertise: Advertise
    connection: C


class WaitingRuntimes(Generic[C]):
    """Who waits. ``C`` is a connection of whatever kind; nothing is done to it here."""

    def __init__(self) -> None:
        self.chosen: UUID | None = None
        self._waiting: dict[UUID, Waiting[C]] = {}
        self._resumed: dict[UUID, None] = {}
        self._asked: set[UUID] = set()
        self._there: dict[UUID, Advertise] = {}
        self._taken: dict[UUID, C] = {}
        self._missed: set[UUID] = set()

    @property
    def there(self) -> tuple[Advertise, ...]:
        """What the runtimes that are there said last, in the order in which they came."""
        return tuple(self._there.values())

    def __len__(self) -> int:
        return len(self._waiting)

    def all_waiting(self) -> tuple[Waiting[C], ...]:
        """Those who wait, the one that came first before the others."""
        return tuple(self._waiting.values())

    def admit(self, advertise: Advertise, connection: C) -> tuple[Decision, C | None]:
        """A runtime has dialled: what to do with the connection, and the older one to close. RESUME: it is the caller's."""
        waiting = self._waiting.pop(advertise.cookie, None)
        older = None if waiting is None else waiting.connection
        self._there[advertise.cookie] = advertise
        if self._is_to_be_resumed(advertise.cookie):
            self._asked.add(advertise.cookie)
            return Decision.RESUME, older
        self._waiting[advertise.cookie] = Waiting(advertise=advertise, connection=connection)
        return Decision.KEEP, older

    def waiting(self, cookie: UUID) -> Waiting[C] | None:
        """The connection that a runtime keeps."""
        return self._waiting.get(cookie)

    def release(self) -> None:
        """The chosen runtime is gone: another one may be chosen."""
        self.chosen = None

    def is_away(self, cookie: UUID, is_in_use: Callable[[C], bool]) -> bool:
        """Whether a runtime has no living connection: neither one that waits, nor one that was taken and is in use."""
        waiting = self._waiting.get(cookie)
        has = [
            *([] if waiting is None else [waiting.connection]),
            *([self._taken[cookie]] if cookie in self._taken else []),
        ]
        return not any(is_in_use(connection) for connection in has)

    def choose(self, is_alive: Callable[[C], bool]) -> Waiting[C] | None:
        """The runtime that was chosen or, the first time, the one that has waited longest and still lives; None: nobody."""
        if self.chosen is None:
            found = next((one for one in self._waiting.values() if is_alive(one.connection)), None)
            if found is None:
                return None
            self.chosen = found.advertise.cookie
        return self._waiting.get(self.chosen)

    def to_resume(self) -> list[Waiting[C]]:
        """Those that are to be resumed and dialled before that was so; they are the caller's from now on."""
        cookies = [cookie for cookie in self._waiting if self._is_to_be_resumed(cookie)]
        self._asked.update(cookies)
        return [self._waiting.pop(cookie) for cookie in cookies]

    def resumed(self, cookie: UUID) -> None:
        """The runtime has said that it runs."""
        self._asked.discard(cookie)
        self._resumed[cookie] = None
        while len(self._resumed) > MOST_REMEMBERED:
            del self._resumed[next(iter(self._resumed))]

    def not_resumed(self, cookie: UUID) -> None:
        """The runtime was asked, and has not answered: it is to be resumed when it dials again, or has."""
        self._asked.discard(cookie)

    def take(self, cookie: UUID) -> C | None:
        """The connection of a runtime, for one command; it is the caller's, dead or alive."""
        found = self._waiting.pop(cookie, None)
        if found is None:
            return None
        self._taken[cookie] = found.connection
        return found.connection

    def forget(self, is_in_use: Callable[[C], bool]) -> list[UUID]:
        """The runtimes that are not there any more; to be called at intervals that are longer than a runtime needs to dial again."""
        self._taken = {cookie: one for cookie, one in self._taken.items() if is_in_use(one)}
        missing = {cookie for cookie in self._there if cookie not in self._waiting and cookie not in self._taken}
        forgotten = [cookie for cookie in self._there if cookie in missing & self._missed]
        for cookie in forgotten:
            del self._there[cookie]
        self._missed = missing - self._missed
        return forgotten

    def gone(self, is_alive: Callable[[C], bool]) -> list[C]:
        """The connections whose runtimes have gone, for the caller to close."""
        dead = [cookie for cookie, one in self._waiting.items() if not is_alive(one.connection)]
        return [self._waiting.pop(cookie).connection for cookie in dead]

    def clear(self) -> list[C]:
        """All connections, for the caller to close."""
        left = [one.connection for one in self._waiting.values()]
        self._waiting.clear()
        self._there.clear()
        return left

    def _is_to_be_resumed(self, cookie: UUID) -> bool:
        return self.chosen not in (None, cookie) and cookie not in self._resumed and cookie not in self._asked
