"""What callers of writers give, checked: UsageError for what is of another kind."""

from __future__ import annotations

import struct
from operator import index
from typing import SupportsIndex

from dotnetdiag.errors import FormatError, UsageError

REFUSED = (struct.error, OverflowError, TypeError, ValueError, AttributeError, BufferError, FormatError)
"""What packing raises for values that a field cannot hold."""


def whole_number(value: SupportsIndex, what: str) -> int:
    try:
        return index(value)
    except TypeError as error:
        raise UsageError(f"{what} {value!r} is no whole number") from error


def check_kind(value: object, kind: type) -> None:
    """UsageError for a value of another class."""
    if not isinstance(value, kind):
        raise UsageError(f"a {kind.__name__} is needed, not {type(value).__name__}")


def bytes_of(data: bytes | bytearray | memoryview) -> bytes:
    """The same as bytes. UsageError for what is none: ``bytes`` would make something of it."""
    if isinstance(data, memoryview) and data.itemsize == 1:
        return data.tobytes()
    if not isinstance(data, (bytes, bytearray)):
        raise UsageError(f"bytes are needed, not {type(data).__name__}")
    return bytes(data)
