"""Tables of methods."""

from __future__ import annotations

import csv
import io
from typing import Any

from tests.export.made import HOSTILE_NAMES, SMALL, hostile, profile_of, sample, written

from dotnetdiag.analysis.diff import diff
from dotnetdiag.export.texts import clean
from dotnetdiag.trace.method_names import Style


def rows(result: Any, style: Style | None = None) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(written(result, "csv", style).decode("utf-8"), newline="")))


def test_a_row_per_method_the_most_exclusive_first() -> None:
    found = rows(profile_of(*SMALL), Style.SHORT)
    assert [(row["method"], float(row["exclusive"]), float(row["inclusive"])) for row in found] == [
        ("App.Inner", 40, 40),
        ("App.Work", 25, 65),
        ("App.Wait", 5, 5),
        ("App.Loop", 0, 40),
        ("App.Main", 0, 30),
    ]
    assert found[0] | {"method": ""} == {
        "method": "",
        "module": "app",
        "exclusive": "40",
        "inclusive": "40",
        "exclusive_percent": "57.142857",
        "inclusive_percent": "57.142857",
    }


def test_hostile_names_come_back_as_they_are() -> None:
    found = {row["method"] for row in rows(hostile())}
    assert {clean(f"app!{name}()") for name in HOSTILE_NAMES if name not in ("", "T. ")} <= found


def test_a_difference_has_before_and_after() -> None:
    after = profile_of(*SMALL[:1], sample(1, 10, 7, "App.Main", "App.New"))
    found = {row["method"]: row for row in rows(diff(profile_of(*SMALL), after, style=Style.SHORT))}
    assert found["App.Inner"]["exclusive_before"] == "40"
    assert found["App.Inner"]["exclusive_change"] == "-30"
    assert found["App.Inner"]["exclusive_relative_percent"] == "-75"
    assert found["App.New"]["exclusive_relative_percent"] == ""
