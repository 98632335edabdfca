"""A runtime that is none: it answers as a release of .NET does, replays recordings, and does wrong what it is told to."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self
from uuid import UUID, uuid4

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.server import DiagnosticServer, ProcessFacts
from dotnetdiag.server.connection import Connection
from dotnetdiag.server.ports import default_address
from dotnetdiag.testing.asked import Asked
from dotnetdiag.testing.commands import PosedCommands, PosedDispatcher, Stage
from dotnetdiag.testing.connection import PosedConnection
from dotnetdiag.testing.misbehaviour import Misbehaviour
from dotnetdiag.testing.play import Play
from dotnetdiag.testing.recording import Recording
from dotnetdiag.testing.releases import NEWEST_RELEASED, find_release
from dotnetdiag.testing.talk import PATIENCE_S, Script
from dotnetdiag.transport import Stream
from dotnetdiag.transport.security import NO_SECURITY, Security
from dotnetdiag.transport.waiting import Change, Steps


class Runtime:
    """Poses as a .NET process: ``with Runtime("9.0") as runtime: client = dd.Client.connect(f"{runtime.address},connect")``.

    ``age``: a name of ``RELEASES``, or a version. It listens at ``listen`` (``/path``, ``host:port``), by default where tools look for this
    process; or dials the port ``connect``. ``suspended``: it waits there to be resumed. ``name`` is what it says its program is called;
    ``environment`` what its variables are, by default a copy of this process's.

    ``replay``: the recording that each session streams (its path, bytes, or a ``Recording``), by default an empty trace. ``speed``:
    1 is real time, 10 ten times as fast, None as fast as it is read. ``on_stop``: after StopTracing ``"finish"`` sends what is left
    at once; ``"cut"`` ends with the block that is under way, and the end marker. ``waits``: the end of the recording is held back
    until StopTracing comes; otherwise the stream ends there, as that of a program that ends.

    ``misbehave``: command (``"*"``: all) to what it does wrong, as a ``Misbehaviour`` or its text. ``scripts``: command to a function of a
    ``Talk``, which does with the connection as it likes; whatever was asked, nothing else is answered. ``on_asked`` is told of each message, in the
    thread that serves. Dumps, profilers, perf maps and startup hooks are answered OK, and nothing is done.

    ``pid`` and ``cookie`` are what it says of itself, by default the number of this process and a new cookie. ``dials``: it dials the port no
    more after so many commands. ``resets``: the last byte of each payload stays unread, so that a connection that a script leaves is reset,
    which is how runtimes end at times (ipc-protocol.md §21.3); not on Windows.

    A process has one runtime at its default address. Threads serve it until ``close``; a forked child has none of it. Raises UsageError,
    UnknownName, GrammarError, TransportError, OSError for a recording that cannot be read, InputError for a file that is none. Bytes may be
    anything.
    """

    def __init__(
        self,
        age: str = NEWEST_RELEASED,
        *,
        listen: str | Path | None = None,
        connect: str | Path | None = None,
        suspended: bool = False,
        name: str = "fake",
        pid: int | None = None,
        cookie: UUID | None = None,
        environment: Mapping[str, str] | None = None,
        replay: Recording | bytes | str | Path | None = None,
        speed: float | None = None,
        on_stop: str = "finish",
        waits: bool = False,
        misbehave: Mapping[str, Misbehaviour | str] | None = None,
        scripts: Mapping[str, Script] | None = None,
        dials: int | None = None,
        resets: bool = False,
        on_asked: Callable[[Asked], None] | None = None,
    ) -> None:
        if listen is not None and connect is not None:
            raise UsageError("a runtime listens at an address, or dials a port: give one of them")
        if on_stop not in ("finish", "cut"):
            raise UsageError(f"on_stop is 'finish' or 'cut', not {on_stop!r}")
        if speed is not None and not 0 < speed < float("inf"):
            raise UsageError(f"a speed is more than 0, and None is as fast as it is read; not {speed}")
        if dials is not None and (connect is None or dials < 0):
            raise UsageError("dials is a number of commands, 0 or more, of a runtime that dials a port")
        if both := set(misbehave or {}) & set(scripts or {}):
            raise UsageError(f"{min(both)} has a script, which can do all that is wrong: leave it out of misbehave")
        if pid is not None and not 0 <= pid < 1 << 64:
            raise UsageError(f"a pid has 64 bits: not {pid}")
        self.release = find_release(age)
        self.pid = os.getpid() if pid is None else pid
        self.environment = dict(os.environ if environment is None else environment)
        self._play = Play(self.release, on_asked, resets=resets, dials=dials)
        for command, how in {**(misbehave or {}), **(scripts or {})}.items():
            self._play.behave(command, how)
        facts = replace(
            ProcessFacts.of_this_process(),
            pid=self.pid,
            cookie=uuid4() if cookie is None else cookie,
            command_line=name,
            entry_assembly=name,
            runtime_version=self.release.runtime_version,
        )
        self.cookie: UUID = facts.cookie
        stage = Stage(recording=_recording(replay), speed=speed, cuts=on_stop == "cut", waits=waits)
        if stage.recording is not None and speed is not None:
            stage.recording.marks  # noqa: B018 - read before the first session, which is not to wait for it
        self._commands = PosedCommands(self._play, facts, self.environment, stage, lambda: self._server.is_suspended)
        self._server = _PosedServer(self._commands, self._play)
        try:
            self.address = self._open(listen, connect, suspended)
        except BaseException:
            self.close()
            raise

    @property
    def is_suspended(self) -> bool:
        """Whether nobody has resumed it."""
        return self._server.is_suspended

    @property
    def sessions(self) -> int:
        """How many are under way."""
        return self._server.status.sessions

    @property
    def connections(self) -> int:
        """How many are open."""
        return self._server.status.connections

    @property
    def is_idle(self) -> bool:
        """Whether no client has left anything open. A connection that waits at a port for a command is the runtime's own."""
        return self._play.is_idle

    def wait_until_idle(self, *, timeout_s: float = PATIENCE_S) -> None:
        """Until no client has anything open. Raises TimedOut."""
        self._play.wait_until_idle(timeout_s)

    @property
    def asked(self) -> tuple[Asked, ...]:
        """The messages that came, in their order; at most the latest 10,000."""
        return self._play.asked

    def wait_for(self, command: str, times: int = 1, *, timeout_s: float = PATIENCE_S) -> Asked:
        """The message with which the command has come so often, since the beginning. Raises TimedOut."""
        return self._play.wait_for(command, times, timeout_s)

    def misbehave(self, command: str, what: Misbehaviour | str | None) -> None:
        """From the next message on; None: it behaves again. Raises UsageError, GrammarError."""
        self._play.behave(command, what)

    def play(self, command: str, script: Script | None) -> None:
        """Have a script answer the command, in the place of whatever it did before, from the next message on; None: as its release does.
        Raises UsageError.
        """
        self._play.behave(command, script)

    def wait_until_resumed(self, *, timeout_s: float | None = PATIENCE_S) -> None:
        """Until somebody resumes it. Raises TimedOut."""
        self._server.wait_until_resumed(timeout_s=timeout_s)

    def close(self) -> None:
        """Hang up on everybody, and wait for the scripts to end, but for the one that calls this. May be called again, and is called at the end
        of a ``with`` block. Raises what a script has raised, and TimedOut for one that does not end within 20 s.
        """
        self._play.is_over = True
        self._server.close(drain_s=0)
        self._play.close(PATIENCE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self.close()
        except Exception:
            if kind is None:  # otherwise what went wrong in the block is what is told
                raise

    def __repr__(self) -> str:
        return f"<testing.Runtime as .NET {self.release.name} at {self.address}>"

    def _open(self, listen: str | Path | None, connect: str | Path | None, suspended: bool) -> str:
        if connect is not None:
            self._server.connect(str(connect), suspend=suspended)
            return str(connect)
        address = None if listen is None else str(listen)
        if address is None and self.release.is_legacy:
            address = default_address().replace("dotnet-diagnostic-", "dotnetcore-diagnostic-")
        return self._server.listen(address, suspend=suspended)


class _PosedServer(DiagnosticServer):
    """One whose dispatcher and connections are posed."""

    def __init__(self, commands: PosedCommands, play: Play) -> None:
        super().__init__(commands, legacy=play.release.is_legacy, resumed=commands.resumed)
        self._play = play
        self._dispatcher = PosedDispatcher(commands, play.release, suspension=self._suspension, problem=self._problem)

    def _attempting(self, port: Any) -> Steps[Any]:
        if self._play.has_dialled_enough:
            yield Change(lambda: None, self._suspension.observed, "it dials no more")
        return (yield from super()._attempting(port))

    def _connection(self, stream: Stream, port: str, security: Security = NO_SECURITY) -> Connection:
        return PosedConnection(stream, self._dispatcher, self._play, port=port, security=security)


def _recording(replay: Recording | bytes | str | Path | None) -> Recording | None:
    if replay is None or isinstance(replay, Recording):
        return replay
    return Recording(replay) if isinstance(replay, bytes) else Recording.read(replay)
