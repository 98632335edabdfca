"""Events as lines of JSON, in the fixed form of ``trace events --format jsonl``.

One object per event: the keys of ``trace.header.KEYS``, then ``payload`` (every field of the schema, in its order; an
EventSource's single unnamed structure under the name ``""``) and, when asked for, ``frames``. Bytes are ``hex:…``,
64-bit numbers are numbers, and so is what the runtime numbers (unless its names are asked for), dates ISO 8601 with seven decimals and
``Z``. Bytes that nothing describes stand in the
payload as ``bytes@N``, N being where they begin.

Texts are made column by column: a row costs one formatting.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.events import EventSchema, Table
from dotnetdiag.nettrace import LabelList
from dotnetdiag.table.texts import dumps, escaped, number_text, value_texts
from dotnetdiag.trace import header
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.table import EventTable, with_names

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Context

Array: TypeAlias = "np.ndarray[Any, Any]"


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
            table = window.part(number)
            if self._names:
                table = replace(table, columns=with_names(table.columns, window.enumerations_of(number)))
            names, columns = self._payload(table, headers.payload_length[rows])
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

        parts = [f'"{name}":%s' if name.isalnum() else f"{escaped(name)}:%s" for name in names if name != "\0rest"]
        payload = ",".join(parts) + ("%s" if "\0rest" in names else "")
        return (
            f'{{"provider":{escaped(schema.provider)},"event":{escaped(schema.name)},"id":{schema.event_id},'
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
