"""What a recording lacks is said by every verb that reads one, and an answer that would be empty says why."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.analysis.traces import allocation, managed, traced

import dotnetdiag as dd
from dotnetdiag.analysis.advice_report import AdviceReport
from dotnetdiag.cli import trace_files, trace_report
from dotnetdiag.cli.shown_advice import show
from dotnetdiag.errors import UsageError
from dotnetdiag.table import Losses, Table

VERBS = ("events", "events --json", "events --format csv", "report", "report --json", "diff", "diff --json")
CONVERSIONS = (
    "convert --format speedscope",
    "convert --format speedscope,collapsed --json",
    "convert --format nettrace",
)


@pytest.fixture
def lacking(tmp_path: Path) -> Path:
    """Three events were lost, and the end is missing."""
    path = tmp_path / "cut.nettrace"
    made = traced(managed(0, 1, "P.A"), managed(10, 1, "P.A"), managed(20, 1), lost=3)
    path.write_bytes(bytes(made.raw.buffer)[:-1])
    return path


def run(verb: str, *paths: Path | str) -> Result:
    group = click.Group(commands={one.name or "": one for one in (*trace_files.COMMANDS, *trace_report.COMMANDS)})
    return CliRunner().invoke(group, [*verb.split(), *map(str, paths)])


@pytest.mark.parametrize("verb", [*VERBS, *CONVERSIONS])
def test_losses_and_a_missing_end_are_said_once_by_every_verb_that_reads(verb: str, lacking: Path) -> None:
    more: list[Path | str] = [lacking] if verb.startswith("diff") else []
    if verb.startswith("convert"):
        more = ["-o", lacking.with_name("x.out")]
    done = run(verb, lacking, *more)
    assert done.exit_code == 0, done.output
    if verb.startswith("diff"):
        assert done.stderr.count("cut.nettrace: 3 events lost; ") == done.stderr.count("; broken: ") == 2
        return
    lost, broken = (line for line in done.stderr.splitlines() if line.startswith("warning: "))
    assert lost == "warning: cut.nettrace: 3 events were lost when it was recorded"
    assert re.fullmatch(r"warning: cut\.nettrace: .*; what was whole was read", broken)
    assert "lost" not in done.stdout or "json" in verb


@pytest.mark.parametrize("kind", ["gc", "exceptions", "requests", "advice"])
def test_json_of_reports_has_them(kind: str, lacking: Path) -> None:
    told = json.loads(run(f"report {kind}", lacking, "--json").stdout)["losses"]
    assert told["lost"] == 3
    assert told["damage"]
    assert getattr(dd, kind)(lacking).losses.lost == 3


def test_beside_what_stands_out_it_is_said_what_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    findings = Table(
        {"severity": [5.0], "question": ["gc"], "text": ["the collector paused it"]}, losses=Losses(lost=7000)
    )
    show(AdviceReport(findings=findings, lacking={}, seconds=2.0), None)
    note, first, more = capsys.readouterr().out.splitlines()
    assert note == "note: 7,000 events were lost: what is told is of what is left, which is less than there was"
    assert first == "1. the collector paused it"
    assert more == "   more: the same with --report gc in the place of --report advice"


def test_what_stands_out_is_of_what_is_left(lacking: Path) -> None:
    assert " of what is left of it\nnote: it breaks off" in run("report advice", lacking).stdout


def test_where_nobody_knows_what_was_lost_nothing_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    """As of NetPerf, which counts nothing."""
    none = Table({"severity": [], "question": [], "text": []}, losses=Losses(lost=None))
    show(AdviceReport(findings=none, lacking={}, seconds=2.0), None)
    assert capsys.readouterr().out == "nothing stands out in 2.0 s\n"


def test_nothing_is_said_where_nothing_is_lacking(tmp_path: Path) -> None:
    path = tmp_path / "whole.nettrace"
    path.write_bytes(bytes(traced(managed(0, 1, "P.A"), managed(10, 1)).raw.buffer))
    for verb in ("events", "report"):
        assert run(verb, path).stderr == ""


def test_a_diff_speaks_of_a_file_only_where_something_is_lacking(tmp_path: Path, lacking: Path) -> None:
    path = tmp_path / "whole.nettrace"
    path.write_bytes(bytes(traced(managed(0, 1, "P.A"), managed(10, 1)).raw.buffer))
    assert run("diff", path, path).stderr == ""
    (line,) = run("diff", path, lacking).stderr.splitlines()
    assert re.fullmatch(r"cut\.nettrace: 3 events lost; broken: .*", line)


@pytest.mark.parametrize("gate", [[], ["--fail-above", "5%"]])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_recording_without_samples_passes_no_gate(
    swapped: bool, gate: list[str], tmp_path: Path, lacking: Path
) -> None:
    empty = tmp_path / "empty.nettrace"
    empty.write_bytes(bytes(traced(allocation(1, 1, "P.A")).raw.buffer))
    done = run("diff", *((empty, lacking) if swapped else (lacking, empty)), *gate)
    assert isinstance(done.exception, UsageError)
    assert "empty.nettrace has no samples" in str(done.exception)


def test_a_method_that_is_gone_passes_the_gate(tmp_path: Path, lacking: Path) -> None:
    other = tmp_path / "other.nettrace"
    other.write_bytes(bytes(traced(managed(0, 1, "P.B"), managed(10, 1, "P.B"), managed(20, 1)).raw.buffer))
    done = run("diff --fail-above 5% --json --focus P.A", lacking, other)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["total"]["after"] == 0


@pytest.mark.parametrize(
    "verb",
    ["events --from 5000", "events --json --from 5000 --to 6000", "trim --from 5000 -o x", "trim --from 2h -o x"],
)
def test_a_time_after_the_end_is_said_to_be_so(verb: str, lacking: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lacking.parent)
    done = run(verb, lacking)
    assert isinstance(done.exception, UsageError)
    assert re.fullmatch(r"nothing is after [57][02]00 s: cut\.nettrace ends at \d+\.\d+ s", str(done.exception))
    assert not Path("x").exists()


@pytest.mark.parametrize("time", ["5000-", "5000-6000", "1h23m20s-"])
@pytest.mark.parametrize("verb", ["report", "report --weight samples", "diff", "convert --format collapsed -o x"])
def test_a_time_after_the_samples_is_said_to_be_so(
    verb: str, time: str, lacking: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lacking.parent)
    done = run(verb, *([lacking] * (2 if verb == "diff" else 1)), "--time", time)
    assert isinstance(done.exception, UsageError), done.output
    assert str(done.exception) == "nothing is after 5000 s: the samples of cut.nettrace end at 0.020 s"
    assert not Path("x").exists()


def test_a_recording_with_losses_is_not_just_complete(lacking: Path) -> None:
    assert re.search(r"^Verdict   broken: .*, but 3 events were lost$", run("info", lacking).stdout, re.MULTILINE)
