"""What a process counts: its meters and their instruments, and the EventSources with EventCounters, as it says itself.

A runtime publishes its instruments when it is asked (keyword 4 of System.Diagnostics.Metrics, .NET 6 and later), also those that nobody reads. It
lists no EventSources: the known ones are asked by name, and whoever sends a value has them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.analysis.counters import IN_THE_WAY, CountersFold, notice_text
from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError, UnsupportedCommand
from dotnetdiag.events.columns import Maps
from dotnetdiag.live.fleet import LiveFleet
from dotnetdiag.providers.counters import listing_providers
from dotnetdiag.providers.known_counters import KNOWN_EVENT_COUNTERS
from dotnetdiag.recipes.processes import runtime_major
from dotnetdiag.recipes.shared_limits import limits_of_others
from dotnetdiag.recipes.suspension import is_held
from dotnetdiag.table import HasTable, Table

if TYPE_CHECKING:
    from dotnetdiag.analysis.counters import Counters

OBSERVE_S = 1.7
"""The first values of EventCounters come after an interval."""
LOOK_S = 0.05
BUFFER_MB = 16
METER, EVENT_SOURCE = "meter", "eventsource"
COLUMNS = ("provider", "kind", "instrument", "type", "unit", "description", "tags", "meter_tags", "version")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedCounter:
    """One instrument, or one EventCounter. ``kind`` is ``meter`` or ``eventsource``; ``type`` the runtime's word (``Histogram``), of EventCounters
    ``mean`` or ``rate``; ``tags`` are the instrument's own, not those of its series.
    """

    provider: str
    kind: str
    instrument: str
    type: str
    unit: str = ""
    description: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    meter_tags: dict[str, str] = field(default_factory=dict)
    version: str = ""


class CounterList(HasTable, list[ListedCounter]):
    """What there is, by kind, provider and name. ``asked``: the EventSources that were asked; ``notices``: what the runtime said of that, where
    meters may be missing for it.
    """

    def __init__(
        self, counters: Iterable[ListedCounter], asked: tuple[str, ...] = (), notices: tuple[str, ...] = ()
    ) -> None:
        super().__init__(counters)
        self.asked, self.notices = asked, notices

    def table(self) -> Table:
        """A row for each, with the columns of :data:`COLUMNS`."""
        rows: list[dict[str, Any]] = [{name: getattr(one, name) for name in COLUMNS} for one in self]
        made = Table.of_rows(rows, columns=list(COLUMNS), title="counters that there are", notes=self.notices)
        every = np.arange(len(self))
        tags = {name: Maps([getattr(one, name) for one in self], every) for name in ("tags", "meter_tags")}
        columns = {name: tags.get(name, made[name]) for name in COLUMNS}
        return Table(columns, title=made.title, notes=made.notes)


def list_counters(
    client: Client,
    *,
    sources: Iterable[str] = (),
    observe_s: float = OBSERVE_S,
    check: Callable[[], None] = lambda: None,
) -> CounterList:
    """What a process counts, observed for ``observe_s``. ``sources`` are EventSources to ask beside the known ones; ``check`` is called several
    times a second, and may raise to end it. Raises as ``Client.trace``, and DiagnosticsError when the session ends before, and for a runtime that
    waits at its start.
    """
    asked = tuple(dict.fromkeys((*KNOWN_EVENT_COUNTERS, *sources)))
    if is_held(client):
        raise DiagnosticsError("it waits at its start, and has no counters yet: resume it first")
    fold = CountersFold()
    has_begun = has_joined = False
    with LiveFleet(fold.wants) as fleet:
        major = _major_of(client)
        fleet.add(0, client.trace(listing_providers(asked, major), rundown_keyword=0, buffer_mb=BUFFER_MB))
        ends = time.monotonic() + observe_s
        while (left := ends - time.monotonic()) > 0:
            check()
            window = fleet.take()
            if window is not None:
                fold.feed(window)
                has_begun = True
                limits = next(filter(None, map(limits_of_others, fold.notices)), None)
                if limits is not None and not has_joined:  # there is a shared session already, which has these
                    has_joined = True
                    providers = listing_providers((), major, limits=limits)
                    fleet.add(0, client.trace(providers, rundown_keyword=0, buffer_mb=BUFFER_MB), part=1)
                    ends = time.monotonic() + observe_s
            for _, why in fleet.ended():
                raise DiagnosticsError(why)
            time.sleep(min(LOOK_S, left))
    if not has_begun:
        return CounterList((), asked)
    found = fold.result()
    notices = () if has_joined else (notice_text(one) for one in found.notices if one.event in IN_THE_WAY)
    return CounterList(_listed(found), asked, tuple(dict.fromkeys(notices)))


def _major_of(client: Client) -> int | None:
    """The version of the runtime, where it tells one."""
    try:
        return runtime_major(client.process_info())
    except UnsupportedCommand:
        return None


def _listed(found: Counters) -> list[ListedCounter]:
    made: dict[tuple[str, str, str, str, str], ListedCounter] = {}
    for one in found.instruments:
        if not one.type:
            continue
        listed = ListedCounter(
            provider=one.key.provider,
            kind=METER,
            instrument=one.key.name,
            type=one.type.partition("`")[0],
            unit=one.unit,
            description=one.description,
            tags=dict(one.tags),
            meter_tags=dict(one.meter_tags),
            version=one.key.version,
        )
        made[METER, listed.provider, listed.instrument, listed.version, str((one.tags, one.meter_tags))] = listed
    for series in found.series:
        if not series.kind.is_event_counter:
            continue
        known = KNOWN_EVENT_COUNTERS.get(series.provider, {}).get(series.name, "")
        said = series.instrument.description
        made[EVENT_SOURCE, series.provider, series.name, "", ""] = ListedCounter(
            provider=series.provider,
            kind=EVENT_SOURCE,
            instrument=series.name,
            type=series.kind.value,
            unit=series.unit,
            description=f"{said}: {known}" if known and said else said or known,
        )
    return [made[key] for key in sorted(made, key=lambda key: (key[0] != METER, *key[1:]))]
