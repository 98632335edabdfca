"""The columns of reports are of the same kinds whatever a recording has, also where it has nothing of that."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.events import Scalar
from dotnetdiag.events.layout import Kind
from dotnetdiag.recipes import questions
from dotnetdiag.table import Table
from dotnetdiag.trace.trace import Trace

KINDS = (
    "gc", "allocations", "exceptions", "contention", "waits", "threadpool", "tasks", "jit", "loader", "threads", "requests", "logs", "startup",
)  # fmt: skip


@pytest.mark.parametrize("name", recordings())
def test_numbers_are_what_their_columns_say(name: str) -> None:
    wrong = []
    for kind in KINDS:
        made = getattr(questions, kind)(Trace(data_of(name), name=name))
        for one in fields(made):
            table = getattr(made, one.name)
            if not isinstance(table, Table):
                continue
            for column in table.columns:
                told = table[column]
                if isinstance(told, Scalar) and told.kind in (Kind.F8, Kind.I8):
                    is_right = told.values.dtype == ("f8" if told.kind is Kind.F8 else "i8")
                    wrong += [] if is_right else [(kind, one.name, column, told.kind, told.values.dtype)]
    assert not wrong
