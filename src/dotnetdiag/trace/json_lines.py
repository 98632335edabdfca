"""Events as lines of JSON, in the fixed form of ``trace events --format jsonl``.

One object per event: the keys of ``trace.header.KEYS``, then ``payload`` (every field of the schema, in its order; an
EventSource's single unnamed structure under the name ``""``) and, when asked for, ``frames``. Bytes are ``hex:…``,
64-bit numbers are numbers, and so is what the runtime numbers (unless its names are asked for), dates ISO 8601 with seven decimals and
``Z``. Bytes that nothing describes stand in the
payload as ``bytes@N``, N being where they begin.

Texts are made column by column, and woven together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.events import EventSchema, Table, json_texts, kernels
from dotnetdiag.events.json_texts import READABLE, Cells
from dotnetdiag.nettrace import HeaderColumns, LabelList
from dotnetdiag.nettrace.info import NO_TIME
from dotnetdiag.table.json_rows import cells_of
from dotnetdiag.table.texts import dumps
from dotnetdiag.trace import header
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.table import EventTable, with_names

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Context

Array: TypeAlias = "np.ndarray[Any, Any]"
_quoted = READABLE.text


class JsonLines:
    """Makes lines for windows of events of one trace."""

    def __init__(
        self,
        trace: Context,
        *,
        fields: frozenset[str] | None = None,
        frames: bool = False,
        names: bool = False,
    ) -> None:
        self._trace, self._fields, self._frames, self._names = trace, fields, frames, names
        self._guids = _cells([])

    def lines(self, window: EventTable) -> list[str]:
        """One text per row, without a newline."""
        return self.text(window).decode().split("\n")[:-1]

    def text(self, window: EventTable) -> bytes:
        """All lines, each with its newline."""
        heads = self._heads(window)
        parts = [
            (rows, *self._woven(window, number, schema, heads, rows))
            for number, schema in window.schemas.items()
            if len(rows := window.rows_of(number))
        ]
        if len(parts) == 1:
            return parts[0][2].tobytes()
        starts, lengths, base = np.zeros(len(window), np.int64), np.zeros(len(window), np.int64), 0
        for rows, sizes, woven in parts:
            starts[rows] = np.cumsum(sizes) - sizes + base
            lengths[rows] = sizes
            base += len(woven)
        data = np.concatenate([woven for _, _, woven in parts]) if parts else np.zeros(0, np.uint8)
        return kernels.gather(data, starts, lengths)[1].tobytes()

    def _heads(self, window: EventTable) -> dict[str, Cells]:
        """What each row says itself, by what stands before it."""
        headers, meaning = window.headers, self._trace.meaning
        made = {
            ',"ms":': json_texts.floats(meaning.ms(headers), plain=True),
            ',"utc":': self._utc(headers),
            ',"pid":': json_texts.whole_numbers(*meaning.pid(headers)),
            ',"tid":': json_texts.whole_numbers(meaning.tid(headers)),
            ',"activity":': self._guid_cells(headers.activity),
            ',"related":': self._guid_cells(headers.related),
            ',"bytes":': json_texts.whole_numbers(headers.payload_length),
        }
        if self._frames:
            made[',"frames":'] = _cells(self._frame_texts(window))
        return made

    def _utc(self, headers: HeaderColumns) -> Cells:
        times = self._trace.meaning.utc_ns(headers)
        if (times == NO_TIME).any():
            return _cells([f'"{text}"' for text in self._trace.meaning.utc_text(headers)])
        return json_texts.times(times, decimals=7)

    def _woven(
        self, window: EventTable, number: int, schema: EventSchema, heads: dict[str, Cells], rows: Array
    ) -> tuple[Array, Array]:
        """The bytes of each row of a type, and all of them."""
        table = window.part(number)
        if self._names:
            table = replace(table, columns=with_names(table.columns, window.enumerations_of(number)))
        own = heads if len(rows) == len(window) else {word: json_texts.taken(one, rows) for word, one in heads.items()}
        stated = self._stated(schema, window.headers.label_list[rows])
        before = f'{{"provider":{_quoted(schema.provider)},"event":{_quoted(schema.name)},"id":{schema.event_id},'
        pairs = [(before, stated), *own.items()]
        last = pairs.pop() if self._frames else None
        before = ',"payload":{'
        for word, cells in self._payload(table, window.headers.payload_length[rows]):
            pairs.append((before + word, cells))
            before = ""
        before += "}"
        if last is not None:
            pairs.append((before + last[0], last[1]))
            before = ""
        words = [word.encode() for word, _ in pairs] + [f"{before}}}\n".encode()]
        columns = [cells for _, cells in pairs]
        return json_texts.woven(columns, words, len(rows))

    def _payload(self, table: Table, sizes: Array) -> Iterator[tuple[str, Cells]]:
        """Values, and what stands before each."""
        columns = {name: column for name, column in table.columns.items() if self._is_wanted(name)}
        if not columns and self._fields is not None and "" in table.columns:  # members of an unnamed structure
            columns = {name: column for name, column in table.flat.items() if self._is_wanted(name)}
        for number, (name, column) in enumerate(columns.items()):
            yield f"{',' if number else ''}{_quoted(name)}:", cells_of(column)
        if table.remainder is not None and self._fields is None:
            yield "", _cells(_rest_texts(table, sizes))

    def _is_wanted(self, name: str) -> bool:
        return self._fields is None or name.lower() in self._fields

    def _stated(self, schema: EventSchema, lists: Array) -> Cells:
        """What the type says of each event, or its label list in the place of that."""
        changed = self._trace.overrides
        overriding = [index for index in distinct(lists).tolist() if index in changed] if changed else []
        texts = _cells([_stated_text(schema, labels) for labels in (None, *(changed[index] for index in overriding))])
        which = np.zeros(len(lists), np.int64)
        if overriding:
            which = np.where(np.isin(lists, overriding), np.searchsorted(overriding, lists, side="right"), 0)
        return json_texts.taken(texts, which)

    def _guid_cells(self, ids: Array) -> Cells:
        if not ids.any():
            return json_texts.taken(_cells(["null"]), np.zeros(len(ids), np.int64))
        if len(self._guids[0]) < len(self._trace.guids):
            texts = header.guid_texts(self._trace.guids)
            self._guids = _cells(["null" if text is None else f'"{text}"' for text in texts])
        return json_texts.taken(self._guids, ids)

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


def _cells(texts: Sequence[str]) -> Cells:
    return json_texts.cells_of([text.encode("utf-8", "backslashreplace") for text in texts])


def _stated_text(schema: EventSchema, labels: LabelList | None) -> str:
    def stated(key: str) -> int:
        value = None if labels is None else getattr(labels, key)
        return int(getattr(schema, key) if value is None else value)

    return (
        f'"version":{stated("version")},"level":{stated("level")},"opcode":{stated("opcode")},'
        f'"keywords":"0x{stated("keywords"):x}"'
    )


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
