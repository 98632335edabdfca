"""Hold a session whose events go to the kernel's user_events."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from dotnetdiag.client import Client
from dotnetdiag.errors import UnsupportedCommand
from dotnetdiag.providers.composition import with_tracepoint
from dotnetdiag.providers.durations import seconds_of


def hold_user_events(
    client: Client, providers: str, tracepoint: str, duration: float | str | None, started: Callable[[], None]
) -> None:
    """Until ``duration`` is over, the target is gone, or an interrupt comes. Raises RequestRefused where the kernel has no user_events."""
    seconds = seconds_of(duration)
    ends = None if seconds is None else time.monotonic() + seconds
    with client.trace_user_events(None, with_tracepoint(providers, tracepoint)) as session:
        with suppress(UnsupportedCommand):
            client.resume()
        started()
        pause = threading.Event()
        while session.is_alive and (ends is None or time.monotonic() < ends):
            pause.wait(0.2)
