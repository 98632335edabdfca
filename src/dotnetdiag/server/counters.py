"""``System.Runtime``: EventCounters of a Python process (nettrace.md §10.3), under .NET's names where they mean the same.

A session gets them with the argument ``EventCounterIntervalSec``, at its own interval.
"""

from __future__ import annotations

import os
import struct
import sys
import time
from collections.abc import Callable, Iterator

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode
from dotnetdiag.server.event_fields import z16
from dotnetdiag.server.gc_pauses import GC_PAUSES
from dotnetdiag.server.periodic import Periodic, Turn
from dotnetdiag.server.process_usage import by_generation, thread_count, working_set_bytes
from dotnetdiag.server.subscription import Subscription
from dotnetdiag.server.writing import Write

PROVIDER = "System.Runtime"
LEAST_S, MOST_S = 0.1, 86_400.0
_STRING, _DOUBLE, _SINGLE, _INT32 = TypeCode.STRING, TypeCode.DOUBLE, TypeCode.SINGLE, TypeCode.INT32


def _counter_event(event_id: int, fields: dict[str, TypeCode]) -> Metadata:
    """Self-describing: an unnamed Object with an Object ``Payload`` in it."""
    members = tuple(Field(name=name, type=FieldType(code=code)) for name, code in fields.items())
    payload = Field(name="Payload", type=FieldType(code=TypeCode.OBJECT, fields=members))
    return Metadata(
        metadata_id=0,
        provider=PROVIDER,
        event_id=event_id,
        name="EventCounters",
        fields=(Field(name="", type=FieldType(code=TypeCode.OBJECT, fields=(payload,))),),
    )


