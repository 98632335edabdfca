"""How long a call may take, over all the steps that it is made of."""

from __future__ import annotations

import time
from collections.abc import Callable

from dotnetdiag.ipc.exchange import Step
from dotnetdiag.transport import Deadline, Stream

TIMEOUT_S = 30.0
"""The reference client waits so long for a connection; an answer of a healthy runtime comes in milliseconds."""
SLOW_TIMEOUT_S = 1800.0
"""For the answer to a command that may take minutes: a dump, a profiler's load."""
DRAIN_TIMEOUT_S = 600.0
"""For all that comes after a session's ``stop``. The rundown of a large application can take minutes."""
SHORT_DRAIN_TIMEOUT_S = 60.0
"""For all that comes after the stop of a session that is begun for names of methods, or for one sample: its rundown takes 0.02 to 0.3 s, and a few
seconds of a large program on a busy machine.
"""
SHORT_SILENCE_S = 15.0
"""Such a session that sends nothing for so long does not end. A process that a signal has stopped is told sooner, after 10 s."""
CLOSE_TIMEOUT_S = 5.0
"""``close`` does not keep what comes, so it does not wait longer for it."""
SILENCE_S = 1.0
"""A runtime that runs sends the head of a trace within 0.1 s."""


def stays_silent(stream: Stream, has_received: Callable[[], bool]) -> bool:
    """Whether a session's stream brings nothing, not even its head: so it is of a runtime that is suspended at startup, also where its
    process cannot be seen (other machines, other namespaces).
    """
    ends = time.monotonic() + SILENCE_S
    while not has_received() and not stream.has_arrived():
        if time.monotonic() >= ends or stream.fileno() < 0:
            return True
        time.sleep(0.005)
    return False


class Limits:
    """``timeout_s`` for all connecting, sending and quick answers of one call, from now on; ``answer_timeout_s`` for its slow answers,
    from the first wait for one on.
    """

    def __init__(self, timeout_s: float | None, answer_timeout_s: float | None) -> None:
        """Raises UsageError for numbers that are none of a time."""
        self.quick, self._answer_timeout_s = Deadline(timeout_s), Deadline(answer_timeout_s).timeout_s
        self._slow: Deadline | None = None

    def of(self, step: Step) -> Deadline:
        """The deadline that holds for a step."""
        if not step.slow:
            return self.quick
        if self._slow is None:
            self._slow = Deadline(self._answer_timeout_s)
        return self._slow
