"""Events as texts and files: what that takes, whatever a file says."""

from __future__ import annotations

import csv
import io
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.nettrace import by_hand

from dotnetdiag.export import FORMATS
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.recipes.trace_events import EventsOptions, SelectedEvents, iter_shown, select, write_csv, write_jsonl
from dotnetdiag.trace import table
from dotnetdiag.trace.trace import Trace

LIMIT_MB = 300
"""Address space beyond what the process has when it begins."""


def many_columns(fields: int, rows: int, name: str = "f") -> bytes:
    """A file of an event type with so many fields, and of so many events without payload."""
    packed = [by_hand.text(f"{name}{number}") + b"\x06" for number in range(fields)]
    declared = struct.pack("<H", fields) + b"".join(struct.pack("<H", len(one)) + one for one in packed)
    blobs = [b"\0\0"] * (rows - 1)
    return by_hand.trace(
        by_hand.metadata(by_hand.event_type(1, fields=declared)), by_hand.events(by_hand.event(1), *blobs)
    )


HOSTILE = {
    "fields": lambda: many_columns(4000, 8192),
    "long names": lambda: many_columns(1, 8192, "n" * 60_000),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs limits of memory that hold")
@pytest.mark.parametrize(
    ("what", "form"),
    [("long names", "jsonl"), *[("fields", form) for form in ("jsonl", "csv", "shown", "objects")]],
)
def test_events_are_written_in_limited_memory(what: str, form: str) -> None:
    program = f"from tests.recipes.test_trace_events import write_limited; write_limited({what!r}, {form!r})"
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-500:]


def write_limited(what: str, form: str) -> None:
    """Run by a process of its own."""
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    trace, options = Trace(HOSTILE[what]()), EventsOptions()
    resource.setrlimit(resource.RLIMIT_AS, (used + (LIMIT_MB << 20), resource.RLIM_INFINITY))
    with open(os.devnull, "wb") as file:
        if form == "jsonl":
            rows = write_jsonl(trace, options, file)
        elif form == "csv":
            rows = write_csv(trace, options, file)
        else:
            rows = sum(1 for _ in (iter_shown(select(trace, options)) if form == "shown" else trace.events()))
    assert rows == 8192


@pytest.mark.parametrize("limit", [1, 1000, 10_000])
def test_windows_that_are_cut_give_the_same_files(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    data = many_columns(20, 50)
    made = []
    for bound in (table.PIECE_BYTES, limit):
        monkeypatch.setattr(table, "PIECE_BYTES", bound)
        files = [io.BytesIO() for _ in range(3)]
        rows = [
            write(Trace(data), EventsOptions(), file)
            for write, file in zip((write_jsonl, write_csv), files[:2], strict=True)
        ]
        selected = SelectedEvents(Trace(data), EventsOptions())
        FORMATS["parquet"].write(selected, files[2])
        assert [*rows, len(selected)] == [50] * 3
        made.append((files[0].getvalue(), files[1].getvalue(), parquet.read_table(files[2])))
    assert made[0] == made[1]
    (window,) = Trace(data).events().windows()
    pieces = [len(piece) for piece in window.pieces()]
    assert sum(pieces) == 50
    assert len(pieces) > 1


def test_every_value_is_in_the_column_of_its_own_name() -> None:
    """Fields that differ in case, and one field of several kinds."""
    out = io.BytesIO()
    with Writer(out) as writer:
        for number, (name, code) in enumerate(
            [("Flag", TypeCode.INT32), ("flag", TypeCode.INT32), ("flag", TypeCode.STRING)], start=1
        ):
            field = Field(name=name, type=FieldType(code=code))
            event = f"E{number}"
            writer.add_metadata(
                Metadata(metadata_id=number, provider="P", event_id=number, name=event, fields=(field,))
            )
            payload = "three\0".encode("utf-16-le") if code == TypeCode.STRING else number.to_bytes(4, "little")
            writer.write_event(number, number, payload, thread=5)
    trace = Trace(out.getvalue())

    def printed(**options: Any) -> list[dict[str, str]]:
        file = io.BytesIO()
        write_csv(trace, EventsOptions(**options), file)
        return list(csv.DictReader(io.StringIO(file.getvalue().decode())))

    every = printed()
    assert [row["Flag"] for row in every] == ["1", "", ""]
    assert [row["flag"] for row in every] == ["", "2", ""]
    assert [row["flag (P/E3 v0)"] for row in every] == ["", "", "three"]
    asked = printed(fields=("event", "flag", "Flag"))
    assert [(row["event"], row["flag"], row["Flag"]) for row in asked] == [
        ("E1", "", "1"),
        ("E2", "2", ""),
        ("E3", "three", ""),
    ]
