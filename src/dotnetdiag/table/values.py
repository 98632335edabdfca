"""Python values as a column, and columns as texts of cells."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Text
from dotnetdiag.events.columns import json_value
from dotnetdiag.events.layout import Kind

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_NUMBERS: dict[type, tuple[Kind, Any]] = {
    bool: (Kind.BOOL, np.bool_),
    int: (Kind.I8, np.int64),
    float: (Kind.F8, np.float64),
}


_EXACT = 1 << 53
"""Whole numbers up to here are floats as they are."""


def column_of(values: Sequence[Any]) -> Column:
    """The column of values of one kind, or None: numbers (numpy's too), texts, bytes, times (with a time zone, and between 1677 and 2262),
    lists of such. Anything else is text, and so are numbers that no kind of 64 bits holds all of.
    """
    kinds = {type(value) for value in values if value is not None}
    if any(issubclass(kind, (np.number, np.bool_)) for kind in kinds):
        values = [value.item() if isinstance(value, np.generic) else value for value in values]
        kinds = {type(value) for value in values if value is not None}
    valid = None if None not in values else np.array([value is not None for value in values], np.bool_)
    if kinds == {int, float} and all(abs(value) <= _EXACT for value in values if type(value) is int):
        kinds = {float}
    if len(kinds) == 1:
        (kind,) = kinds
        numbers = _numbers(kind, values)
        if numbers is not None:
            return Scalar(numbers[1], valid, numbers[0])
        if kind is bytes:
            return Bytes(_offsets(values), np.frombuffer(b"".join(value or b"" for value in values), np.uint8), valid)
        if kind is list:
            return ListOf(_offsets(values), column_of([one for value in values for one in value or ()]), valid)
    return Text.from_pylist([value if value is None or isinstance(value, str) else _text(value) for value in values])


def _numbers(kind: type, values: Sequence[Any]) -> tuple[Kind, np.ndarray[Any, Any]] | None:
    """Numbers and times as an array, 0 for None; None for what is no number, or does not fit."""
    dtype: Any
    if kind is datetime:
        if any(value is not None and value.utcoffset() is None for value in values):
            return None
        kind, values = int, [None if value is None else (value - _EPOCH) // _MICROSECOND * 1000 for value in values]
        meant, dtype = Kind.TIMESTAMP, np.int64
    elif kind in _NUMBERS:
        meant, dtype = _NUMBERS[kind]
    else:
        return None
    numbers = [0 if value is None else value for value in values]
    if kind is int:
        least, most = min(numbers), max(numbers)
        if meant is Kind.I8 and least >= 0 and most >> 63 == 1:
            meant, dtype = Kind.U8, np.uint64
        if not -(1 << 63) <= least <= most < 1 << (64 if meant is Kind.U8 else 63):
            return None
    return meant, np.array(numbers, dtype)


def _offsets(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    offsets = np.zeros(len(values) + 1, np.int64)
    np.cumsum([0 if value is None else len(value) for value in values], out=offsets[1:])
    return offsets


def _text(value: object) -> str:
    if isinstance(value, (dict, list, tuple)):
        return json.dumps(json_value(value), ensure_ascii=False, default=str)
    return str(value)
