"""Limits of counters, as people type them, and who crosses them.

::

    threshold := provider '[' instrument ']' ['{' tag (',' tag)* '}'] [figure] comparison number ['for' duration]
    tag       := name '=' (value | '"' value '"')        within quotes '\\"' is a quote, '\\\\' a backslash
    figure    := 'value' | 'rate' | 'count' | 'sum' | 'p50' | 'p95' | 'p99'
    comparison := '>' | '>=' | '<' | '<=' | '==' | '!='
    number    := 0.8 | 1e6 | 100MB | 64MiB

Without a figure it is the one that ``counters monitor`` shows: the rate per second of what is added up, ``p95`` of a histogram, else the
value. Tags that are named must have these values; a series may have others. The provider and the instrument are those of ``--counters``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.analysis.meant_kinds import meant_kind
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import GrammarError
from dotnetdiag.providers.counters import EVENT_COUNTERS_ONLY, CounterChoice, parse_counters
from dotnetdiag.recipes.sizes import size_bytes_of

if TYPE_CHECKING:
    from dotnetdiag.analysis.counters import Counters
    from dotnetdiag.analysis.series import Series

_WHAT = "threshold"
_COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
QUANTILES = {"p50": "0.5", "p95": "0.95", "p99": "0.99"}
FIGURES = ("value", "rate", "count", "sum", *QUANTILES)
_SHOWN = {"counter": "rate", "rate": "rate", "histogram": "p95"}
"""The figure of a kind where none is named; else the value."""
MISSED = 3.5
"""Intervals without a value after which a series is not what it was: how long it was beyond a limit begins anew."""
_COMPARISON = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*")
_NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?(?![\w.])")
_LASTING = re.compile(r"\sfor(?=\s|$)")
_SIZE = re.compile(r"\d+(\.\d+)?\s*[KMGT]i?B", re.IGNORECASE)
_TAG = re.compile(r'\s*([^=,{}"]+?)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^,{}"]*?))\s*(?=[,}])')


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A limit of one instrument. ``for_s``: how long all values must be beyond it."""

    text: str
    choice: CounterChoice
    comparison: str
    limit: float
    tags: Mapping[str, str] = field(default_factory=dict, hash=False)
    figure: str = ""
    """One of :data:`FIGURES`; empty: the one that is shown of its kind."""
    for_s: float = 0.0

    def concerns(self, series: Series) -> bool:
        """Whether it is a limit of this series."""
        return (
            series.provider.casefold() == self.choice.provider.casefold()
            and self.choice.includes(series.name)
            and (series.kind.is_event_counter or not self.choice.event_counters_only)
            and all(series.tags.get(name) == value for name, value in self.tags.items())
        )

    def is_crossed(self, value: float) -> bool:
        """Whether a value is beyond it."""
        return _COMPARISONS[self.comparison](value, self.limit)

    def figure_of(self, kind: str) -> str:
        """Which figure of a series of this kind it is about."""
        return self.figure or _SHOWN.get(kind, "value")

    @property
    def counters(self) -> str:
        """The text that asks for its counter."""
        only = EVENT_COUNTERS_ONLY if self.choice.event_counters_only else ""
        return f"{only}{self.choice.provider}[{','.join(sorted(self.choice.names))}]"


def parse_threshold(text: str) -> Threshold:
    """The limit that a text means. Raises GrammarError, which says where it is wrong."""
    at = text.find("]") + 1
    if not at:
        raise GrammarError(
            _WHAT, text, 0, "write 'Provider[instrument] > 0.8', with 'for 30s' behind it when it has to last"
        )
    choices = parse_counters(text[:at])
    if len(choices) != 1 or len(choices[0].names) != 1:
        raise GrammarError(_WHAT, text, 0, "one provider with one instrument in brackets is expected")
    tags: dict[str, str] = {}
    blanks = len(text[at:]) - len(text[at:].lstrip())
    if text[at + blanks : at + blanks + 1] == "{":
        at = _parse_tags(text, at + blanks + 1, tags)
    found = _COMPARISON.search(text, at)
    if found is None:
        raise GrammarError(_WHAT, text, len(text), f"one of {' '.join(_COMPARISONS)} is expected")
    figure = text[at : found.start()].strip()
    if figure and figure not in FIGURES:
        raise GrammarError(_WHAT, text, at, f"the figure is one of {', '.join(FIGURES)}")
    lasting = _LASTING.search(text, found.end())
    limit = _number(text, found.end(), text[found.end() : lasting.start() if lasting else len(text)].strip())
    duration = text[lasting.end() :].strip() if lasting else ""
    if lasting and not duration:
        raise GrammarError(_WHAT, text, len(text), "a duration such as 30s is expected behind 'for'")
    for_s = seconds_of(duration, _WHAT) if duration else None
    return Threshold(
        text=text.strip(),
        choice=choices[0],
        comparison=found[1],
        limit=limit,
        tags=tags,
        figure=figure,
        for_s=for_s or 0.0,
    )


