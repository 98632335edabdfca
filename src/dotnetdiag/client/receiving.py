"""The next bytes of a session, whoever wants them."""

from __future__ import annotations

from typing import Protocol

from dotnetdiag.client.progress import SessionProgress
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.transport import Deadline


class Receiver(Protocol):
    """What is needed of a ``Stream`` to read a session."""

    def receive_into(self, view: memoryview, deadline: Deadline) -> int: ...
    def close(self) -> None: ...


def receive_into(progress: SessionProgress, stream: Receiver, view: memoryview, deadline: Deadline) -> int:
    """The next bytes of a session; 0 when it is over. Raises TimedOut after ``deadline``, and what broke the session."""
    while not progress.is_over:
        try:
            wait = progress.next_wait(deadline)
            if wait is not None:
                return progress.arrived(stream.receive_into(view, wait))
        except DiagnosticsError as error:
            if progress.is_over:
                raise
            progress.failed(error, deadline)
        finally:
            if progress.is_over:
                stream.close()
    return 0
