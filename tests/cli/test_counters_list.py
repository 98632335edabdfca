"""``counters list``: of a server of our own."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner
from tests.recipes.test_counter_watch import served

from dotnetdiag.cli.commands import commands


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