def _parse_tags(text: str, at: int, tags: dict[str, str]) -> int:
    """Where they end."""
    while True:
        found = _TAG.match(text, at)
        if found is None:
            raise GrammarError(_WHAT, text, at, 'tags are written {name=value,other="a, b"}')
        quoted, plain = found[2], found[3]
        tags[found[1]] = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        at = found.end() + 1
        if text[found.end()] == "}":
            return at


def _number(text: str, at: int, word: str) -> float:
    if _SIZE.fullmatch(word):
        return float(size_bytes_of(word, _WHAT))
    if not _NUMBER.fullmatch(word):
        raise GrammarError(_WHAT, text, at, "a number such as 0.8, 1e6 or 100MB is expected")
    return float(word)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A series that has been beyond a limit for as long as it says. ``pid`` is that of its series, ``value`` the last one, ``number`` the
    place of the limit among those that were given.
    """

    number: int
    threshold: Threshold
    series: Series
    value: float
    utc: str
    lasted_s: float

    @property
    def pid(self) -> int | None:
        """Whose it is, where somebody knows."""
        return self.series.pid


@dataclass(slots=True)
class _Beyond:
    """Since when a series is beyond a limit, and when it had its last value, in ms of its recording."""

    pid: int | None
    since_ms: float
    last_ms: float
    is_told: bool = False


class Crossings:
    """Takes the values of each interval, and says who has crossed what since: once, until it has come back."""

    def __init__(self, thresholds: Sequence[Threshold], interval_s: float = 1.0) -> None:
        self._thresholds = tuple(thresholds)
        self._interval_s = interval_s
        self._beyond: dict[tuple[int, int], _Beyond] = {}
        """By number of the limit and of the series."""

    def feed(self, counters: Counters) -> list[Crossing]:
        """Those of an interval. A value holds for its interval: one of a second that is beyond the limit has lasted a second."""
        made = []
        series = {one.number: one for one in counters.series}
        concerned = {
            number: [at for at, threshold in enumerate(self._thresholds) if threshold.concerns(one)]
            for number, one in series.items()
        }
        if not any(concerned.values()):
            return []
        rows = counters.rows
        for number, ms, row in zip(rows.values("series"), rows.values("ms"), rows.to_pylist(), strict=True):
            for at in concerned.get(number, ()):
                crossing = self._meet(at, series[number], ms, row)
                if crossing is not None:
                    made.append(crossing)
        return made

    def forget_processes(self, pids: Collection[int]) -> None:
        """Their series have ended."""
        if pids:
            self._beyond = {key: one for key, one in self._beyond.items() if one.pid not in pids}

    def again(self, crossing: Crossing) -> None:
        """Have one told again, at the next value, though it has not come back."""
        known = self._beyond.get((crossing.number, crossing.series.number))
        if known is not None:
            known.is_told = False

    def _meet(self, at: int, series: Series, ms: float, row: Mapping[str, Any]) -> Crossing | None:
        threshold = self._thresholds[at]
        figure = threshold.figure_of(meant_kind(series))
        value = (row["quantiles"] or {}).get(QUANTILES[figure]) if figure in QUANTILES else row[figure]
        key = (at, series.number)
        if value is None or value != value or not threshold.is_crossed(value):
            if value is not None:
                self._beyond.pop(key, None)
            return None
        length_s = row["interval_s"] or self._interval_s
        known = self._beyond.get(key)
        if known is None or ms - known.last_ms > MISSED * length_s * 1000:
            known = self._beyond[key] = _Beyond(series.pid, ms - length_s * 1000, ms)
        known.last_ms = ms
        lasted_s = (ms - known.since_ms) / 1000
        if known.is_told or lasted_s < threshold.for_s:
            return None
        known.is_told = True
        return Crossing(
            number=at,
            threshold=threshold,
            series=series,
            value=float(value),
            utc=str(row["utc"] or ""),
            lasted_s=lasted_s,
        )
