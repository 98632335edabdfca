"""A runtime at a Unix socket that does what a test tells it: right, wrong, slowly, or not at all.

``ScriptedRuntime`` holds one script for each command; a script is a function of the :class:`Talk`, and the connection is closed when
it returns. It notices by itself whether a client has left something open: :meth:`ScriptedRuntime.is_idle`.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Protocol
from uuid import UUID

from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.frames import HEADER_SIZE, Frame
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.process_info import ProcessInfo3Reply
from dotnetdiag.ipc.replies import ResultReply, SessionReply

PATIENCE_S = 20.0
"""What takes longer hangs."""

INFO = ProcessInfo3Reply(
    pid=7,
    cookie=UUID(int=1),
    command_line="x",
    os="Linux",
    arch="x64",
    entry_assembly="x",
    runtime_version="9.0",
)
SESSION = SessionReply(session_id=5).pack()
STARTS = (Command.CollectTracing2, Command.CollectTracing4, Command.CollectTracing5)
DONE = ResultReply().pack()
REFUSAL = ErrorReply(hresult=HResult.FAIL).pack()
UNKNOWN = ErrorReply(hresult=HResult.UNKNOWN_COMMAND).pack()


@cache
def pattern(size: int) -> bytes:
    """The first bytes of every scripted stream; what is lost or doubled is seen."""
    return b"".join(struct.pack("<I", number) for number in range(size // 4 + 1))[:size]


def says_pid(pid: int) -> Script:
    """Who it is: a runtime of this pid. That it is the peer it says with ours, that the peer is a relay with another one."""
    return says(replace(INFO, pid=pid).pack())


class Over(Exception):
    """The runtime ends."""


class Runtime(Protocol):
    """What scripts know of the runtime that they play. ``stopped``: a session is to end; ``ended``: its stream has."""

    over: threading.Event
    stopped: threading.Event
    ended: threading.Event


class Talk:
    """One connection, and the command that came on it."""

    def __init__(self, runtime: Runtime, connection: socket.socket, frame: Frame) -> None:
        self.runtime, self.connection, self.frame = runtime, connection, frame

    def send(self, data: bytes | memoryview) -> None:
        self.connection.sendall(data)

    def pause(self, seconds: float) -> None:
        """Wait, but not beyond the end of the runtime."""
        if self.runtime.over.wait(seconds):
            raise Over

    def until_closed(self) -> None:
        """Wait until the client closes."""
        while self.connection.recv(4096):
            pass


Script = Callable[[Talk], object]


def says(*parts: bytes) -> Script:
    """These bytes, then the end."""
    return lambda talk: talk.send(b"".join(parts))


def says_and_waits(*parts: bytes) -> Script:
    """These bytes; then nothing more until the client closes."""

    def script(talk: Talk) -> None:
        talk.send(b"".join(parts))
        talk.until_closed()

    return script


def drips(data: bytes, every_s: float = 0.05) -> Script:
    """One byte after the other."""

    def script(talk: Talk) -> None:
        for byte in data:
            talk.send(bytes([byte]))
            talk.pause(every_s)

    return script


def after(seconds: float, then: Script) -> Script:
    """The script, late."""

    def script(talk: Talk) -> None:
        talk.pause(seconds)
        then(talk)

    return script


class ScriptedRuntime:
    """Listens at ``path``. ``asked`` are the commands that came; a command without a script is unknown to the runtime."""

    def __init__(self, path: Path, scripts: Mapping[Command, Script] | Script, *, leaves_unread: bool = False) -> None:
        """``leaves_unread``: the last byte of each request is not read, so that closing the connection resets it."""
        self.path, self.scripts, self.leaves_unread = path, scripts, leaves_unread
        self.asked: list[Command] = []
        self.came = threading.Condition()
        self.stopped, self.ended, self.over = threading.Event(), threading.Event(), threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(256)
        self._serving: dict[threading.Thread, socket.socket] = {}
        self._accepting = threading.Thread(target=self._accept, name="runtime")
        self._accepting.start()

    def is_idle(self) -> bool:
        """Whether every connection has ended."""
        return not self._serving

    def wait_for(self, command: Command, times: int = 1) -> None:
        """Until the command has come so often."""
        with self.came:
            assert self.came.wait_for(lambda: self.asked.count(command) >= times, PATIENCE_S), command.name

    def close(self) -> None:
        self.over.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(PATIENCE_S)
        self._listener.close()
        for thread, connection in tuple(self._serving.items()):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            thread.join(PATIENCE_S)
        assert self.is_idle()

    def _accept(self) -> None:
        while not self.over.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), name="runtime talk")
            self._serving[thread] = connection
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection:
                frame = self._read(connection)
                if frame is not None:
                    with self.came:
                        self.asked.append(Command(frame.code))
                        self.came.notify_all()
                    scripts = self.scripts
                    script = scripts if callable(scripts) else scripts.get(Command(frame.code), says(UNKNOWN))
                    try:
                        script(Talk(self, connection, frame))
                    finally:
                        if Command(frame.code) in STARTS:
                            connection.close()
                            self.ended.set()
        except (OSError, Over):
            pass  # the client has gone, as it may
        finally:
            del self._serving[threading.current_thread()]

    def _read(self, connection: socket.socket) -> Frame | None:
        head = connection.recv(HEADER_SIZE, socket.MSG_WAITALL)
        if len(head) < HEADER_SIZE:
            return None
        left = int.from_bytes(head[14:16], "little") - HEADER_SIZE
        data = connection.recv(left - 1, socket.MSG_WAITALL) if left > 1 else b""
        last = connection.recv(1, socket.MSG_PEEK if self.leaves_unread else 0) if left else b""
        return Frame.parse(head + data + last)


# a session: what the stream does, and what comes of StopTracing ----------------------------------------------------------

HEAD_BYTES, PIECE_BYTES, TAIL_BYTES = 100, 1000, 50


def streams(every_s: float | None, size: int = PIECE_BYTES, head: int = HEAD_BYTES) -> Script:
    """``head`` bytes, then ``size`` more ``every_s`` seconds (None: silence); after a stop that is obeyed a tail, and the end."""

    def script(talk: Talk) -> None:
        runtime, data, at = talk.runtime, memoryview(pattern(1 << 20)), head
        talk.send(SESSION + pattern(head))
        while not runtime.over.is_set():
            if runtime.stopped.wait(0.02 if every_s is None else every_s):
                talk.send(data[at : at + TAIL_BYTES])
                return
            if every_s is not None:
                talk.send(data[at : at + size])
                at += size
            elif _has_gone(talk.connection):
                return

    return script


def _has_gone(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False


def obeys(talk: Talk) -> None:
    """As a runtime does: the answer comes when everything is in the stream."""
    talk.runtime.stopped.set()
    talk.runtime.ended.wait(PATIENCE_S)
    talk.send(SESSION)


def obeys_and_answers_late(talk: Talk) -> None:
    """The stream has ended long before the answer comes."""
    talk.runtime.stopped.set()
    talk.runtime.ended.wait(PATIENCE_S)
    talk.pause(0.3)
    talk.send(SESSION)


def eventually(holds: Callable[[], bool], what: str) -> None:
    """For what no event tells: what another process, or a thread of the system's, is about to do."""
    ends = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends, what
        time.sleep(0.005)
