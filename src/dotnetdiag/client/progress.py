"""How far a session is: its state, how long it may still take, what went wrong. What both kinds of session share; no I/O.

Rule 1: the state is changed by those who read, one at a time. ``claim_stop``, ``outcome_of_stop`` and ``is_aborted`` only leave word for
them, each in one atomic step, so that a signal handler, another thread, or a second signal in the middle of the first may do so.
Rule 2: the lock is held for no wait and no system call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dotnetdiag.client.limits import DRAIN_TIMEOUT_S, stays_silent
from dotnetdiag.client.running import Look
from dotnetdiag.errors import DiagnosticsError, MalformedError, ServerError, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.exchange import Close, Operation, Run
from dotnetdiag.ipc.operations.information import process_info
from dotnetdiag.ipc.operations.sessions import StartedSession, stop
from dotnetdiag.ipc.session_life import Action, Event, SessionLife, State
from dotnetdiag.transport import Deadline, Stream, processes
from dotnetdiag.transport.attempts import stopped_error

TICK_S = 0.1
"""How often somebody who waits for bytes looks whether the session was stopped meanwhile."""
STOPPED_TICKS = 100
"""In the end of a session a target is waited for so long that a signal has stopped; it may be continued."""
GRACE_S = 1.0
"""After a stop that failed: a target that has exited closes its end within this, and what it wrote is read."""


class SessionProgress(SessionLife):
    """``drain_timeout_s`` is for all that comes after ``stop``: the flush, the rundown, the end of the stream."""

    def __init__(self, drain_timeout_s: float | None, address: str, target_pid: int | None = None) -> None:
        self.received_bytes = 0
        self.problem: DiagnosticsError | None = None
        self._drain_timeout_s, self._address, self._target_pid = drain_timeout_s, address, target_pid
        self._stopped_ticks = 0
        super().__init__()
        self.on(Event.STARTED)
        self._stops = [True]
        self._outcomes: list[DiagnosticsError | None] = []
        self._drain: Deadline | None = None
        self.end_is_wanted = self.is_aborted = False
        self._lock = threading.RLock()  # a signal handler may read, too

    @property
    def is_stopping(self) -> bool:
        """Whether somebody has asked for its end."""
        return not self._stops

    def claim_stop(self) -> bool:
        """Whether the caller is the one who sends StopTracing: true once, and not when the session is over: its id may be another's."""
        self.end_is_wanted = True
        try:
            return not self.is_over and self._stops.pop()
        except IndexError:
            return False

    @property
    def stop_has_ended(self) -> bool:
        """Whether StopTracing was answered, or failed."""
        return bool(self._outcomes)

    @contextmanager
    def outcome_of_stop(self) -> Iterator[None]:
        """StopTracing is sent within it. Those who read are told whatever comes of it; only what interrupts it is raised."""
        outcome: DiagnosticsError | None = TransportError("StopTracing was interrupted", address=self._address)
        try:
            yield
            outcome = None
        except DiagnosticsError as error:
            outcome = error
        except Exception as error:
            outcome = TransportError(f"StopTracing was not sent: {error}", address=self._address)
            outcome.__cause__ = error
        finally:
            self._outcomes.append(outcome)

    def limit_drain(self, limit: Deadline) -> None:
        """All that is left may take no longer than this."""
        with self._lock:
            if self._drain is None or limit.left_s < self._drain.left_s:
                self._drain = limit

    def next_wait(self, deadline: Deadline) -> Deadline | None:
        """How long to wait for the next bytes; None when the session was aborted. Raises what broke it."""
        with self._lock:
            if self.is_aborted:
                self._happens(Event.ABORTED)
                return None
            if self.is_stopping and self.state is State.STREAMING:
                self._happens(Event.STOP)
            if self._outcomes and self.state is State.STOPPING:
                self._take_outcome(self._outcomes[0])
            if self._drain is not None and self._drain.is_over and self.is_stopping:
                self._happens(Event.LIMIT_PASSED)
                late = TimedOut("the session did not end", address=self._address, timeout_s=self._drain.timeout_s)
                self.problem = self.problem or late
                raise self.problem
            left_s = min(TICK_S, deadline.left_s)
            return Deadline(left_s if self._drain is None else min(left_s, self._drain.left_s))

    def arrived(self, count: int) -> int:
        """So many bytes came; 0: the stream has ended, and a stop that failed did so because the target was gone."""
        with self._lock:
            self.received_bytes += count
            if not count:
                self._happens(Event.STREAM_ENDED)
                self.problem = None
            return count

    def failed(self, error: DiagnosticsError, deadline: Deadline) -> None:
        """Receiving raised ``error``. Returns when it is to be tried again, otherwise raises what the caller is to see."""
        if isinstance(error, UsageError):  # nothing was received; the session goes on
            raise error
        stopped = None
        if self.is_stopping and self._target_pid:
            with suppress(TransportError):  # for want of a descriptor to look with: the stream is none the worse for it
                stopped = stopped_error(self._target_pid, self._target_pid)
        with self._lock:
            self._stopped_ticks = self._stopped_ticks + 1 if stopped else 0
            if stopped and self._stopped_ticks > STOPPED_TICKS:
                self.problem = stopped
                self._happens(Event.LIMIT_PASSED)
                raise stopped
            if not isinstance(error, TimedOut):
                self._happens(Event.STREAM_FAILED)
                self.problem = error
                raise error
            if deadline.is_over:
                raise TimedOut("nothing arrived", address=self._address, timeout_s=deadline.timeout_s) from error

    def ended_without_stream(self) -> None:
        """For a session that sends nothing: what came of StopTracing is all."""
        self._happens(Event.STOP)
        self._take_outcome(self._outcomes[0])
        self._happens(Event.STREAM_ENDED if self.problem is None else Event.LIMIT_PASSED)

    def _take_outcome(self, error: DiagnosticsError | None) -> None:
        self.problem = error
        self._happens(Event.STOP_ANSWERED if error is None else Event.STOP_FAILED)

    def _happens(self, event: Event) -> None:
        """Go on in the table, and do what it says about the limit of the end. Who reads closes, and who stops has sent it."""
        action = self.on(event)
        if action in (Action.SEND_STOP, Action.SHORTEN_LIMIT):
            self.limit_drain(Deadline(self._drain_timeout_s if action is Action.SEND_STOP else GRACE_S))


