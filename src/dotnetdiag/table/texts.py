"""Values of columns as JSON, and as the cells of CSV and of tables for people.

Bytes are ``hex:…``, 64-bit numbers are numbers, dates ISO 8601 with seven decimals and ``Z`` (times with nine), ids text.
Texts are made column by column.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from json.encoder import encode_basestring
from typing import Any

import numpy as np

from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Text
from dotnetdiag.events.columns import Enumerated, Maps, json_value
from dotnetdiag.events.layout import Kind

_WHOLE_LIMIT = 1e15
_NO_NUMBERS = frozenset({Kind.CHAR, Kind.CHAR8, Kind.DATETIME, Kind.TIMESTAMP})
_QUOTED = frozenset({Kind.CHAR, Kind.CHAR8, Kind.GUID, Kind.DECIMAL})


def dumps(value: Any) -> str:
    """A value in the forms above, without blanks."""
    return json.dumps(json_value(value), ensure_ascii=False, separators=(",", ":"))


def number_text(value: float) -> str:
    """A float as short as it can be: whole ones without a fraction; what is none as ``"NaN"``, ``"Infinity"``."""
    if value * 0 != 0:
        return dumps(value)
    if value == int(value) and abs(value) < _WHOLE_LIMIT:
        return str(int(value)) if value or str(value)[0] != "-" else "-0"
    return repr(value)


def number_texts(values: list[float]) -> list[str]:
    """:func:`number_text` of each; of many in a quarter of the time."""
    limit = _WHOLE_LIMIT
    return [
        text[:-2] if text[-2:] == ".0" and -limit < value < limit else text if "n" not in text else number_text(value)
        for text, value in zip(map(repr, values), values, strict=True)
    ]


def time_texts(column: Scalar) -> list[str | None]:
    """Times as ISO 8601 with nine decimals and ``Z``."""
    texts = np.datetime_as_string(column.values.view("datetime64[ns]"), unit="ns").tolist()
    if column.valid is None:
        return [f"{text}Z" for text in texts]
    return [f"{text}Z" if valid else None for text, valid in zip(texts, column.valid.tolist(), strict=True)]


def value_texts(column: Column) -> list[Any]:
    """JSON of every row: texts, or numbers that print as JSON does."""
    if isinstance(column, Enumerated):
        column = column.coded()
    if column.valid is not None and not column.valid.any():
        return ["null"] * len(column)
    if isinstance(column, Scalar) and column.kind == Kind.TIMESTAMP:
        return ["null" if text is None else f'"{text}"' for text in time_texts(column)]
    if isinstance(column, Scalar):
        made: list[Any]
        if column.values.dtype == np.float64:
            made = list(number_texts(column.values.tolist()))
            if column.valid is not None:
                made = [text if valid else "null" for text, valid in zip(made, column.valid.tolist(), strict=True)]
            return made
        values = column.to_pylist()
        if column.values.dtype.kind == "f":  # singles print shorter than doubles of the same value
            made = ["null" if value is None else number_text(value) for value in values]
        elif column.values.dtype.kind == "b":
            made = ["null" if value is None else "true" if value else "false" for value in values]
        elif column.kind in _QUOTED:
            made = ["null" if value is None else encode_basestring(str(value)) for value in values]
        elif column.kind == Kind.DATETIME:
            made = [f'"{value}"' if isinstance(value, str) else dumps(value) for value in values]
        elif column.valid is not None:
            made = ["null" if value is None else value for value in values]
        else:
            made = values
        return made
    if isinstance(column, Text):
        strings = column.to_pylist()
        if column.valid is None:
            return list(map(encode_basestring, strings))  # type: ignore[arg-type]
        return ["null" if text is None else encode_basestring(text) for text in strings]
    if isinstance(column, Bytes):
        return ["null" if raw is None else f'"hex:{raw.hex()}"' for raw in column.to_pylist()]
    if isinstance(column, Maps):
        known = list(map(map_text, column.maps))
        texts = [known[number] for number in column.which.tolist()]
    elif isinstance(column, ListOf):
        inner, bounds = list(map(str, value_texts(column.child))), column.offsets.tolist()
        texts = [f"[{','.join(inner[first:last])}]" for first, last in pairwise(bounds)]
    else:
        template = "{" + ",".join(f"{escaped(name)}:%s" for name in column.fields) + "}"
        parts = [value_texts(field) for field in column.fields.values()]
        texts = list(map(template.__mod__, zip(*parts, strict=True))) if parts else ["{}"] * len(column)
    if column.valid is None:
        return texts
    return [text if valid else "null" for text, valid in zip(texts, column.valid.tolist(), strict=True)]


def map_text(texts: Mapping[str, str]) -> str:
    """An object of texts."""
    pairs = [f"{encode_basestring(name)}:{encode_basestring(text)}" for name, text in texts.items()]
    return f"{{{','.join(pairs)}}}"


def cell_texts(column: Column) -> list[str]:
    """Values as cells of a table: as in JSON, but texts without quotes, and nothing where there is no value."""
    if isinstance(column, Enumerated):
        column = column.coded()
    if isinstance(column, Text):
        return [text or "" for text in column.to_pylist()]
    if isinstance(column, Scalar) and column.kind != Kind.TIMESTAMP and column.values.dtype.kind not in "fb":
        return ["" if value is None else str(value) for value in column.to_pylist()]
    if isinstance(column, Bytes):
        return ["" if raw is None else f"hex:{raw.hex()}" for raw in column.to_pylist()]
    return ["" if text == "null" else text.strip('"') for text in map(str, value_texts(column))]


def escaped(text: str) -> str:
    """The text in JSON, for a template of ``%``."""
    return encode_basestring(text).replace("%", "%%")


def json_values(column: Column) -> list[Any]:
    """The values as JSON's own, for who writes the document with other means."""
    if isinstance(column, Scalar) and column.kind == Kind.TIMESTAMP:
        return time_texts(column)
    return [json_value(value) for value in column.to_pylist()]


def is_number(column: Column) -> bool:
    """Whether the values are numbers that one compares by their ends."""
    if not isinstance(column, Scalar) or isinstance(column, Enumerated):
        return False
    return column.values.dtype.kind in "iuf" and column.kind not in _NO_NUMBERS


def plain_type(column: Column) -> type:
    """What :func:`plain_values` gives beside None: int (also for what is true or false), float, bytes, str."""
    if isinstance(column, Bytes):
        return bytes
    if isinstance(column, Scalar) and (is_number(column) or column.values.dtype.kind == "b"):
        return float if column.values.dtype.kind == "f" else int
    return str


def plain_values(column: Column) -> list[Any]:
    """The values for who knows numbers, bytes and texts alone: times, ids, lists and structures as texts."""
    if plain_type(column) is not str:
        return list(column.to_pylist())
    texts = cell_texts(column)
    if column.valid is None:
        return list(texts)
    return [text if valid else None for text, valid in zip(texts, column.valid.tolist(), strict=True)]
