"""When a runtime is asked anew whose one session of meters somebody else had: most had one that ended a moment ago, killed maybe, which the runtime
has not noticed yet. So ours is left at once, and begun some times more; then it stays, for the EventCounters of it; and now and then
it is begun anew, for he may leave any time, and nobody tells that.

So is one whose runtime collects no more: somebody else who is refused takes ours with him when he goes (``docs/supported.md``).
"""

from __future__ import annotations

from collections.abc import Callable

SOON_S = (1.5, 3.0, 6.0)
LATER_S = 30.0
AGAIN_S = 5.0
MOST_DOUBLINGS = 5
TOLD_AFTER = 2
"""So many refusals: of a tool that was killed there is one."""


class Rejoining:
    """By number of a process. ``clock`` counts seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._times: dict[int, int] = {}
        self._asked: dict[int, float] = {}
        self._losses: dict[int, int] = {}
        self._beats: dict[int, tuple[int, float]] = {}
        self._leaves: dict[int, float] = {}
        self._begins: dict[int, float] = {}

    def __bool__(self) -> bool:
        """Whether any is waited for that has no session."""
        return bool(self._begins)

    def __contains__(self, number: object) -> bool:
        """Whether it was refused, and is to be asked anew: it gives no values of meters for now."""
        return number in self._times and (number in self._leaves or number in self._begins)

    def refused(self, number: int) -> bool:
        """A runtime has said that somebody else has its meters. Whether that is to be told."""
        if number in self._begins or number in self._leaves:
            return False
        times = self._times[number] = self._times.get(number, 0) + 1
        self._leaves[number] = self._clock() + (LATER_S if times > len(SOON_S) else 0.0)
        return times == TOLD_AFTER

    def beat(self, number: int, beats: int, silent_s: float, *, is_stopped: Callable[[], bool]) -> None:
        """Of a process: how often it has begun to collect. One that does so no more for ``silent_s``, has before, and runs, has lost ours."""
        now = self._clock()
        before, since = self._beats.get(number, (0, now))
        if beats != before:
            self._beats[number] = beats, now
            self._losses.pop(number, None)
            if number not in self and now - self._asked.get(number, now) > LATER_S:
                self._times.pop(number, None)  # it has been ours since; who is refused next is refused by somebody else
        elif beats and number not in self._leaves and number not in self._begins:
            losses = self._losses.get(number, 0)
            if now - since > silent_s * 2 ** min(losses, MOST_DOUBLINGS) and not is_stopped():
                self._losses[number], self._beats[number] = losses + 1, (beats, now)
                self._leaves[number] = now

    def failed(self, number: int) -> None:
        """It could not be asked anew, and is still there."""
        self._begins[number] = self._clock() + AGAIN_S

    def leaving(self) -> list[int]:
        """Those whose sessions are to be left now."""
        due = [number for number, at in self._leaves.items() if at <= self._clock()]
        for number in due:
            del self._leaves[number]
            times = self._times.get(number, 0)
            self._begins[number] = self._clock() + SOON_S[times - 1 if 0 < times <= len(SOON_S) else 0]
        return due

    def beginning(self) -> list[int]:
        """Those to be asked now."""
        due = [number for number, at in self._begins.items() if at <= self._clock()]
        for number in due:
            del self._begins[number]
            self._asked[number] = self._clock()
        return due

    def forget(self, number: int) -> None:
        """It has gone."""
        self._times.pop(number, None)
        self._asked.pop(number, None)
        self._leaves.pop(number, None)
        self._begins.pop(number, None)
        self._losses.pop(number, None)
        self._beats.pop(number, None)
