"""Record a trace of one process into a file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dotnetdiag.client import Client
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import DiagnosticsError, OutputError, UnknownName, near
from dotnetdiag.nettrace.loss_count import LossCounter
from dotnetdiag.providers.composition import Composition, ProviderSource, compose
from dotnetdiag.providers.keywords import SAMPLE_PROFILER
from dotnetdiag.providers.names import misspelled
from dotnetdiag.recipes.outcome import EXIT_WAIT_S, has_exited, outcome_of
from dotnetdiag.recipes.outputs import check_outputs, is_stdout
from dotnetdiag.recipes.sampler import NO_SAMPLER, has_no_sampler
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.suspension import Hold, is_held, resume
from dotnetdiag.recipes.target import Target, connected
from dotnetdiag.transport import processes

if TYPE_CHECKING:
    from dotnetdiag.recipes.launch import Launch
    from dotnetdiag.recipes.stopping import EventWatcher, StoppingEvent

__all__ = ["CollectOptions", "Collected", "Composition", "Observer", "ProviderSource", "Stop", "collect", "misspelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """What to record and where to put it; the texts are those of ``trace collect``.

    ``launch``: a program to start and to record from its first instruction, instead of ``target``. ``formats``: what
    :func:`convert_recording` is to write beside it; their files are overwritten with ``force`` only.
    """

    target: Target | None = None
    launch: Launch | None = None
    output: Path | None = None
    providers: str | None = None
    presets: str | None = None
    clr_events: str | None = None
    clr_event_level: str | None = None
    event_filters: tuple[str, ...] = ()
    rundown: bool | None = None
    stacks: bool = True
    buffer_mb: int = 256
    block: bool = False
    duration: float | str | None = None
    resume: bool = True
    stopping_event: StoppingEvent | None = None
    formats: tuple[str, ...] = ()
    force: bool = False

    def check_outputs(self, path: Path) -> None:
        """Raises what keeps the recording at ``path``, or a file that it is to be converted to, from being written."""
        if self.formats:
            from dotnetdiag.recipes.exporting import plan_outputs

            check_outputs(plan_outputs(path, self.formats).values(), force=self.force)
        check_outputs([path], force=True)

    def composed(self) -> Composition:
        """The session that the options mean. Raises GrammarError, UsageError, UnknownName for a stopping event that it does not have."""
        made = compose(
            providers=self.providers,
            presets=self.presets,
            clr_events=self.clr_events,
            clr_event_level=self.clr_event_level,
            rundown=self.rundown,
            event_filters=self.event_filters,
        )
        wanted = self.stopping_event
        if wanted is not None:
            from dotnetdiag.recipes.known_events import UNASKED

            names = [provider.name or "" for provider in made.providers]
            if wanted.provider.lower() not in {name.lower() for name in (*names, *UNASKED)}:
                raise UnknownName(
                    "provider", wanted.provider, near(wanted.provider, names), where="among those that are recorded"
                )
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A finished recording. ``child_exit_code`` of a program that was started for it, as a shell gives it: 128 and the number of the
    ``child_signal`` that ended it; ``notes`` are for people.

    ``complete``: the stream came to its end; None: not known. ``was_stopped``: by us, not by the target's exit (``target_exited``).
    ``lost_events`` is the runtime's own count; None where it is not known.
    """

    path: Path
    size_bytes: int
    duration_s: float
    command: str
    pid: int | None
    buffer_mb: int
    complete: bool | None
    lost_events: int | None
    was_stopped: bool
    target_exited: bool
    child_exit_code: int | None = None
    child_signal: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def target_died(self) -> bool:
        """Whether the target was gone before the trace had its end: names of methods may be missing."""
        return self.target_exited and self.complete is False

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {**asdict(self), "target_died": self.target_died, "path": str(self.path), "notes": list(self.notes)}


@dataclass(slots=True, kw_only=True)
class Observer:
    """What a face wants to be told of a recording, in the thread that records.

    ``started`` gets what is recorded and the file; ``progress`` the bytes so far and the seconds, several times a second;
    ``waiting`` the address that a runtime is waited for at; ``suspended`` is called when nothing will come because the runtime waits at
    its start, and nobody resumes it: with what holds it, where a resume did not help; ``stopping`` when the end has begun.
    """

    started: Callable[[Composition, Path, int | None], None] = lambda *_: None
    progress: Callable[[int, float], None] = lambda *_: None
    waiting: Callable[[str], None] = lambda *_: None
    suspended: Callable[[tuple[Hold, ...]], None] = lambda _: None
    stopping: Callable[[], None] = lambda: None
    child_signal: int | None = None
    """To be passed on to a program that was started for the recording; set when it comes."""


