"""One connection, sans-IO: bytes in, whatever their cut; out comes one answer.

Rule 1: a size below 20 is refused before the magic is looked at; another magic only when the whole message is there (ipc-protocol.md §7).
Rule 2: an end in the middle of a message is BAD_ENCODING.
Rule 3: one connection is one request. Not a byte behind it is asked for; those that come all the same are not looked at.
Rule 4: after an answer there is nothing more to say: every error ends the connection, which runtimes forget at times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.ipc.frames import HEADER_SIZE, MAGIC, Frame
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.legacy import is_legacy
from dotnetdiag.ipc.messages import Request
from dotnetdiag.server.commands import Caller, Refused
from dotnetdiag.server.dispatch import Answer, Dispatcher, error_answer
from dotnetdiag.server.legacy import LegacyReader, answer_legacy

SIZE_AT = len(MAGIC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command to perform where it may take its time. ``name`` is the command's."""

    name: str
    perform: Callable[[], Answer]


class Dialogue:
    """Feed it what comes, ``wanted`` bytes at most at a time, and do what it gives: None (go on), a ``Call`` to perform, whose answer is
    to be sent, or an ``Answer`` to send at once. Then it is over.
    """

    def __init__(self, dispatcher: Dispatcher, caller: Caller, *, legacy: bool = False) -> None:
        self.caller, self.is_over = caller, False
        self._dispatcher, self._takes_legacy = dispatcher, legacy
        self._legacy: LegacyReader | None = None
        self._data = bytearray()

    @property
    def has_begun(self) -> bool:
        """Whether a byte has come."""
        return bool(self._data)

    @property
    def wanted(self) -> int:
        """How many bytes are missing, as far as is known by now: of a header, then of the message. 0: it is over."""
        if self.is_over:
            return 0
        if self._legacy is not None:
            return self._legacy.wanted
        have = len(self._data)
        if self._takes_legacy and have < 4:
            return 4 - have
        return (HEADER_SIZE if have < HEADER_SIZE else self._size) - have

    def feed(self, data: bytes | memoryview) -> Call | Answer | None:
        """Take bytes."""
        while data and not self.is_over:
            wanted = self.wanted
            self._data += data[:wanted]
            data = data[wanted:]
            if (given := self._look()) is not None:
                self.is_over = True
                return given
        return None

    def end(self) -> Answer | None:
        """No more bytes come. None: the dialogue was over."""
        if self.is_over:
            return None
        self.is_over = True
        return Answer() if self._legacy is not None else error_answer(HResult.BAD_ENCODING)

    @property
    def _size(self) -> int:
        return int.from_bytes(self._data[SIZE_AT : SIZE_AT + 2], "little")

    def _look(self) -> Call | Answer | None:
        have = len(self._data)
        if self._takes_legacy and self._legacy is None and have == 4 and is_legacy(bytes(self._data)):
            self._legacy = LegacyReader(self._data)
        if self._legacy is not None:
            return self._look_legacy(self._legacy)
        if have < HEADER_SIZE:
            return None
        if self._size < HEADER_SIZE:
            return error_answer(HResult.BAD_ENCODING)
        if have < self._size:
            return None
        if not self._data.startswith(MAGIC):
            return error_answer(HResult.UNKNOWN_MAGIC)
        try:
            request = self._dispatcher.request(Frame.parse(bytes(self._data)))
        except Refused as refused:
            return error_answer(refused.hresult)
        return self._call(request)

    def _call(self, request: Request[Any]) -> Call:
        return Call(name=request.COMMAND.name, perform=lambda: self._dispatcher.answer(request, self.caller))

    def _look_legacy(self, reader: LegacyReader) -> Call | Answer | None:
        if not reader.is_complete():
            return Answer() if reader.is_broken else None
        request = reader.request()
        if request is None:
            return Answer()
        return Call(name=request.TYPE.name, perform=lambda: answer_legacy(request, self._dispatcher, self.caller))
