"""One session of a client, from its start to what was written of it."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from datetime import datetime
from itertools import count
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError, OutputError
from dotnetdiag.nettrace.loss_count import LossCounter
from dotnetdiag.providers.composition import Composition
from dotnetdiag.providers.keywords import SAMPLE_PROFILER
from dotnetdiag.recipes.collect_options import Collected, CollectOptions, Observer
from dotnetdiag.recipes.keeping import Watch
from dotnetdiag.recipes.kept_files import Held, Keeper, KeptFile, receive
from dotnetdiag.recipes.outcome import EXIT_WAIT_S, has_exited, outcome_of
from dotnetdiag.recipes.outputs import is_stdout
from dotnetdiag.recipes.resumption import resume_later
from dotnetdiag.recipes.sampler import NO_SAMPLER, has_no_sampler
from dotnetdiag.recipes.slow_start import START_TIMEOUT_S, told_when_late
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.suspension import Hold, is_held, resume
from dotnetdiag.recipes.target import LOOK_S
from dotnetdiag.transport import Deadline, processes

if TYPE_CHECKING:
    from dotnetdiag.client import TraceSession

TOLD_S = 5.0
"""A runtime that waits at its start answers in milliseconds; a busy machine takes its time."""


class Recording:
    """One session of ``client`` into the files that ``options`` keep of it, named after ``label`` where nobody has named them.

    ``over``: the address of the port that the client is of.
    """

    def __init__(
        self,
        options: CollectOptions,
        composed: Composition,
        client: Client,
        label: str,
        *,
        observer: Observer,
        stop: Stop,
        over: str | None,
    ) -> None:
        self._options, self._composed, self._client, self._over = options, composed, client, over
        self._observer, self._stop = observer, stop
        self._label = label
        self._pid: int | None = None
        self._started_ticks: int | None = None
        self._names = [provider.name or "" for provider in composed.providers]
        self._notes: list[str] = []
        self._losses = LossCounter()
        self._held: tuple[Hold, ...] = ()
        self._has_ended = threading.Event()
        self._is_told = self._end_is_told = False

    def run(self) -> Collected:
        """Record until its end. Raises Cancelled after ``stop.cancel()``; what came is in the file even then."""
        with self._stop.waiting():
            self._pid = self._client.target_pid()
            self._started_ticks = None if self._pid is None else processes.start_time_ticks(self._pid)
            starting = self._start()
        if any(name.lower() == SAMPLE_PROFILER.lower() for name in self._names) and has_no_sampler(self._pid):
            self._notes.append(f"{NO_SAMPLER}: where the time goes is not recorded.")
        try:
            with starting as session, self._stop.ending(session):
                self._session = session
                if self._composed.rundown_fallback is not None and session.command == "CollectTracing2":
                    self._notes.append("The runtime takes no custom rundown; recorded without one.")
                self._resume()
                self._began = time.monotonic()
                self._stop.check()
                size = self._save()
                seconds = time.monotonic() - self._began
        finally:
            self._has_ended.set()
        self._stop.check()
        return self._outcome(size, seconds)

    def _start(self) -> TraceSession:
        composed, options = self._composed, self._options
        with told_when_late(self._observer.late):
            return self._client.trace(
                composed.providers,
                buffer_mb=options.buffer_mb,
                rundown_keyword=composed.rundown_keyword,
                rundown_fallback=composed.rundown_fallback,
                stackwalk=options.stacks,
                buffering_mode=int(options.block),
                duration=options.duration,
                answer_timeout_s=START_TIMEOUT_S,
            )

    def _resume(self) -> None:
        """Have a runtime that waits at its start go on; one that cannot be told now is told again and again while it is recorded. Raises
        Cancelled.
        """
        if not self._options.resume or is_held(self._client) is False:
            return
        answers: SimpleQueue[tuple[Hold, ...] | DiagnosticsError] = SimpleQueue()

        def tell() -> None:
            try:
                answers.put(resume(self._client, over=self._over))
            except DiagnosticsError as error:
                answers.put(error)
                raise

        resume_later(tell, lambda: not self._has_ended.is_set())  # in a thread: a signal must not wait for the answer
        problem, limit = f"no answer within {TOLD_S:g} s", Deadline(TOLD_S)
        while not (limit.is_over or self._stop.is_stopping or self._session.was_stopped):
            self._stop.check()
            with suppress(Empty):
                answer = answers.get(timeout=min(LOOK_S, limit.left_s))
                if not isinstance(answer, DiagnosticsError):
                    self._held = answer
                    return
                problem = str(answer)
                break
        if not self._stop.is_stopping:
            self._notes.append(
                f"The runtime could not be told to go on at once: {problem}"
            )  # it is recorded all the same

    def _save(self) -> int:
        """Write what comes until the session ends: so many bytes."""
        options, trigger = self._options, self._observer.trigger
        ask = (lambda: None) if trigger is None else trigger.ask
        self._watch = Watch(options.keeping, options.stopping_event, self._names, stop=self._stop.stop, dump=ask)
        self._path = options.output or new_path(self._label, take=not options.keeping.in_several_files)
        options.check_outputs(self._path)
        self._keeper = options.keeping.keeper(
            self._path,
            self._client,
            self._composed,
            trigger,
            self._observer.dumped,
            is_cancelled=lambda: self._stop.is_cancelled,
            force=options.force,
        )
        if self._keeper is None:
            file = 1 if is_stdout(self._path) else self._path
            size = self._session.save(file, progress=self._report, tee=self._see)
        else:
            size = self._receive(self._keeper)
        self._report(size)
        return size

    def _receive(self, keeper: Keeper) -> int:
        """What came of the session until it ended; its keeper has written all of it that it keeps, also after an error."""
        session = self._session
        try:
            size = receive(
                session,
                keeper,
                duration_s=session.duration_s,
                tee=self._see,
                report=self._report,
                clock=time.monotonic,
            )
        except BaseException:
            with suppress(DiagnosticsError):  # what happened before matters more
                keeper.close()
            raise
        keeper.close()
        return size

    def _see(self, data: memoryview) -> None:
        self._losses.feed(data)
        if not self._session.was_stopped:  # what comes then does not end it any more
            self._watch.feed(data)

    def _report(self, count: int) -> None:
        """The first time, the file could be made."""
        observer, keeper = self._observer, self._keeper
        if not self._is_told:
            self._is_told = True
            shown = self._path if keeper is None else self._path.with_name(f"{self._path.stem}.N.nettrace")
            observer.started(self._composed, shown, self._pid)
            if self._held or (not self._options.resume and is_held(self._client)):
                observer.suspended(self._held)
        if not self._end_is_told and (self._stop.is_stopping or self._session.was_stopped):  # by its duration
            self._end_is_told = True
            observer.stopping()
        self._watch.look()
        if isinstance(keeper, Held):
            observer.held(keeper.held_s, keeper.held_bytes)
        observer.progress(count, time.monotonic() - self._began)

    def _outcome(self, size: int, seconds: float) -> Collected:
        path, keeper, session = self._path, self._keeper, self._session
        notes = [*self._notes, *self._watch.notes()]
        if keeper is None and not is_stdout(path) and not os.path.lexists(path):
            raise OutputError(str(path), "it was deleted or moved while it was recorded")
        exited = has_exited(self._pid, self._started_ticks, wait_s=0 if session.was_stopped else EXIT_WAIT_S)
        outcome = outcome_of(path, self._losses.close())
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
            pid=self._pid,
            buffer_mb=self._options.buffer_mb,
            complete=outcome.complete,
            lost_events=outcome.lost_events,
            was_stopped=session.was_stopped,
            target_exited=exited,
            notes=tuple(notes),
            files=tuple(files),
            stopped_by=self._watch.cause,
        )


def new_path(label: str, *, take: bool = False) -> Path:
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
