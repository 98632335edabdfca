"""What both shells of a server are: its ports and its connections, as steps that a shell drives.

Rule 1: nobody waits for another. Each connection is an operation of its own, each command has a thread for as long as it runs.
Rule 2: there are at most ``MOST_CONNECTIONS``. When there are so many, the oldest that has not asked yet, or was answered, makes room; when
all of them are being answered, the new one is closed.
Rule 3: a port that cannot be used is told and left out; it does not suspend, for nobody could resume it.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import ConnectFailed, DiagnosticsError, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.ports import PortMode, RuntimePort
from dotnetdiag.server import leaving
from dotnetdiag.server.ages import NEWEST, Age
from dotnetdiag.server.blocking import never_wait
from dotnetdiag.server.children import CHILDREN
from dotnetdiag.server.commands import Commands
from dotnetdiag.server.connection import Connection
from dotnetdiag.server.credentials import caller_of, may_ask
from dotnetdiag.server.dispatch import Dispatcher, Problem
from dotnetdiag.server.observers import Observers
from dotnetdiag.server.ports import default_address, read_settings
from dotnetdiag.server.promptness import LOOKS_S, take_back
from dotnetdiag.server.suspension import Suspension
from dotnetdiag.transport import Deadline, Listener, Stream, parse_address
from dotnetdiag.transport.addresses import Address, TcpAddress, UnixAddress
from dotnetdiag.transport.connecting import connecting
from dotnetdiag.transport.listening import listening
from dotnetdiag.transport.security import NO_SECURITY, Security, check, introducing, require_secure
from dotnetdiag.transport.sockets import SocketStream
from dotnetdiag.transport.waiting import Change, Pause, Steps, start_thread

MOST_CONNECTIONS = 256
OPEN_S = 5.0
"""For listening at one address."""
FIRST_PAUSE_S, LONGEST_PAUSE_S, LONGER = 0.01, 0.5, 1.25
"""Between two attempts to dial a port (ipc-protocol.md §8)."""
ATTEMPT_S = 5.0
STEADY_S = 1.0
"""A connection that was held for so long was wanted: the next one is made at once."""
SHORTAGE_PAUSE_S = 0.1
"""Without free descriptors, accepting waits this long."""
DRAIN_S = 5.0
LAST_ANSWERS_S, LAST_LOOK_S = 1.0, 0.005
"""How long the end waits for answers that are on their way, and how often it looks."""
"""How long the end of a server waits for its sessions to be taken to their ends."""

T = TypeVar("T")
logger = logging.getLogger("dotnetdiag.server")


def log_problem(line: str, error: BaseException | None) -> None:
    """Where nobody says whom to tell. Without ``logging`` set up it is not printed: a served program's output is its own."""
    logger.warning("%s", line, exc_info=None if isinstance(error, DiagnosticsError) else error)


