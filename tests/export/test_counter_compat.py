"""What dotnet-counters would have written: beside its own files of a program that does the same."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.nettrace.recordings import recording
from tests.shared import SHARED, needs

import dotnetdiag as dd
from dotnetdiag.analysis.counters import Counters
from dotnetdiag.export import counter_compat, csv_table
from dotnetdiag.export.growing import GrowingJson

pytestmark = needs("fixtures", "recordings of counters")
OF_PROGRAM = ("Workload.Meter", "Workload-Counters")


@pytest.fixture(scope="module")
def counters() -> Counters:
    return dd.counters(recording("counters-10.nettrace"))


def theirs(suffix: str) -> Path:
    assert SHARED is not None
    return SHARED / "fixtures" / f"counters-10.dotnet-counters.{suffix}"


def test_csv_has_its_columns_names_and_kinds(counters: Counters) -> None:
    file = io.BytesIO()
    csv_table.write(counter_compat.csv_rows(counters), file)
    ours = list(csv.DictReader(io.StringIO(file.getvalue().decode())))
    with open(theirs("csv"), newline="", encoding="utf-8") as written:
        expected = list(csv.DictReader(written))
    assert list(ours[0]) == list(expected[0])
    names = [{tuple(row.values())[1:4] for row in rows if row["Provider"] in OF_PROGRAM} for rows in (ours, expected)]
    assert names[1] <= names[0]
    assert {name for _, name, _ in names[0] - names[1]} == set()
    answers = {row["Mean/Increment"] for row in ours if row["Counter Name"] == "The Answer"}
    assert answers == {"42.5"}


def test_json_has_its_members(counters: Counters) -> None:
    file = io.BytesIO()
    growing = GrowingJson(
        file, counter_compat.json_head('do"tnet', 1_700_000_000_123_456_789), counter_compat.JSON_TAIL
    )
    growing.add(counter_compat.json_rows(counters))
    growing.close()
    made, expected = json.loads(file.getvalue()), json.loads(theirs("json").read_bytes())
    assert list(made) == list(expected)
    assert made["TargetProcess"] == 'do"tnet'
    assert made["StartTime"] == "2023-11-14T22:13:20.1234567+00:00"
    assert list(made["Events"][0]) == list(expected["Events"][0])
    told = [
        {(e["provider"], e["name"], e["tags"], e["counterType"]) for e in events if e["provider"] in OF_PROGRAM}
        for events in (made["Events"], expected["Events"])
    ]
    assert told[1] <= told[0]
    assert ("Workload.Meter", "temperature (Cel)", "room=zażółć=🐍", "Metric") in told[0]
