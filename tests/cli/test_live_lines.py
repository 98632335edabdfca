"""Events of a running session as lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner
from tests.nettrace.recordings import data_of

from dotnetdiag.cli.live_lines import csv_lines, csv_names, csv_rows, json_lines, text_lines
from dotnetdiag.cli.trace_watch import watch
from dotnetdiag.errors import UsageError
from dotnetdiag.trace.header import KEYS
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

GC = ("GC/Start", "GC/Stop")


def windows(*names: str) -> Iterator[EventTable]:
    return Trace(data_of("events-10.nettrace")).events(names=names or None).windows()


def lines_of(maker: Callable[[EventTable], list[str]], *names: str) -> list[str]:
    return [line for window in windows(*names) for line in maker(window)]


def rows_of(fields: tuple[str, ...], *names: str) -> list[dict[str, str]]:
    lines = [*csv_rows([csv_names(fields)]), *lines_of(csv_lines(fields), *names)]
    return list(csv.DictReader(io.StringIO("\n".join(lines) + "\n")))


def test_a_row_of_csv_says_what_the_object_of_json_says() -> None:
    rows, objects = rows_of(()), [json.loads(line) for line in lines_of(json_lines(()))]
    assert len(rows) == len(objects) > 100
    assert list(rows[0]) == [*KEYS, "payload"]
    for row, said in zip(rows, objects, strict=True):
        assert json.loads(row.pop("payload")) == said.pop("payload")
        assert row == {key: "" if value is None else str(value) for key, value in said.items()} | {"ms": row["ms"]}
        assert float(row["ms"]) == said["ms"]


def test_fields_are_columns_in_their_order_with_the_names_of_values_and_empty_where_an_event_has_none() -> None:
    rows = rows_of(("tid", "payload.reason", "Type", "Nope"), *GC)
    assert list(rows[0]) == ["tid", "payload.reason", "Type", "Nope"]
    reasons = {row["payload.reason"] for row in rows}
    assert {"", "Induced"} <= reasons
    assert {row["Nope"] for row in rows} == {""}
    assert all(row["tid"].isdecimal() for row in rows)


def test_lines_for_people_have_the_names_of_values_and_keys_that_are_asked_for() -> None:
    starts = lines_of(text_lines(("REASON", "level")), "GC/Start")
    assert starts
    assert all(line.partition("GC/Start  ")[2] == "Reason=Induced level=4" for line in starts)
    (first, *_) = lines_of(text_lines(()), "GC/Start")
    assert " Reason=Induced Type=" in first
    assert "level=" not in first


@pytest.mark.parametrize("form", ["json", "markdown", "html", "parquet", "sqlite"])
def test_a_format_that_is_written_at_the_end_is_refused(form: str) -> None:
    done = CliRunner().invoke(watch, ["-p", "1", "--format", form])
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith(f"{form} is written when its end is known")
