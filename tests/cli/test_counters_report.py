"""``counters report``: what people read, and what programs may rely on."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.analysis.counters_made import MadeCounters

import dotnetdiag as dd
from dotnetdiag.cli.counters_report import report
from dotnetdiag.errors import MissingDependency, OutputExists, UsageError

FIELDS = ["ms", "utc", "provider", "instrument", "kind", "unit", "tags", "value", "rate", "interval_s", "count", "sum", "quantiles"]  # fmt: skip
EVIL = "</script><b>&\x1b[31m\u202e"


def made() -> MadeCounters:
    made = MadeCounters("8")
    for second in (1, 2):
        made.at(second * 1000).interval(1).counter(
            "orders", rate=str(second * 10), value="99", unit="{order}", tags="kind=a,b"
        )
        made.metric(6, instrumentName="latency", unit="ms", quantiles="0.5=1;0.95=2;0.99=3", count=3, sum=6.0)
        made.event_counter(
            "My-Source", Name="answer", Mean=42.5, Count=1, IntervalSec=1.0, DisplayUnits="", Metadata="zone:eu,west=1"
        )
        made.gauge(EVIL, lastValue=str(second), tags=f"k={EVIL}")
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "app.nettrace"
    path.write_bytes(made().data())
    return path


def run(*arguments: object) -> Result:
    group = click.Group(commands={"report": report})
    done = CliRunner().invoke(group, ["report", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def lines(done: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_lines_of_json_have_just_the_fields_that_are_fixed_in_time_order(file: Path) -> None:
    rows = lines(run(file, "--format", "jsonl"))
    assert [list(row) for row in rows] == [FIELDS] * 8
    assert [row["ms"] for row in rows] == sorted(row["ms"] for row in rows)
    order = next(row for row in rows if row["instrument"] == "orders")
    assert order == {
        "ms": 1000.0, "utc": "2023-11-14T22:13:21.0000000Z", "provider": "Meter", "instrument": "orders", "kind": "counter",
        "unit": "{order}", "tags": {"kind": "a,b"}, "value": 99.0, "rate": 10.0, "interval_s": 1.0, "count": None, "sum": None,
        "quantiles": None,
    }  # fmt: skip
    latency = next(row for row in rows if row["kind"] == "histogram")
    assert (latency["value"], latency["count"], latency["sum"]) == (None, 3, 6.0)
    assert latency["quantiles"] == {"0.5": 1.0, "0.95": 2.0, "0.99": 3.0}


def test_every_format_has_the_same_rows(file: Path) -> None:
    rows = lines(run(file, "--format", "jsonl"))
    assert json.loads(run(file, "--json").stdout) == rows
    cells = list(csv.DictReader(io.StringIO(run(file, "--format", "csv").stdout)))
    assert [list(row) for row in cells] == [FIELDS] * 8
    assert [json.loads(row["tags"]) for row in cells] == [row["tags"] for row in rows]
    assert [float(row["value"] or "nan") for row in cells] == pytest.approx(
        [float("nan") if row["value"] is None else row["value"] for row in rows], nan_ok=True
    )
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    read = parquet.read_table(io.BytesIO(run(file, "--format", "parquet").stdout_bytes)).to_pylist()
    assert [dict(row["tags"]) for row in read] == [row["tags"] for row in rows]
    assert [row["quantiles"] for row in read] == [row["quantiles"] for row in rows]
    assert [row["rate"] for row in read] == [row["rate"] for row in rows]


def test_people_get_a_line_for_each_series(file: Path) -> None:
    out = run(file).stdout
    assert out.startswith("8 values of 4 series\n")
    assert "[My-Source]" in out
    (order,) = [line for line in out.splitlines() if line.startswith("orders")]
    assert order.split() == ["orders", "{order}/s", "2", "10", "15", "20", "20", "kind=a,b"]
    (answer,) = [line for line in out.splitlines() if line.startswith("answer")]
    assert answer.split() == ["answer", "2", *["42.5"] * 4, "zone=eu,west=1"]
    assert "quantile 0.95" in out
    assert "\x1b" not in out


def test_a_recording_without_counters_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "none.nettrace"
    path.write_bytes(MadeCounters().metric(3).data())
    assert "note: there are no values of counters" in run(path).stdout
    done = run(path, "--format", "jsonl")
    assert (done.stdout, done.exit_code) == ("", 0)
    assert "note: there are no values" in done.stderr


def test_what_could_not_be_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "cut.nettrace"
    path.write_bytes(MadeCounters().gauge(lastValue="1").metric(5, cut=9).data())
    done = run(path, "--format", "jsonl")
    assert len(lines(done)) == 1
    assert "note: 1 events of counters could not be read, and are left out\n" in done.stderr


def test_the_picture_is_written_beside_the_rows(file: Path, tmp_path: Path) -> None:
    for name in ("a.html", "b.PNG"):
        done = run(file, "--plot", tmp_path / name)
        assert done.stderr == f"{tmp_path / name} written\n"
        assert done.stdout == run(file).stdout
    assert (tmp_path / "b.PNG").read_bytes().startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_written_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "no.nettrace"
    file.write_bytes(b"no recording")
    (tmp_path / "there.html").touch()
    with pytest.raises(UsageError, match=r"a picture is a page, NAME\.html, or NAME\.png"):
        run(file, "--plot", tmp_path / "x.svg")
    with pytest.raises(OutputExists):
        run(file, "--plot", tmp_path / "there.html")
    (tmp_path / "same.html").symlink_to(file)
    with pytest.raises(UsageError, match="is what is read"):
        run(file, "--plot", tmp_path / "same.html", "--force")
    monkeypatch.setattr("dotnetdiag.recipes.counters.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match="plot"):
        run(file, "--plot", tmp_path / "x.png")


def test_python_has_the_same_rows(file: Path) -> None:
    result = dd.counters(str(file))
    assert result.table().to_json() == lines(run(file, "--format", "jsonl"))
    frame = result.to_pandas()
    assert list(frame.columns) == FIELDS
    assert frame["tags"][0] == {"kind": "a,b"}
    assert result.to_arrow().num_rows == len(result) == 8
    assert "8 rows" in repr(result)
    assert "orders" in result._repr_html_()
