"""A file that is made shorter while it is read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.nettrace.traces import large_trace

from dotnetdiag.nettrace import kernels


@pytest.mark.skipif(sys.platform == "win32", reason="such a file cannot be made shorter there")
@pytest.mark.skipif(not kernels.COMPILED, reason="no kernels")
def test_it_is_said_which_file_was_cut_while_it_was_read(tmp_path: Path) -> None:
    """The process died of SIGBUS, without a word."""
    path = tmp_path / "cut.nettrace"
    path.write_bytes(large_trace(200_000))
    verb = [sys.executable, "-m", "dotnetdiag", "trace", "events", str(path), "--format", "jsonl"]
    with subprocess.Popen(verb, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        os.truncate(path, 4096)  # it waits for its reader by now, or will
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert err.decode().splitlines()[-1] == (
        f"error: {path}: it was cut while it was read, or its disk failed; read a copy of it"
    )
