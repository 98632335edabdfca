"""A top of methods, interval by interval, with a clock and a session that are made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.analysis.traces import Seen, allocation, event_source, external, managed, traced

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.errors import GrammarError, UnknownName, UsageError
from dotnetdiag.live import Account, LiveSymbols
from dotnetdiag.recipes import top
from dotnetdiag.recipes.top import REFRESH_S, LiveTop, Sums, Top, TopOptions
from dotnetdiag.recipes.watching import WatchOptions
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.table import EventTable

SHORT = TopOptions(style=Style.SHORT)


@dataclass
class FakeLive:
    """Gives windows out, and lets time pass before each; None is one that does not come."""

    clock: SimpleNamespace
    steps: Sequence[tuple[float, EventTable | None]]
    account: Account = field(default_factory=Account)
    notes: tuple[str, ...] = ()
    closed: bool = False

    def windows_or_none(self, wait_s: float) -> Iterator[EventTable | None]:
        for seconds, window in self.steps:
            self.clock.now += seconds
            yield window

    def close(self) -> None:
        self.closed = True


def made(
    monkeypatch: pytest.MonkeyPatch,
    *steps: tuple[float, tuple[Seen, ...]],
    options: TopOptions = SHORT,
    account: Account | None = None,
    refresh: Any = lambda: None,
) -> LiveTop:
    """A top of the events of each step, so many seconds after those before."""
    clock = SimpleNamespace(now=0.25)
    monkeypatch.setattr(top, "time", SimpleNamespace(monotonic=lambda: clock.now))
    (window,) = traced(*(event for _, events in steps for event in events)).windows()
    windows: list[tuple[float, EventTable | None]] = []
    first = 0
    for seconds, events in steps:
        windows.append((seconds, window.slice(first, first + len(events)) if events else None))
        first += len(events)
    live = FakeLive(clock, windows, account or Account())
    return LiveTop(cast(Any, live), LiveSymbols(), options, refresh)


def shares(one: Top) -> dict[str, tuple[float, ...]]:
    return {
        row.name: (
            round(row.exclusive_percent),
            round(row.inclusive_percent),
            round(row.exclusive_percent_since_start),
            round(row.inclusive_percent_since_start),
        )
        for row in one.rows
    }


def test_an_interval_has_its_own_shares_and_those_since_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made(
        monkeypatch,
        (0.5, (managed(0, 1, "P.A", "P.Main"), managed(400, 1, "P.A", "P.Main"))),
        (0.6, (managed(1000, 1, "P.B", "P.Main"),)),
        (1.0, (managed(2000, 1, "P.B", "P.Main"),)),
        (0.4, (managed(2500, 1, "P.C"),)),
    )
    one, two, rest = asked.intervals()
    assert shares(one) == {"P.A": (100, 100, 100, 100), "P.Main": (0, 100, 0, 100)}
    assert shares(two) == {"P.B": (100, 100, 50, 50), "P.Main": (0, 100, 0, 100)}
    assert shares(rest) == {"P.B": (100, 100, 60, 60), "P.Main": (0, 100, 0, 100)}
    assert [round(each.elapsed_s, 1) for each in (one, two, rest)] == [1.1, 2.1, 2.5]
    assert [round(each.interval_s, 1) for each in (one, two, rest)] == [1.1, 1.0, 0.4]
    assert (one.total, two.total, two.total_since_start, two.unit) == (1000.0, 1000.0, 2000.0, "ms")
    assert (one.samples, one.threads, one.states) == (2, 1, {"cpu": 1000.0})


def test_a_session_that_ends_sooner_has_one_interval_of_that_length(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = made(monkeypatch, (0.75, (managed(0, 1, "P.A"), managed(1, 1, "P.A")))).intervals()
    assert (one.interval_s, one.elapsed_s) == (0.75, 0.75)


def test_intervals_end_when_nothing_comes_and_are_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made(monkeypatch, (1.0, ()), (0.5, ()), (3.7, ()), (0.7, ()), (0.1, ()))
    found = list(asked.intervals())
    assert [round(one.elapsed_s, 1) for one in found] == [1.0, 5.2, 6.0]
    assert [(one.rows, one.samples, one.total) for one in found] == [((), 0, 0.0)] * 3


@pytest.mark.parametrize(("state", "expected"), [("all", {"P.Run", "P.Wait"}), ("cpu", {"P.Run"}), ("waiting", {"P.Wait"})])  # fmt: skip
def test_a_state_leaves_out_the_others_and_all_are_told(
    monkeypatch: pytest.MonkeyPatch, state: str, expected: set[str]
) -> None:
    events = (managed(0, 1, "P.Run"), external(0, 2, "P.Wait"), managed(10, 1, "P.Run"), external(30, 2, "P.Wait"))
    (one,) = made(monkeypatch, (1, events), options=TopOptions(style=Style.SHORT, state=state)).intervals()
    assert set(shares(one)) == expected
    assert sum(row.exclusive_percent for row in one.rows) == pytest.approx(100)
    assert one.states == {"cpu": 10.0, "unmanaged": 30.0}


def test_a_state_that_no_thread_was_in_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    events = (external(0, 1, "P.Wait"), external(10, 1, "P.Wait"))
    watcher = made(monkeypatch, (1, events), options=TopOptions(state="cpu"))
    assert [one.rows for one in watcher.intervals()] == [()]
    assert watcher.notes == ("no thread was seen in the state cpu",)
    for state in ("all", "waiting"):
        watcher = made(monkeypatch, (1, events), options=TopOptions(state=state))
        assert len(list(watcher.intervals())) == 1
        assert watcher.notes == ()


def test_so_many_rows_by_exclusive_or_inclusive_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    events = (managed(0, 1, "P.A", "P.Main"), managed(6, 1, "P.B", "P.Main"), managed(10, 1, "P.C", "P.Main"))
    for inclusive, expected in ((False, ["P.A", "P.B"]), (True, ["P.Main", "P.A"])):
        options = TopOptions(number=2, inclusive=inclusive, style=Style.SHORT)
        (one,) = made(monkeypatch, (1, events), options=options).intervals()
        assert [row.name for row in one.rows] == expected


def test_named_events_are_counted_where_they_happen_and_missed_names_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = WatchOptions(names=("GC/AllocationTick", "GC/Start"))
    events = (allocation(1, 1, "P.New"), event_source(2, 1, "P.Say"), managed(3, 1, "P.Run"), allocation(4, 1, "P.New"))
    asked = made(
        monkeypatch, (1, events), (1, (allocation(5, 1, "P.Too"),)), options=TopOptions(style=Style.SHORT, watch=watch)
    )
    one, two = asked.intervals()
    assert (shares(one), one.unit, one.samples) == ({"P.New": (100, 100, 100, 100)}, "events", 2)
    assert shares(two) == {"P.Too": (100, 100, 33, 33)}
    assert asked.notes == ("no event named GC/Start came",)


def test_losses_are_those_of_the_target_and_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(missed_in_target=5, missed_here=2)
    (one,) = made(monkeypatch, (1, (managed(0, 1, "P.A"), managed(1, 1, "P.A"))), account=account).intervals()
    assert one.missed == 7
    (one,) = made(monkeypatch, (1, (managed(0, 1, "P.A"),)), account=Account(missed_in_target=None)).intervals()
    assert one.missed is None


def test_frames_without_a_name_ask_for_a_rundown_once_and_later_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refresh() -> str:
        asked.append(1)
        return "the target is busy"

    def frames(begin: int, *stack: str | int) -> tuple[Seen, ...]:
        return tuple(managed(begin + at, 1, *stack) for at in range(3))

    watcher = made(
        monkeypatch,
        (1, frames(0, 0x999999)),
        (2 * REFRESH_S, frames(10, 0x999999)),
        (1, frames(20, "P.A")),
        (1, frames(30, 0x777777)),
        (REFRESH_S / 2, frames(40, 0x666666)),
        (REFRESH_S * 2, frames(50, 0x666666)),
        options=TopOptions(style=Style.SHORT, interval=0.5),
        refresh=refresh,
    )
    counts = []
    for one in watcher.intervals():
        counts.append((len(asked), round(one.unresolved)))
    assert counts == [(1, 100), (1, 100), (1, 80), (2, 20), (2, 100), (3, 100)]
    assert watcher.notes == ("methods of before have no names: the target is busy",)


def test_sums_forget_the_least_when_there_are_too_many() -> None:
    sums = Sums(limit=4)
    profile = cpu(traced(*(managed(at * at, 1, f"P.M{at}") for at in range(8))))
    sums.add(profile, Style.SHORT)
    assert sums.of("P.M6") == (13.0, 13.0)
    assert sums.of("P.M1") == (0.0, 0.0)
    assert sums.total == 49.0
    for limit in (8, 9):
        roomy = Sums(limit=limit)
        roomy.add(profile, Style.SHORT)
        assert roomy.of("P.M1") == (3.0, 3.0)


def test_what_was_counted_at_an_address_is_that_of_the_name_when_it_comes() -> None:
    sums = Sums()
    sums.add(cpu(traced(managed(0, 1, 0x1111, "P.Main"), managed(30, 1, 0x2222), managed(40, 1))), Style.SHORT)
    assert (sums.of("?!0x1111"), sums.of("?!0x2222")) == ((30.0, 30.0), (10.0, 10.0))
    named = Frame(kind=FrameKind.METHOD, module="app", type_name="P", method="A", signature="void ()")
    known = {0x1111: named, 0x2222: Frame(kind=FrameKind.UNRESOLVED, address=0x2222)}
    asked: list[list[int]] = []

    def resolve(addresses: Any) -> Any:
        asked.append(addresses.tolist())
        return addresses

    symbols = cast(Any, SimpleNamespace(resolve=resolve, frame=known.__getitem__))
    for _ in range(2):
        sums.rename(symbols, Style.SHORT)
        assert (sums.of("?!0x1111"), sums.of("P.A"), sums.of("?!0x2222")) == ((0.0, 0.0), (30.0, 30.0), (10.0, 10.0))
    assert asked == [[0x1111, 0x2222], [0x2222]]
    assert sums.total == 40.0


def test_the_session_has_samples_and_tells_of_methods() -> None:
    def said(**watch: Any) -> dict[str | None, tuple[int, int]]:
        chosen = TopOptions(watch=WatchOptions(**watch)).composed()
        return {one.name: (one.keywords, one.level) for one in chosen.providers}

    sampler, clr = "Microsoft-DotNETCore-SampleProfiler", "Microsoft-Windows-DotNETRuntime"
    assert said() == {sampler: (0xF00000000000, 4), clr: (0x38, 5)}
    assert set(said(providers="My-Source")) == {"My-Source", sampler, clr}
    assert said(clr_events="gc", names=("GC/Start",)) == {clr: (0x39, 5)}
    assert set(said(presets="gc-collect")) == {sampler, clr, "Microsoft-Windows-DotNETRuntimePrivate"}
    assert sampler not in said(names=("GC/Start",))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"interval": "0s"}, UsageError),
        ({"interval": "soon"}, GrammarError),
        ({"state": "asleep"}, UsageError),
        ({"watch": WatchOptions(limit=3)}, UsageError),
        ({"watch": WatchOptions(presets="none")}, UnknownName),
        ({"watch": WatchOptions(where="n >")}, GrammarError),
    ],
)
def test_wrong_options_are_told_at_once(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        TopOptions(**options).composed()


@pytest.mark.parametrize(("version", "state"), [("9.0.22+x", "cpu"), ("9.0.22+x", "waiting"), ("9.0.22", "all"), ("8.0.1", "cpu")])  # fmt: skip
def test_a_state_of_net_9_is_refused_before_a_session_starts(
    monkeypatch: pytest.MonkeyPatch, version: str, state: str
) -> None:
    def started(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(top, "start_watching", started)
    monkeypatch.setattr(top, "is_held", lambda _: True)
    client: Any = SimpleNamespace(
        target_pid=lambda: None, process_info=lambda: SimpleNamespace(runtime_version=version)
    )
    refused = version.startswith("9.") and state != "all"
    with pytest.raises(
        UnknownName if refused else KeyboardInterrupt, match="in the target: the sampler" if refused else None
    ):
        top.start_top(client, TopOptions(state=state))


def test_leaving_it_closes_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = made(monkeypatch, (1, (managed(0, 1, "P.A"),)))
    with asked:
        pass
    assert cast(Any, asked.live).closed
