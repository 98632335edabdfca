"""What waits to be sent to a collector, and the thread that sends it: who has something to send never waits.

Rule 1: there is room for so many records (data points, log records, spans), of all signals together; beyond it the oldest go, and are counted.
Rule 2: what a collector does not answer to is sent again, later and later; what it refuses is not. Signals do not wait for each other.
Rule 3: :meth:`Outbox.finish` has a limit, behind which nothing of it goes on.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dotnetdiag.recipes.collector import Delivery, Signal

ROOM = 100_000
"""Records: an hour of the counters of one process, some 30 MB."""
BATCH = 4000
"""Records of one request: about 1 MB, of the 4 MB that gRPC servers take as a rule."""
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 15.0
"""Before something is sent again; twice as long each time. The exporters have tried for some seconds before."""
FINISH_S = 5.0
QUIET_S = 10.0
"""So often the same is said at most."""
CLOSING_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Something of one signal to be sent, of ``records`` records."""

    signal: Signal
    content: Any
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorAway:
    """It does not answer, or not now."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorBack:
    """It has taken something again, after ``seconds``."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """It will not have ``records`` records of a signal."""

    signal: Signal
    records: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """So many records were dropped since it was said last: there was no room for them."""

    records: int


Notice = CollectorAway | CollectorBack | Refused | Dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What has become of all records, by signal: sent, dropped for want of room or of time, refused."""

    sent: Mapping[Signal, int] = field(default_factory=dict)
    dropped: Mapping[Signal, int] = field(default_factory=dict)
    refused: Mapping[Signal, int] = field(default_factory=dict)


class Sender(Protocol):
    """What takes parcels of one signal to the collector."""

    def send(self, signal: Signal, contents: Sequence[Any]) -> Delivery:
        """All of them in one request."""

    def close(self) -> None:
        """From another thread: end what is being sent."""


