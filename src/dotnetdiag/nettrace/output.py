"""Where a writer's bytes go, whole and in order."""

from __future__ import annotations

import io
from typing import Protocol

from dotnetdiag.errors import OutputError, UsageError

_AGAIN_BYTES = 1 << 20
"""What is offered at once of a block that was not taken whole."""


class Sink(Protocol):
    """Where bytes go: a file opened for binary writing, or anything with its ``write``."""

    def write(self, data: bytes, /) -> object:
        """Take the bytes. A number says how many were taken, as raw files do: the others come again."""


class Output:
    """A sink, and how much it has taken. After an error nothing more is written to it."""

    def __init__(self, file: Sink) -> None:
        if not callable(getattr(file, "write", None)):
            raise UsageError(f"a file opened for binary writing is needed, not {type(file).__name__}")
        self.position = 0
        """Bytes written."""
        self._file = file
        self._closed = self._broken = False

    def check_open(self) -> None:
        """Raises UsageError when there is nothing to write to any more."""
        if self._closed:
            raise UsageError("the writer is closed")
        if self._broken:
            raise UsageError("writing to the file failed; where it ends is not known")

    @property
    def is_closed(self) -> bool:
        return self._closed

    def write_first(self, data: bytes) -> None:
        """As :meth:`write`. UsageError for a file that does not take bytes at all."""
        try:
            self.write(data)
        except (TypeError, ValueError) as error:  # text, a file for reading, one that is closed
            raise UsageError(f"{type(self._file).__name__} does not take bytes: {error}") from error

    def write(self, data: bytes | bytearray) -> None:
        """All of it, or OutputError."""
        self._broken = True
        taken = 0
        while taken < len(data):
            part = bytes(data[taken : taken + _AGAIN_BYTES] if taken else data)
            try:
                count = self._file.write(part)
            except BlockingIOError as error:
                self.position += error.characters_written
                raise self._not_taken(len(data) - taken - error.characters_written) from error
            if not isinstance(count, int) or isinstance(count, bool):
                count = 0 if count is None and isinstance(self._file, io.RawIOBase) else len(part)
            count = min(count, len(part))
            if count <= 0:
                raise self._not_taken(len(data) - taken)
            self.position += count
            taken += count
        self._broken = False

    def write_last(self, data: bytes) -> None:
        """The end of what is written; nothing follows."""
        self.write(data)
        self._closed = True

    def _not_taken(self, rest: int) -> OutputError:
        name = getattr(self._file, "name", None)
        path = name if isinstance(name, str) else type(self._file).__name__
        return OutputError(path, f"{self.position} bytes were written; the next {rest} were not taken")
