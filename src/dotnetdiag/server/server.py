"""The server for programs of threads: one thread for all connections, one more for each command while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from selectors import BaseSelector, SelectorKey
from typing import Self

from dotnetdiag.errors import TransportError
from dotnetdiag.ipc.ports import parse_runtime_ports
from dotnetdiag.server.ages import NEWEST, Age
from dotnetdiag.server.alarm import select_promptly
from dotnetdiag.server.commands import Commands
from dotnetdiag.server.dispatch import Problem
from dotnetdiag.server.promptness import prompt
from dotnetdiag.server.serving import DRAIN_S, OPEN_S, Serving, log_problem
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.multiplexer import Multiplexer
from dotnetdiag.transport.security import NO_SECURITY, Security
from dotnetdiag.transport.suspension import HELD, SERVING, WAITING
from dotnetdiag.transport.waiting import Steps, run


class DiagnosticServer(Serving):
    """Answers Diagnostic IPC with ``commands``: ``with DiagnosticServer(commands) as server: server.listen()``.

    ``age``: commands that this .NET did not have are unknown. ``legacy``: the protocol from before V1 is spoken too. ``resumed`` is called once
    when the last port that suspends was resumed. ``problem`` is told a line and an error for what goes wrong and reaches nobody else (a
    command that raises, a port that cannot be used), from any thread; by default it is logged.

    On Unix sockets only the same user and root get an answer. A connection has 5 s to say its request and 5 s to take its reply; there are
    at most 256 at once, and 64 sessions. Several threads may use a server. A forked child is not served: it makes a server of its own.
    """

    def __init__(
        self,
        commands: Commands,
        *,
        age: Age = NEWEST,
        legacy: bool = False,
        resumed: Callable[[], None] | None = None,
        problem: Problem = log_problem,
    ) -> None:
        super().__init__(commands, age=age, legacy=legacy, resumed=resumed, problem=problem)
        self._multiplexer = Multiplexer("dotnetdiag server", self._failed, select=self._select, busy=self._busy)
        self._waiters: dict[object, None] = {}

    def listen(
        self,
        address: str | None = None,
        *,
        suspend: bool = False,
        security: Security = NO_SECURITY,
        insecure: bool = False,
    ) -> str:
        """Listen at an address (``/path``, ``host:port``), by default where tools look for this process; which one it is.

        A Unix socket has mode 0600, and goes with the server, at the end of the process, and on SIGTERM where that has its default action
        (without a compiled kernel: and this is called in the main thread). TCP beyond loopback needs a ``Security`` with certificates and a
        token, or ``insecure``.
        ``suspend``: ``wait_until_resumed`` waits for this port too. Raises TransportError, UsageError.
        """
        return run(self._listening(address, suspend, security, insecure), Deadline(OPEN_S))

    def connect(
        self, address: str, *, suspend: bool = False, security: Security = NO_SECURITY, insecure: bool = False
    ) -> None:
        """Dial a port, from now on, whenever nobody of it is connected: each connection takes one command. That nobody listens there is
        no error. Raises UsageError.
        """
        self._dial(address, suspend, security, insecure)

    def open_ports(self, text: str, *, security: Security = NO_SECURITY) -> int:
        """Every port of a ``DOTNET_DiagnosticPorts`` text; how many. One that cannot be used is told to ``problem``."""
        return run(self._opening(parse_runtime_ports(text), security), Deadline(None))

    def open_environment(
        self, environment: Mapping[str, str] | None = None, *, security: Security = NO_SECURITY
    ) -> bool:
        """All that a runtime opens with such an environment, by default that of this process: the default address, and every port of
        ``DOTNET_DiagnosticPorts``, suspending as they say. False: ``DOTNET_EnableDiagnostics=0``, and nothing was opened. What cannot be used is
        told to ``problem``.
        """
        return run(self._opening_all(environment, security), Deadline(None))

    def wait_until_resumed(self, *, timeout_s: float | None = None) -> None:
        """Until every port that suspends was resumed, or the server is closed. Raises TimedOut; it stays suspended then."""
        with self._waiting():
            run(self._resuming(), Deadline(timeout_s))

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Within this, whoever looks at the process finds that it waits, as long as a port that suspends was not resumed: the name of the
        server's thread tells (Linux). ``wait_until_resumed`` says it itself; who opens ports that may be dialled at once says it before.
        """
        waiter = object()
        self._waiters[waiter] = None
        try:
            self._tell_state()
            yield
        finally:
            del self._waiters[waiter]
            self._tell_state()

    def close(self, *, drain_s: float = DRAIN_S) -> None:
        """End it: sessions are stopped, and given ``drain_s`` to be read to their ends. May be called again, and from any thread but that of
        a source's ``take``.
        """
        if self.is_serving:
            with suppress(TransportError):
                run(self._ending(), Deadline(drain_s))
            self._multiplexer.close()
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def leave(self) -> None:
        """The interpreter ends."""
        self.close()

    def _tell_state(self) -> None:
        # whoever resumes it is answered by the thread after that
        self._multiplexer.rename(SERVING if not self.is_suspended else WAITING if self._waiters else HELD)

    def _select(self, selector: BaseSelector, timeout_s: float | None) -> list[tuple[SelectorKey, int]]:
        return select_promptly(selector, timeout_s, is_awaited=bool(self._connections))

    def _busy(self, has_come: bool) -> AbstractContextManager[object]:
        return prompt() if has_come or self._connections else nullcontext()

    def _settle(self) -> None:
        """The thread has begun to wait: what it does to be prompt while it begins is nothing that a program should see."""
        self._multiplexer.settle()

    def _spawn(self, steps: Steps[None], deadline: Deadline) -> None:
        self._multiplexer.begin(steps, deadline)

    def _abandon(self) -> None:
        self._multiplexer.close()