def collect(options: CollectOptions, observer: Observer | None = None, stop: Stop | None = None) -> Collected:
    """Start a session, save it for the duration or until it is stopped, drain it. The file holds all that arrived, in any case.

    Raises Cancelled after ``stop.cancel()``, and after ``stop.stop()`` when no runtime has come yet.
    """
    observer, stop = observer or Observer(), stop or Stop()
    composed = options.composed()  # mistakes are told before anything is started or waited for
    seconds_of(options.duration)
    target, launch = options.target, options.launch
    label = launch.label if launch is not None else target.label() if target is not None else ""
    options.check_outputs(options.output or _new_path(label))
    if launch is not None:
        from dotnetdiag.recipes.launch import end_of, launched, shell_code, told_of_heirs

        with launched(launch, check=stop.check_wait) as child:
            if (
                launch.stop_on_exit and child.client.target_pid() != child.pid
            ):  # its own runtime ends the session itself
                child.on_exit(stop.stop)
            done = record(options, composed, child.client, label, observer, stop, child.address)
            end = end_of(
                child,
                ended_by_us=done.was_stopped,
                signal_for_it=lambda: observer.child_signal,
                is_cancelled=lambda: stop.is_cancelled,
            )
        code, name = shell_code(end.code)
        notes = (*done.notes, *end.notes, *told_of_heirs(child.heirs))
        return replace(done, child_exit_code=code, child_signal=name, notes=notes)
    assert target is not None, "a target or a program"
    resumes = options.resume
    with connected(target, waiting=observer.waiting, check=stop.check_wait, resumes=resumes) as client:
        over = target.address if target.port else None
        return record(options, composed, client, label, observer, stop, over)


def _new_path(label: str, *, take: bool = False) -> Path:
    """A name that nobody has asked for must not be another recording's, as of the same second. ``take``: the file is made."""
    stem = f"{label}_{datetime.now():%Y%m%d_%H%M%S}"
    for number in count(1):
        path = Path(f"{stem}{f'_{number}' if number > 1 else ''}.nettrace")
        if not os.path.lexists(path):
            if not take:
                return path
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                return path
    raise AssertionError("there is always another number")


def convert_recording(done: Collected, options: CollectOptions) -> list[Path]:
    """Write the recording in ``options.formats``, beside it. The files."""
    if not options.formats:
        return []
    from dotnetdiag.recipes.exporting import ConvertOptions, convert_file

    return [made.path for made in convert_file(done.path, options.formats, options=ConvertOptions(force=options.force))]


def record(
    options: CollectOptions,
    chosen: Composition,
    client: Client,
    label: str,
    observer: Observer,
    stop: Stop,
    over: str | None,
) -> Collected:
    """One session of ``client`` into one file, which is named after ``label`` where nobody has named it. ``over``: the address of the port
    that the client is of.
    """
    with stop.waiting():
        pid = client.target_pid()
        started_ticks = None if pid is None else processes.start_time_ticks(pid)
        starting = client.trace(
            chosen.providers,
            buffer_mb=options.buffer_mb,
            rundown_keyword=chosen.rundown_keyword,
            rundown_fallback=chosen.rundown_fallback,
            stackwalk=options.stacks,
            buffering_mode=int(options.block),
            duration=options.duration,
        )
    notes: list[str] = []
    if any((one.name or "").lower() == SAMPLE_PROFILER.lower() for one in chosen.providers) and has_no_sampler(pid):
        notes.append(f"{NO_SAMPLER}: where the time goes is not recorded.")
    with starting as session, stop.ending(session):
        if chosen.rundown_fallback is not None and session.command == "CollectTracing2":
            notes.append("The runtime takes no custom rundown; recorded without one.")
        held: tuple[Hold, ...] = ()
        if options.resume and is_held(client) is not False:
            try:
                held = resume(client, over=over)
            except DiagnosticsError as error:  # the session records all the same
                notes.append(f"The runtime could not be told to go on: {error}")
        began = time.monotonic()
        stop.check()
        watcher = _watcher(options, stop)
        losses = LossCounter()

        def see(data: memoryview) -> None:
            losses.feed(data)
            if watcher is not None and not session.was_stopped:  # what comes then does not end it any more
                watcher.feed(data)

        is_told = end_is_told = False

        def report(count: int) -> None:
            """The first time, the file could be made."""
            nonlocal is_told, end_is_told
            if not is_told:
                is_told = True
                observer.started(chosen, path, pid)
                if held or (not options.resume and client.is_suspended()):
                    observer.suspended(held)
            if not end_is_told and (stop.is_stopping or session.was_stopped):  # by its duration
                end_is_told = True
                observer.stopping()
            observer.progress(count, time.monotonic() - began)

        path = options.output or _new_path(label, take=True)
        options.check_outputs(path)
        size = session.save(1 if is_stdout(path) else path, progress=report, tee=see)
        report(size)
        seconds = time.monotonic() - began
    stop.check()
    if watcher is not None:
        notes += watcher.notes()
    if not is_stdout(path) and not os.path.lexists(path):
        raise OutputError(str(path), "it was deleted or moved while it was recorded")
    exited = has_exited(pid, started_ticks, wait_s=0 if session.was_stopped else EXIT_WAIT_S)
    outcome = outcome_of(path, losses.close())
    return Collected(
        path=path,
        size_bytes=size,
        duration_s=seconds,
        command=session.command,
        pid=pid,
        buffer_mb=options.buffer_mb,
        complete=outcome.complete,
        lost_events=outcome.lost_events,
        was_stopped=session.was_stopped,
        target_exited=exited,
        notes=tuple(notes),
    )


def _watcher(options: CollectOptions, stop: Stop) -> EventWatcher | None:
    if options.stopping_event is None:
        return None
    from dotnetdiag.recipes.stopping import EventWatcher

    return EventWatcher(options.stopping_event, stop.stop)
