"""The two shells that perform the steps of an operation; what is decided is decided in ``ipc.exchange``.

Whoever holds the :class:`~dotnetdiag.ipc.exchange.Run` can end it from outside: by closing its connections.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from dotnetdiag.client.limits import Limits
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.ipc.exchange import Run
from dotnetdiag.transport import Deadline, Stream

if TYPE_CHECKING:
    from dotnetdiag.transport.aio import AsyncStream

T = TypeVar("T")


def run(operation: Run[T], dial: Callable[[Deadline], Stream], limits: Limits) -> T:
    """The operation's result. After an error, of whatever kind, none of its connections is open."""
    try:
        while (step := operation.step) is not None:
            try:
                outcome = step.perform(dial, limits.of(step))
            except DiagnosticsError as error:
                operation.failed(error)
            else:
                operation.succeeded(outcome)
    except BaseException:
        for connection in operation.open:
            connection.close()
        raise
    return operation.result


async def run_async(operation: Run[T], dial: Callable[[Deadline], Awaitable[AsyncStream]], limits: Limits) -> T:
    """As :func:`run`; cancelling it is such an error too."""
    try:
        while (step := operation.step) is not None:
            try:
                outcome = await step.perform(dial, limits.of(step))
            except DiagnosticsError as error:
                operation.failed(error)
            else:
                operation.succeeded(outcome)
    except BaseException:
        for connection in operation.open:
            await connection.close()
        raise
    return operation.result
