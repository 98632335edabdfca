"""The counters of one process or of many, while they run: who comes is asked too, who goes or fails goes alone.

Rule 1: whatever may wait for a target (to connect, to begin a session) is done by a few threads beside; who looks at the values never waits.
Rule 2: all sessions are read together, once in an interval, and at least once a second (:class:`~dotnetdiag.live.fleet.LiveFleet`).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from functools import partial
from typing import Self, TypeAlias
from uuid import uuid4

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.analysis.counters import IN_THE_WAY, Counters, CountersFold
from dotnetdiag.analysis.metrics import Notice
from dotnetdiag.analysis.series import SeriesKey
from dotnetdiag.client import Client, TraceSession
from dotnetdiag.errors import DiagnosticsError, ProcessNotFound, UnsupportedCommand
from dotnetdiag.live.fleet import HAS_ENDED, LiveFleet
from dotnetdiag.providers.counters import (
    DEFAULT_COUNTERS,
    SHARED,
    SharedLimits,
    counter_session,
)
from dotnetdiag.recipes.counter_ports import DialledPorts, let_run
from dotnetdiag.recipes.counter_rejoin import Rejoining
from dotnetdiag.recipes.counter_silences import SILENT_INTERVALS, SILENT_S, Silences
from dotnetdiag.recipes.counter_update import (
    CounterChange,
    CounterNotice,
    CounterOptions,
    CounterProcess,
    CounterSilence,
    CounterTargets,
    CounterUpdate,
)
from dotnetdiag.recipes.processes import entry_assembly_of, is_called, program_of, runtime_major, runtime_text
from dotnetdiag.recipes.shared_limits import limits_of_others
from dotnetdiag.recipes.suspension import Hold, is_held, resume
from dotnetdiag.recipes.target import Target
from dotnetdiag.transport import processes as system
from dotnetdiag.transport.discovery import endpoints
from dotnetdiag.transport.waiting import start

__all__ = [
    "DEFAULT_COUNTERS",
    "CounterChange",
    "CounterNotice",
    "CounterOptions",
    "CounterProcess",
    "CounterSilence",
    "CounterTargets",
    "CounterUpdate",
    "CounterWatch",
]

CONNECT_S = 5.0
"""For a target to answer, and to begin a session."""
CONNECTING = 64
"""So many are asked at once: one that stalls has its thread until its time is over."""
AGAIN_S = 5.0
"""After which time a process that could not be watched is tried again: one that nobody has named by its number, or that a signal has stopped."""
EVENT_COUNTERS = 2000
"""Series of EventCounters that a process may have, beside those of meters, of which the session says how many."""
Named: TypeAlias = int | str | Client
"""A process by its id, at a port, or through a client."""
CLIENT_IDS = 1000
LOOK_S = 1.0
"""How often sessions are read at least, and new processes are looked for."""
LOOKED_S = 0.9
"""A look for new processes that is younger is young enough: who looks in each interval of a second does so a little earlier and later."""
EARLY_S = 0.002
"""Who wakes so little before an interval ends does not wait, and read all sessions, once more."""
PORTS_S = 0.1
"""How often it is looked who has come to a port of ours."""


@dataclass(slots=True, kw_only=True)
class _Begun:
    """Sessions that run, or why there are none. Neither: nobody has named that process."""

    process: CounterProcess
    sessions: tuple[TraceSession, ...] = ()
    opened: ExitStack = field(default_factory=ExitStack)
    holds: tuple[Hold, ...] = ()
    slowed_s: float | None = None
    error: DiagnosticsError | None = None


class CounterWatch:
    """Sessions of counters of all that is targeted. Use with ``with``; :meth:`updates` gives an update in each interval.

    ``on_held`` is called with each process that waits at its start, and its client, once it is watched and before it is let run; in a thread
    beside. Raises GrammarError and UsageError for options that make no sense.
    """

    def __init__(
        self,
        targets: CounterTargets,
        options: CounterOptions | None = None,
        *,
        on_held: Callable[[CounterProcess, Client], None] = lambda *_: None,
    ) -> None:
        self.options = options or CounterOptions()
        self._on_held = on_held
        self._targets = targets
        self._choices = {choice.provider.casefold(): choice for choice in self.options.choices()}
        self._session = str(uuid4())
        most = self.options.max_time_series + EVENT_COUNTERS
        self.fold = CountersFold(sessions=[SHARED, self._session], series=self._is_wanted, per_process=most)
        self._fleet = LiveFleet(self.fold.wants)
        self._ports = DialledPorts(targets.ports, resumes=self.options.resume, timeout_s=CONNECT_S)
        self._beginning: list[Future[_Begun]] = []
        self._waiting: deque[tuple[Future[_Begun], int, Named]] = deque()
        self._processes: dict[int, CounterProcess] = {}
        self._silences = Silences(self._choices, self.options.interval_s, time.monotonic)
        self._known: dict[int, int | None] = {}
        """By process id: when it started, of all that were looked at."""
        self._next = 0
        self._looked_s = float("-inf")
        self._stopped = threading.Event()
        self._has_begun = False
        self._first_error: DiagnosticsError | None = None
        self._failed = 0
        self._again_s: dict[int, float] = {}
        """By process id: when one that could not be watched is tried again."""
        self._told: dict[int, str] = {}
        """What was said of it."""
        self._noticed: set[tuple[int | None, str, str]] = set()
        self._slowed: list[CounterNotice] = []
        self._counts: dict[tuple[int | None, str, str], int] = {}
        """How often each was said."""
        self._named: dict[int, Named] = {}
        """By number: what a process was named by."""
        self._rejoining = Rejoining(time.monotonic)
        self._meters_part: dict[int, int] = {}
        """By number: which of its sessions is that of meters."""
        self._client_ids: deque[str] = deque(maxlen=CLIENT_IDS)
        """Of the last sessions that were begun: runtimes say of them soon what they have to say."""
        self._limits: dict[int, SharedLimits] = {}
        """By number: those of the session that another tool shares with us, which came first."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all sessions."""
        self._stopped.set()
        self._waiting.clear()
        self._fleet.close()
        for future in self._beginning:
            future.add_done_callback(_leave)
        self._beginning = []
        self._ports.close()

    def stop(self) -> None:
        """End the iteration at once. For signal handlers and other threads too."""
        self._stopped.set()

    @property
    def processes(self) -> tuple[CounterProcess, ...]:
        """Those that are watched now."""
        return tuple(self._processes.values())

    def updates(self, until_s: float | None = None) -> Iterator[CounterUpdate]:
        """One in each interval, until :meth:`stop`, until all are gone and nobody can join, or until it is ``until_s`` (``time.monotonic``).
        Raises what went wrong with the targets where none of them could be watched, and TransportError for a port that cannot be ours.
        """
        self._ports.open()
        dialled = [port for port in self._targets.ports if not Target(port=port).listens]
        given: tuple[Named, ...] = (*self._targets.pids, *dialled, *self._targets.clients)
        for target in given:
            self._begin(target)
        step = self.options.interval_s
        following = time.monotonic() + step
        while not self._stopped.is_set() and (until_s is None or time.monotonic() < until_s):
            changes: list[CounterChange] = []
            ends = following if until_s is None else min(following, until_s)
            while True:
                self._rejoin()
                self._look()
                left = ends - time.monotonic()
                if left > 0 and not self._is_over and self._wait(min(left, LOOK_S)):
                    break
                changes += self._arrivals()
                window = self._fleet.take()
                if window is not None:
                    self.fold.feed(window)
                    self._has_begun = True
                changes += self._departures()
                if self._is_over or ends - time.monotonic() < EARLY_S:
                    break
            is_over = self._is_over
            following += step * max(1, int((time.monotonic() - following) / step) + 1)
            taken = self.fold.take() if self._has_begun else None
            self._feel_beats()
            yield CounterUpdate(
                counters=taken,
                changes=tuple(changes),
                processes=self.processes,
                notices=tuple(self._notices(taken)),
                silences=tuple(self._silences.take(self._processes, taken, excused=self._rejoining)),
                missing=self._silences.missing(),
            )
            self._forget(changes)
            if is_over:
                if self._first_error is not None and self._failed == self._next:
                    raise self._first_error
                return

    # who is watched -----------------------------------------------------------------------------------------------------

    @property
    def _may_grow(self) -> bool:
        """Whether others may join that are waited for."""
        return self._targets.grows or (bool(self._ports) and (self._targets.stays or not self._ports.has_met))

    @property
    def _is_over(self) -> bool:
        """Whether all are gone, and nobody comes."""
        return not (self._may_grow or self._fleet.numbers or self._beginning or self._rejoining)

    def _wait(self, seconds: float) -> bool:
        """Whether it is the end. Who comes to a port of ours does not wait that long."""
        ends = time.monotonic() + seconds
        while self._ports and (left := ends - time.monotonic()) > 0:
            if self._stopped.wait(min(left, PORTS_S)):
                return True
            if new := self._ports.take():
                for client in new:
                    self._begin(client)
                return False
        return self._stopped.wait(0 if self._ports else seconds)

    def _is_wanted(self, key: SeriesKey) -> bool:
        """Whether the values of a series are to be shown: EventCounters that the meter of that name has too say the same twice."""
        instrument = key.instrument
        choice = self._choices.get(instrument.provider.casefold())
        if choice is None or not choice.includes(instrument.name):
            return False
        if choice.event_counters_only:
            return key.kind.is_event_counter
        return not (key.kind.is_event_counter and self.fold.has_meter(instrument.pid, instrument.provider))

    def _look(self) -> None:
        """Begin with the processes that have come since the last look, and once more with those that could not be watched."""
        now = time.monotonic()
        if not (self._targets.grows or self._again_s) or now - self._looked_s < LOOKED_S:
            return
        self._looked_s = now
        due = [pid for pid, at in self._again_s.items() if at <= now]
        for pid in due:
            del self._again_s[pid]
        new: list[int] = []
        if self._targets.grows:
            there = {pid: system.start_time_ticks(pid) for pid in {one.pid for one in endpoints()}}
            new = [
                pid
                for pid, started in there.items()
                if self._known.get(pid, -1) != started and pid not in self._targets.pids
            ]
            self._known = there
            self._told = {pid: text for pid, text in self._told.items() if pid in there}
        for pid in dict.fromkeys([*new, *(pid for pid in due if system.exists(pid))]):
            self._begin(pid)

    def _is_meant(self, target: Named, entry: str) -> bool:
        """Whether somebody wants its counters: by its number, by its command line, or by what it says that it runs (``entry``)."""
        if not isinstance(target, int) or target in self._targets.pids or self._targets.everyone:
            return True
        argv = system.argv(target) or ()
        names = (program_of(target, argv), entry_assembly_of(argv), entry)
        return any(is_called(name, names) for name in self._targets.names)

    def _feel_beats(self) -> None:
        """Find those who collect no values of meters any more."""
        silent_s = max(SILENT_INTERVALS * self.options.interval_s, SILENT_S)
        for number, process in self._processes.items():
            beats = self.fold.beats(number)
            self._rejoining.beat(number, beats, silent_s, is_stopped=partial(_is_stopped, process.pid))

    def _rejoin(self) -> None:
        """Leave, and ask anew, those whose meters somebody else had."""
        for number in self._rejoining.leaving():
            self._fleet.drop(number, self._meters_part.get(number))
        for number in self._rejoining.beginning():
            self._begin(self._named[number], number)

    def _begin(self, target: Named, number: int | None = None) -> None:
        if number is None:
            number, self._next = self._next, self._next + 1
        self._named[number] = target
        future: Future[_Begun] = Future()
        self._beginning.append(future)
        self._waiting.append((future, number, target))
        self._connect()

    def _connect(self) -> None:
        """Begin with those that wait, as far as threads go: they are daemons, for one that waits for an answer must not hold the tool's end."""
        running = len(self._beginning) - len(self._waiting)
        while self._waiting and running < CONNECTING:
            future, number, target = self._waiting.popleft()
            running += 1

            def work(future: Future[_Begun] = future, number: int = number, target: Named = target) -> None:
                try:
                    future.set_result(self._begun(number, target))
                except BaseException as error:
                    future.set_exception(error)

            start(threading.Thread(target=work, name="dotnetdiag fleet", daemon=True))

    def _begun(self, number: int, target: Named) -> _Begun:
        """Of one target: who it is, and its session. In a thread beside."""
        opened = ExitStack()
        sessions: list[TraceSession] = []
        holds: tuple[Hold, ...] = ()
        process = CounterProcess(
            number=number,
            pid=_pid_of(target),
            name=_name_of(target),
            runtime="",
            target=_text_of(target),
        )
        try:
            if isinstance(target, Client):
                client = target
            elif isinstance(target, int):
                client = Client(target, timeout_s=CONNECT_S)
            else:
                client = Client.connect(target, timeout_s=CONNECT_S)
                opened.callback(client.close)
            process = replace(process, client=client)
            is_again = number in self._processes
            major = None
            try:
                info = client.process_info()
            except UnsupportedCommand:
                process = replace(process, runtime="3.x")
            else:
                major = runtime_major(info)
                process = replace(
                    process,
                    pid=process.pid or info.pid,
                    name=info.entry_assembly or process.name,
                    runtime=runtime_text(info),
                    cookie=str(info.cookie),
                )
            if not self._is_meant(target, process.name):
                return _Begun(process=process)
            held = is_held(client)
            asked = counter_session(
                tuple(self._choices.values()),
                interval_s=self.options.interval_s,
                runtime_major=major,
                max_time_series=self.options.max_time_series,
                max_histograms=self.options.max_histograms,
                session_id=self._session,
                client_id=self._client_id(),
                limits=self._limits.get(number),
                both=is_again,
                at_start=bool(held),
            )
            is_ours = not isinstance(target, int) or target in self._targets.pids
            if held and not is_ours:  # somebody holds it, and a session that ends before it runs may kill it
                raise DiagnosticsError(f"process {target} is suspended at startup: it is watched when it runs")
            self._meters_part[number] = len(asked.parts) - 1
            for part in asked.parts[-1:] if is_again else asked.parts:
                sessions.append(client.trace(part, rundown_keyword=0, buffer_mb=self.options.buffer_mb))
            if held:
                self._on_held(process, client)
            if held and self.options.resume:
                over = target.partition(",")[0] if isinstance(target, str) else self._ports.address_of(client)
                holds = resume(client, over=over)
        except Exception as error:  # whatever one process says must not end the others
            if isinstance(target, Client) and self._ports.address_of(target) and self.options.resume:
                let_run(target)
            for session in sessions:
                session.abort()
                with suppress(DiagnosticsError):
                    session.close()
            opened.close()
            why = error if isinstance(error, DiagnosticsError) else DiagnosticsError(f"it makes no sense: {error}")
            return _Begun(process=process, error=why if self._is_meant(target, process.name) else None)
        return _Begun(process=process, sessions=tuple(sessions), opened=opened, holds=holds, slowed_s=asked.slowed_s)

    def _arrivals(self) -> list[CounterChange]:
        changes = []
        for future in [one for one in self._beginning if one.done()]:
            self._beginning.remove(future)
            self._connect()
            begun = future.result()
            if begun.sessions:
                last = self._meters_part.get(begun.process.number, 0)
                for part, session in enumerate(reversed(begun.sessions)):
                    self._fleet.add(begun.process.number, session, None if part else begun.opened, part=last - part)
                if begun.process.number not in self._processes:
                    changes.append(CounterChange(process=begun.process, joined=True, holds=begun.holds))
                    if begun.slowed_s is not None:
                        text = f"its EventCounters come every {begun.slowed_s:g} s: asked more often, it may stand still for good"
                        self._slowed.append(CounterNotice(process=begun.process, text=text))
                self._processes[begun.process.number] = begun.process
                continue
            was = self._processes.get(begun.process.number)
            is_none = isinstance(begun.error, ProcessNotFound) or getattr(begun.error, "code", "") == "not-dotnet"
            if was is not None and was.pid is not None and not is_none and system.is_running(was.pid):
                self._rejoining.failed(was.number)
                continue
            if was is not None:  # it was asked anew
                del self._processes[was.number]
                changes.append(CounterChange(process=was, joined=False, why=_why_gone(begun.error)))
                continue
            self._named.pop(begun.process.number, None)
            if begun.error is None:
                continue
            self._first_error = self._first_error or begun.error
            self._failed += 1
            pid = begun.process.pid
            if begun.process.pid not in self._targets.pids and is_none:
                continue  # it has ended meanwhile, or another program has the number of an earlier runtime: nobody has named it
            is_named = pid in self._targets.pids
            if pid is not None and (system.is_stopped(pid) if is_named else self._targets.grows):
                self._again_s[pid] = time.monotonic() + AGAIN_S  # it may be stopped, or slow
                if self._told.get(pid) == str(begun.error):
                    continue
                self._told[pid] = str(begun.error)
            changes.append(CounterChange(process=begun.process, joined=False, why=str(begun.error)))
        return changes

    def _departures(self) -> list[CounterChange]:
        return [
            CounterChange(process=process, joined=False, why=_why_over(process, why))
            for number, why in self._fleet.ended()
            if (process := self._processes.pop(number, None)) is not None
        ]

    def _notices(self, taken: Counters | None) -> Iterator[CounterNotice]:
        """What runtimes have said of our sessions, once, and of which not all was asked."""
        from dotnetdiag.analysis.counters import notice_text

        yield from self._slowed
        self._slowed.clear()

        for notice in taken.notices if taken is not None else ():
            key = notice.pid, notice.event, f"{notice.session} {notice.text}"
            is_new, self._counts[key] = self._counts.get(key, 0) < notice.count, notice.count
            process = self._processes.get(-1 if notice.pid is None else notice.pid)
            if not is_new or process is None or not self._concerns_us(notice):
                continue
            is_told = key not in self._noticed
            if notice.event in IN_THE_WAY:
                is_told &= self._rejoining.refused(process.number)
            limits = limits_of_others(notice)
            if limits is not None:
                is_told |= self._limits.get(process.number) != limits
                self._limits[process.number] = limits
            if is_told:
                self._noticed.add(key)
                yield CounterNotice(process=process, text=notice_text(replace(notice, count=1)))

    def _client_id(self) -> str:
        """A new one, by which a runtime tells who is meant."""
        made = str(uuid4())
        self._client_ids.append(made)
        return made

    def _concerns_us(self, notice: Notice) -> bool:
        """Whether it is about a session of ours. Every listener is told when somebody gets none, and whose session runs."""
        is_ours = notice.session in (SHARED, self._session, *self._client_ids)
        return not is_ours if notice.event == "MultipleSessionsNotSupportedError" else is_ours

    def _forget(self, changes: Sequence[CounterChange]) -> None:
        for number in (change.process.number for change in changes if not change.joined):
            self._named.pop(number, None)
            self._meters_part.pop(number, None)
            self._limits.pop(number, None)
            self._rejoining.forget(number)
        if self._has_begun:
            for change in changes:
                if not change.joined:
                    self.fold.forget(change.process.number)
                    self._noticed = {key for key in self._noticed if key[0] != change.process.number}
                    self._counts = {key: n for key, n in self._counts.items() if key[0] != change.process.number}


