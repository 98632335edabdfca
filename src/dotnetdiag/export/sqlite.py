"""Tables as a SQLite database, a table in it for each: numbers as numbers, times and ids as text, lists and structures as JSON.

A whole number beyond 64 bits with a sign is text; NaN is NULL, for SQLite has none. The database is made in a temporary file, or in memory where
there is no place for one.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import ExitStack
from typing import IO, Any

from dotnetdiag._temporary import folder_on_disk
from dotnetdiag.errors import OutputError, UsageError
from dotnetdiag.export.tables import fresh_name, tables_of
from dotnetdiag.export.texts import clean
from dotnetdiag.table.html import Tabular
from dotnetdiag.table.texts import plain_type, plain_values
from dotnetdiag.trace.method_names import Style

_LIMIT = 1 << 63
_OF_THE_DISK = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN)
_KINDS = {int: "", float: "REAL", bytes: "BLOB", str: "TEXT"}
"""A column of INTEGER would make a real number of the text of a large one."""


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write tables under their titles, as far as these are names (``rows``, ``rows_2``)."""
    with ExitStack() as until_written:
        try:
            folder = until_written.enter_context(
                tempfile.TemporaryDirectory(prefix="dotnetdiag-", dir=folder_on_disk(), ignore_cleanup_errors=True)
            )
        except OSError:
            _write_database(":memory:", result, file, style)
        else:
            _write_database(os.path.join(folder, "tables"), result, file, style)


def _write_database(place: str, result: object, file: IO[bytes], style: Style | None) -> None:
    database = sqlite3.connect(place)
    try:
        database.execute("PRAGMA user_version = 0")  # without a table it would be no file
        database.execute("PRAGMA journal_mode = OFF")  # nobody else sees it before it is whole
        database.execute("PRAGMA synchronous = OFF")
        used: set[str] = set()
        for table in tables_of(result, "sqlite", style):
            if not table.columns:  # SQL knows no such table
                continue
            _write(database, fresh_name(_name(table.title), used, str.lower), table)
        database.commit()
        if place == ":memory:":
            file.write(database.serialize())
        else:
            database.close()
            with open(place, "rb") as made:
                shutil.copyfileobj(made, file, 1 << 20)
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0)  # what Python's module says by itself has none
        if code & 0xFF in _OF_THE_DISK:
            folder = os.path.dirname(os.path.dirname(place)) or place
            raise OutputError(folder, f"no room for SQLite's temporary file: {error}") from error
        raise UsageError(f"sqlite cannot hold it: {error}") from error
    finally:
        database.close()


def _name(title: str) -> str:
    return title if title.isidentifier() and not title.lower().startswith("sqlite_") else "rows"


def _write(database: sqlite3.Connection, name: str, table: Tabular) -> None:
    used: set[str] = set()
    columns = [fresh_name(clean(column).replace("\0", ""), used, str.lower) for column in table.columns]
    made = False
    for piece in table.pieces():
        if not made:
            kinds = [
                f"{_quoted(one)} {_KINDS[plain_type(piece[two])]}"
                for one, two in zip(columns, table.columns, strict=True)
            ]
            database.execute(f"CREATE TABLE {_quoted(name)} ({', '.join(kinds)})")
            made = True
        places = ", ".join("?" * len(columns))
        rows = zip(*(_stored(piece[column]) for column in piece.columns), strict=True)
        database.executemany(f"INSERT INTO {_quoted(name)} VALUES ({places})", rows)  # noqa: S608 - quoted


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _stored(column: Any) -> list[Any]:
    values, kind = plain_values(column), plain_type(column)
    if kind is str:
        return [None if value is None else clean(value) for value in values]
    if kind is int:
        return [str(value) if value is not None and value >= _LIMIT else value for value in values]
    return values
