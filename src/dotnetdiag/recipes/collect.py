"""Record a trace of one process into a file."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dotnetdiag.client import Client
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import DiagnosticsError, OutputError, UsageError
from dotnetdiag.nettrace.loss_count import LossCounter
from dotnetdiag.providers.composition import Composition, ProviderSource, compose
from dotnetdiag.providers.keywords import SAMPLE_PROFILER
from dotnetdiag.providers.names import misspelled
from dotnetdiag.recipes.keeping import Keeping, StopCause, Watch
from dotnetdiag.recipes.kept_files import Held, Keeper, KeptFile, receive
from dotnetdiag.recipes.outcome import EXIT_WAIT_S, has_exited, outcome_of
from dotnetdiag.recipes.outputs import check_outputs, is_stdout
from dotnetdiag.recipes.resumption import resume_later
from dotnetdiag.recipes.sampler import NO_SAMPLER, has_no_sampler
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.suspension import Hold, is_held, resume
from dotnetdiag.recipes.target import Target, connected
from dotnetdiag.transport import processes

if TYPE_CHECKING:
    from dotnetdiag.client import TraceSession
    from dotnetdiag.recipes.launch import Launch
    from dotnetdiag.recipes.ring_files import DumpTrigger
    from dotnetdiag.recipes.stopping import StoppingEvent

__all__ = [
    "CollectOptions",
    "Collected",
    "Composition",
    "Keeping",
    "Observer",
    "ProviderSource",
    "Stop",
    "StopCause",
    "collect",
    "misspelled",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """What to record and where to put it; the texts are those of ``trace collect``.

    ``launch``: a program to start and to record from its first instruction, instead of ``target``. ``formats``: what
    :func:`convert_recording` is to write beside it; their files are overwritten with ``force`` only. ``keeping``: when it ends by itself, and
    what of it is kept.
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
    keeping: Keeping = field(default_factory=Keeping)
    formats: tuple[str, ...] = ()
    force: bool = False

    def check_outputs(self, path: Path) -> None:
        """Raises what keeps the recording at ``path``, or a file that it is to be converted to, from being written."""
        if self.keeping.in_several_files:  # their names are free, as far as they are not to be overwritten
            if is_stdout(path):
                raise UsageError("several files are not written to stdout: name a file")
            check_outputs([path.with_name(f"{path.name}.part")], force=True)
            return
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
        names = [provider.name or "" for provider in made.providers]
        if self.stopping_event is not None:
            from dotnetdiag.recipes.stopping import require_recorded

            require_recorded(self.stopping_event, names)
        self.keeping.check(names)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A finished recording. ``child_exit_code`` of a program that was started for it, as a shell gives it: 128 and the number of the
    ``child_signal`` that ended it; ``notes`` are for people.

    ``complete``: the stream came to its end; None: not known. ``was_stopped``: by us, not by the target's exit (``target_exited``).
    ``lost_events`` is the runtime's own count; None where it is not known. ``files`` are those that are there, the oldest first: one, or those of
    a rotation or of a flight recorder, of which ``path`` is the last; ``size_bytes`` is of all. ``stopped_by``: an event or a size that was
    waited for.
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
    files: tuple[KeptFile, ...] = ()
    stopped_by: StopCause | None = None

    @property
    def was_cut(self) -> bool:
        """Whether the stream broke off although nobody had stopped it: what stands between has gone, or the target itself."""
        return self.complete is False and not self.was_stopped

    @property
    def target_died(self) -> bool:
        """Whether the target was gone before the trace had its end: names of methods may be missing."""
        return self.target_exited and self.complete is False

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            **asdict(self),
            "target_died": self.target_died,
            "path": str(self.path),
            "notes": list(self.notes),
            "files": [file.to_json() for file in self.files],
        }


@dataclass(slots=True, kw_only=True)
class Observer:
    """What a face wants to be told of a recording, in the thread that records.

    ``started`` gets what is recorded and the file (of several the form of their names); ``progress`` the bytes so far and the seconds, several
    times a second; ``waiting`` the address that a runtime is waited for at; ``suspended`` is called when nothing will come because the
    runtime waits at its start, and nobody resumes it: with what holds it, where a resume did not help; ``stopping`` when the end has begun;
    ``held`` gets the seconds and bytes that a ring has, before ``progress``; ``dumped`` a file that was written of it, in the thread that
    writes them.
    """

    started: Callable[[Composition, Path, int | None], None] = lambda *_: None
    progress: Callable[[int, float], None] = lambda *_: None
    waiting: Callable[[str], None] = lambda *_: None
    suspended: Callable[[tuple[Hold, ...]], None] = lambda _: None
    stopping: Callable[[], None] = lambda: None
    held: Callable[[float, int], None] = lambda *_: None
    dumped: Callable[[KeptFile], None] = lambda _: None
    trigger: DumpTrigger | None = None
    """Whoever has it asks a flight recorder for a dump."""
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

    wanted = ConvertOptions(force=options.force)
    return [made.path for file in done.files for made in convert_file(file.path, options.formats, options=wanted)]


