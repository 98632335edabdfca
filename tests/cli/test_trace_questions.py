"""Kinds of ``trace report``: where the kind stands, what JSON has, and what is said where the recording has nothing."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.cli.test_commands import run
from tests.nettrace.recordings import data_of, recordings

COLLECTION = (
    "number generation reason type start_ms pause_ms suspend_ms duration_ms before_bytes after_bytes promoted_bytes"
)
FIXED = {
    "gc": ("collections", COLLECTION),
    "jit": ("methods", "method tier start_ms compile_ms il_bytes native_bytes tid"),
    "exceptions": ("by_type", "type count"),
    "contention": ("waits", "start_ms duration_ms tid method lock owner_tid"),
    "requests": (
        "requests",
        "start_ms duration_ms kind name status failure queue_ms cpu_ms gc_ms lock_ms parent depth",
    ),
    "tasks": ("awaits", "start_ms duration_ms task name awaited_by kind method depth"),
    "threadpool": ("work", "queued_ms queue_ms tid worker_tid method"),
    "waits": ("waits", "start_ms duration_ms tid method source object"),
}
GC_TOTALS = {"count", "pause_ms", "max_pause_ms", "induced", "allocated_bytes"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording with collections and exceptions, and no methods: those of 3.1 are of its rundown."""
    name = next(one for one in recordings() if one.startswith(("events-10", "events-3.1")))
    path = tmp_path / "x.nettrace"
    path.write_bytes(data_of(name))
    return path


@pytest.mark.parametrize("kind", FIXED)
def test_a_kind_stands_before_the_file_or_behind_it(kind: str, file: Path) -> None:
    before, behind = (run("trace", "report", *words, "--json") for words in ((kind, str(file)), (str(file), kind)))
    assert before.returncode == behind.returncode == 0
    assert before.stdout == behind.stdout
    document = json.loads(before.stdout)
    place, names = FIXED[kind]
    assert {"totals", place} <= document.keys()
    assert all(set(names.split()) <= row.keys() for row in document[place])
    rows = list(csv.DictReader(io.StringIO(run("trace", "report", kind, str(file), "--format", "csv").stdout)))
    assert len(rows) == len(document[place])


def test_collections_have_totals(file: Path) -> None:
    document = json.loads(run("trace", "report", str(file), "gc", "--json").stdout)
    assert document["totals"].keys() >= GC_TOTALS
    assert document["totals"]["count"] == len(document["collections"]) > 0
    said = run("trace", "report", str(file), "gc", "-n", "3").stdout.splitlines()
    assert said[0].startswith(f"{document['totals']['count']:,} collections: ")
    assert len(said) == 5 + 3
    assert said[4].split()[:4] == ["number", "gen", "reason", "type"]


def test_what_the_recording_lacks_is_said(file: Path) -> None:
    assert run("trace", "report", str(file), "jit").stdout.startswith("note: no methods: ")
