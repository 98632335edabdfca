"""What comes before a heap is walked: a runtime is waited for, no longer than is told, and one that waits at its start is let run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dotnetdiag.client import Client
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import DiagnosticsError, TimedOut
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.suspension import holds, is_held, resume
from dotnetdiag.transport import processes

STARTING_S = 5.0
"""A runtime that is let run does so within milliseconds."""
_LOOK_S = 0.01


def waiting_check(stop: Stop, timeout: float | str | None) -> Callable[[], None]:
    """What ends waiting for a runtime: ``stop``, and the ``timeout`` where there is one. Raises Cancelled, TimedOut."""
    limit_s = seconds_of(timeout) or None
    ends = None if limit_s is None else time.monotonic() + limit_s

    def check() -> None:
        stop.check_wait()
        if ends is not None and time.monotonic() > ends:
            raise TimedOut("no runtime came", timeout_s=limit_s)

    return check


@contextmanager
def bounded(client: Client, timeout_s: float) -> Iterator[None]:
    """Within the block no answer of the runtime is waited for longer than that."""
    before = client.timeout_s
    client.timeout_s = min(before, timeout_s)
    try:
        yield
    finally:
        client.timeout_s = before


def has_other_sessions(pid: int | None) -> bool:
    """Whether other sessions seem to go on in a process of this machine: beside the thread that waits for who asks, a runtime has one for each that
    is sent (8 to 10, as Linux shows it).
    """
    return pid is not None and processes.thread_names(pid).count(".NET EventPipe") > 1


def let_start(client: Client, stop: Stop) -> bool:
    """Let a runtime run that waits at its start, for it has no heap before: whether it did wait. One of which that cannot be told hears it
    all the same.

    Raises DiagnosticsError for one that something else still holds, and what :func:`recipes.suspension.resume` raises.
    """
    held = client.is_suspended()
    if held is False:
        return False
    resume(client)
    ends = time.monotonic() + min(STARTING_S, client.timeout_s)
    while held and is_held(client):
        if time.monotonic() > ends:
            ports = [
                repr(hold.port) if hold.port is not None else "its own socket" for hold in holds(client.target_pid())
            ]
            over = f" over {', '.join(ports)}" if ports else ""
            raise DiagnosticsError(f"it waits at its start, and has no heap before it is resumed{over}")
        stop.check_wait()
        time.sleep(_LOOK_S)
    return bool(held)
