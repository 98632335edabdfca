"""A runtime that does what a test tells it: right, wrong, slowly, or not at all. ``testing.Runtime`` with words for scripts."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.process_info import ProcessInfo3Reply
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.tracing import StopTracing
from dotnetdiag.testing import Runtime, Script, Talk

PATIENCE_S = 20.0
"""What takes longer hangs."""
RUNTIME_DESCRIPTORS, RUNTIME_THREADS = 4, 1
"""What a runtime has that listens, and to which nobody is connected."""

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


def says(*parts: bytes) -> Script:
    """These bytes, then the end."""
    return lambda talk: talk.send(b"".join(parts))


def says_and_waits(*parts: bytes) -> Script:
    """These bytes; then nothing more until the client closes."""

    def script(talk: Talk) -> None:
        talk.send(b"".join(parts))
        talk.wait_until_hung_up()

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


class Played:
    """A runtime in a test's words. ``asked`` are the commands that came; a command without a script is unknown to it."""

    def __init__(self) -> None:
        self.runtime: Runtime | None = None

    def begin(self, scripts: Mapping[Command, Script] | Script, **options: Any) -> None:
        """Play from now on, until ``close``."""
        named = {"*": scripts} if callable(scripts) else {command.name: script for command, script in scripts.items()}
        self.runtime = Runtime(scripts={"*": says(UNKNOWN), **named}, **options)

    @property
    def asked(self) -> list[Command]:
        return [] if self.runtime is None else [Command[one.command] for one in self.runtime.asked]

    def play(self, command: Command | None, script: Script) -> None:
        """From now on. None: for all commands that have no script of their own."""
        assert self.runtime is not None
        self.runtime.play("*" if command is None else command.name, script)

    def is_idle(self) -> bool:
        """Whether no client has left anything open."""
        return self.runtime is None or self.runtime.is_idle

    def wait_for(self, command: Command, times: int = 1) -> None:
        """Until the command has come so often."""
        assert self.runtime is not None
        self.runtime.wait_for(command.name, times, timeout_s=PATIENCE_S)

    def wait_until_idle(self) -> None:
        """Until clients have let go of everything."""
        assert self.runtime is not None
        self.runtime.wait_until_idle(timeout_s=PATIENCE_S)

    def wait_for_end(self) -> None:
        """Until a session was begun, and its stream has ended."""
        self.wait_for(Command.CollectTracing2)
        self.wait_until_idle()

    def close(self) -> None:
        """Hang up. What a script has raised fails the test."""
        if self.runtime is not None:
            self.runtime.close()
            assert self.is_idle()


class ScriptedRuntime(Played):
    """Listens at ``path``. ``leaves_unread``: the last byte of each request is not read, so that closing the connection resets it."""

    def __init__(self, path: Path, scripts: Mapping[Command, Script] | Script, *, leaves_unread: bool = False) -> None:
        super().__init__()
        self.path = path
        self.begin(scripts, listen=path, resets=leaves_unread)


# a session: what the stream does, and what comes of StopTracing ----------------------------------------------------------

HEAD_BYTES, PIECE_BYTES, TAIL_BYTES = 100, 1000, 50


def streams(every_s: float | None, size: int = PIECE_BYTES, head: int = HEAD_BYTES) -> Script:
    """``head`` bytes, then ``size`` more ``every_s`` seconds (None: silence); after a stop that is obeyed a tail, and the end."""

    def script(talk: Talk) -> None:
        data, at = memoryview(pattern(1 << 20)), head
        talk.begin_session(pattern(head))
        while not talk.wait_for_stop(every_s):
            talk.send(data[at : at + size])
            at += size
        talk.send(data[at : at + TAIL_BYTES])

    return script


def obeys(talk: Talk) -> None:
    """As a runtime does: the answer comes when everything is in the stream."""
    talk.stop_session(timeout_s=PATIENCE_S)
    _answer_stop(talk)


def obeys_and_answers_late(talk: Talk) -> None:
    """The stream has ended long before the answer comes."""
    talk.stop_session(timeout_s=PATIENCE_S)
    talk.pause(0.3)
    _answer_stop(talk)


def _answer_stop(talk: Talk) -> None:
    request = talk.asked.request
    assert isinstance(request, StopTracing)
    talk.send(SessionReply(session_id=request.session_id).pack())


def eventually(holds: Callable[[], bool], what: str) -> None:
    """For what no event tells: what another process, or a thread of the system's, is about to do."""
    ends = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < ends, what
        time.sleep(0.005)