@contextmanager
def _setting(event: threading.Event) -> Iterator[None]:
    try:
        yield
    finally:
        event.set()


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
    has_ended = threading.Event()
    with starting as session, stop.ending(session), _setting(has_ended):
        if chosen.rundown_fallback is not None and session.command == "CollectTracing2":
            notes.append("The runtime takes no custom rundown; recorded without one.")
        held: tuple[Hold, ...] = ()
        if options.resume and is_held(client) is not False:
            try:
                held = resume(client, over=over)
            except DiagnosticsError as error:  # the session records all the same
                notes.append(f"The runtime could not be told to go on at once: {error}")
                resume_later(lambda: resume(client, over=over), lambda: not has_ended.is_set())
        began = time.monotonic()
        stop.check()
        names = [provider.name or "" for provider in chosen.providers]
        ask = (lambda: None) if observer.trigger is None else observer.trigger.ask
        watch = Watch(options.keeping, options.stopping_event, names, stop=stop.stop, dump=ask)
        losses = LossCounter()

        def see(data: memoryview) -> None:
            losses.feed(data)
            if not session.was_stopped:  # what comes then does not end it any more
                watch.feed(data)

        is_told = end_is_told = False

        def report(count: int) -> None:
            """The first time, the file could be made."""
            nonlocal is_told, end_is_told
            if not is_told:
                is_told = True
                observer.started(chosen, path if keeper is None else path.with_name(f"{path.stem}.N.nettrace"), pid)
                if held or (not options.resume and client.is_suspended()):
                    observer.suspended(held)
            if not end_is_told and (stop.is_stopping or session.was_stopped):  # by its duration
                end_is_told = True
                observer.stopping()
            watch.look()
            if isinstance(keeper, Held):
                observer.held(keeper.held_s, keeper.held_bytes)
            observer.progress(count, time.monotonic() - began)

        path = options.output or _new_path(label, take=not options.keeping.in_several_files)
        options.check_outputs(path)
        keeper = options.keeping.keeper(
            path,
            client,
            chosen,
            observer.trigger,
            observer.dumped,
            is_cancelled=lambda: stop.is_cancelled,
            force=options.force,
        )
        if keeper is None:
            size = session.save(1 if is_stdout(path) else path, progress=report, tee=see)
        else:
            size = _receive(session, keeper, see, report)
        report(size)
        seconds = time.monotonic() - began
    stop.check()
    notes += watch.notes()
    if keeper is None and not is_stdout(path) and not os.path.lexists(path):
        raise OutputError(str(path), "it was deleted or moved while it was recorded")
    exited = has_exited(pid, started_ticks, wait_s=0 if session.was_stopped else EXIT_WAIT_S)
    outcome = outcome_of(path, losses.close())
    if keeper is None:
        files = [KeptFile(path=path, size_bytes=size, complete=outcome.complete, lost_events=outcome.lost_events)]
    else:
        files = keeper.files
        notes += keeper.notes()
    return Collected(
        path=files[-1].path if files else path,
        size_bytes=sum(file.size_bytes for file in files),
        duration_s=seconds,
        command=session.command,
        pid=pid,
        buffer_mb=options.buffer_mb,
        complete=outcome.complete,
        lost_events=outcome.lost_events,
        was_stopped=session.was_stopped,
        target_exited=exited,
        notes=tuple(notes),
        files=tuple(files),
        stopped_by=watch.cause,
    )


def _receive(
    session: TraceSession, keeper: Keeper, tee: Callable[[memoryview], None], report: Callable[[int], None]
) -> int:
    """What came of the session until it ended; its keeper has written all of it that it keeps, also after an error."""
    try:
        size = receive(session, keeper, duration_s=session.duration_s, tee=tee, report=report, clock=time.monotonic)
    except BaseException:
        with suppress(DiagnosticsError):  # what happened before matters more
            keeper.close()
        raise
    keeper.close()
    return size
