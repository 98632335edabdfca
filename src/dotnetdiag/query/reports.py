"""The reports that are tables of SQL and of datasets: a report of ``analysis`` joins with one line."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from operator import attrgetter
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.table import Table
from dotnetdiag.trace.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A table that a question of ``analysis`` answers with. ``part`` is what of the answer (dotted; empty: its table), ``arguments`` the names
    of what it is asked with, all texts. ``about`` is a line for people. ``numbered``: other columns and tables name its rows by their numbers, so
    these are a column ``row``.
    """

    name: str
    module: str
    function: str
    part: str = ""
    about: str
    arguments: tuple[str, ...] = ()
    numbered: bool = False

    @property
    def called(self) -> str:
        """As it is written in a query."""
        return f"{self.name}({', '.join(self.arguments)})" if self.arguments else self.name

    def of(self, trace: Trace, arguments: tuple[str, ...] = ()) -> Table:
        """Ask a trace: the table, with the notes of the whole answer. Raises what the question raises."""
        whole: Any = getattr(import_module(f"dotnetdiag.analysis.{self.module}"), self.function)(trace, *arguments)
        made = attrgetter(self.part)(whole) if self.part else whole
        table: Table = made if isinstance(made, Table) else made.table()
        return table.with_notes(tuple(dict.fromkeys((*getattr(whole, "notes", ()), *table.notes))))


def _of(
    name: str, module: str, function: str, part: str, about: str, *arguments: str, numbered: bool = False
) -> Report:
    return Report(
        name=name, module=module, function=function, part=part, about=about, arguments=arguments, numbered=numbered
    )


REPORTS: Mapping[str, Report] = {
    one.name: one
    for one in (
        _of("advice", "advice", "advice", "findings", "what stands out, most important first"),
        _of("gc", "gc_collections", "gc", "collections", "collections of the garbage collector"),
        _of("jit", "jit", "jit", "methods", "methods that were compiled"),
        _of("exceptions", "exceptions", "exceptions", "by_type", "exceptions that were thrown, by type"),
        _of("allocations", "allocations", "allocations", "by_type_and_method", "allocations by type and method"),
        _of("thrown", "exceptions", "exceptions", "thrown", "exceptions, a row for each throw"),
        _of("exception_messages", "exceptions", "exceptions", "by_message", "exceptions by type and message"),
        _of("cpu", "cpu", "cpu", "", "methods, by the time that samples saw them"),
        _of("cpu_samples", "samples", "cpu_samples", "", "samples of threads with their stacks"),
        _of("contention", "waits", "contention", "waits", "locks that threads waited for"),
        _of("waits", "waits", "waits", "waits", "waits of threads in the runtime (.NET 9 and later)"),
        _of("threadpool", "thread_pool", "threadpool", "work", "work that was queued to the thread pool"),
        _of("starvation", "thread_pool", "threadpool", "starvation", "times in which the thread pool starved"),
        _of("tasks", "tasks", "tasks", "awaits", "what awaited what"),
        _of("requests", "requests", "requests", "requests", "requests, and what was within them", numbered=True),
        _of("logs", "logs", "logs", "messages", "messages of loggers, and within which request"),
        _of("threads", "threads", "threads", "threads", "threads, and what each did"),
        _of("loader", "loader", "loader", "assemblies", "assemblies that were loaded"),
        _of("assemblies", "loader", "loader", "assemblies", "the same as loader"),
        _of("binds", "loader", "loader", "binds", "looks for assemblies"),
        _of("startup", "startup", "startup", "phases", "phases of the start"),
        _of("counters", "counters", "counters", "rows", "values of counters"),
        _of("spans", "spans", "spans", "", "what begins with one event and ends with another", "start", "stop"),
        _of("stacks", "stacks", "stacks", "", "methods by the events that happened in them", "event"),
    )
}
