"""The conformance checks on real runtimes: all is as the documents say, or as is written down; the target lives on."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live import supported
from tests.live.runtimes import REQUIRED, Target, workload

from dotnetdiag.testing import Outcome, Runtime, examine
from dotnetdiag.testing.checks import DIFFERENCES
from dotnetdiag.testing.conformance import release_of
from dotnetdiag.testing.peer import Peer
from dotnetdiag.transport import candidates

pytestmark = pytest.mark.live


def test_a_runtime_passes_every_check_but_for_its_known_differences(target: Target) -> None:
    found = release_of(Peer(candidates(target.pid)[0].address))
    results = list(examine(pid=target.pid))
    assert target.alive
    assert [f"{result.name}: {result.detail}" for result in results if result.outcome is Outcome.FAILED] == []
    if target.runtime in REQUIRED:
        assert found is not None
        assert found.name == target.kind
        differing = {result.name for result in results if result.outcome is Outcome.DIFFERS}
        assert differing == {name for name, known in DIFFERENCES.items() if target.kind in known}
    for result in results:
        word = result.detail if result.outcome is Outcome.DIFFERS else result.outcome.value
        supported.note(supported.CHECK + result.name, target.runtime, word)


def test_the_verb_says_the_same_in_lines_and_in_json() -> None:
    verb = [sys.executable, "-m", "dotnetdiag.cli.main", "conformance", "-p"]
    with workload("9", "idle", "seconds=100") as target:
        done = subprocess.run(
            [*verb, str(target.pid), "--json"], capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        rows = json.loads(done.stdout)
        lines = subprocess.run([*verb, str(target.pid)], capture_output=True, text=True, timeout=120, check=False)
        assert lines.returncode == 0
        assert len(lines.stdout.splitlines()) == len(rows)
        assert "0 failed" in lines.stderr
    assert {row["outcome"] for row in rows} == {"passed", "differs", "not applicable"}
    refused = subprocess.run([*verb, "1073741824"], capture_output=True, text=True, timeout=120, check=False)
    assert refused.returncode == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name one server"),
        (("/a", "-p", "1"), "name one server"),
        (("--diagnostic-port", "/a"), "write ADDRESS,connect"),
        (("--diagnostic-port", "/a,listen"), "write ADDRESS,connect"),
    ],
)
def test_a_server_is_named_once_and_listens(words: tuple[str, ...], said: str) -> None:
    verb = [sys.executable, "-m", "dotnetdiag.cli.main", "conformance", *words]
    done = subprocess.run(verb, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, said in done.stderr) == (3, True)


def test_the_port_of_a_server_is_taken_as_other_verbs_take_it(tmp_path: Path) -> None:
    with Runtime("9", listen=tmp_path / "s"):
        verb = [
            sys.executable,
            "-m",
            "dotnetdiag.cli.main",
            "conformance",
            "--diagnostic-port",
            f"{tmp_path}/s,connect",
        ]
        done = subprocess.run(verb, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, "0 failed" in done.stderr) == (0, True)


def test_a_process_that_waits_at_its_start_is_refused() -> None:
    verb = [sys.executable, "-m", "dotnetdiag.cli.main", "conformance"]
    with workload("9", "idle", "seconds=100", suspended=True) as target:
        done = subprocess.run([*verb, str(target.pid)], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 3
        assert "suspended at its start" in done.stderr
        assert target.alive
