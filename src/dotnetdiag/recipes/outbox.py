"""What waits to be sent to a collector, and the thread that sends it: who has something to send never waits.

Rule 1: there is room for so many records (data points, log records, spans), of all signals together; beyond it the oldest go, and are counted.
Rule 2: what a collector does not answer to is sent again, later and later; what it refuses is not. Signals do not wait for each other.
Rule 3: a request that cannot be sent as it is, is halved, down to one parcel: what is wrong in one process costs nothing of others.
Rule 4: :meth:`Outbox.finish` has a limit, behind which nothing of it goes on.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.recipes.collector import Delivery, Signal

ROOM = 100_000
"""Records: an hour of the counters of one process, some 30 MB."""
BATCH = 4000
"""Records of one request: about 1 MB, of the 4 MB that gRPC servers take as a rule."""
BATCH_SIZE = 2_000_000
"""Bytes of one request, as far as senders say how large their parcels are."""
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 15.0
"""Before something is sent again; twice as long each time. The exporters have tried for some seconds before."""
FINISH_S = 5.0
QUIET_S = 10.0
"""So often the same is said at most."""
CLOSING_S = 1.0
_LONGEST = 300
"""Characters of what an error says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """Something of one signal to be sent, of ``records`` records, and of about ``size`` bytes (0: nobody has looked)."""

    signal: Signal
    content: Any
    records: int
    size: int = 0


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
        self._apart: dict[Signal, tuple[int, int]] = {}
        """Of a signal whose last request was halved: up to which number so many parcels at most go together."""
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
            try:
                delivery = self._sender.send(signal, [parcel.content for _, parcel in parcels])
            except Exception as error:  # whatever it is, others are to be sent
                why = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
                delivery = Delivery(taken=False, why=why, apart=True)
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
            signal = min(ready, key=lambda signal: self._waiting[signal][0][0])
            taken = self._together(signal)
            records = sum(parcel.records for _, parcel in taken)
            self._size -= records
            self._under_way = signal, records
            return taken

    def _together(self, signal: Signal) -> list[tuple[int, Parcel]]:
        """The oldest of a signal, and what goes with it in one request."""
        parcels = self._waiting[signal]
        last, most = self._apart.get(signal, (-1, 0))
        is_halved = parcels[0][0] <= last
        if not is_halved:
            self._apart.pop(signal, None)
        taken = [parcels.popleft()]
        records, size = taken[0][1].records, taken[0][1].size
        while parcels and not (is_halved and (len(taken) >= most or parcels[0][0] > last)):
            records, size = records + parcels[0][1].records, size + parcels[0][1].size
            if records > self._batch or size > BATCH_SIZE:
                break
            taken.append(parcels.popleft())
        return taken

    def _settle(self, signal: Signal, parcels: list[tuple[int, Parcel]], delivery: Delivery) -> None:
        records = sum(parcel.records for _, parcel in parcels)
        now = time.monotonic()
        notices: list[Notice] = []
        with self._changed:
            if self._under_way is None:
                return  # it was given up
            self._under_way = None
            is_halved = delivery.apart and not delivery.taken and len(parcels) > 1 and not self._is_over
            if is_halved:
                self._apart[signal] = parcels[-1][0], len(parcels) // 2
            if delivery.taken:
                rejected = min(delivery.rejected, records)
                self._sent[signal] += records - rejected
                self._again_s.pop(signal, None)
                if self._away_s is not None:
                    notices.append(CollectorBack(seconds=now - self._away_s))
                    self._away_s = None
                if rejected:
                    notices += self._refuse(signal, rejected, delivery.why)
            elif is_halved and not delivery.again:
                self._put_back(signal, parcels)
                self._make_room()
            elif not delivery.again:
                self._away_s = None  # it is there
                notices += self._refuse(signal, records, delivery.why)
            elif self._is_over:
                self._dropped[signal] += records
            else:
                self._put_back(signal, parcels)
                if self._is_last_try and not is_halved:
                    self._drop_all(signal)
                self._make_room()
                if not self._is_finishing:
                    wait_s = min(self._again_s.get(signal, (0.0, self._first_wait_s))[1], LONGEST_WAIT_S)
                    self._again_s[signal] = now + wait_s, 2 * wait_s
        for notice in notices:
            self._notice(notice)
        if not delivery.taken and delivery.again:
            self.on_trouble(delivery.why)
        self._say_dropped()

    def _put_back(self, signal: Signal, parcels: list[tuple[int, Parcel]]) -> None:
        self._waiting[signal].extendleft(reversed(parcels))
        self._size += sum(parcel.records for _, parcel in parcels)

    def _refuse(self, signal: Signal, records: int, why: str) -> list[Notice]:
        """Count them; what is to be said of it."""
        self._refused[signal] += records
        now, key = time.monotonic(), (signal, why)
        if now - self._said.get(key, float("-inf")) < QUIET_S:
            return []
        self._said[key] = now
        return [Refused(signal=signal, records=records, why=why)]

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
