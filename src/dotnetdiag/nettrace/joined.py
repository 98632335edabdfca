"""Segments of a file whose events come one after the other in time too, as one batch of those that were passed over.

A runtime writes a sequence point for each 40,000 events or so. What is done for each batch is in Python: a report on five million events, in 188
batches, spent more on them than on the events.
"""

from __future__ import annotations

from collections.abc import Iterator

from dotnetdiag.nettrace.batch import NEVER
from dotnetdiag.nettrace.resolving import Resolved
from dotnetdiag.nettrace.state import TraceState
from dotnetdiag.nettrace.step import Part, Step


class Joined:
    """What one pass has seen of the times of its events."""

    def __init__(self) -> None:
        self._latest = NEVER

    def parts(self, state: TraceState, step: Step, resolved: Resolved) -> Iterator[Part]:
        """What was passed over, its losses counted: a part ends before events that are no later than all that came before their sequence point."""
        passing, events = resolved.passed, resolved.events
        assert passing is not None
        begin = run = points = 0
        ended, own = NEVER, None

        def part() -> Part:
            headers, first, last = resolved.headers, resolved.firsts[begin], resolved.firsts[run]
            if last - first < len(headers):
                headers = headers[first:last]
            passed = own if own is not None and not points else passing.part(begin, run)
            return Part(headers, step.segment(resolved, begin), passed, points, ended)

        while True:
            end, action = step.due(resolved)
            if events[end] > events[run]:
                if events[run] == events[begin]:
                    begin = run
                next_one = passing.part(run, end)
                if points and next_one.earliest <= self._latest:
                    yield part()
                    begin, points, ended = run, 0, NEVER
                own = next_one
                state.account_passed(own, step.segment(resolved, run))
                self._latest = max(self._latest, own.latest)
            run = end
            if action is None:
                break
            action()
            if events[run] > events[begin]:
                points, ended = points + 1, self._latest
        if events[run] > events[begin]:
            yield part()
