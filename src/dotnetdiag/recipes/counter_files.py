"""Counters into a file while they come: what ``counters collect`` does.

A file holds whole rows, so that a tool that is killed, or whose disk is full, leaves what it had: what that means is said where it is done
(:mod:`dotnetdiag.export.growing`). What was there before is kept until somebody is watched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import OutputError, UsageError
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.export.counter_lines import Whose
from dotnetdiag.export.growing import FORMS, Growing, GrowingCsv, GrowingJson, growing
from dotnetdiag.recipes.counter_watch import CounterOptions, CounterProcess, CounterTargets, CounterUpdate, CounterWatch
from dotnetdiag.recipes.outputs import check_outputs, is_stream, open_in_place
from dotnetdiag.table import Table

if TYPE_CHECKING:
    import io

    from dotnetdiag.analysis.counters import Counters

__all__ = ["FORMS", "CounterFile", "CounterTotals", "collect_counters", "rows_of"]

OF_PROCESS = ("pid", "process")
"""The columns behind those of ``counters report``."""
COMPATIBLE = ("csv", "json")
MOST_PID = (1 << 63) - 1
"""What a column of process ids holds; a process may say anything of itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterTotals:
    """What was written. ``watched`` is how many processes there were in all."""

    values: int
    watched: int
    seconds: float


def rows_of(counters: Counters, processes: Sequence[CounterProcess]) -> Table:
    """The values, with the process of each: its id as it is known here (None: not known), and its name."""
    table = counters.table()
    known = {one.number: one for one in processes}
    numbers = counters.rows.values("pid")
    own = [known.get(number) for number in numbers]
    columns: dict[str, Column] = {name: table[name] for name in table.columns}
    pids = [-1 if one is None or one.pid is None or one.pid > MOST_PID else one.pid for one in own]
    columns["pid"] = Scalar(np.array(pids, np.int64), np.array(pids, np.int64) >= 0, Kind.I8)
    columns["process"] = Text.from_pylist([None if one is None else one.name for one in own])
    return Table(columns, title=table.title, units=table.units, notes=table.notes, losses=table.losses)


def whose(processes: Sequence[CounterProcess]) -> dict[int, Whose]:
    """The same of each process, by its number."""
    return {
        one.number: Whose(None if one.pid is None or one.pid > MOST_PID else one.pid, one.name) for one in processes
    }


class CounterFile:
    """Takes updates, and writes their values in one of :data:`FORMS`; ``compatible``: with the columns of dotnet-counters (csv, json).

    Raises UsageError, OutputExists and OutputError, before anything is watched. A file is made, or emptied, with the first process.
    """

    def __init__(self, path: Path, form: str, *, compatible: bool = False, force: bool = False) -> None:
        if form not in FORMS:
            raise UsageError(f"the format {form!r} is none of {', '.join(FORMS)}")
        if compatible and form not in COMPATIBLE:
            raise UsageError(f"dotnet-counters writes {' and '.join(COMPATIBLE)}, not {form}")
        check_outputs([path], force=force)
        self._path, self._form, self._compatible, self._force = path, form, compatible, force
        self._file: IO[bytes] | None = None
        self._growing: Growing | None = None
        self._begun_ns = time.time_ns()
        self._processes: dict[int, CounterProcess] = {}
        self.values = 0
        if is_stream(path):
            self._open()

    @property
    def watched(self) -> int:
        """How many processes there were."""
        return len(self._processes)

    def add(self, update: CounterUpdate) -> None:
        """Write the values of an interval. Raises OutputError."""
        self._processes |= {one.number: one for one in update.processes}
        self._processes |= {one.process.number: one.process for one in update.changes if one.joined}
        if self._file is None and self._processes:
            self._open()
        if update.counters is None or not len(update.counters):
            return
        rows = self._rows(update.counters)
        self.values += len(rows)
        try:
            (self._growing or self._begin()).add(rows)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Nothing more comes. Raises OutputError. Where nobody was watched no file is made."""
        if self._file is None:
            return
        try:
            with self._file:
                (self._growing or self._begin()).close()
        except OSError as error:
            raise self._failed(error) from error

    def _open(self) -> None:
        """What is to be whole has no buffer. Raises OutputExists and OutputError."""
        file = open_in_place(self._path, force=self._force)
        self._file = file if self._form == "parquet" else cast("IO[bytes]", cast("io.BufferedWriter", file).detach())
        if (not self._compatible and self._form != "parquet") or (self._compatible and self._form == "csv"):
            try:
                self._begin()
            except OSError as error:
                raise self._failed(error) from error

    def _failed(self, error: OSError) -> OutputError:
        return OutputError(str(self._path), error.strerror or str(error))

    def _rows(self, counters: Counters) -> Table:
        if not self._compatible:
            return rows_of(counters, tuple(self._processes.values()))
        from dotnetdiag.export import counter_compat

        return (counter_compat.csv_rows if self._form == "csv" else counter_compat.json_rows)(counters)

    def _begin(self) -> Growing:
        from dotnetdiag.analysis.counters import FIXED

        assert self._file is not None
        if not self._compatible:
            example = Table({name: [] for name in (*FIXED, *OF_PROCESS)})
            self._growing = growing(self._form, self._file, example)
            return self._growing
        from dotnetdiag.export import counter_compat

        if self._form == "csv":
            self._growing = GrowingCsv(self._file, counter_compat.CSV_COLUMNS)
        else:
            name = next((one.name for one in self._processes.values()), "")
            head = counter_compat.json_head(name, self._begun_ns)
            self._growing = GrowingJson(self._file, head, counter_compat.JSON_TAIL)
        return self._growing


def collect_counters(
    targets: CounterTargets,
    path: Path,
    options: CounterOptions | None = None,
    *,
    form: str = "csv",
    compatible: bool = False,
    force: bool = False,
    duration: float | str | None = None,
    on_update: Callable[[CounterUpdate], None] = lambda _: None,
    on_begin: Callable[[CounterWatch], None] = lambda _: None,
) -> CounterTotals:
    """Write the counters of processes to a file until all are gone, ``duration`` is over, or the watch that ``on_begin`` gets is stopped.

    Raises as :class:`CounterFile` and ``CounterWatch.updates``; what was written stays then, and where nobody was watched, what was there before.
    """
    seconds = seconds_of(duration)
    watch = CounterWatch(targets, options)
    begin = time.monotonic()
    with watch:
        file = CounterFile(path, form, compatible=compatible, force=force)
        try:
            on_begin(watch)
            for update in watch.updates(None if seconds is None else begin + seconds):
                file.add(update)
                on_update(update)
        finally:
            file.close()
    return CounterTotals(values=file.values, watched=file.watched, seconds=time.monotonic() - begin)
