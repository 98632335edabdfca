"""How long a call may take, over all the steps that it is made of."""

from __future__ import annotations

from dotnetdiag.ipc.exchange import Step
from dotnetdiag.transport import Deadline

TIMEOUT_S = 30.0
"""The reference client waits so long for a connection; an answer of a healthy runtime comes in milliseconds."""
SLOW_TIMEOUT_S = 1800.0
"""For the answer to a command that may take minutes: a dump, a profiler's load."""
DRAIN_TIMEOUT_S = 600.0
"""For all that comes after a session's ``stop``. The rundown of a large application can take minutes."""
CLOSE_TIMEOUT_S = 5.0
"""``close`` does not keep what comes, so it does not wait longer for it."""


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
