"""Sessions whose events go to the Linux kernel's user_events: the descriptor they need, and the end they have."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dotnetdiag.client.progress import Followed
from dotnetdiag.errors import RequestRefused
from dotnetdiag.ipc.exchange import Operation, Run
from dotnetdiag.ipc.operations.sessions import StartedSession
from dotnetdiag.transport.streams import Closing

PLACES = ("/sys/kernel/tracing/user_events_data", "/sys/kernel/debug/tracing/user_events_data")


def _refused(reason: str) -> RequestRefused:
    return RequestRefused("CollectTracing5", reason)


@contextmanager
def user_events_descriptor(fd: int | None) -> Iterator[int]:
    """``fd`` after a look at it, or the kernel's file opened (and closed in the end). Raises RequestRefused."""
    if sys.platform != "linux":
        raise _refused("user_events are a feature of Linux; record a stream instead")
    place = next((place for place in PLACES if _exists(place)), None)
    if place is None:
        raise _refused(
            "this kernel offers no user_events: it takes Linux 6.4 with CONFIG_USER_EVENTS, and tracefs mounted "
            "(mount -t tracefs none /sys/kernel/tracing); record a stream instead"
        )
    if fd is not None:
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            raise _refused(f"{fd} is not an open file descriptor") from None
        if not target.endswith("user_events_data"):
            raise _refused(f"descriptor {fd} is {target}, not {place}")
        yield fd
        return
    try:
        opened = os.open(place, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise _refused(f"{place}: {error.strerror}; it takes root, or write permission on it") from error
    try:
        yield opened
    finally:
        os.close(opened)


def _exists(place: str) -> bool:
    try:
        os.stat(place)
    except OSError as error:
        return isinstance(error, PermissionError)  # it may be there; opening it will tell
    return True


class UserEvents(Followed):
    """A session that runs until it is closed, of either shell: the runtime watches the connection (ipc-protocol.md §15)."""

    def _is_suspended(self) -> Operation[bool]:
        """Nothing comes that would tell. Closing the connection is an end too, where a runtime is not known to run."""
        self._target_pid = self._target_pid or (yield from self._confirmed_pid())
        return bool((yield from self._threads_say())) if self._target_pid else True

    @property
    def is_alive(self) -> bool:
        """Whether the runtime still holds its end."""
        return not self._progress.is_over and bool(self._stream.is_alive())


class UserEventsSession(UserEvents, Closing):
    """That of ``Client``."""

    def __init__(self, started: StartedSession, perform: Callable[[Run[None]], None], **options: Any) -> None:
        super().__init__(started, perform, **options)
        self._closing = threading.RLock()  # a signal handler may close, too

    def close(self) -> None:
        """End the session: by command, and by closing the connection. May be called again, from any thread: it returns when all is closed.

        Never raises for a target that is gone or refuses; ``problem`` tells. Closing the connection ends the session there. In a forked
        child only the child's copy of the connection is closed.
        """
        if self._is_inherited(self._stream):
            return
        with self._closing:
            if self._progress.claim_stop():
                try:
                    with self._progress.outcome_of_stop():  # earlier previews did not watch the connection
                        self._perform(Run(self._end()))
                finally:
                    self._progress.ended_without_stream()
                    self._stream.close()
