"""The methods that a runtime spends its time in, interval by interval, while it runs.

The same questions as of a recording (``analysis.cpu``, ``analysis.stacks``), fed with windows of a session. Names of methods come from the
session itself and from the rundown of a second, short one at the start; another is taken when frames have no name, for the runtime does
not announce precompiled methods that are called for the first time. Until then they are addresses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dotnetdiag._dataclasses import as_dict, dataclass, field, replace
from dotnetdiag.analysis import filters
from dotnetdiag.analysis.cpu import CpuFold
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacks import StacksFold
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import NotPossible, UsageError
from dotnetdiag.live import LiveEvents
from dotnetdiag.live.symbols import LiveSymbols
from dotnetdiag.providers.keywords import CLR_PROVIDER
from dotnetdiag.providers.text import parse_providers
from dotnetdiag.recipes.live_names import read_names
from dotnetdiag.recipes.report import STATES, untold_state
from dotnetdiag.recipes.runtime_facts import runtime_facts
from dotnetdiag.recipes.sampler import NO_SAMPLER, has_no_sampler
from dotnetdiag.recipes.slow_start import Late, say_nothing
from dotnetdiag.recipes.suspension import Hold, is_held
from dotnetdiag.recipes.watching import WatchOptions, start_watching
from dotnetdiag.trace.frame import FrameKind
from dotnetdiag.trace.method_names import Style

if TYPE_CHECKING:
    from dotnetdiag.client import Client
    from dotnetdiag.providers.composition import Composition
    from dotnetdiag.trace.symbols import Symbols

SAMPLING_PRESET = "dotnet-sampled-thread-time"
METHODS = f"{CLR_PROVIDER}:0x38:5"
"""Loader, Jit, NGen: modules, and methods as they are compiled. (.NET 10 tells of these at the level Verbose only.)"""
REFRESH_S, LONGEST_REFRESH_S = 1.0, 300.0
"""How soon after one rundown for frames without a name another is taken for other such frames; twice as long each time."""
LOOK_S = 0.1
"""How late an interval may end in which nothing comes."""
NAMES_LIMIT = 1 << 16
"""Methods whose sums since the start are kept; beyond that, the lesser half is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopOptions:
    """``number`` methods by exclusive or by ``inclusive`` weight of each interval. ``watch`` says of which session, until when.

    Of samples of threads those in a ``state`` count (``report.STATES``). Where ``watch`` names events, theirs are the stacks.
    """

    number: int = 10
    inclusive: bool = False
    interval: float | str = 1.0
    state: str = "all"
    style: Style = Style.FULL
    watch: WatchOptions = field(default_factory=WatchOptions)

    @property
    def interval_s(self) -> float:
        """In seconds. Raises UsageError for none."""
        seconds = seconds_of(self.interval, "interval")
        if not seconds:
            raise UsageError(f"interval: {self.interval} is none")
        return seconds

    def composed(self) -> Composition:
        """The session that the options mean. Raises GrammarError, UsageError, also for what is wrong with the other options."""
        assert self.interval_s
        if self.state not in STATES:
            raise UsageError(f"state {self.state!r}: one of {', '.join(STATES)}")
        if self.watch.limit is not None:
            raise UsageError("a limit of events, and a top of methods: intervals end with a duration")
        some = self.watch.providers or self.watch.presets or self.watch.clr_events
        presets = self.watch.presets
        if not self.watch.names:
            presets = f"{presets},{SAMPLING_PRESET}" if presets else SAMPLING_PRESET
        watch = replace(self.watch, presets=presets) if some or presets else self.watch
        made = watch.session()
        (methods,) = parse_providers(METHODS)
        clr = next((one for one in made.providers if one.name == CLR_PROVIDER), None)
        if clr is not None:
            methods = replace(clr, keywords=clr.keywords | methods.keywords, level=max(clr.level, methods.level))
        made = replace(made, providers=(*(one for one in made.providers if one is not clr), methods))
        watch.require_known(made)
        seconds_of(watch.duration)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class TopRow:
    """A method: its shares of the interval, and of all intervals so far, in percent."""

    name: str
    exclusive_percent: float
    inclusive_percent: float
    exclusive_percent_since_start: float
    inclusive_percent_since_start: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """One interval. ``total`` is what the percentages are of, in ``unit``; ``states`` are the weights of threads by state.

    ``missed`` events never came or were dropped, since the start (None: not known); ``unresolved`` percent of the exclusive weight is in
    frames without a name.
    """

    elapsed_s: float
    interval_s: float
    unit: str
    total: float
    total_since_start: float
    states: dict[str, float]
    samples: int
    threads: int
    unresolved: float
    missed: int | None
    rows: tuple[TopRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Its fields by name."""
        return as_dict(self)


class Sums:
    """Exclusive and inclusive weights by name, of profiles that follow each other."""

    def __init__(self, limit: int = NAMES_LIMIT) -> None:
        self._limit = limit
        self._by_name: dict[str, tuple[float, float]] = {}
        self._addresses: dict[str, int] = {}
        """Of frames without a name."""
        self.total = 0.0

    def add(self, profile: StackProfile, style: Style) -> None:
        """Count a profile in."""
        self.total += profile.total
        found = profile.by_method()
        names = profile.frames.names(found.frame, style)
        for name, own, entered in zip(names, found.exclusive.tolist(), found.inclusive.tolist(), strict=True):
            self._count(name, own, entered)
        nameless = found.frame[profile.frames.unresolved()[found.frame]].tolist()
        self._addresses |= {
            profile.frames.name(number, style): address
            for number in nameless
            if (address := profile.frames[number].address) is not None
        }
        if len(self._by_name) > self._limit:
            kept = sorted(self._by_name.items(), key=lambda item: item[1][1], reverse=True)[: self._limit // 2]
            self._by_name = dict(kept)
            self._addresses = {name: one for name, one in self._addresses.items() if name in self._by_name}

    def _count(self, name: str, own: float, entered: float) -> None:
        before = self.of(name)
        self._by_name[name] = before[0] + own, before[1] + entered

    def rename(self, symbols: Symbols, style: Style) -> None:
        """Weights of addresses that have a name by now are those of that name."""
        old = list(self._addresses)
        frames = symbols.resolve(np.array(list(self._addresses.values()), np.uint64)).tolist()
        for name, frame in zip(old, map(symbols.frame, frames), strict=True):
            if frame.kind is not FrameKind.UNRESOLVED:
                del self._addresses[name]
                self._count(frame.name(style), *self._by_name.pop(name, (0.0, 0.0)))

    def of(self, name: str) -> tuple[float, float]:
        """(exclusive, inclusive) of one name."""
        return self._by_name.get(name, (0.0, 0.0))


class LiveTop:
    """A session that runs, and the question that it is asked. Leaving the ``with`` block closes it."""

    def __init__(
        self, live: LiveEvents, symbols: LiveSymbols, options: TopOptions, refresh: Callable[[], str | None]
    ) -> None:
        """``refresh`` takes a rundown into the symbols, and says what went wrong, or nothing."""
        self.live, self.symbols = live, symbols
        self._options, self._refresh = options, refresh
        self._begin = time.monotonic()
        self._sums = Sums()
        self._unnamed: set[str] = set()
        self._next_refresh, self._wait_s = self._begin, REFRESH_S
        self._missing = set(options.watch.names)
        self._states: set[State] = set()
        self._notes: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.close()

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd, one line each."""
        forgotten = self.symbols.forgotten
        said = [f"{forgotten:,} events that name methods were forgotten: there were too many"] if forgotten else []
        if self._states and not self._states & set(STATES[self._options.state] or State):
            said.append(f"no thread was seen in the state {self._options.state}")
        missing = [f"no event named {name} came" for name in self._options.watch.names if name in self._missing]
        return (*dict.fromkeys(self._notes), *said, *missing, *self.live.notes)

    def intervals(self) -> Iterator[Top]:
        """One after another, and what came after the last at the end. An interval without events has no rows."""
        asked = self._asked()
        step = self._options.interval_s
        last, following, fed = self._begin, self._begin + step, False
        for window in self.live.windows_or_none(min(step, LOOK_S)):
            if window is not None:
                asked.feed(window)
                fed = True
                self._missing -= {
                    name for name in self._missing if any(one.matches(name) for one in window.schemas.values())
                }
            now = time.monotonic()
            if now >= following:
                yield self._top(asked.take() if fed else None, now, now - last)
                last = now
                following += step * max(1, int((now - following) / step) + 1)
        if fed:
            now = time.monotonic()
            made = self._top(asked.take(), now, now - last)
            if made.samples:
                yield made

    def _asked(self) -> CpuFold | StacksFold:
        names = self._options.watch.names
        return StacksFold(names) if names else CpuFold()

    def _top(self, profile: StackProfile | None, now: float, interval_s: float) -> Top:
        options, account = self._options, self.live.account
        missed = None if account.missed_in_target is None else account.missed_in_target + account.missed_here
        states: dict[str, float] = {}
        rows: tuple[TopRow, ...] = ()
        samples = threads = 0
        unit, total, unresolved = "", 0.0, 0.0
        if profile is not None:
            self._look_for_names(profile, now)
            weights = {state: weight for state, weight in profile.state_weights().items() if state}
            states = {state.name.lower(): weight for state, weight in weights.items()}
            self._states |= weights.keys()
            samples, threads = len(profile), len(profile.threads)
            if states and STATES[options.state]:
                profile = filters.in_states(profile, *STATES[options.state])
            shown = filters.named(profile, options.style)
            self._sums.rename(self.symbols.now(), options.style)
            self._sums.add(shown, options.style)
            unit, total = shown.unit, shown.total
            unresolved = _unresolved(shown)
            rows = self._rows(shown)
        return Top(
            elapsed_s=now - self._begin,
            interval_s=interval_s,
            unit=unit,
            total=total,
            total_since_start=self._sums.total,
            states=states,
            samples=samples,
            threads=threads,
            unresolved=unresolved,
            missed=missed,
            rows=rows,
        )

    def _rows(self, profile: StackProfile) -> tuple[TopRow, ...]:
        share = 100 / self._sums.total if self._sums.total else 0.0
        made = []
        for row in profile.top(self._options.number, inclusive=self._options.inclusive):
            name = row.name(self._options.style)
            own, entered = self._sums.of(name)
            made.append(
                TopRow(
                    name=name,
                    exclusive_percent=row.exclusive_percent,
                    inclusive_percent=row.inclusive_percent,
                    exclusive_percent_since_start=min(share * own, 100.0),
                    inclusive_percent_since_start=min(share * entered, 100.0),
                )
            )
        return tuple(made)

    def _look_for_names(self, profile: StackProfile, now: float) -> None:
        """Take a rundown where there are frames without a name that no rundown has been asked for."""
        if now < self._next_refresh or not profile.unresolved:
            return
        used = profile.used_frames()
        unnamed = set(profile.frames.names(used[profile.frames.unresolved()[used]]))
        if unnamed <= self._unnamed:
            return
        self._unnamed = unnamed if len(self._unnamed) > NAMES_LIMIT else self._unnamed | unnamed
        self.name_methods()
        self._next_refresh = time.monotonic() + self._wait_s
        self._wait_s = min(2 * self._wait_s, LONGEST_REFRESH_S)

    def name_methods(self) -> None:
        """Take a rundown: it names what was compiled before the session."""
        problem = self._refresh()
        if problem is not None:
            self._notes.append(f"methods of before have no names: {problem}")


def _unresolved(profile: StackProfile) -> float:
    """The share of the exclusive weight, in percent, that is in frames without a name."""
    found = profile.by_method()
    nameless = profile.frames.unresolved()[found.frame]
    return float(100 * found.exclusive[nameless].sum() / profile.total) if profile.total else 0.0


def start_top(
    client: Client,
    options: TopOptions,
    *,
    over: str | None = None,
    suspended: Callable[[tuple[Hold, ...]], None] = lambda _: None,
    late: Late = say_nothing,
) -> LiveTop:
    """A top whose session runs when this returns; ``over``, ``suspended`` and ``late`` as of :func:`watching.start_watching`.

    Raises NotPossible for NativeAOT, which has no sample profiler, and UnknownName for a state of .NET 9, which does not tell it.
    """
    chosen = options.composed()
    if not options.watch.names:
        _require_sampler(client)
        if STATES[options.state]:
            _require_told(client, options.state)
    was_held = is_held(client)
    symbols = LiveSymbols()
    live = start_watching(
        client, options.watch, over=over, suspended=suspended, late=late, chosen=chosen, symbols=symbols
    )
    top = LiveTop(live, symbols, options, lambda: read_names(client, symbols))
    try:
        if not was_held:  # nothing was compiled yet
            top.name_methods()
    except BaseException:
        live.close()
        raise
    return top


def _require_sampler(client: Client) -> None:
    if has_no_sampler(client.target_pid()):
        raise NotPossible("a top of methods", NO_SAMPLER)


def _require_told(client: Client, state: str) -> None:
    if not runtime_facts(client).tells_states:
        pid = client.target_pid()
        raise untold_state(state, "the target" if pid is None else f"process {pid}")
