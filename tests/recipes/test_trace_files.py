"""Traces opened by path: where others find the file of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.nettrace.recordings import data_of
from tests.query.asked import named, saved

import dotnetdiag as dd
from dotnetdiag.trace.trace import Trace

PATH = "import dotnetdiag as dd; print(dd.open('/dev/stdin').raw.path)"


def test_a_trace_knows_the_whole_path_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = saved(tmp_path, "events-10")
    monkeypatch.chdir(tmp_path)
    trace = dd.open(Path(path).name)
    assert isinstance(trace, Trace)
    monkeypatch.chdir("/")
    trace.close()
    assert (trace.raw.path, trace.name) == (path, Path(path).name)
    assert Trace(data_of(named("events-10")), name="x").raw.path is None


@pytest.mark.skipif(not os.path.exists("/dev/stdin"), reason="standard input has no name here")
def test_what_comes_through_stdin_has_a_path_where_it_is_a_file(tmp_path: Path) -> None:
    (path,) = saved(tmp_path, "events-10")
    with open(path, "rb") as file:
        done = subprocess.run([sys.executable, "-c", PATH], stdin=file, capture_output=True, text=True, check=True)
    assert done.stdout == f"{path}\n"
    piped = subprocess.run([sys.executable, "-c", PATH], input=Path(path).read_bytes(), capture_output=True, check=True)
    assert piped.stdout == b"None\n"
