"""End a job from elsewhere: another thread, a callback, a signal handler."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from dotnetdiag.errors import Cancelled

__all__ = ["Stop", "Stoppable"]


class Stoppable(Protocol):
    """What a job runs: a trace session. ``was_stopped``: its end has begun, by whomever."""

    @property
    def was_stopped(self) -> bool: ...
    def stop(self) -> None: ...
    def abort(self) -> None: ...


class Stop:
    """Given to a job, it ends it: ``dd.collect(pid, "app.nettrace", stop=stop)``, and in another thread ``stop.stop()``.

    ``stop`` ends a job as its duration would: the runtime writes its rundown, and all is saved. ``cancel`` ends it at once: the job raises
    Cancelled, and a file that was begun has what had come. Both return at once, may be called from any thread and from a signal handler,
    before the job has begun as well as after it is over, and again. A ``Stop`` stays what it is: a job that gets one that was called ends
    when it begins, and one that waits for a runtime to come raises Cancelled.
    """

    def __init__(self) -> None:
        self._jobs: list[Stoppable] = []  # no lock: a signal handler may come while it is held
        self._has_begun = self._is_stopping = self._is_cancelled = False
        self._waiting: int | None = None

    def __repr__(self) -> str:
        state = "cancelled" if self._is_cancelled else "stopping" if self._is_stopping else "not called"
        return f"<Stop: {state}>"

    @property
    def is_stopping(self) -> bool:
        """Whether ``stop`` has been called."""
        return self._is_stopping

    @property
    def end_has_begun(self) -> bool:
        """Whether ``stop`` has been called, or a job comes to its end by itself, as after its duration."""
        return self._is_stopping or any(job.was_stopped for job in self._jobs)

    @property
    def is_cancelled(self) -> bool:
        """Whether ``cancel`` has been called."""
        return self._is_cancelled

    @property
    def has_begun(self) -> bool:
        """Whether a job has a session, or had one: from then on there is something to be saved."""
        return self._has_begun

    @property
    def may_raise(self) -> bool:
        """Whether this thread is in a call that may take long and leaves nothing behind when an exception ends it: what a signal handler
        asks before it raises one.
        """
        return self._waiting == threading.get_ident()

    def stop(self) -> None:
        """End the job nicely."""
        self._is_stopping = True
        for job in self._jobs:
            job.stop()

    def cancel(self) -> None:
        """End the job at once."""
        self._is_cancelled = True
        for job in self._jobs:
            job.abort()

    def check(self) -> None:
        """For the job, at places where nothing is left behind. Raises Cancelled."""
        if self._is_cancelled:
            raise Cancelled

    def check_wait(self) -> None:
        """For a job that waits for its runtime. Raises Cancelled also where it is only to stop: there is nothing to be saved."""
        if self._is_cancelled or self._is_stopping:
            raise Cancelled

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """For the job: within the block ``may_raise`` holds. Raises Cancelled."""
        self._waiting = threading.get_ident()
        try:
            self.check()
            yield
        finally:
            self._waiting = None

    @contextmanager
    def ending(self, job: Stoppable) -> Iterator[None]:
        """For the job: what ``stop`` and ``cancel`` mean within the block, also when they were called before."""
        self._jobs.append(job)
        self._has_begun = True
        try:
            if self._is_cancelled:
                job.abort()
            elif self._is_stopping:
                job.stop()
            yield
        finally:
            self._jobs.remove(job)