class Outbox:
    """Begins with its thread. ``notice`` is called in that thread, or in the one that puts."""

    def __init__(
        self,
        sender: Sender,
        notice: Callable[[Notice], None] = lambda _: None,
        *,
        room: int = ROOM,
        batch: int = BATCH,
        first_wait_s: float = FIRST_WAIT_S,
    ) -> None:
        self._sender, self._notice = sender, notice
        self._room, self._batch, self._first_wait_s = room, batch, first_wait_s
        self._changed = threading.Condition()
        self._waiting: dict[Signal, deque[tuple[int, Parcel]]] = {signal: deque() for signal in Signal}
        self._under_way: tuple[Signal, int] | None = None
        """What is being sent: records of a signal."""
        self._size = self._next = self._unsaid = 0
        self._sent: Counter[Signal] = Counter()
        self._dropped: Counter[Signal] = Counter()
        self._refused: Counter[Signal] = Counter()
        self._again_s: dict[Signal, tuple[float, float]] = {}
        """Of a signal that was not taken: when it is sent again, and how long it waits then."""
        self._away_s: float | None = None
        self._said: dict[object, float] = {}
        self._is_finishing = self._is_last_try = self._is_over = False
        self._thread = threading.Thread(target=self._run, name="dotnetdiag outbox", daemon=True)
        self._thread.start()

    def put(self, parcel: Parcel) -> None:
        """Have it sent. Does not wait."""
        with self._changed:
            self._waiting[parcel.signal].append((self._next, parcel))
            self._next += 1
            self._size += parcel.records
            self._make_room()
            self._changed.notify_all()
        self._say_dropped()

    def on_trouble(self, why: str) -> None:
        """A try has failed, and there will be another: said once, until it answers again."""
        with self._changed:
            if self._away_s is not None:
                return
            self._away_s = time.monotonic()
        self._notice(CollectorAway(why=why))

    def totals(self) -> Sent:
        """By now."""
        with self._changed:
            return Sent(sent=dict(self._sent), dropped=dict(self._dropped), refused=dict(self._refused))

    def finish(self, limit_s: float = FINISH_S) -> Sent:
        """Send the rest, for so long at most; what is left then is dropped."""
        with self._changed:
            self._is_finishing = True
            self._again_s = {}
            self._changed.notify_all()
        self._thread.join(limit_s)
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._sender.close()
        self._thread.join(CLOSING_S)
        with self._changed:
            for signal in Signal:
                self._drop_all(signal)
            if self._under_way is not None:  # nobody knows whether it has come
                self._dropped[self._under_way[0]] += self._under_way[1]
                self._under_way = None
        return self.totals()

    # the thread ---------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (parcels := self._taken()) is not None:
            signal = parcels[0][1].signal
            delivery = self._sender.send(signal, [parcel.content for _, parcel in parcels])
            self._settle(signal, parcels, delivery)

    def _taken(self) -> list[tuple[int, Parcel]] | None:
        """The oldest that may be sent now, and what can go with it. None: it is over."""
        with self._changed:
            while True:
                if self._is_over or (self._is_finishing and not self._size):
                    return None
                now = time.monotonic()
                self._is_last_try = self._is_finishing
                there = [signal for signal, parcels in self._waiting.items() if parcels]
                ready = [signal for signal in there if self._again_s.get(signal, (0.0, 0.0))[0] <= now]
                if ready:
                    break
                waits = [self._again_s[signal][0] - now for signal in there]
                self._changed.wait(min(waits, default=None))
            parcels = self._waiting[min(ready, key=lambda signal: self._waiting[signal][0][0])]
            taken = [parcels.popleft()]
            records = taken[0][1].records
            while parcels and records + parcels[0][1].records <= self._batch:
                taken.append(parcels.popleft())
                records += taken[-1][1].records
            self._size -= records
            self._under_way = taken[0][1].signal, records
            return taken

    def _settle(self, signal: Signal, parcels: list[tuple[int, Parcel]], delivery: Delivery) -> None:
        records = sum(parcel.records for _, parcel in parcels)
        now = time.monotonic()
        notice: Notice | None = None
        with self._changed:
            if self._under_way is None:
                return  # it was given up
            self._under_way = None
            if delivery.taken:
                self._sent[signal] += records
                self._again_s.pop(signal, None)
                if self._away_s is not None:
                    notice, self._away_s = CollectorBack(seconds=now - self._away_s), None
            elif not delivery.again:
                self._refused[signal] += records
                self._away_s = None  # it is there
                key = signal, delivery.why
                if now - self._said.get(key, float("-inf")) >= QUIET_S:
                    self._said[key] = now
                    notice = Refused(signal=signal, records=records, why=delivery.why)
            elif self._is_over:
                self._dropped[signal] += records
            else:
                self._waiting[signal].extendleft(reversed(parcels))
                self._size += records
                if self._is_last_try:
                    self._drop_all(signal)
                self._make_room()
                if not self._is_finishing:
                    wait_s = min(self._again_s.get(signal, (0.0, self._first_wait_s))[1], LONGEST_WAIT_S)
                    self._again_s[signal] = now + wait_s, 2 * wait_s
        if notice is not None:
            self._notice(notice)
        if not delivery.taken and delivery.again:
            self.on_trouble(delivery.why)
        self._say_dropped()

    # what there is no room for ------------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        """Drop the oldest, as far as there is too much."""
        while self._size > self._room:
            oldest = min((one for one in self._waiting.values() if one), key=lambda one: one[0][0])
            _, parcel = oldest.popleft()
            self._size -= parcel.records
            self._dropped[parcel.signal] += parcel.records
            self._unsaid += parcel.records

    def _drop_all(self, signal: Signal) -> None:
        for _, parcel in self._waiting[signal]:
            self._size -= parcel.records
            self._dropped[signal] += parcel.records
        self._waiting[signal].clear()

    def _say_dropped(self) -> None:
        with self._changed:
            now = time.monotonic()
            if not self._unsaid or now - self._said.get(Dropped, float("-inf")) < QUIET_S:
                return
            records, self._unsaid = self._unsaid, 0
            self._said[Dropped] = now
        self._notice(Dropped(records=records))
