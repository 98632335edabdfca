"""What the program's OpenTelemetry says to one session: of the readers that the program gave, or else of its global ``MeterProvider``.

Rule 1: OpenTelemetry is not imported before the program has done so, and what is used of it is public.
Rule 2: nothing is taken from the program's own readers: each reader of OpenTelemetry has sums of its own.
Rule 3: a program that makes an ``OpenTelemetryReader`` says itself which providers are read; no other is.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from dotnetdiag.server.instruments import Instrument, Reading

if TYPE_CHECKING:
    from dotnetdiag.server.open_telemetry import Following

SDK = "opentelemetry.sdk.metrics"


class OpenTelemetryMeters:
    """The readings of one session; nothing while the program has no OpenTelemetry. For one thread."""

    def __init__(self) -> None:
        self._following: Following | None = None

    def begin(self) -> list[Reading]:
        """What there is now: it tells which instruments there are, and what is counted from here on."""
        return self.read()

    def read(self) -> list[Reading]:
        """Since the last time. May run callbacks of the program, and take as long as they do (10 s for each reader)."""
        if self._following is None:
            self._following = _follow()
        return [] if self._following is None else self._following.read()

    def problems(self) -> list[str]:
        """What could not be read the last time, and why."""
        return [] if self._following is None else self._following.problems

    def ended(self) -> list[Instrument]:
        """Instruments of which there will be no more, since this was asked last."""
        return [] if self._following is None else self._following.take_ended()

    def end(self) -> None:
        """Read no more; the program's ``MeterProvider`` is as it was before."""
        if self._following is not None:
            self._following.end()


def _follow() -> Following | None:
    if SDK not in sys.modules:
        return None
    try:
        from dotnetdiag.server.open_telemetry import Following
    except Exception:  # an SDK that is older than what is used of it, or one that cannot be imported
        return None
    return Following()
