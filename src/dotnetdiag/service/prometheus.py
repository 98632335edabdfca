"""The page that Prometheus reads: what is known of all processes in its text format, or in OpenMetrics', whichever is asked for.

Counters and rates are counters, gauges, means and up-down counters are gauges, histograms are summaries. Labels tell the process (``pid``,
``process``, ``service``), the meter (``otel_scope_name``, ``otel_scope_version``, tags of it behind ``otel_scope_``: as OpenTelemetry calls them)
and the tags. The words are written by the library ``prometheus_client`` (the extra ``prometheus``).
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from dotnetdiag.analysis.alike_series import AlikeNumbers
from dotnetdiag.analysis.meant_kinds import meant_kind
from dotnetdiag.analysis.running_totals import RunningSeries
from dotnetdiag.analysis.series import Instrument, Series
from dotnetdiag.errors import MissingDependency
from dotnetdiag.service.fleet_state import FleetSnapshot, ServedProcess
from dotnetdiag.service.prometheus_names import COUNTER, FAMILIES, GAUGE, SUMMARY, FamilyNames, label_names

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_UP = "dotnetdiag_up"
_OWN = {
    "dotnetdiag_counters_lost_events": "Events of counters that never came: a buffer was full in the target.",
    "dotnetdiag_counters_damaged_events": "Events of counters that could not be read.",
    "dotnetdiag_counters_refused_values": "Values of series beyond the limit of series.",
    "dotnetdiag_scrapes": "Times that this page was asked for.",
}
_RESERVED = {_UP, *_OWN, *(f"{name}{end}" for name in _OWN for end in ("_total", "_created"))}
_SCOPE = "otel_scope_"
_PROCESS_LABELS = ("pid", "process", "service", "diagnostic_port")
_SCOPE_LABELS = (f"{_SCOPE}name", f"{_SCOPE}version")
_AGAIN = "duplicate"
"""The label of a series that has all labels of another: instruments may differ in what nobody can see. It stays with its series."""
_SURROGATES = re.compile("[\ud800-\udfff]")
MOST_FORMATS = 4
"""Pages of one snapshot that are kept."""
SNAPSHOTS_OF_NAMES = 1000
"""Names that no series has had are forgotten after so many pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a scrape gets."""

    body: bytes
    content_type: str


class PrometheusPages:
    """Pages of the last snapshot that :meth:`show` was given. For any number of threads; a page that was made once for a snapshot is kept, and who
    asks for it waits for nobody.

    Raises MissingDependency without the library.
    """

    def __init__(self) -> None:
        _check_library()
        self._lock = threading.Lock()
        """For moments: of what is there."""
        self._making = threading.Lock()
        """Held by the one who makes a page that is not."""
        self._snapshot = FleetSnapshot()
        self._paged: FleetSnapshot | None = None
        self._pages: dict[str, Page] = {}
        """Those of that snapshot."""
        self._families = _Families()
        self._scrapes = 0

    def show(self, snapshot: FleetSnapshot) -> None:
        """From now on pages are of this one. Waits for nobody."""
        self._snapshot = snapshot

    def page(self, accept: str = "") -> Page:
        """What a header ``Accept`` asks for; without any the text format."""
        from prometheus_client.exposition import choose_encoder

        try:
            encode, content_type = choose_encoder(accept)
        except (ValueError, TypeError):  # a version that is none
            encode, content_type = choose_encoder("")
        with self._lock:
            self._scrapes += 1
        page = self._made(self._snapshot, content_type)
        if page is not None:
            return page
        with self._making:
            snapshot = self._snapshot
            page = self._made(snapshot, content_type)  # by the one before
            if page is None:
                if self._families.snapshot is not snapshot:
                    self._families.build(snapshot, self._scrapes)
                page = Page(body=encode(self._families), content_type=content_type)
                self._keep(snapshot, page)
            return page

    def _made(self, snapshot: FleetSnapshot, content_type: str) -> Page | None:
        with self._lock:
            return self._pages.get(content_type) if self._paged is snapshot else None

    def _keep(self, snapshot: FleetSnapshot, page: Page) -> None:
        with self._lock:
            if self._paged is not snapshot or len(self._pages) >= MOST_FORMATS:  # who asks names the version
                self._paged, self._pages = snapshot, {}
            self._pages[page.content_type] = page


class _Families:
    """The families of a snapshot: what the library calls a collector. Names stay the same from one to the next."""

    def __init__(self) -> None:
        self.snapshot: FleetSnapshot | None = None
        self._names = FamilyNames(_RESERVED)
        self._labels: dict[int, tuple[Instrument, ServedProcess, dict[str, str]]] = {}
        self._duplicates = AlikeNumbers()
        self._families: list[Metric] = []
        self._built = 0

    def collect(self) -> list[Metric]:
        """All of them, by name."""
        return self._families

    def build(self, snapshot: FleetSnapshot, scrapes: int) -> None:
        """Replace them by those of another snapshot."""
        made: dict[str, _Family] = {}
        used, labels = set(), {}
        self._duplicates.keep(one.series.number for one in snapshot.series if not one.ended)
        for process, one in snapshot.iter_series():
            series = one.series
            family = _family_of(series)
            key = series.name, series.unit, family
            used.add(key)
            name, unit = self._names.name(*key)
            if name not in made:
                help_text = series.instrument.description or f"{series.name} of {series.provider}"
                made[name] = _Family(name, help_text, family, unit.word, self._duplicates)
            known = self._labels.get(series.number)
            if known is None or known[0] is not series.instrument or known[1] != process:
                known = series.instrument, process, _labels_of(process, one)
            labels[series.number] = known
            made[name].add(one, known[2], unit.factor)
        self._labels = labels
        self._built += 1
        if self._built % SNAPSHOTS_OF_NAMES == 0:
            self._names.keep(used)
        families = [one.metric for one in made.values() if one.metric.samples]
        self._families = sorted([*families, *_own(snapshot, scrapes)], key=lambda one: one.name)
        self.snapshot = snapshot


class _Family:
    """One, of which no two samples have the same labels."""

    def __init__(self, name: str, help_text: str, family: str, unit: str, duplicates: AlikeNumbers) -> None:
        self.metric = _metric(name, help_text, family, unit)
        self._name, self._duplicates = name, duplicates

    def add(self, one: RunningSeries, labels: Mapping[str, str], factor: float) -> None:
        samples = list(_samples(one, self.metric.type, factor))
        if not samples:
            return
        number = self._duplicates.number(one.series.number, self._name, labels)
        own = {**labels, _AGAIN: str(number)} if number > 1 else dict(labels)
        for end, more, value in samples:
            self.metric.add_sample(self.metric.name + end, {**own, **more} if more else own, value)


def _family_of(series: Series) -> str:
    return FAMILIES[meant_kind(series)]


def _samples(one: RunningSeries, family: str, factor: float) -> Iterator[tuple[str, Mapping[str, str], float]]:
    """What is behind the name, labels besides, and the value."""
    if family == COUNTER and one.total is not None:
        yield "_total", {}, one.total * factor
    elif family == GAUGE and one.value is not None:
        yield "", {}, one.value * factor
    elif family == SUMMARY:
        for quantile, value in sorted(one.quantiles.items(), key=lambda pair: float(pair[0])):
            if value >= 0 and 0 <= float(quantile) <= 1:  # OpenMetrics has no others
                yield "", {"quantile": quantile}, value * factor
        if one.count is not None:
            yield "_count", {}, one.count
        if one.sum is not None and one.sum >= 0:
            yield "_sum", {}, one.sum * factor


def _labels_of(process: ServedProcess, one: RunningSeries) -> dict[str, str]:
    """All but empty ones, which mean the same as none."""
    instrument = one.series.instrument
    scope = {
        _SCOPE_LABELS[0]: one.series.provider,
        _SCOPE_LABELS[1]: instrument.key.version,
    }
    of_meter = label_names(instrument.meter_tags, ("name", "version"))
    scope |= {f"{_SCOPE}{label}": instrument.meter_tags[tag] for tag, label in of_meter.items()}
    tags = {**instrument.tags, **one.series.tags}
    labels = label_names(tags, (*_PROCESS_LABELS, *scope, _AGAIN))
    made = {**_process_labels(process), **scope, **{label: tags[tag] for tag, label in labels.items()}}
    return {label: text for label, value in made.items() if (text := _text(value))}


def _process_labels(process: ServedProcess) -> dict[str, str]:
    """Whose it is. At a port there may be several processes with one id, each in a container of its own."""
    one = process.process
    at_port = "" if one.target == f"process {one.pid}" else one.target.removesuffix(",connect")
    made = {
        "pid": "" if one.pid is None else str(one.pid),
        "process": one.name,
        "service": process.service,
        "diagnostic_port": at_port,
    }
    return {label: text for label, value in made.items() if (text := _text(value))}


def _text(value: str) -> str:
    """What UTF-8 can say of it."""
    return _SURROGATES.sub("\ufffd", value)


def _own(snapshot: FleetSnapshot, scrapes: int) -> Iterator[Metric]:
    up = _metric(
        _UP,
        "Whether a process is watched, with values or none yet (1), or has ended, failed, or gone silent after its first value (0).",
        GAUGE,
        "",
    )
    told: dict[tuple[tuple[str, str], ...], ServedProcess] = {}
    for process in sorted(snapshot.processes, key=lambda one: one.process.number):
        # of two that are told alike the one that came last: a process id is used again
        told[tuple(_process_labels(process).items())] = process
    for labels, process in told.items():
        up.add_sample(_UP, dict(labels), int(process.is_up))
    yield up
    values = (snapshot.lost, snapshot.damaged, snapshot.refused, scrapes)
    for (name, help_text), value in zip(_OWN.items(), values, strict=True):
        made = _metric(name, help_text, COUNTER, "")
        made.add_sample(f"{name}_total", {}, value)
        yield made


def _metric(name: str, help_text: str, family: str, unit: str) -> Metric:
    from prometheus_client.metrics_core import Metric

    # the library would add a unit that the name does not end with
    own = unit if unit and name.endswith(f"_{unit}") else ""
    return Metric(name, _text(" ".join(help_text.split())) or name, family, own)


def _check_library() -> None:
    try:
        import_module("prometheus_client.exposition")
    except ImportError as exc:
        raise MissingDependency("prometheus_client", extra="prometheus", purpose="a page for Prometheus") from exc
