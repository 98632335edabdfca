"""What all connections of a scripted runtime share: whom it plays, what it does wrong, and what it was asked."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dotnetdiag.errors import ProtocolError, TimedOut, UsageError
from dotnetdiag.ipc.commands import Command, command_name
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.legacy import LegacyRequest, RequestType, is_legacy, parse_legacy_request
from dotnetdiag.ipc.messages import Request
from dotnetdiag.ipc.requests import UnknownRequest, parse_request
from dotnetdiag.testing.misbehaviour import GOOD, Misbehaviour
from dotnetdiag.testing.releases import Release

MOST_ASKED = 10_000
"""Requests that are remembered; the oldest are forgotten first."""
EVERY = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One message that came. ``command``: its name, ``0x0299`` for a code without one, ``""`` for what is no message. ``data``: all of its
    bytes. ``request``: None where they make no sense to us.
    """

    command: str
    data: bytes
    request: Request[Any] | LegacyRequest | None = None


class Play:
    """``on_asked`` is told of each message, before it is answered, by the thread that serves."""

    def __init__(
        self,
        release: Release,
        misbehave: Mapping[str, Misbehaviour | str] | None = None,
        on_asked: Callable[[Asked], None] | None = None,
    ) -> None:
        self.release = release
        self._on_asked = on_asked
        self._asked: deque[Asked] = deque(maxlen=MOST_ASKED)
        self._came = threading.Condition()
        self._misbehaviours: dict[str, Misbehaviour] = {}
        for command, what in (misbehave or {}).items():
            self.misbehave(command, what)

    @property
    def asked(self) -> tuple[Asked, ...]:
        """In the order in which they came."""
        return tuple(self._asked)

    def misbehave(self, command: str, what: Misbehaviour | str | None) -> None:
        """From now on. None: it behaves again. Raises UsageError for a command that is none, GrammarError."""
        if command not in _NAMES:
            raise UsageError(f"{command!r} is no command; name one, such as ProcessInfo2, or {EVERY!r} for all")
        if what is None:
            self._misbehaviours.pop(_TODAY.get(command, command), None)
        else:
            self._misbehaviours[_TODAY.get(command, command)] = (
                Misbehaviour.parse(what) if isinstance(what, str) else what
            )

    def misbehaviour(self, command: str) -> Misbehaviour:
        """What is done wrong when this is asked."""
        return self._misbehaviours.get(_TODAY.get(command, command)) or self._misbehaviours.get(EVERY, GOOD)

    def hear(self, data: bytes) -> Asked:
        """A message has come."""
        asked = _asked(data)
        with self._came:
            self._asked.append(asked)
            self._came.notify_all()
        if self._on_asked is not None:
            self._on_asked(asked)
        return asked

    def wait_for(self, command: str, times: int, timeout_s: float) -> Asked:
        """The message with which the command has come so often. Raises TimedOut."""

        def found() -> list[Asked]:
            return [asked for asked in self._asked if asked.command == command][times - 1 : times]

        with self._came:
            if not self._came.wait_for(found, timeout_s):
                raise TimedOut(f"{command} was not asked {times} times", timeout_s=timeout_s)
            return found()[0]


def _asked(data: bytes) -> Asked:
    request: Request[Any] | UnknownRequest | LegacyRequest | None
    if is_legacy(data):
        name = RequestType(int.from_bytes(data[:4], "little")).name
        try:
            request = parse_legacy_request(data)
        except ProtocolError:
            request = None
        return Asked(command=name, data=data, request=request)
    try:
        frame = Frame.parse(data)
    except ProtocolError:
        return Asked(command="", data=data)
    try:
        request = parse_request(frame)
    except ProtocolError:
        request = None
    known = None if isinstance(request, UnknownRequest) else request
    return Asked(command=command_name(frame.code), data=data, request=known)


_TODAY = {"CollectEventPipeTracing": "CollectTracing", "StopEventPipeTracing": "StopTracing"}
"""What commands from before V1 are called now."""
_NAMES = {EVERY} | {command.name for command in Command} | {kind.name for kind in RequestType}
