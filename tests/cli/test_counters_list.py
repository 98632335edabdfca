"""``counters list``: of a server of our own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.recipes.test_counter_watch import served

from dotnetdiag.cli.commands import commands
from dotnetdiag.recipes import counter_list
from dotnetdiag.recipes.counter_list import CounterList, ListedCounter


def test_people_get_a_table_for_each_meter(tmp_path: Path) -> None:
    with served(tmp_path, "a") as (port,):
        done = CliRunner().invoke(commands, ["counters", "list", "--dport", port, "--counters", "Mine,Other"])
    assert done.exit_code == 0, done.output
    assert "[System.Runtime]  meter" in done.stdout
    assert any(
        line.split()[:3] == ["dotnet.process.cpu.time", "ObservableCounter", "s"] for line in done.stdout.splitlines()
    )
    assert "EventSources were asked" in done.stdout


def test_programs_get_a_row_for_each_instrument(tmp_path: Path) -> None:
    with served(tmp_path, "a") as (port,):
        done = CliRunner().invoke(commands, ["counters", "list", "--dport", port, "--json"])
    assert done.exit_code == 0, done.output
    assert "dotnet.gc.collections" in {row["instrument"] for row in json.loads(done.stdout)}


def test_meters_of_one_name_have_a_table_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instruments of both stood under the version and the tags of the first."""
    listed = CounterList(
        [
            ListedCounter(provider="M", kind="meter", instrument=name, type="Gauge", version=version, meter_tags=tags)
            for name, version, tags in [("a", "2", {"x": "1"}), ("b", "1", {}), ("c", "2", {"x": "1"})]
        ]
        + [ListedCounter(provider="E", kind="eventsource", instrument="d", type="mean")]
    )
    monkeypatch.setattr(counter_list, "list_counters", lambda *_, **__: listed)
    with served(tmp_path, "a") as (port,):
        done = CliRunner().invoke(commands, ["counters", "list", "--dport", port])
    assert done.exit_code == 0, done.output
    words = [line.split()[0] if line[0] != "[" else line for line in done.stdout.splitlines() if line]
    assert [word for word in words if word != "instrument"][:-1] == [
        "[M]  meter 1", "b", "[M]  meter 2  {x=1}", "a", "c", "[E]  EventCounters", "d",
    ]  # fmt: skip