logger.addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerStatus:
    """What goes on at a server, now, and what it has turned away."""

    addresses: tuple[str, ...]
    """Where it listens."""
    dialled: tuple[str, ...]
    """The ports that it dials."""
    connections: int
    sessions: int
    suspended: tuple[str, ...]
    """The ports that have not been resumed."""
    strangers: int
    """Connections of other users of the machine, which got nothing."""
    crowded_out: int
    """Connections that were closed to make room."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Port:
    """``name``: as it was given, which is what ResumeRuntime resumes."""

    name: str
    address: Address
    security: Security


class _Result(Observers):
    """What an operation of its own has given."""

    stream: Stream | None = None
    error: DiagnosticsError | None = None
    is_there = False


class Serving(ABC):
    """The parts that both shells share. What has a leading underscore is for the shells."""

    def __init__(
        self,
        commands: Commands,
        *,
        age: Age = NEWEST,
        legacy: bool = False,
        resumed: Callable[[], None] | None = None,
        problem: Problem = log_problem,
    ) -> None:
        self._commands, self._legacy, self._problem = commands, legacy, problem
        self._suspension = Suspension(resumed, changed=self._tell_state)
        self._dispatcher = Dispatcher(commands, age=age, suspension=self._suspension, problem=problem)
        self._listeners: dict[Listener, None] = {}
        self._looks = 0
        """How many connections have ended since somebody began to look after them; 0: nobody does."""
        self._dialled: dict[str, None] = {}
        self._connections: dict[Connection, None] = {}
        self._strangers = self._crowded_out = 0
        self._owner, self._is_closed = os.getpid(), False

    @abstractmethod
    def _spawn(self, steps: Steps[None], deadline: Deadline) -> None:
        """Drive an operation beside the others; what it raises goes to ``_failed``."""

    @abstractmethod
    def _abandon(self) -> None:
        """In a forked child: let go of the driver."""

    def _tell_state(self) -> None:  # noqa: B027 - not every shell can
        """Show those who look at the process from outside whether it waits."""

    @property
    def is_serving(self) -> bool:
        """Whether it answers: not once it is closed, and not in a child that was forked, which needs a server of its own."""
        return not self._is_closed and os.getpid() == self._owner

    @property
    def is_suspended(self) -> bool:
        """Whether a port that suspends has not been resumed."""
        return self._suspension.is_suspended

    @property
    def status(self) -> ServerStatus:
        """What goes on."""
        return ServerStatus(
            addresses=tuple(str(listener.address) for listener in tuple(self._listeners)),
            dialled=tuple(self._dialled),
            connections=len(self._connections),
            sessions=len(self._dispatcher.sessions),
            suspended=self._suspension.ports,
            strangers=self._strangers,
            crowded_out=self._crowded_out,
        )

    def __repr__(self) -> str:
        where = ", ".join((*self.status.addresses, *self._dialled)) or "nowhere"
        return f"<{type(self).__name__} at {where}{'' if self.is_serving else ', closed'}>"

    # -- ports

    def _listening(self, address: str | None, suspend: bool, security: Security, insecure: bool) -> Steps[str]:
        self._require_serving()
        name = default_address() if address is None else address
        port = _port(name, security, insecure)
        listener = yield from listening(port.address, allow_remote=True)
        self._listeners[listener] = None
        leaving.register(self)
        if isinstance(port.address, UnixAddress):
            CHILDREN.note(os.path.abspath(port.address.path))
        if suspend:
            self._suspension.add(name)
        self._spawn(self._accepting(listener, port), Deadline(None))
        return str(listener.address)

    def _dial(self, address: str, suspend: bool, security: Security, insecure: bool) -> None:
        self._require_serving()
        port = _port(address, security, insecure)
        if isinstance(port.address, TcpAddress) and port.address.host == "*":
            raise UsageError(f"{address}: name the host to connect to; * is for listening")
        self._dialled[address] = None
        leaving.register(self)
        if suspend:
            self._suspension.add(address)
        self._spawn(self._dialling(port), Deadline(None))

    def _opening(self, ports: tuple[RuntimePort, ...], security: Security) -> Steps[int]:
        opened = 0
        for port in ports:
            try:
                if port.mode is PortMode.LISTEN:
                    yield from self._listening(port.address, port.suspend, security, False)
                else:
                    self._dial(port.address, port.suspend, security, False)
                opened += 1
            except DiagnosticsError as exc:
                self._problem(f"the diagnostic port {port.address!r} is left out: {exc}", exc)
        return opened

    def _opening_all(self, environment: Mapping[str, str] | None, security: Security) -> Steps[bool]:
        settings = read_settings(os.environ if environment is None else environment)
        if settings.enabled:
            address = default_address(environment)
            try:
                yield from self._listening(address, settings.suspend, security, False)
            except DiagnosticsError as exc:
                self._problem(f"the default diagnostic port is left out: {exc}", exc)
            yield from self._opening(settings.ports, security)
        return settings.enabled

    def _accepting(self, listener: Listener, port: _Port) -> Steps[None]:
        never_wait()  # the thread that serves
        try:
            while listener.fileno() >= 0:
                try:
                    stream = yield from listener.accepting()
                except TransportError:  # no descriptor is left; or it is closed
                    yield Pause(SHORTAGE_PAUSE_S, "no descriptor is left")
                    continue
                self._admit(stream, port)
                yield Pause(0, "others have their turn")
        finally:
            self._listeners.pop(listener, None)
            listener.close()

    def _admit(self, stream: Stream, port: _Port) -> None:
        # who shows a token or a certificate may be anybody
        if (port.security == NO_SECURITY and not self._may_ask(stream, port)) or not self._has_room():
            stream.close()
            return
        connection = self._connection(stream, port.name, port.security)
        self._serve(connection, connection.serving(self._spawn))

    def _connection(self, stream: Stream, port: str, security: Security = NO_SECURITY) -> Connection:
        """What serves a connection that came through one of our ports, or to one that was dialled."""
        return Connection(stream, self._dispatcher, port=port, legacy=self._legacy, security=security)

    def _serve(self, connection: Connection, steps: Steps[None]) -> None:
        def serving() -> Steps[None]:
            try:
                yield from steps
            finally:
                self._connections.pop(connection, None)
                self._look_after()

        self._connections[connection] = None
        try:
            self._spawn(serving(), connection.patience)
        except TransportError:
            self._connections.pop(connection, None)
            connection.end()

    def _look_after(self) -> None:
        """See to it that the program has its own interval again, when nobody is waited for any more."""
        self._looks += 1
        if self._looks == 1 and self.is_serving:
            with suppress(TransportError):
                self._spawn(self._looking(), Deadline(None))

    def _looking(self) -> Steps[None]:
        never_wait()
        try:
            while self.is_serving:
                seen = self._looks
                for pause_s in LOOKS_S:
                    yield Pause(pause_s, "nobody asks")
                    if seen != self._looks:
                        break
                    take_back()
                else:
                    return
        finally:
            self._looks = 0

    def _may_ask(self, stream: Stream, port: _Port) -> bool:
        if may_ask(caller_of(stream, port.name), port.address):
            return True
        self._strangers += 1
        return False

    def _has_room(self) -> bool:
        there = [connection for connection in tuple(self._connections) if not connection.is_dialled]
        if len(there) < MOST_CONNECTIONS:
            return True
        self._crowded_out += 1
        silent = [connection for connection in there if not connection.has_asked or connection.is_lingering]
        if silent:
            silent[0].end()  # they are in the order in which they came
            self._connections.pop(silent[0], None)
        return bool(silent)

    # -- ports that are dialled

    def _dialling(self, port: _Port) -> Steps[None]:
        never_wait()
        pause_s, told = FIRST_PAUSE_S, ""
        while self.is_serving:
            result = yield from self._attempting(port)
            wanted = False
            # whom we dial over TCP is chosen by who has opened the port; whose that is cannot be told before it is accepted there
            is_tcp = isinstance(port.address, TcpAddress)
            if result.stream is not None and (is_tcp or self._may_ask(result.stream, port)):
                connection = self._connection(result.stream, port.name)
                connection.is_dialled = True
                self._serve(connection, connection.serving(self._spawn, self._commands.advertise()))
                yield Change(
                    lambda one=connection: one.is_answered or None,  # type: ignore[misc] # of this turn
                    connection.observed,
                    "nobody asks",
                )
                wanted = connection.has_asked or time.monotonic() - connection.began > STEADY_S
            elif result.stream is not None:
                result.stream.close()
                told = self._tell_once(f"the diagnostic port {port.name!r} belongs to another user", told)
            elif result.error is not None and not _is_nobody_there(result.error):
                told = self._tell_once(f"the diagnostic port {port.name!r} cannot be dialled: {result.error}", told)
            if wanted:
                pause_s = FIRST_PAUSE_S
            else:
                yield Pause(pause_s, "nobody listens at the port")
                pause_s = min(pause_s * LONGER, LONGEST_PAUSE_S)

    def _tell_once(self, line: str, told: str) -> str:
        if line != told:
            self._problem(line, None)
        return line

    def _attempting(self, port: _Port) -> Steps[_Result]:
        """One attempt to dial, within its own time."""
        result = _Result()

        def attempt() -> Steps[None]:
            try:
                stream = yield from connecting(port.address)
                result.stream = stream
                if isinstance(port.address, TcpAddress) and isinstance(stream, SocketStream):
                    stream.keep_alive(sends_much=True)
                    result.stream = yield from introducing(stream, port.security, port.address.host)
            except DiagnosticsError as exc:
                result.stream, result.error = None, exc
            finally:
                if result.stream is not None and not self.is_serving:
                    result.stream.close()
                result.is_there = True
                result.tell()

        self._spawn(attempt(), Deadline(ATTEMPT_S))
        try:
            yield Change(lambda: result.is_there or None, result.observed, "the port is not reached")
        except BaseException:  # the server ends
            if result.stream is not None:
                result.stream.close()
            raise
        return result

    # -- the start and the end

    def _resuming(self) -> Steps[None]:
        yield Change(
            lambda: not self.is_suspended or None, self._suspension.observed, "nobody has resumed this process"
        )

    def _ending(self) -> Steps[None]:
        """Stop listening, and bring the sessions to their ends, as far as the deadline goes."""
        self._is_closed = True
        self.remove_sockets()
        sessions = self._dispatcher.sessions
        for session in sessions.all():  # none waits for another's rundown
            stop = partial(self._dispatcher.stop, session)
            try:
                start_thread(stop, lambda outcome: None)  # noqa: ARG005
            except TransportError:  # the interpreter ends (Python 3.12), or the system has no thread
                stop()
        with suppress(TransportError):
            ends = time.monotonic() + LAST_ANSWERS_S
            while any(one.owes_answer for one in tuple(self._connections)) and time.monotonic() < ends:
                yield Pause(LAST_LOOK_S, "answers are not taken")  # such as that to whoever has let this process run
            if len(sessions):
                yield Change(lambda: not len(sessions) or None, sessions.observed, "sessions are not read")

    def _end(self) -> None:
        """After ``_ending``, and the last step of the driver."""
        for connection in tuple(self._connections):
            connection.end()
        self._connections.clear()
        for port in self._suspension.ports:
            self._suspension.resume(port)
        leaving.forget(self)

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, DiagnosticsError):  # those are how connections end
            self._problem(f"an operation of the server failed: {type(error).__name__}: {error}", error)

    def _require_serving(self) -> None:
        if not self.is_serving:
            why = "is closed" if os.getpid() == self._owner else "was made before this process was forked"
            raise UsageError(f"the server {why}: make another one")

    # -- of leaving.Leaving

    def socket_files(self) -> list[tuple[str, tuple[int, int]]]:
        """Paths, devices and inodes."""
        files = [listener.socket_file() for listener in tuple(self._listeners)]
        return [file for file in files if file is not None]

    def remove_sockets(self) -> None:
        """Stop listening, at once."""
        for listener in tuple(self._listeners):
            listener.close()

    def leave(self) -> None:
        """The interpreter ends."""
        self.remove_sockets()

    def forked(self) -> None:
        """In a child: the sockets are the parent's."""
        self._is_closed = True
        for connection in tuple(self._connections):
            connection.stream.close()
        self.remove_sockets()
        self._abandon()


def _port(name: str, security: Security, insecure: bool) -> _Port:
    """Raises UsageError, GrammarError."""
    address = parse_address(name)
    require_secure(address, security, insecure=insecure)
    check(security)
    return _Port(name=name, address=address, security=security if isinstance(address, TcpAddress) else NO_SECURITY)


def _is_nobody_there(error: DiagnosticsError) -> bool:
    """Monitors come and go."""
    away = (errno.ENOENT, errno.ECONNREFUSED)
    return isinstance(error, TimedOut) or (isinstance(error, ConnectFailed) and error.errno in away)
