"""Reports as people read them: for each kind the module that shows it. Nothing here needs click, which takes a tenth of a short report's time."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

KINDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "allocations": ("shown_allocations", ()),
    "contention": ("shown_waits", ("contention",)),
    "exceptions": ("shown_exceptions", ()),
    "gc": ("shown_gc", ()),
    "jit": ("shown_jit", ()),
    "loader": ("shown_loader", ()),
    "logs": ("shown_logs", ()),
    "requests": ("shown_requests", ()),
    "startup": ("shown_startup", ()),
    "tasks": ("shown_tasks", ()),
    "threadpool": ("shown_thread_pool", ()),
    "threads": ("shown_threads", ()),
    "waits": ("shown_waits", ("wait",)),
}
OTHERS = frozenset({"topN", "advice", "all", "spans"})
"""Kinds of report with more to say than so many rows."""


def show(kind: str, made: Any, number: int | None = None) -> None:
    """Print a report of a kind: ``number`` rows of each table, or as many as it has where nobody says."""
    name, words = KINDS[kind]
    module = import_module(f"dotnetdiag.cli.{name}")
    module.show(made, *words, module.ROWS if number is None else number)
