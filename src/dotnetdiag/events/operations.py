"""The operations of a program: what :mod:`.program` builds of layouts, and the kernels or the fall-back run over payloads."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Any

import numpy as np

from dotnetdiag._dataclasses import dataclass, field_names


class Op(IntEnum):
    """What stands next in a payload."""

    SCALAR = 1
    VARUINT = 2
    VARINT = 3
    Z16 = 4
    """Text to a zero unit of 16 bits."""
    Z8 = 5
    """Text to a zero byte."""
    SPAN = 6
    """Counted elements that all take ``size`` bytes."""
    LIST = 7
    """Counted elements that vary in size: the operations up to ``behind`` describe one."""
    BLOCK = 8
    """Scalars that stand together: the operations up to ``behind``."""
    REMAINDER = 9
    """All that is left."""


class State(IntEnum):
    """How a row ended."""

    WHOLE = 0
    ENDED = 1
    """In front of a value."""
    BROKEN = 2
    """In a value."""


@dataclass(slots=True, kw_only=True)
class Operation:
    """One step of a program, over all rows."""

    code: Op
    slot: int = -1
    """Number of the output, or -1. Texts, spans and lists have two i64 per row there: all first bytes, then all lengths
    (of lists: numbers of elements)."""
    size: int = 0
    """Bytes: of the scalar, of one element (SPAN), at least of one element (LIST), of the block (BLOCK)."""
    keep: int = -1
    """The register that keeps the value for a count behind, or -1."""
    count_at: int = 0
    """Where the count stands: a ``layout.Count``."""
    param: int = 0
    """The fixed count, or the register that has it."""
    behind: int = 0
    """Number of the operation behind the list or block."""
    ordinal: int = 0
    """How many values stand in front of it at top level."""


OPERATION = np.dtype([(name, np.int64) for name in field_names(Operation)])
"""An operation as the kernels have it."""
_VALUES = attrgetter(*OPERATION.fields or ())
LARGEST_COUNT = 0x7FFFFFFF
"""A larger count stands for this one, which no payload has room for."""
EMPTY_ELEMENTS = 16
"""Elements of no bytes that a list may have: they cost the payload nothing."""


def as_table(operations: Sequence[Operation]) -> np.ndarray[Any, Any]:
    """One row per operation, of type ``OPERATION``."""
    return np.array([_VALUES(operation) for operation in operations], OPERATION)
