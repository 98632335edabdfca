"""The page that Prometheus reads: what is known of all processes in its text format, or in OpenMetrics', whichever is asked for.

Counters and rates are counters, gauges, means and up-down counters are gauges, histograms are summaries. Labels tell the process (``pid``,
``process``, ``service``), the meter (``otel_scope_name``, ``otel_scope_version``, tags of it behind ``otel_scope_``: as OpenTelemetry calls them)
and the tags. The words are written by the library ``prometheus_client`` (the extra ``prometheus``).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from importlib import import_module

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.alike_series import AlikeNumbers
from dotnetdiag.analysis.meant_kinds import meant_kind
from dotnetdiag.analysis.running_totals import RunningSeries
from dotnetdiag.analysis.series import Instrument, Series
from dotnetdiag.errors import MissingDependency
from dotnetdiag.service.fleet_state import FleetSnapshot, ServedProcess
from dotnetdiag.service.prometheus_names import COUNTER, FAMILIES, GAUGE, SUMMARY, BaseUnit, FamilyNames, label_names
from dotnetdiag.service.prometheus_text import Encode, Family, Format, Head, Line, printable

_UP = "dotnetdiag_up"
_UP_HELP = "Whether a process is watched, with values or none yet (1), or has ended, failed, or gone silent after its first value (0)."
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
MOST_FORMATS = 4
"""Pages of one snapshot that are kept."""
FORMATS_REMEMBERED = 2
"""Those of which the text of series is kept."""
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
                page = Page(body=self._families.text(encode, content_type), content_type=content_type)
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
    """The families of a snapshot, and their text. Names stay the same from one to the next, and so do the lines of a series, but for values."""

    def __init__(self) -> None:
        self.snapshot: FleetSnapshot | None = None
        self._names = FamilyNames(_RESERVED)
        self._entries: dict[int, _Entry] = {}
        """By series, of those that were in the last snapshot."""
        self._up: dict[tuple[tuple[str, str], ...], Line] = {}
        self._own = {name: Line(f"{name}_total", {}) for name in _OWN}
        self._duplicates = AlikeNumbers()
        self._families: list[Family] = []
        self._formats: dict[str, Format] = {}
        self._built = 0

    def build(self, snapshot: FleetSnapshot, scrapes: int) -> None:
        """Replace them by those of another snapshot."""
        made: dict[str, Family] = {}
        entries: dict[int, _Entry] = {}
        self._duplicates.keep(one.series.number for one in snapshot.series if not one.ended)
        for process, one in snapshot.iter_series():
            series = one.series
            entry = self._entries.get(series.number)
            if (
                entry is None
                or entry.instrument is not series.instrument
                or (entry.process is not process and entry.process != process)
            ):
                entry = self._entry(process, one)
            entries[series.number] = entry
            family = made.get(entry.name)
            if family is None:
                help_text = series.instrument.description or f"{series.name} of {series.provider}"
                family = made[entry.name] = Family(Head(entry.name, help_text, entry.key[2], entry.unit))
            entry.add(one, family, self._duplicates)
        self._entries = entries
        self._built += 1
        if self._built % SNAPSHOTS_OF_NAMES == 0:
            self._names.keep(entry.key for entry in entries.values())
        families = [family for family in made.values() if family.lines]
        self._families = sorted([*families, *self._of_ours(snapshot, scrapes)], key=lambda one: one.head.name)
        self.snapshot = snapshot

    def text(self, encode: Encode, content_type: str) -> bytes:
        """All of them, by name, in a format."""
        if content_type not in self._formats and len(self._formats) >= FORMATS_REMEMBERED:  # who asks names the version
            self._formats.clear()
        form = self._formats.setdefault(content_type, Format(encode))
        form.keep(self._families)
        parts = [part for family in self._families for part in (form.head(family.head), *form.lines(family))]
        return "".join([*parts, form.tail]).encode()

    def _entry(self, process: ServedProcess, one: RunningSeries) -> _Entry:
        series = one.series
        key = series.name, series.unit, _family_of(series)
        name, unit = self._names.name(*key)
        return _Entry(series.instrument, process, key, name, unit, _labels_of(process, one))

    def _of_ours(self, snapshot: FleetSnapshot, scrapes: int) -> Iterator[Family]:
        up = Family(Head(_UP, _UP_HELP, GAUGE, ""))
        told: dict[tuple[tuple[str, str], ...], ServedProcess] = {}
        for process in sorted(snapshot.processes, key=lambda one: one.process.number):
            # of two that are told alike the one that came last: a process id is used again
            told[tuple(_process_labels(process).items())] = process
        self._up = {labels: self._up.get(labels) or Line(_UP, dict(labels)) for labels in told}
        for line, process in zip(self._up.values(), told.values(), strict=True):
            up.add(line, float(process.is_up))
        yield up
        values = (snapshot.lost, snapshot.damaged, snapshot.refused, scrapes)
        for (name, help_text), value in zip(_OWN.items(), values, strict=True):
            own = Family(Head(name, help_text, COUNTER, ""))
            own.add(self._own[name], float(value))
            yield own


class _Entry:
    """What stays the same of a series."""

    __slots__ = ("_labels", "_line", "_lines", "_numbered", "_unit", "instrument", "key", "name", "process")

    def __init__(
        self,
        instrument: Instrument,
        process: ServedProcess,
        key: tuple[str, str, str],
        name: str,
        unit: BaseUnit,
        labels: Mapping[str, str],
    ) -> None:
        self.instrument, self.process, self.key, self.name = instrument, process, key, name
        self._unit, self._labels = unit, labels
        self._numbered = False
        self._line: Line | None = None
        """That of a series with one sample."""
        self._lines: dict[tuple[str, str], Line] = {}
        """Those of a summary, by what is behind the name, and quantile."""

    @property
    def unit(self) -> str:
        """The word that ends the name."""
        return self._unit.word

    def add(self, one: RunningSeries, family: Family, duplicates: AlikeNumbers) -> None:
        """Its samples, to those of the family."""
        kind = self.key[2]
        if kind == SUMMARY:
            for end, quantile, value in _samples(one, self._unit.factor):
                line = self._lines.get((end, quantile))
                if line is None:
                    line = self._lines[end, quantile] = self._new_line(end, quantile, one.series.number, duplicates)
                family.add(line, value)
            return
        figure = one.total if kind == COUNTER else one.value
        if figure is not None:
            if self._line is None:
                self._line = self._new_line("_total" if kind == COUNTER else "", "", one.series.number, duplicates)
            family.lines.append(self._line)
            family.values.append(figure * self._unit.factor)

    def _new_line(self, end: str, quantile: str, number: int, duplicates: AlikeNumbers) -> Line:
        if not self._numbered:
            self._numbered = True
            again = duplicates.number(number, self.name, self._labels)
            if again > 1:
                self._labels = {**self._labels, _AGAIN: str(again)}
        return Line(self.name + end, {**self._labels, "quantile": quantile} if quantile else self._labels)


def _family_of(series: Series) -> str:
    return FAMILIES[meant_kind(series)]


def _samples(one: RunningSeries, factor: float) -> list[tuple[str, str, float]]:
    """Of a summary: what is behind the name, the quantile, and the value."""
    made = [
        ("", quantile, value * factor)
        for quantile, value in sorted(one.quantiles.items(), key=lambda pair: float(pair[0]))
        if value >= 0 and 0 <= float(quantile) <= 1  # OpenMetrics has no others
    ]
    if one.count is not None:
        made.append(("_count", "", float(one.count)))
    if one.sum is not None and one.sum >= 0:
        made.append(("_sum", "", one.sum * factor))
    return made


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
    return {label: text for label, value in made.items() if (text := printable(value))}


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
    return {label: text for label, value in made.items() if (text := printable(value))}


def _check_library() -> None:
    try:
        import_module("prometheus_client.exposition")
    except ImportError as exc:
        raise MissingDependency("prometheus_client", extra="prometheus", purpose="a page for Prometheus") from exc