def _pid_of(target: Named) -> int | None:
    """As it is known before anybody was asked."""
    return target.target_pid() if isinstance(target, Client) else target if isinstance(target, int) else None


def _is_stopped(pid: int | None) -> bool:
    return pid is not None and system.is_stopped(pid)


def _why_over(process: CounterProcess, why: str) -> str:
    """Why its sessions have ended, where they did so by themselves: mostly because the process has."""
    if not why or process.pid is None or not process.target.startswith("process ") or system.is_running(process.pid):
        return why
    return "it has ended" if why == HAS_ENDED else f"it was killed, or has crashed: {why}"


def _why_gone(error: DiagnosticsError | None) -> str:
    return str(error) if error is not None and not isinstance(error, ProcessNotFound) else "it has ended"


def _text_of(target: Named) -> str:
    """As it was named, for messages."""
    pid = _pid_of(target)
    return target if isinstance(target, str) else "a runtime at a port of ours" if pid is None else f"process {pid}"


def _name_of(target: Named) -> str:
    pid = _pid_of(target)
    if pid is None:
        return target if isinstance(target, str) else ""
    argv = system.argv(pid) or ()
    return entry_assembly_of(argv) or program_of(pid, argv)


def _leave(future: Future[_Begun]) -> None:
    """A session that began when nobody wanted it any more."""
    if future.cancelled() or future.exception() is not None:
        return
    begun = future.result()
    for session in begun.sessions:
        session.abort()
        session.close()
    begun.opened.close()
