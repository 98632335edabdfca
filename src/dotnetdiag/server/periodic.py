"""What is done again and again for sessions, each at its own interval, by one thread for all of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic_ns  # that of now: programs and their tests replace the module's
from typing import Generic, TypeVar

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.server import leaving
from dotnetdiag.server.alarm import Alarm, new_alarm
from dotnetdiag.server.blocking import never_wait

OWN_THREADS = "dotnetdiag "
"""How the names of threads of this package begin; they are no part of the program."""
_NEVER = 1 << 62


@dataclass(slots=True, kw_only=True)
class Turn:
    """One that has its turn every ``interval_ns``, first when that is over; with ``part`` (0 to 1, another each time) once in each interval,
    at that part of it.
    """

    interval_ns: int
    part: Callable[[], float] | None = None
    next_ns: int = field(init=False)
    _begin_ns: int = field(init=False)

    def __post_init__(self) -> None:
        self._begin_ns = monotonic_ns()
        self.pass_on(self._begin_ns)

    def pass_on(self, now_ns: int) -> None:
        """It has had its turn, or missed some, and waits for the next."""
        self._begin_ns = self.next_ns = max(self._begin_ns + self.interval_ns, now_ns)
        if self.part is not None:
            self.next_ns += int(self.part() * self.interval_ns)


_T = TypeVar("_T", bound=Turn)


class Periodic(threading.Thread, Generic[_T]):
    """A daemon that calls ``act`` with those whose turn it is, until it is told to end; for more of them there is another.

    A turn that was missed is not made up for. What ``act`` raises ends that turn alone.
    """

    def __init__(
        self, name: str, turns: tuple[_T, ...], act: Callable[[list[_T]], None], alarm: Alarm | None = None
    ) -> None:
        super().__init__(name=f"{OWN_THREADS}{name}", daemon=True)
        self.turns = turns
        self._act = act
        self._alarm = alarm or new_alarm()
        self.is_ending = False

    def start(self) -> None:
        """At the end of the interpreter there are no more turns. Raises RuntimeError when the system has no thread for it."""
        try:
            super().start()
        except RuntimeError:
            if not leaving.is_ending():
                raise

    def keep(self, turns: tuple[_T, ...]) -> None:
        """Go on with those of its turns that are left; end without any. Nothing that could fail: a session that leaves starts no thread."""
        if turns:
            self.turns = turns
        else:
            self.end()

    def end(self) -> None:
        """Does not wait: the thread may be acting now, and ends after it. Once only."""
        self.is_ending = True
        self._alarm.ring()

    def run(self) -> None:
        never_wait()  # one session's reader would hold up the others
        ends, clock = self._alarm.wait, monotonic_ns
        now_ns, next_ns = clock(), min(one.next_ns for one in self.turns)
        while not ends(max(0, next_ns - now_ns)):
            now_ns, next_ns = clock(), _NEVER
            due: list[_T] = []
            for one in self.turns:
                if one.next_ns <= now_ns:
                    one.pass_on(now_ns)
                    due.append(one)
                next_ns = min(next_ns, one.next_ns)
            if due:
                with suppress(Exception):
                    self._act(due)
                now_ns = clock()
