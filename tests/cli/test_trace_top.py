"""What ``trace watch --top`` writes, and which options go together."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import cast

import pytest

from dotnetdiag.cli import trace_top
from dotnetdiag.cli.trace_top import block, blocks, heading
from dotnetdiag.recipes.top import LiveTop, Top, TopRow
from dotnetdiag.tui.widths import cells

ROW = TopRow(
    name="app!Some.Very.Long.Namespace.Of.A.Program.Type.Method(int32,class System.String)",
    exclusive_percent=12.34,
    inclusive_percent=100.0,
    exclusive_percent_since_start=9.96,
    inclusive_percent_since_start=50.0,
)
TOP = Top(
    elapsed_s=12.04,
    interval_s=1.0,
    unit="ms",
    total=1500.0,
    total_since_start=9000.0,
    states={"cpu": 1000.4, "unmanaged": 500.0},
    samples=1234,
    threads=3,
    unresolved=0.0,
    missed=0,
    rows=(ROW, replace(ROW, name="app!Esc\x1b[31m")),
)


def test_a_block_has_what_it_is_of_and_a_line_for_each_method() -> None:
    assert block(TOP) == [
        "12.0 s: 1,234 samples of 3 threads in 1.0 s, 1,000 ms managed, 500 ms native or waiting",
        "self %  total %  all self  all total  method",
        f"  12.3    100.0      10.0       50.0  {ROW.name}",
        "  12.3    100.0      10.0       50.0  app!Esc\\x1b[31m",
    ]


def test_what_is_missing_is_said() -> None:
    assert block(replace(TOP, missed=1500, unresolved=4.25))[0].endswith(", 4.2 % without a name, 1,500 events missed")
    assert block(replace(TOP, missed=None))[0].endswith("losses not known")


@pytest.mark.parametrize("width", [50, 79])
def test_losses_are_said_at_any_width(width: int) -> None:
    lines = block(replace(TOP, missed=45_678, unresolved=4.25), width, 23)
    assert any("45,678 events missed" in line for line in lines)
    assert all(len(line) <= width for line in lines)


def test_wide_characters_take_two_cells() -> None:
    wide = replace(ROW, name="应用程序!应用程序.订单服务.订单处理器.计算所有客户的订单总额并且保存到数据库(int32)")
    (*_, line) = block(replace(TOP, rows=(wide,)), 79, 23)
    assert 77 <= cells(line) <= 79
    assert line.endswith("计算所有客户的订单总额并且保存到数据库")


@pytest.mark.parametrize("width", [50, 60, 79])
def test_a_narrow_terminal_cuts_names_and_no_number(width: int) -> None:
    lines = block(TOP, width, 3)
    assert lines[-1].startswith("  12.3    100.0      10.0       50.0  ")
    assert len(lines) == len(heading(TOP, width)) + 2
    assert all(len(line) <= width for line in lines)
    assert "Method" in lines[-1]


def written(monkeypatch: pytest.MonkeyPatch, tops: Sequence[Top], *, terminal: bool, form: str = "table") -> list[str]:
    monkeypatch.setattr(trace_top, "is_screen", lambda: terminal)
    monkeypatch.setattr(trace_top, "shutil", SimpleNamespace(get_terminal_size=lambda: os.terminal_size((80, 24))))
    live = SimpleNamespace(intervals=lambda: iter(tops))
    return [data.decode() for data in blocks(cast(LiveTop, live), form)]


def test_blocks_follow_each_other_with_an_empty_line_between(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(written(monkeypatch, [TOP, TOP], terminal=False))
    assert text == ("\n".join(block(TOP)) + "\n\n") * 2


def test_on_a_terminal_a_block_takes_the_place_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    shorter = replace(TOP, rows=())
    one, two, three = written(monkeypatch, [TOP, shorter, TOP], terminal=True)
    assert "\x1b" not in one
    assert (one.count("\n"), two.count("\n")) == (5, 3)  # the heading takes two lines of 80
    assert two.startswith("\x1b[5A\r\x1b[J12.0 s")
    assert three.startswith("\x1b[3A\r\x1b[J12.0 s")


def test_an_interval_that_the_end_cuts_short_leaves_the_one_before_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short, most = replace(TOP, interval_s=0.1), replace(TOP, interval_s=0.9)
    assert len(written(monkeypatch, [TOP, TOP, short], terminal=True)) == 2
    assert len(written(monkeypatch, [TOP, TOP, most], terminal=True)) == 3
    assert len(written(monkeypatch, [short], terminal=True)) == 1
    for form in ("table", "jsonl"):
        assert len(written(monkeypatch, [TOP, TOP, short], terminal=False, form=form)) == 3


@pytest.mark.parametrize("terminal", [True, False])
def test_json_is_an_object_a_line_that_drives_no_terminal(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    lines = written(monkeypatch, [TOP, TOP], terminal=terminal, form="jsonl")
    assert [json.loads(line) for line in lines] == [json.loads(json.dumps(TOP.to_json()))] * 2
    assert all(line.count("\n") == 1 and "\x1b" not in line for line in lines)


def test_csv_is_a_heading_and_a_row_for_each_method_of_each_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    heading, *rows = csv.reader(io.StringIO("".join(written(monkeypatch, [TOP, TOP], terminal=False, form="csv"))))
    assert heading == ["elapsed_s", "interval_s", *asdict(ROW)]
    assert rows == [["12.04", "1.0", *map(str, asdict(row).values())] for row in TOP.rows] * 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--inclusive"], "--inclusive goes with --top"),
        (["--interval", "2s"], "--interval goes with --top"),
        (["--state", "cpu"], "--state goes with --top"),
        (["--short"], "--short goes with --top"),
        (["--top", "--limit", "5"], "--limit is of events, and --top shows methods"),
        (["--top", "5", "--fields", "Depth"], "--fields is of events, and --top shows methods"),
        (["--top", "--interval", "0s"], "interval: 0s is none"),
        (["--top", "--interval", "0"], "interval: write 30s"),
        (["--top", "0"], "0 is not in the range"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(arguments: list[str], said: str) -> None:
    program = [sys.executable, "-m", "dotnetdiag.cli.main", "trace", "watch", "-p", "1", *arguments]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stdout == ""
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
