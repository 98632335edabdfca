"""What all connections of a scripted runtime share: whom it plays, how it answers which command, and what it was asked."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from dotnetdiag.errors import TimedOut, UsageError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.legacy import RequestType
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.ipc.requests import ALL_REQUESTS
from dotnetdiag.ipc.tracing import StopTracing
from dotnetdiag.testing.asked import Asked, asked_by
from dotnetdiag.testing.misbehaviour import GOOD, Misbehaviour
from dotnetdiag.testing.releases import Release
from dotnetdiag.testing.talk import Script, Talk, TalkEnded

MOST_ASKED = 10_000
"""Requests that are remembered; the oldest are forgotten first."""
EVERY = "*"
IGNORABLE = frozenset(
    request.COMMAND.name for request in ALL_REQUESTS if request.REPLY is ResultReply or issubclass(request, StopTracing)
)
"""The commands whose answer is only an OK."""


class Play:
    """``behave`` is how it answers, command by command (``"*"``: all others): a misbehaviour, or a script, which does as it likes.

    ``on_asked`` is told of each message, before it is answered, by the thread that serves. ``resets``: the last byte of each payload stays
    unread, and closing a connection resets it. ``dials``: so many commands are taken at a port that is dialled.
    """

    def __init__(
        self,
        release: Release,
        on_asked: Callable[[Asked], None] | None = None,
        *,
        resets: bool = False,
        dials: int | None = None,
    ) -> None:
        self.release, self.resets = release, resets
        self.is_over = False
        self._on_asked, self._dials = on_asked, dials
        self._asked: deque[Asked] = deque(maxlen=MOST_ASKED)
        self._count = 0
        self._changed = threading.Condition()
        self._manners: dict[str, Misbehaviour | Script] = {}
        self._open: dict[object, None] = {}
        self._performing: dict[threading.Thread, None] = {}
        self._errors: list[BaseException] = []

    @property
    def asked(self) -> tuple[Asked, ...]:
        """In the order in which they came."""
        return tuple(self._asked)

    @property
    def has_dialled_enough(self) -> bool:
        return self._dials is not None and self._count >= self._dials

    # -- how it answers

    def behave(self, command: str, how: Misbehaviour | Script | str | None) -> None:
        """From now on. None: as its release does. Raises UsageError for a command that is none, and for an OK of one whose answer is more than
        that; GrammarError.
        """
        if command not in _NAMES:
            raise UsageError(f"{command!r} is no command; name one, such as ProcessInfo2, or {EVERY!r} for all")
        name = _TODAY.get(command, command)
        if how is None:
            self._manners.pop(name, None)
        else:
            manner = Misbehaviour.parse(how) if isinstance(how, str) else how
            if isinstance(manner, Misbehaviour) and manner.ignores and name not in (EVERY, *IGNORABLE):
                known = ", ".join(sorted(IGNORABLE))
                raise UsageError(f"{command} cannot be answered OK without doing it; these can be ignored: {known}")
            self._manners[name] = manner

    def manner(self, command: str) -> Misbehaviour | Script:
        """How this is answered."""
        return self._manners.get(_TODAY.get(command, command)) or self._manners.get(EVERY, GOOD)

    def misbehaviour(self, command: str) -> Misbehaviour:
        """What is done wrong when this is asked."""
        how = self.manner(command)
        return how if isinstance(how, Misbehaviour) else GOOD

    def perform(self, script: Script, talk: Talk) -> None:
        """Run a script in this thread. What it raises is kept for ``close``."""
        thread = threading.current_thread()
        with self._changed:
            self._performing[thread] = None
        try:
            script(talk)
        except TalkEnded:
            pass
        except BaseException as exc:
            self._errors.append(exc)
        finally:
            with self._changed:
                del self._performing[thread]
                self._changed.notify_all()

    def close(self, timeout_s: float) -> None:
        """Wait until all scripts have ended, but the one that calls this. Raises what the first one has raised, once, and TimedOut."""
        current = threading.current_thread()
        with self._changed:
            if not self._changed.wait_for(lambda: not self._performing.keys() - {current}, timeout_s):
                raise TimedOut("a script does not end", timeout_s=timeout_s)
        if self._errors:
            error = self._errors[0]
            self._errors.clear()
            raise error

    # -- who is there

    def opened(self, connection: object) -> None:
        """A client has connected, or has asked where we have dialled."""
        with self._changed:
            self._open[connection] = None

    def closed(self, connection: object) -> None:
        """The connection is closed. May be said again."""
        with self._changed:
            self._open.pop(connection, None)
            self._changed.notify_all()

    @property
    def is_idle(self) -> bool:
        return not self._open

    def wait_until_idle(self, timeout_s: float) -> None:
        """Until no connection is open. Raises TimedOut."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.is_idle, timeout_s):
                raise TimedOut(f"{len(self._open)} connections stay open", timeout_s=timeout_s)

    # -- what was asked

    def hear(self, data: bytes) -> Asked:
        """A message has come."""
        asked = asked_by(data)
        with self._changed:
            self._asked.append(asked)
            self._count += 1
            self._changed.notify_all()
        if self._on_asked is not None:
            self._on_asked(asked)
        return asked

    def wait_for(self, command: str, times: int, timeout_s: float) -> Asked:
        """The message with which the command has come so often. Raises TimedOut."""

        def found() -> list[Asked]:
            return [asked for asked in self._asked if asked.command == command][times - 1 : times]

        with self._changed:
            if not self._changed.wait_for(found, timeout_s):
                raise TimedOut(f"{command} was not asked {times} times", timeout_s=timeout_s)
            return found()[0]


_TODAY = {"CollectEventPipeTracing": "CollectTracing", "StopEventPipeTracing": "StopTracing"}
"""What commands from before V1 are called now."""
_NAMES = {EVERY} | {command.name for command in Command} | {kind.name for kind in RequestType}
