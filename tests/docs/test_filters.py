"""Every example of docs/reference/filters.md lets through what it says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from tests.docs.pages import DOCS

import dotnetdiag

RECORDING = DOCS.parent / "tests" / "data" / "recordings" / "events-10.nettrace.xz"
ROW = re.compile(r"^\| (?:`([\w/-]+)`|\(all\)) \| (`+)(.+?)\2 \|", re.MULTILINE)
EXAMPLES = [(event, text) for event, _, text in ROW.findall((DOCS / "reference" / "filters.md").read_text("utf-8"))]
EVEN = {f"argument {digit}" for digit in (0, 2, 4, 6, 8)}
Row = dict[str, Any]
MEANING: dict[str, Callable[[Row], bool]] = {
    "Depth == 2": lambda row: row["Depth"] == 2,
    "Depth": lambda row: row["Depth"] > 0,
    "Reason == Induced": lambda row: row["Reason"] == "Induced",
    "Reason == 1": lambda row: row["Reason"] == "Induced",
    'Reason != "Induced" or Depth > 1': lambda row: row["Reason"] != "Induced" or row["Depth"] > 1,
    "Count >= 3 and Count < 0x6": lambda row: 3 <= row["Count"] < 6,
    "depth == 0 AND NOT count == 1": lambda row: row["Depth"] == 0 and row["Count"] != 1,
    "ms > 2320 and ms < 2321.5": lambda row: 2320 < row["ms"] < 2321.5,
    'ExceptionType == "System.ArgumentException"': lambda row: row["ExceptionType"] == "System.ArgumentException",
    'ExceptionMessage ~ "argument [02468]$"': lambda row: row["ExceptionMessage"][-10:] in EVEN,
    'ExceptionMessage !~ "(?i)ARGUMENT"': lambda row: "argument" not in row["ExceptionMessage"].lower(),
    'ExceptionFlags ~ "Nested"': lambda row: "Nested" in row["ExceptionFlags"].split("|"),
    r'not (ExceptionFlags ~ "Nested" or ExceptionType ~ "^System\.")': lambda row: (
        "Nested" not in row["ExceptionFlags"] and not row["ExceptionType"].startswith("System.")
    ),
    'leaf ~ "DispatchEx"': lambda row: "DispatchEx" in (row["leaf"] or ""),
    "payload.id > 4": lambda row: row["id"] > 4,
    "header.id > 0": lambda _: True,
    'not `path` ~ "/1"': lambda row: "/1" not in row["path"],
    "flag == true and i32 > 10": lambda row: row["flag"] and row["i32"] > 10,
    "f64 < .5 or f64 > 1.5e1": lambda row: not 0.5 <= row["f64"] <= 15,
    'at > "2026-01"': lambda _: True,
    "ExceptionMessage != null": lambda row: row["event"] == "Exception/Start",
    'tid == 10232 and event ~ "^GC/"': lambda row: row["tid"] == 10232 and row["event"].startswith("GC/"),
}
ALL_PASS = ("Reason == Induced", "Reason == 1", "header.id > 0", 'at > "2026-01"')


def test_every_example_of_the_page_is_known() -> None:
    assert [text for _, text in EXAMPLES] == list(MEANING)


@pytest.mark.parametrize(("event", "text"), EXAMPLES, ids=lambda value: value or "all")
def test_an_example_lets_through_what_it_says(event: str, text: str) -> None:
    trace = dotnetdiag.open(RECORDING)
    passed = rows(trace.events(event or None, where=text))
    all_of_them = rows(trace.events(event or None))
    assert [row["ms"] for row in passed] == [row["ms"] for row in all_of_them if MEANING[text](row)]
    assert passed
    assert len(passed) < len(all_of_them) or text in ALL_PASS


def rows(events: Any) -> list[Row]:
    """Of all columns; what the runtime numbers by name."""
    return [row for window in events.windows() for row in window.to_pylist()]
