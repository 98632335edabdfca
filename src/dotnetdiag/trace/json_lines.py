"""Events as lines of JSON, in the fixed form of ``trace events --format jsonl``.

One object per event: the keys of ``trace.header.KEYS``, then ``payload`` (every field of the schema, in its order; an
EventSource's single unnamed structure under the name ``""``) and, when asked for, ``frames``. Bytes are ``hex:…``,
64-bit numbers are numbers, dates ISO 8601 with seven decimals and ``Z``. Bytes that nothing describes stand in the
payload as ``bytes@N``, N being where they begin.

Texts are made column by column: a row costs one formatting.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.events import Bytes, Column, EventSchema, ListOf, Scalar, Table, Text
from dotnetdiag.events.columns import json_value
from dotnetdiag.events.layout import Kind
from dotnetdiag.nettrace import LabelList
from dotnetdiag.trace import header
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.table import EventTable

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Context

Array: TypeAlias = "np.ndarray[Any, Any]"

_WHOLE_LIMIT = 1e15
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


def value_texts(column: Column) -> list[Any]:
    """JSON of every row: texts, or numbers that print as JSON does."""
    if isinstance(column, Scalar):
        values = column.to_pylist()
        if column.values.dtype.kind == "f":
            made: list[Any] = ["null" if value is None else number_text(value) for value in values]
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
    if isinstance(column, ListOf):
        inner, bounds = list(map(str, value_texts(column.child))), column.offsets.tolist()
        texts = [f"[{','.join(inner[first:last])}]" for first, last in pairwise(bounds)]
    else:
        template = "{" + ",".join(f"{_escaped(name)}:%s" for name in column.fields) + "}"
        parts = [value_texts(field) for field in column.fields.values()]
        texts = list(map(template.__mod__, zip(*parts, strict=True))) if parts else ["{}"] * len(column)
    if column.valid is None:
        return texts
    return [text if valid else "null" for text, valid in zip(texts, column.valid.tolist(), strict=True)]


def cell_texts(column: Column) -> list[str]:
    """Values as cells of a table: as in JSON, but texts without quotes, and nothing where there is no value."""
    if isinstance(column, Text):
        return [text or "" for text in column.to_pylist()]
    if isinstance(column, Scalar) and column.values.dtype.kind not in "fb":
        return ["" if value is None else str(value) for value in column.to_pylist()]
    if isinstance(column, Bytes):
        return ["" if raw is None else f"hex:{raw.hex()}" for raw in column.to_pylist()]
    return ["" if text == "null" else text.strip('"') for text in map(str, value_texts(column))]


def _escaped(text: str) -> str:
    return encode_basestring(text).replace("%", "%%")


class JsonLines:
    """Makes lines for windows of events of one trace."""

    def __init__(
        self,
        trace: Context,
        *,
        fields: frozenset[str] | None = None,
        frames: bool = False,
    ) -> None:
        self._trace, self._fields, self._frames = trace, fields, frames
        self._guids: list[str] = []

    def lines(self, window: EventTable) -> list[str]:
        """One text per row, without a newline."""
        headers, meaning = window.headers, self._trace.meaning
        made: list[str] = [""] * len(window)
        utc = meaning.utc_text(headers)
        ms = list(map(number_text, meaning.ms(headers).tolist()))
        processes, stated = meaning.pid(headers)
        pid = [value if known else "null" for value, known in zip(processes.tolist(), stated.tolist(), strict=True)]
        tid = meaning.tid(headers).tolist()
        activity, related = self._guid_texts(headers.activity), self._guid_texts(headers.related)
        size = headers.payload_length.tolist()
        frames: Sequence[str] | None = self._frame_texts(window) if self._frames else None
        for number, schema in window.schemas.items():
            rows = window.rows_of(number)
            if not len(rows):
                continue
            names, columns = self._payload(window.part(number), headers.payload_length[rows])
            for labels, places in self._groups(headers.label_list[rows]):
                at = (rows if places is None else rows[places]).tolist()
                own: list[Iterable[Any]] = [
                    [source[row] for row in at] for source in (ms, utc, pid, tid, activity, related, size)
                ]
                own += columns if places is None else [[column[place] for place in places] for column in columns]
                if frames is not None:
                    own.append([frames[row] for row in at])
                template = self._template(schema, labels, names)
                for row, line in zip(at, map(template.__mod__, zip(*own, strict=True)), strict=True):
                    made[row] = line
        return made

    def _groups(self, lists: Array) -> Iterator[tuple[LabelList | None, list[int] | None]]:
        """Places of the rows that share everything that a template fixes, by the label list that overrides it; None: all."""
        changed = self._trace.overrides
        overriding = [index for index in distinct(lists).tolist() if index in changed] if changed else []
        if not overriding:
            yield None, None
            return
        groups = np.searchsorted(overriding, lists, side="right")
        groups[~np.isin(lists, overriding)] = 0
        order = np.argsort(groups, kind="stable")
        bounds = np.searchsorted(groups[order], np.arange(len(overriding) + 2)).tolist()
        for group, (first, last) in enumerate(pairwise(bounds)):
            if first < last:
                yield changed[overriding[group - 1]] if group else None, order[first:last].tolist()

    def _payload(self, table: Table, sizes: Array) -> tuple[list[str], list[list[Any]]]:
        names = [name for name in table.columns if self._fields is None or self._wanted(name)]
        columns = [value_texts(table.columns[name]) for name in names]
        if self._fields is not None and not names and "" in table.columns:  # members of an unnamed structure
            inner = table.flat
            names = [name for name in inner if name.lower() in self._fields]
            columns = [value_texts(inner[name]) for name in names]
        if table.remainder is not None and self._fields is None:
            return [*names, "\0rest"], [*columns, _rest_texts(table, sizes)]
        return names, columns

    def _wanted(self, name: str) -> bool:
        assert self._fields is not None
        return name.lower() in self._fields

    def _template(self, schema: EventSchema, labels: LabelList | None, names: Sequence[str]) -> str:
        def stated(key: str) -> int:
            value = None if labels is None else getattr(labels, key)
            return int(getattr(schema, key) if value is None else value)

        parts = [f'"{name}":%s' if name.isalnum() else f"{_escaped(name)}:%s" for name in names if name != "\0rest"]
        payload = ",".join(parts) + ("%s" if "\0rest" in names else "")
        return (
            f'{{"provider":{_escaped(schema.provider)},"event":{_escaped(schema.name)},"id":{schema.event_id},'
            f'"version":{stated("version")},"level":{stated("level")},"opcode":{stated("opcode")},'
            f'"keywords":"0x{stated("keywords"):x}","ms":%s,"utc":"%s","pid":%s,"tid":%s,"activity":%s,'
            f'"related":%s,"bytes":%s,"payload":{{{payload}}}' + (',"frames":%s}' if self._frames else "}")
        )

    def _guid_texts(self, ids: Array) -> list[str]:
        if not ids.any():
            return ["null"] * len(ids)
        if len(self._guids) < len(self._trace.guids):
            texts = header.guid_texts(self._trace.guids)
            self._guids = ["null" if text is None else f'"{text}"' for text in texts]
        known = self._guids
        return [known[index] for index in ids.tolist()]

    def _frame_texts(self, window: EventTable) -> list[str]:
        frames = self._trace.frames_of(window.headers)
        made: dict[tuple[str, ...], str] = {}
        texts = []
        for stack in frames:
            text = made.get(stack)
            if text is None:
                text = made[stack] = dumps(list(stack))
            texts.append(text)
        return texts


def _rest_texts(table: Table, lengths: Array) -> list[str]:
    """Bytes behind the fields, or of a damaged payload, as one more field; nothing where there are none."""
    assert table.remainder is not None
    comma = "," if table.columns else ""
    sizes = np.diff(table.remainder.offsets)
    starts = np.maximum(lengths.astype(np.int64) - sizes, 0).tolist()
    return [
        f'{comma}"bytes@{start}":"hex:{raw.hex()}"' if raw else ""
        for raw, start in zip(table.remainder.to_pylist(), starts, strict=True)
    ]