class Followed:
    """What every session does and tells, of whichever shell."""

    def __init__(
        self,
        started: StartedSession,
        perform: Callable[[Run[None]], Any],
        *,
        target_pid: int | None = None,
        duration_s: float | None = None,
        drain_timeout_s: float | None = DRAIN_TIMEOUT_S,
    ) -> None:
        """``perform`` is the shell's way to perform the end; under asyncio it is awaited. ``target_pid`` is the runtime's for certain."""
        self._owner_pid = os.getpid()
        self.session_id, self.command = started.session_id, started.command
        self.duration_s, self._perform = duration_s, perform
        self._stream: Any = started.connection
        self._target_pid, self._peer_pid = target_pid, self._stream.peer_pid()
        self._progress = SessionProgress(drain_timeout_s, self._stream.address, target_pid or self._peer_pid)

    def _is_inherited(self, stream: Stream) -> bool:
        """Whether this is a forked child; its copy of the connection is closed then. The session, and all that comes, is its parent's."""
        if os.getpid() == self._owner_pid:
            return False
        stream.close()
        return True

    def _end(self) -> Operation[None]:
        """StopTracing; where the runtime is suspended at startup (it has sent nothing yet), closing the stream instead. A StopTracing there
        poisons it: the next session before ResumeRuntime kills .NET 8, 9 and 10 (ipc-protocol.md §21.1). Without it the session
        ends at its first event, and others work (measured: 8.0.33, 9.0.22, 10.0.14, NativeAOT 9, six of six each).
        """
        if not self.received_bytes and (yield from self._is_suspended()):
            yield Close(self._stream)
        elif not self._progress.is_over:  # its id may be that of another session then
            yield from stop(self.session_id)

    def _is_suspended(self) -> Operation[bool]:
        """By its threads, where its process is certain. Where it is not, a slow line may bring a head late: a runtime that answers a
        question, and still sends no head, is suspended. Raises TimedOut when there is no answer.
        """
        if self._stream.has_arrived():
            return False
        said = yield from self._threads_say()
        if said is not None:
            return said
        if self._target_pid:  # who is known by an address was asked already
            with suppress(ServerError, MalformedError):
                yield from process_info()
        return (yield Look(lambda _: stays_silent(self._stream, lambda: bool(self.received_bytes))))  # type: ignore[no-any-return]

    def _threads_say(self) -> Operation[bool | None]:
        from dotnetdiag.transport.suspension import is_suspended

        pid = self._target_pid or (yield from self._confirmed_pid())
        return (yield Look(lambda _: is_suspended(pid))) if pid else None

    def _confirmed_pid(self) -> Operation[int | None]:
        """The process at the other end, where the runtime says that it is this: who is known by an address may be a relay, whose threads
        tell nothing of the runtime.
        """
        with suppress(ServerError, MalformedError):
            told = yield from process_info()
            if self._peer_pid and processes.is_number_of(told.pid, self._peer_pid):
                return int(self._peer_pid)
        return None

    @property
    def state(self) -> State:
        """Where the session stands."""
        return self._progress.state

    @property
    def received_bytes(self) -> int:
        """How many bytes have been read."""
        return self._progress.received_bytes

    @property
    def problem(self) -> DiagnosticsError | None:
        """What kept the session from ending as it should; None while it runs well, and when it did, or the target was gone."""
        return self._progress.problem

    @property
    def was_stopped(self) -> bool:
        """Whether we asked for its end. When not, and it has ended, the target exited or somebody else stopped it."""
        return self._progress.is_stopping