_MEAN = _counter_event(
    1,
    {
        "Name": _STRING,
        "DisplayName": _STRING,
        "Mean": _DOUBLE,
        "StandardDeviation": _DOUBLE,
        "Count": _INT32,
        "Min": _DOUBLE,
        "Max": _DOUBLE,
        "IntervalSec": _SINGLE,
        "Series": _STRING,
        "CounterType": _STRING,
        "Metadata": _STRING,
        "DisplayUnits": _STRING,
    },
)
_SUM = _counter_event(
    2,
    {
        "Name": _STRING,
        "DisplayName": _STRING,
        "DisplayRateTimeScale": _STRING,
        "Increment": _DOUBLE,
        "IntervalSec": _SINGLE,
        "Metadata": _STRING,
        "Series": _STRING,
        "CounterType": _STRING,
        "DisplayUnits": _STRING,
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counter:
    """One counter. ``read`` gives its value, or None where this platform does not say; of a ``rate`` the sum so far, and what is told is by
    how much it grew. ``time_scale`` is what viewers give a rate per. What cannot be read now is left out.
    """

    name: str
    title: str
    units: str
    read: Callable[[], float | None]
    rate: bool = False
    time_scale: str = ""

    def value(self) -> float | None:
        """What is read now. None: there is nothing, or it cannot be read."""
        try:
            return self.read()
        except Exception:  # of the system, or of a program that has replaced what is asked
            return None


def _collections(generation: int) -> Callable[[], float]:
    """As .NET counts: a collection of a generation is one of the younger ones too."""
    return lambda: sum(by_generation("collections")[generation:])


def _working_set_mb() -> float | None:
    size = working_set_bytes()
    return None if size is None else size / 1e6


COUNTERS = (
    Counter(name="working-set", title="Working Set", units="MB", read=_working_set_mb),
    Counter(name="thread-count", title="Thread Count", units="", read=thread_count),
    Counter(name="allocated-blocks", title="Allocated Blocks", units="", read=sys.getallocatedblocks),
    Counter(name="module-count", title="Number of Modules Loaded", units="", read=lambda: len(sys.modules)),
    *(
        Counter(
            name=f"gen-{generation}-gc-count",
            title=f"Gen {generation} GC Count",
            units="",
            read=_collections(generation),
            rate=True,
            time_scale="00:01:00",
        )
        for generation in range(3)
    ),
    Counter(
        name="time-in-gc",
        title="% Time in GC since last GC",
        units="%",
        read=lambda: 100 * GC_PAUSES.last_share,
    ),
    Counter(
        name="total-pause-time-by-gc",
        title="Time paused by GC",
        units="ms",
        read=lambda: GC_PAUSES.total_ns / 1e6,
        rate=True,
    ),
    Counter(
        name="gc-collected-objects",
        title="Objects Collected by GC",
        units="",
        read=lambda: sum(by_generation("collected")),
        rate=True,
        time_scale="00:00:01",
    ),
)
"""Those that are told beside ``cpu-usage``."""


@dataclass(slots=True, kw_only=True)
class _Watched(Turn):
    """A session and what it was told last."""

    subscription: Subscription
    mean: Write | None
    rate: Write | None
    at_ns: int = field(default_factory=time.monotonic_ns)
    cpu_ns: int = field(default_factory=time.process_time_ns)
    sums: dict[str, float] = field(default_factory=lambda: dict(_sums()))


def _sums() -> Iterator[tuple[str, float]]:
    for counter in COUNTERS:
        if counter.rate and (value := counter.value()) is not None:
            yield counter.name, value


class RuntimeCounters:
    """The provider. While no session wants counters nothing is read."""

    name = PROVIDER

    def __init__(self) -> None:
        self._watched: tuple[_Watched, ...] = ()
        self._timer: Periodic[_Watched] | None = None

    def join(self, subscription: Subscription) -> None:
        """Tell a session that names an interval."""
        interval_s = subscription.number("EventCounterIntervalSec", 0.0, least=0.0, most=MOST_S)
        mean, rate = subscription.channel(_MEAN), subscription.channel(_SUM)
        if interval_s <= 0 or (mean is None and rate is None):
            return
        interval_ns = int(max(interval_s, LEAST_S) * 1e9)
        watched = _Watched(interval_ns=interval_ns, subscription=subscription, mean=mean, rate=rate)
        self._begin((*self._watched, watched))

    def leave(self, subscription: Subscription) -> None:
        """No more for this one."""
        watched = tuple(one for one in self._watched if one.subscription is not subscription)
        if len(watched) == len(self._watched):
            return
        self._watched = watched
        if self._timer is not None:
            self._timer.keep(watched)
        if not watched:
            self._timer = None
            GC_PAUSES.end()

    def _begin(self, watched: tuple[_Watched, ...]) -> None:
        timer = Periodic("counters", watched, _tell_all)
        timer.start()
        if self._timer is None:
            GC_PAUSES.begin()
        else:
            self._timer.end()
        self._timer, self._watched = timer, watched


def _tell_all(due: list[_Watched]) -> None:
    for one in due:
        try:
            _tell(one)
        except Exception:
            one.subscription.skip()


def _tell(one: _Watched) -> None:
    now, cpu_ns, sums = time.monotonic_ns(), time.process_time_ns(), dict(_sums())
    elapsed_ns = max(1, now - one.at_ns)
    interval_s, series = elapsed_ns / 1e9, f"Interval={one.interval_ns // 1_000_000}"
    if one.mean is not None:
        share = 100 * (cpu_ns - one.cpu_ns) / elapsed_ns / (os.cpu_count() or 1)
        one.mean(_mean("cpu-usage", "CPU Usage", "%", share, interval_s, series))
        for counter in COUNTERS:
            if not counter.rate and (value := counter.value()) is not None:
                one.mean(_mean(counter.name, counter.title, counter.units, float(value), interval_s, series))
    if one.rate is not None:
        for counter in COUNTERS:
            if counter.rate and counter.name in sums:
                increment = sums[counter.name] - one.sums.get(counter.name, 0.0)
                one.rate(_rate(counter, increment, interval_s, series))
    one.at_ns, one.cpu_ns, one.sums = now, cpu_ns, sums


def _mean(name: str, title: str, units: str, value: float, interval_s: float, series: str) -> bytes:
    """Of one value: it was read once."""
    numbers = struct.pack("<ddiddf", value, 0.0, 1, value, value, interval_s)
    return z16(name) + z16(title) + numbers + z16(series) + z16("Mean") + z16("") + z16(units)


def _rate(counter: Counter, increment: float, interval_s: float, series: str) -> bytes:
    head = z16(counter.name) + z16(counter.title) + z16(counter.time_scale)
    numbers = struct.pack("<df", increment, interval_s)
    return head + numbers + z16("") + z16(series) + z16("Sum") + z16(counter.units)
