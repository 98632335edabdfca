"""What a started program leaves running may start runtimes that dial its port: somebody answers as long as it runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import pytest
from tests.client.dialling import DiallingRuntime

from dotnetdiag.ipc.commands import Command
from dotnetdiag.recipes.inherited_port import heirs, keep
from dotnetdiag.recipes.launch import launched
from dotnetdiag.recipes.suspension import PORTS_VARIABLE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups of POSIX")


def wait_until(holds: Callable[[], bool], seconds: float = 20.0) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.fixture
def port() -> Path:
    """Where a port was, in a folder of its own (short: it is an address)."""
    return Path(mkdtemp(prefix="dotnetdiag-test-", dir="/tmp")) / "port"


@pytest.fixture
def heir(port: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the port in its environment; no .NET program."""
    environment = {**os.environ, PORTS_VARIABLE: f"{port},connect,suspend"}
    with subprocess.Popen(["sleep", "60"], env=environment, process_group=0) as process:
        wait_until(lambda: process.pid in heirs(str(port), process.pid))
        yield process
        process.kill()


def test_whoever_dials_later_is_resumed_and_nothing_stays(port: Path, heir: subprocess.Popen[bytes]) -> None:
    assert keep(str(port), heir.pid)
    with DiallingRuntime(port, number=1) as first, DiallingRuntime(port, number=2) as second:
        first.wait_for(Command.ResumeRuntime)
        second.wait_for(Command.ResumeRuntime)
    with DiallingRuntime(port, number=3) as late:
        late.wait_for(Command.ResumeRuntime)
    heir.kill()
    heir.wait()
    wait_until(lambda: not port.parent.exists())


def test_a_program_that_has_ended_is_no_heir(port: Path, heir: subprocess.Popen[bytes]) -> None:
    heir.kill()
    wait_until(lambda: heirs(str(port), heir.pid) == ())  # on Linux before anybody has waited for it
    heir.wait()
    assert not keep(str(port), heir.pid)
    port.parent.rmdir()


@pytest.mark.parametrize("program", ["time.sleep(60)", "os.setsid(); time.sleep(60)"])
def test_what_was_ended_keeps_no_port(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(dir="/tmp") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        with (
            pytest.raises(LookupError),
            launched([sys.executable, "-c", f"import os, time; {program}"], check=_give_up),
        ):
            raise AssertionError("it has no runtime")
        assert os.listdir(place) == []


def _give_up() -> None:
    raise LookupError


@pytest.mark.skipif(sys.platform != "linux", reason="environments of other processes are seen in /proc")
def test_one_that_has_left_the_group_is_an_heir(port: Path) -> None:
    environment = {**os.environ, PORTS_VARIABLE: f"{port},connect,suspend"}
    with subprocess.Popen(["sleep", "60"], env=environment, start_new_session=True) as process:
        try:
            wait_until(lambda: heirs(str(port), 1) == (process.pid,))
            assert heirs(str(port) + "x", 1) == ()
        finally:
            process.send_signal(signal.SIGKILL)
    port.parent.rmdir()
