"""The steps of an operation that has to wait, and the driver that waits for them in a thread (``aio`` has the other one).

An operation is a generator: it yields what it waits for and returns its result, so it is written once for both drivers.
Closing the generator at any step leaves nothing open.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dotnetdiag.errors import TransportError
from dotnetdiag.transport.deadline import Deadline

T = TypeVar("T")


class Ready(NamedTuple):
    """Wait until a call on ``socket`` would not block. ``TimedOut`` says ``problem`` and ``address``."""

    socket: socket.socket
    write: bool
    problem: str
    address: str


class Pause(NamedTuple):
    """Wait for ``seconds``."""

    seconds: float
    problem: str
    address: str = ""


class Blocking(NamedTuple):
    """Make a call that blocks and keeps to the deadline by itself. Its result is sent back, its error thrown in."""

    call: Callable[[Deadline], Any]


class Change(NamedTuple):
    """Wait until ``look`` finds something, which is the result. Within ``observed(function)`` the function is called, from any thread,
    whenever there may be something new.
    """

    look: Callable[[], Any]
    observed: Callable[[Callable[[], None]], AbstractContextManager[None]]
    problem: str
    address: str = ""


Outcome: TypeAlias = tuple[T | None, BaseException | None]
"""What a call has given, or raised."""


def start_thread(call: Callable[[], T], answered: Callable[[Outcome[T]], object]) -> None:
    """Make a call in a daemon thread, which no program waits for at its end, and tell there what came of it."""

    def work() -> None:
        try:
            outcome: Outcome[T] = (call(), None)
        except BaseException as exc:
            outcome = (None, exc)
        answered(outcome)

    start(threading.Thread(target=work, daemon=True, name="dotnetdiag transport"))


def start(thread: threading.Thread) -> None:
    """Start a thread. Raises TransportError."""
    try:
        thread.start()
    except RuntimeError as exc:
        raise TransportError(f"the system gives this program no more threads: {exc}") from exc


def result_of(outcome: Outcome[T]) -> T:
    """What the call has given. Raises what it has raised."""
    value, error = outcome
    if error is not None:
        raise error
    return value  # type: ignore[return-value] # there was no error: it is a T


def call_within(call: Callable[[], T], deadline: Deadline, problem: str, address: str = "") -> T:
    """What a call gives that may block and cannot be ended (a name server, a folder on a dead file server). Raises ``TimedOut`` when it
    takes too long; the daemon thread that makes the call is left alone then.
    """
    outcomes: list[Outcome[T]] = []
    answered = threading.Event()

    def tell(outcome: Outcome[T]) -> None:
        outcomes.append(outcome)
        answered.set()

    start_thread(call, tell)
    while not answered.wait(deadline.wait_s(problem, address=address)):
        pass
    return result_of(outcomes[0])


Steps: TypeAlias = Generator[Ready | Pause | Blocking | Change, Any, T]


def run(steps: Steps[T], deadline: Deadline) -> T:
    """The result of the operation. Raises ``TimedOut`` when a wait takes longer than the deadline."""
    try:
        step = next(steps)
        while True:
            if isinstance(step, Blocking | Change):
                try:
                    answer = step.call(deadline) if isinstance(step, Blocking) else _wait_for_change(step, deadline)
                except Exception as exc:
                    step = steps.throw(exc)
                else:
                    step = steps.send(answer)
            else:
                if isinstance(step, Ready):
                    wait_for(step, deadline)
                else:
                    time.sleep(min(step.seconds, deadline.wait_s(step.problem, address=step.address)))
                step = next(steps)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        steps.close()


def _wait_for_change(step: Change, deadline: Deadline) -> Any:
    changed = threading.Event()
    with step.observed(changed.set):
        while (found := step.look()) is None:
            changed.wait(deadline.wait_s(step.problem, address=step.address))
            changed.clear()
    return found


def wait_for(step: Ready, deadline: Deadline) -> None:
    """Wait until the socket is ready. Raises ``TimedOut``."""
    while not is_ready(step.socket.fileno(), step.write, deadline.wait_s(step.problem, address=step.address)):
        pass


def is_ready(fd: int, write: bool, seconds: float) -> bool:
    """Whether the descriptor becomes ready within so long. ``select`` takes none above 1,023."""
    if hasattr(select, "poll"):
        poller = select.poll()
        poller.register(fd, select.POLLOUT if write else select.POLLIN)
        return bool(poller.poll(seconds * 1000))
    one = [fd]
    return any(select.select([] if write else one, one if write else [], one, seconds))
