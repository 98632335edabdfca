"""The two shells that perform the steps of an operation; what is decided is decided in ``ipc.exchange``.

To its steps come two that need the machine that we are on, :class:`TargetPid` and :class:`Look`.
Whoever holds the :class:`~dotnetdiag.ipc.exchange.Run` can end it from outside: by closing its connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dotnetdiag.client.limits import Limits
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.ipc.exchange import Run, Step

if TYPE_CHECKING:
    from dotnetdiag.transport import Deadline, Stream
    from dotnetdiag.transport.aio import AsyncStream

T = TypeVar("T")


class Dials(Protocol):
    """All that most steps need of a ``Route``."""

    def dial(self, deadline: Deadline, /) -> Stream: ...


class AsyncDials(Protocol):
    """As :class:`Dials`."""

    async def dial(self, deadline: Deadline, /) -> AsyncStream: ...


class TargetPid(Step):
    """Find the runtime's process; None where the system does not tell. ``confirmed``: also where it may be that of a relay."""

    def __init__(self, *, confirmed: bool = False) -> None:
        super().__init__()
        self.confirmed = confirmed

    def perform(self, route: Any, deadline: Any) -> Any:
        return route.target_pid(deadline, confirmed=self.confirmed)


class Look(Step):
    """Call a function that may block, with the deadline; under asyncio a thread does."""

    def __init__(self, function: Callable[[Deadline], Any]) -> None:
        super().__init__()
        self.function = function

    def perform(self, route: Any, deadline: Any) -> Any:
        return route.look(lambda: self.function(deadline))


def run(operation: Run[T], route: Dials, limits: Limits) -> T:
    """The operation's result. After an error, of whatever kind, none of its connections is open."""
    try:
        while (step := operation.step) is not None:
            try:
                outcome = step.perform(route, limits.of(step))
            except DiagnosticsError as error:
                operation.failed(error)
            else:
                operation.succeeded(outcome)
    except BaseException:
        for connection in operation.abandon():
            connection.close()
        raise
    return operation.result


async def run_async(operation: Run[T], route: AsyncDials, limits: Limits) -> T:
    """As :func:`run`; cancelling it is such an error too."""
    try:
        while (step := operation.step) is not None:
            try:
                outcome = await step.perform(route, limits.of(step))
            except DiagnosticsError as error:
                operation.failed(error)
            else:
                operation.succeeded(outcome)
    except BaseException:
        for connection in operation.abandon():
            await connection.close()
        raise
    return operation.result
