"""What is told of a port that runtimes dial, played by threads."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.client.dialling import DiallingRuntime
from tests.client.scripted import eventually

from dotnetdiag.cli.commands import commands
from dotnetdiag.errors import GrammarError, TransportError, UsageError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.recipes import ports
from dotnetdiag.recipes.ports import visits
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.testing import Talk


@pytest.fixture
def port() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # shorter than tmp_path: it is for a socket
        yield Path(folder) / "port"


def test_runtimes_come_and_go_until_it_is_stopped(port: Path) -> None:
    stop, told = Stop(), list[str]()
    came = visits(str(port), stop=stop, listening=told.append)
    with DiallingRuntime(port, number=7) as runtime:
        first = next(came)
        assert told == [str(port)]
        assert (first.what, first.name, first.problem) == ("connected", "x", "")
        assert first.cookie == str(runtime.cookie)
    left = next(came)
    assert (left.what, left.cookie, left.name) == ("gone", first.cookie, "x")
    assert left.seconds >= first.seconds
    stop.stop()
    assert list(came) == []
    assert not port.exists()


def test_those_that_wait_are_let_run_when_that_is_asked_for(port: Path) -> None:
    for resume in (True, False):
        stop = Stop()
        with DiallingRuntime(port) as runtime:
            for _ in visits(str(port), resume=resume, stop=stop):
                stop.stop()
            assert (Command.ResumeRuntime in runtime.asked) == resume


def test_one_that_says_nothing_is_told_of_with_the_reason(port: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "ASK_TIMEOUT_S", 0.2)

    def silent(talk: Talk) -> None:
        talk.pause(5)

    with DiallingRuntime(port, {Command.ProcessInfo3: silent}):
        one = next(visits(str(port)))
        assert (one.name, one.suspended) == ("", None)
        assert "0.2 s" in one.problem


def test_what_is_no_port_or_no_time_is_refused(port: Path) -> None:
    with pytest.raises(GrammarError):
        next(visits(str(port), duration="soon"))
    with pytest.raises(UsageError, match="beyond loopback"):
        next(visits("0.0.0.0:0"))
    with pytest.raises(TransportError, match="no such folder"):
        next(visits(str(port / "x")))


def test_the_verb_prints_lines_rows_and_objects(port: Path) -> None:
    said = dict.fromkeys(("table", "csv", "jsonl"), "")
    for form in said:
        for _ in range(30):  # a second may be too short on a busy machine
            eventually(lambda: not port.exists(), "the port before is closed")
            with DiallingRuntime(port) as runtime:
                done = CliRunner().invoke(commands, ["ports", str(port), "--duration", "1s", "--format", form])
            assert done.exit_code == 0, done.output
            assert done.stderr.startswith(f"listening on {port}\n")
            said[form] = done.stdout
            if "connected" in said[form]:
                break
    row = json.loads(said["jsonl"])
    (cells,) = csv.DictReader(io.StringIO(said["csv"]))
    assert row["cookie"] == cells["cookie"] == str(runtime.cookie)
    assert list(row) == list(cells)
    assert f"connected  {row['pid']:>7}" in said["table"]
