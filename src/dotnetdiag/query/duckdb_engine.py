"""SQL by DuckDB: what a query names becomes a table when DuckDB asks for it.

A query reads recordings, and nothing else: no files, no network, no extensions, no settings, no variables of the program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from dotnetdiag.errors import UsageError
from dotnetdiag.query.arrow_dataset import dataset_of
from dotnetdiag.query.batches import arrow
from dotnetdiag.query.beside import beside
from dotnetdiag.query.duckdb_values import answer_of, import_duckdb
from dotnetdiag.query.from_arrow import table_of
from dotnetdiag.query.recordings import Recording, Shelf
from dotnetdiag.query.reports import REPORTS
from dotnetdiag.query.scan import Scan
from dotnetdiag.query.tables import CALLED, EVENTS, TABLES, contents, find_table, has_events, is_taken, unknown
from dotnetdiag.query.unreadable import Unreadable
from dotnetdiag.table import Losses, Table

_MISSING = re.compile(r"Table(?P<function> Function)? with name ")
_MISSING_END = " does not exist!"
_FILE = re.compile(r'(?:Cannot access file|No files found that match the pattern) "')
_FILE_END = '"'
"""What it says of a table that is called as a file may be: the name stands between these two, and may have the second within it."""
_SHOW = re.compile(r"\s*show\s+(?:all\s+)?tables\s*;?\s*", re.IGNORECASE)
_SILENT = ("CREATE", "DROP", "ALTER", "INSERT", "UPDATE", "DELETE")
"""Statements that answer with nothing, which DuckDB says as a table of no rows."""
_LONG = 400
"""Characters of an error from which on functions that might have been meant are left out: of ``-`` there are 39."""
_EXACT_TIME = "TIMESTAMPTZ_NS"
_MACRO = re.compile(r"[Mm]acro \"?(?P<name>[a-z]+)")
_OPEN = {"python_enable_replacements": "false"}
"""Of every database: DuckDB would see no variables but those of this file, which may be called as events are."""
CLOSED = {
    **_OPEN,
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "temp_directory": "",
}
"""Of a database that reads what it is given, and nothing else."""


def database_in_utc(settings: Mapping[str, str], *, locked: bool) -> Any:
    """An empty one in memory, in which times are taken apart, written and read in UTC: DuckDB would do so in the zone of the machine, and one query
    answer otherwise elsewhere. ``locked``: no query changes a setting.
    """
    duckdb = import_duckdb()
    database = duckdb.connect(":memory:", config=dict(settings))
    with suppress(duckdb.CatalogException):  # one built without ICU knows no zones, and has all in UTC
        database.execute("set TimeZone = 'UTC'")
    if locked:
        database.execute("set lock_configuration = true")
    return database


class Database:
    """Recordings as the tables of a database in memory. Views that a query makes are there for the next one."""

    def __init__(
        self, recordings: Sequence[Recording], *, external_access: bool = False, unreadable: Unreadable | None = None
    ) -> None:
        """``external_access``: queries may read and write files, and what else DuckDB can. ``unreadable`` is what becomes of recordings that cannot
        be opened; without it each is an error. Raises MissingDependency, UsageError for no recording.
        """
        if not recordings:
            raise UsageError("a query of no recording")
        self._recordings = tuple(recordings)
        self.unreadable = unreadable or Unreadable(len(self._recordings))
        self._shelf = Shelf(self.unreadable)
        self._duckdb, _ = import_duckdb(), arrow()
        self._database = database_in_utc(_OPEN if external_access else CLOSED, locked=not external_access)
        self._scans: list[Scan] = []
        self._tables: Table | None = None
        views = self._execute("select view_name from duckdb_views() where internal").fetchall()
        self._hidden = {name for (name,) in views}

    def close(self) -> None:
        """Close it, and the recordings that it has opened."""
        self._database.close()
        self._shelf.close()

    def sql(self, text: str) -> Table:
        """What the last statement answers. Raises UsageError for several queries, and for what DuckDB refuses, UnknownName for tables that are not
        there, and what reading the recordings raises.
        """
        if not isinstance(text, str) or not text.strip():
            raise UsageError("an empty query: write SQL, such as 'select count(*) from events'")
        if (at := _not_utf_8(text)) is not None:
            raise UsageError(f"character {at + 1} of the query is none of UTF-8")
        if _SHOW.fullmatch(text):
            return self.tables()
        try:
            statements = self._database.extract_statements(text)
        except self._duckdb.Error as error:
            raise self._refusal(error) from error
        answering = [one.type.name for one in statements].count("SELECT")
        if answering > 1:
            raise UsageError(
                f"{answering} queries: one answer is given; ask for them one at a time, or join them with union all"
            )
        made: Any = None
        for statement in statements:
            made = self._run(statement.query)
        if made is None or (statements[-1].type.name in _SILENT and not made.num_rows):
            return Table({}, title="nothing", notes=self.unreadable.notes)
        return table_of(made, " ".join(text.split()), self.notes, self.losses)

    @property
    def losses_by_recording(self) -> Mapping[str, Losses]:
        """What each recording lacks that was read."""
        return dict(self._shelf.losses)

    @property
    def losses(self) -> Losses:
        """What the recordings lack that were read."""
        found = self._shelf.losses.values()
        lost = [one.lost for one in found]
        damage = [f"{name}: {one.damage}" for name, one in self._shelf.losses.items() if one.damage]
        return Losses(
            lost=None if None in lost else sum(one for one in lost if one is not None),
            damage="; ".join(damage) or None,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reports that were read say of their recordings; of some of several with their number, and the name of the first. Then which
        recordings were passed over.
        """
        of: dict[str, list[str]] = {}
        for name, notes in self._shelf.notes.items():
            for note in notes:
                of.setdefault(note, []).append(name)
        count = len(self._recordings) - len(self.unreadable.skipped)
        said = [
            note if len(names) == count else f"{names[0]}{f' and {len(names) - 1} more' if names[1:] else ''}: {note}"
            for note, names in of.items()
        ]
        return (*said, *self.unreadable.notes)

    def _run(self, statement: str) -> Any:
        """What one statement answers, as a table of Arrow; None for nothing. Raises as ``sql``."""
        self._define_calls(statement)
        self._define_hidden(statement)
        defined: set[tuple[str, bool]] = set()
        while True:
            try:
                return self._asked(statement)
            except RuntimeError as error:
                if "interrupted" in str(error):  # as DuckDB says that somebody has pressed Ctrl-C
                    raise KeyboardInterrupt from error
                raise
            except self._duckdb.InterruptException as error:
                raise KeyboardInterrupt from error
            except self._duckdb.Error as error:
                if not self._define_missing(str(error), defined):
                    raise self._meant(error) from error

    def _asked(self, statement: str) -> Any:
        """What DuckDB answers."""

        def ask() -> Any:
            relation = self._database.sql(statement)
            return None if relation is None else answer_of(relation)

        return beside(self._database, ask)

    def _register_as(self, name: str, content: Any) -> None:
        beside(self._database, lambda: self._database.register(name, content))

    def _execute(self, statement: str) -> Any:
        return beside(self._database, lambda: self._database.execute(statement))

    def _define_missing(self, said: str, defined: set[tuple[str, bool]]) -> bool:
        """Make what DuckDB says is not there; False where it says something else, or says it again. Raises as ``sql``."""
        missing = _MISSING.search(said)
        found = missing or _FILE.search(said)
        if found is None:
            return False
        is_function = missing is not None and bool(missing["function"])
        names = _names_before(said[found.end() :], _MISSING_END if missing else _FILE_END)
        for name in names:
            if (name, is_function) not in defined and (is_function or self._is_ours(name)):
                defined.add((name, is_function))
                self._define(name, is_function=is_function)
                return True
        if missing and names and not any((name, is_function) in defined for name in names):
            raise unknown(names[0], self._known())
        return False

    def _is_ours(self, name: str) -> bool:
        return is_taken(name) or self._has(name)

    def _define_hidden(self, statement: str) -> None:
        """Make the events that DuckDB would not miss, since a table of its own is called as they are: theirs goes first. Raises as ``sql``."""
        said = statement.lower()
        for name in [one for one in self._hidden if one.lower() in said]:
            self._hidden.remove(name)
            if not is_taken(name) and self._has(name):
                self._register(name, ())

    def _meant(self, error: Exception) -> BaseException:
        """The error of ours behind one of DuckDB's, if there is one; else what DuckDB says."""
        for scan in self._scans:
            if scan.error is not None:
                found, scan.error = scan.error, None
                return found
        return self._refusal(error)

    def _refusal(self, error: Exception) -> UsageError:
        """What DuckDB says, without the place where it says it."""
        said = " ".join(str(error).partition("\n\nLINE ")[0].split())
        if len(said) > _LONG:
            said = said.partition(" Candidate functions:")[0]
        if _EXACT_TIME in said:
            said += " (DuckDB computes little with times to the nanosecond: write time::timestamptz)"
        called = _MACRO.search(said)
        report = None if called is None else REPORTS.get(called["name"])
        if report is not None and report.arguments:
            return UsageError(f"{report.name} is written {report.called}, each a text in quotes")
        if isinstance(error, self._duckdb.PermissionException):
            return UsageError(f"a query reads recordings alone, unless external access is asked for: {said}")
        return UsageError(said)

    def _define(self, name: str, *, is_function: bool) -> None:
        """Make the table of a name, or the function that gives a report's. Raises as ``sql``."""
        if (called := CALLED.fullmatch(name)) is not None:
            texts = called["texts"][1:].split(" ")
            self._register(called["name"].lower(), tuple(bytes.fromhex(one).decode(errors="replace") for one in texts))
            return
        report = REPORTS.get(name.lower())
        if not is_function:
            if name.lower() == TABLES:
                self._register_as(TABLES, self.tables().to_arrow())
            else:
                self._register(name, ())
        elif report is None and (name.lower() in (EVENTS, TABLES) or self._has(name)):
            raise UsageError(f"{name} is a table, not a function: write it without ()")
        elif report is None:
            raise unknown(name, ())
        elif report.arguments:
            raise UsageError(f"{report.name} is written {report.called}, each a text in quotes")
        else:
            self._register(report.name, ())
            self._execute(f"create macro {report.name}() as table select * from {report.name}")  # noqa: S608 - a name of ours

    def _define_calls(self, statement: str) -> None:
        """Make the functions of reports that are called with texts: each gives the table of a name that tells them."""
        for report in REPORTS.values():
            if report.arguments and re.search(rf"\b{report.name}\b", statement, re.IGNORECASE):
                texts = " || ' ' || ".join(f"hex({one}::varchar)" for one in report.arguments)
                made = f"create or replace macro {report.name}({', '.join(report.arguments)}) as table"
                self._execute(f"{made} from query_table('\"called {report.name} ' || {texts} || '\"')")

    def _register(self, name: str, arguments: tuple[str, ...]) -> None:
        scan = Scan(find_table(name, arguments), self._recordings, self._shelf, coded=True)
        if not scan.exists:
            raise unknown(next((one for one in arguments if not self._has(one)), name), self._known())
        self._scans.append(scan)
        if arguments:
            name = " ".join(["called", name, *(one.encode().hex().upper() for one in arguments)])
        self._register_as(name, dataset_of(scan))

    def _has(self, event: str) -> bool:
        return any(self._shelf.each(self._recordings, lambda _, trace: [has_events(trace, event)]))

    def _known(self) -> list[str]:
        return [
            name for name, kind in zip(*map(self.tables().values, ("name", "kind")), strict=True) if kind == "event"
        ]

    def tables(self) -> Table:
        """What there is to ask: ``name``, ``kind`` (``events``, ``event``, ``report``), ``rows`` (of events) and ``about``."""
        if self._tables is None:
            self._tables = contents(self._recordings, self._shelf)
        return self._tables


def _not_utf_8(text: str) -> int | None:
    """Where a text has what UTF-8 has not: half of a pair, as arguments of a program have for bytes that are no text."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return error.start
    return None


def _names_before(said: str, end: str) -> list[str]:
    """What may stand before ``end``, and may have it within: the likeliest first, which ends last before DuckDB says something else."""
    other = min((at for one in ("\nDid you mean", "\n\nLINE") if (at := said.find(one)) >= 0), default=len(said))
    ends = [found.start() for found in re.finditer(re.escape(end), said)]
    return [said[:at] for at in sorted(ends, key=lambda at: (at >= other, -at))]


def sql(
    recordings: Sequence[Recording], text: str, *, external_access: bool = False, unreadable: Unreadable | None = None
) -> Table:
    """What one query answers. Raises as ``Database``."""
    database = Database(recordings, external_access=external_access, unreadable=unreadable)
    try:
        return database.sql(text)
    finally:
        database.close()
