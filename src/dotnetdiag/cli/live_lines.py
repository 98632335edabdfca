"""Events of a running session as lines: for people, as objects of JSON, and as rows of CSV. Each maker takes window after window."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag.cli.render import clean_json
from dotnetdiag.tui.plain import clean

if TYPE_CHECKING:
    from dotnetdiag.trace.table import EventTable

Lines: TypeAlias = "Callable[[EventTable], list[str]]"


def json_lines(fields: tuple[str, ...]) -> Lines:
    """Objects in the fixed form of ``trace events --format jsonl``."""
    from dotnetdiag.trace.json_lines import JsonLines

    wanted = frozenset(map(_field, fields)) or None

    def made(window: EventTable) -> list[str]:
        return [clean_json(line) for line in JsonLines(window.trace, fields=wanted).lines(window)]

    return made


def text_lines(fields: tuple[str, ...]) -> Lines:
    """``12:30:01.123456  tid  provider/event  field=value …``: the time is UTC. A key of the header that is named is one more field."""
    from dotnetdiag.table.texts import cell_texts

    wanted = set(map(_field, fields))
    keys = _keys(fields)

    def made(window: EventTable) -> list[str]:
        texts = [""] * len(window)
        times: list[Any] = window.header_column("utc").to_pylist()
        tids: list[Any] = window.header_column("tid").to_pylist()
        heads = {name: _header_texts(window, key) for name, key in keys.items()}
        for number, schema in window.schemas.items():
            rows = window.rows_of(number).tolist()
            columns = window.own_columns(number)
            names = [name for name in columns if not wanted or name.lower() in wanted]
            head = f"{schema.provider}/{schema.name}".replace("%", "%%")
            tail = "".join(f" {name.replace('%', '%%')}=%s" for name in (*names, *heads))
            template = f"%s  %7d  {head} {tail}".rstrip()
            parts: list[Iterable[Any]] = [[times[row][11:26] for row in rows], [tids[row] for row in rows]]
            parts += [cell_texts(columns[name]) for name in names]
            parts += [[values[row] for row in rows] for values in heads.values()]
            for row, line in zip(rows, map(template.__mod__, zip(*parts, strict=True)), strict=True):
                texts[row] = clean(line)
        return texts

    return made


def csv_names(fields: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of :func:`csv_lines`: those asked for; else the keys of the header, and the payload as JSON, whose fields nobody knows yet."""
    from dotnetdiag.trace.header import KEYS

    return fields or (*KEYS, "payload")


def csv_lines(fields: tuple[str, ...]) -> Lines:
    """Rows of :func:`csv_names`. What has no value is empty."""
    from dotnetdiag.table.texts import cell_texts
    from dotnetdiag.trace.json_lines import JsonLines

    names = csv_names(fields)
    keys = _keys(names)

    def made(window: EventTable) -> list[str]:
        cells: list[tuple[str, ...]] = [()] * len(window)
        heads = {name: _header_texts(window, key) for name, key in keys.items()}
        if not fields:
            heads["payload"] = [line.partition(',"payload":')[2][:-1] for line in JsonLines(window.trace).lines(window)]
        for number in window.schemas:
            rows = window.rows_of(number).tolist()
            columns = {name.lower(): column for name, column in window.own_columns(number).items()}
            parts: list[Sequence[str]] = []
            for name in names:
                found = columns.get(_field(name))
                if name in heads:
                    parts.append([heads[name][row] for row in rows])
                else:
                    parts.append(list(cell_texts(found)) if found is not None else [""] * len(rows))
            for row, *texts in zip(rows, *parts, strict=True):
                cells[row] = tuple(texts)
        return csv_rows(cells)

    return made


def csv_rows(rows: Iterable[Sequence[object]]) -> list[str]:
    """Each as a row of CSV, without what ends it."""
    from dotnetdiag.export.csv_table import row_writer

    made = []
    for row in rows:
        text = io.StringIO()
        row_writer(text).writerow(row)
        made.append(text.getvalue().removesuffix("\n"))
    return made


def _field(name: str) -> str:
    return name.lower().removeprefix("payload.")


def _keys(names: Iterable[str]) -> dict[str, str]:
    """The keys of the header among names."""
    from dotnetdiag.trace.header import key_meant

    return {name: key for name in names if (key := key_meant(name.lower(), is_field=False)) is not None}


def _header_texts(window: EventTable, key: str) -> list[str]:
    from dotnetdiag.table.texts import cell_texts

    if key == "keywords":
        numbers: list[Any] = window.header_column(key).to_pylist()
        return [f"0x{number:x}" for number in numbers]
    return list(cell_texts(window.header_column("utc" if key == "time" else key)))
