"""Scripted runtimes whose sessions of counters get what a test makes of what they ask for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.analysis.counters_made import MadeCounters

from dotnetdiag.analysis.metrics import METRICS
from dotnetdiag.testing import Script, Talk
from dotnetdiag.testing.asked import Asked

COLLECT = ("CollectTracing2", "CollectTracing3", "CollectTracing4", "CollectTracing5")
IN_THE_WAY, OTHER_LIMITS = 15, 17
"""Events: somebody else has the session of meters; he has it with other limits."""
_END = 1
"""Bytes of the end of a stream."""


@dataclass(frozen=True)
class Sought:
    """What a session asks for: ``meters`` are the arguments of the provider of metrics, empty without it. ``number``: how many were before."""

    number: int
    providers: tuple[str, ...]
    meters: Mapping[str, str]

    @property
    def limits(self) -> str:
        return ";".join(f"{name}={self.meters[name]}" for name in ("RefreshInterval", "MaxTimeSeries", "MaxHistograms"))


class Meters:
    """``answer`` makes the stream of each session, which ends when it is told to. ``sought`` are all that were begun."""

    def __init__(self, answer: Callable[[Sought], MadeCounters]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self.sought: list[Sought] = []

    @property
    def scripts(self) -> dict[str, Script]:
        return dict.fromkeys(COLLECT, self.script)

    def script(self, talk: Talk) -> None:
        """Of one session."""
        with self._lock:
            sought = sought_by(talk.asked, len(self.sought))
            self.sought.append(sought)
        data = self._answer(sought).data()
        talk.begin_session(data[:-_END])
        talk.wait_for_stop(None)
        talk.send(data[-_END:])


def sought_by(asked: Asked, number: int) -> Sought:
    """What a request for a session asks for."""
    request: Any = asked.request
    arguments = next((one.arguments for one in request.providers if one.name == METRICS), "")
    pairs = (pair.partition("=") for pair in arguments.split(";") if pair)
    return Sought(
        number=number,
        providers=tuple(one.name for one in request.providers),
        meters={name: value for name, _, value in pairs},
    )


def refused(whose: str) -> MadeCounters:
    """What a session is told whose meters somebody else has."""
    return MadeCounters().at(10).metric(IN_THE_WAY, runningSessionId=whose)


def given(name: str = "g", **values: Any) -> MadeCounters:
    """A value of the meter ``M``, in a session that is shared."""
    return MadeCounters().at(10).gauge(name, **{"sessionId": "SHARED", "meterName": "M", "lastValue": "1", **values})
