"""Hold a session whose events go to the kernel's user_events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dotnetdiag.client import Client
from dotnetdiag.client.user_events import user_events_descriptor
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import NotPossible, RequestRefused, UnsupportedCommand
from dotnetdiag.providers.composition import with_tracepoint
from dotnetdiag.recipes.stop import Stop


def hold_user_events(
    client: Client,
    providers: str,
    tracepoint: str,
    duration: float | str | None,
    started: Callable[[], None],
    stop: Stop | None = None,
) -> None:
    """Until ``duration`` is over, the target is gone, or ``stop`` says so. Raises NotPossible where the kernel has no user_events
    for us.
    """
    stop = stop or Stop()
    seconds = seconds_of(duration)
    ends = None if seconds is None else time.monotonic() + seconds
    wanted = with_tracepoint(providers, tracepoint)
    with _descriptor() as descriptor, client.trace_user_events(descriptor, wanted) as session:
        with suppress(UnsupportedCommand):
            client.resume()
        started()
        pause = threading.Event()
        while session.is_alive and not stop.is_stopping and (ends is None or time.monotonic() < ends):
            stop.check()
            pause.wait(0.2)


@contextmanager
def _descriptor() -> Iterator[int]:
    opening = user_events_descriptor(None)
    try:
        descriptor = opening.__enter__()
    except RequestRefused as error:
        raise NotPossible(error.command, error.reason) from None
    try:
        yield descriptor
    finally:
        opening.__exit__(None, None, None)
