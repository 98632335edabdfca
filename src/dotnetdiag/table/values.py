"""Python values as a column, and columns as texts of cells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Text
from dotnetdiag.events.layout import Kind

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS: dict[type, tuple[Kind, Any]] = {
    bool: (Kind.BOOL, np.bool_),
    int: (Kind.I8, np.int64),
    float: (Kind.F8, np.float64),
}


def column_of(values: Sequence[Any]) -> Column:
    """The column of values of one kind, or None: numbers, texts, bytes, times (with a time zone), lists of such. Anything else is text."""
    kinds = {type(value) for value in values if value is not None}
    valid = None if None not in values else np.array([value is not None for value in values], np.bool_)
    if kinds == {int, float}:
        kinds = {float}
    if len(kinds) == 1:
        (kind,) = kinds
        if kind is datetime:
            ticks = [0 if value is None else int((value - _EPOCH).total_seconds() * 1e6) * 1000 for value in values]
            return Scalar(np.array(ticks, np.int64), valid, Kind.TIMESTAMP)
        if kind in _NUMBERS:
            meant, dtype = _NUMBERS[kind]
            numbers = [0 if value is None else value for value in values]
            if kind is int and max(numbers) >> 63 == 1 and min(numbers) >= 0:
                meant, dtype = Kind.U8, np.uint64
            if kind is not int or -(1 << 63) <= min(numbers) <= max(numbers) < 1 << (64 if meant is Kind.U8 else 63):
                return Scalar(np.array(numbers, dtype), valid, meant)
        if kind is bytes:
            return Bytes(_offsets(values), np.frombuffer(b"".join(value or b"" for value in values), np.uint8), valid)
        if kind is list:
            return ListOf(_offsets(values), column_of([one for value in values for one in value or ()]), valid)
    return Text.from_pylist([value if value is None or isinstance(value, str) else _text(value) for value in values])


def _offsets(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    return offsets


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, (dict, list)) else str(value)
