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
from typing import Any

import pytest
from tests.client.dialling import DiallingRuntime

from dotnetdiag.ipc.commands import Command
from dotnetdiag.recipes import inherited_port
from dotnetdiag.recipes.inherited_port import heirs, leave
from dotnetdiag.recipes.launch import Launch, launched
from dotnetdiag.recipes.suspension import PORTS_VARIABLE
from dotnetdiag.transport import processes

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
    assert leave(str(port), heir.pid) == (heir.pid,)
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
    assert leave(str(port), heir.pid) == ()
    assert not port.parent.exists()


def keepers(port: Path) -> list[int]:
    return [pid for pid in processes.iter_pids() if str(port) in (processes.argv(pid) or ())]


def test_one_that_is_told_to_end_leaves_nothing(port: Path, heir: subprocess.Popen[bytes]) -> None:
    assert leave(str(port), heir.pid)
    wait_until(port.exists)
    for pid in keepers(port):
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not port.parent.exists())
    assert heir.poll() is None


@pytest.mark.parametrize("program", ["", "/bin/false", "/no/such/program"])
def test_where_no_process_can_be_started_nothing_is_kept(
    program: str, port: Path, heir: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", program)
    assert leave(str(port), heir.pid) == ()
    assert not port.parent.exists()


def noting(kept: list[str]) -> Callable[[str, int], bool]:
    def start(address: str, _: int) -> bool:
        kept.append(address)
        return True

    return start


def test_one_look_that_sees_nobody_is_not_believed(port: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that becomes another program has no environment in that moment."""
    looks, kept = iter([(), (7,), *[(7,)] * 1000]), list[str]()
    monkeypatch.setattr(inherited_port, "heirs", lambda *_: next(looks))
    monkeypatch.setattr(inherited_port, "_start_keeper", noting(kept))
    assert leave(str(port), 1) == (7,)
    assert kept == [str(port)]
    port.parent.rmdir()


def test_nobody_is_kept_waiting_for_who_ended_while_it_looked(port: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, kept = iter([(), (7,), (), (), ()]), list[str]()
    monkeypatch.setattr(inherited_port, "heirs", lambda *_: next(looks))
    monkeypatch.setattr(inherited_port, "_start_keeper", noting(kept))
    assert (leave(str(port), 1), kept) == ((), [])
    assert not port.parent.exists()


def test_an_interrupt_while_it_waits_leaves_the_port_kept(port: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    kept = list[str]()
    monkeypatch.setattr(inherited_port, "heirs", lambda *_: (7,))
    monkeypatch.setattr(inherited_port, "_start_keeper", noting(kept))
    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        leave(str(port), 1)
    assert kept == [str(port)]
    port.parent.rmdir()


@pytest.mark.parametrize("program", ["time.sleep(60)", "os.setsid(); time.sleep(60)"])
def test_what_was_ended_keeps_no_port(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with TemporaryDirectory(dir="/tmp") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        with (
            pytest.raises(LookupError),
            launched(Launch(command=(sys.executable, "-c", f"import os, time; {program}")), check=_give_up),
        ):
            raise AssertionError("it has no runtime")
        assert os.listdir(place) == []


def _give_up() -> None:
    raise LookupError


@pytest.mark.skipif(sys.platform != "linux", reason="other processes are seen in /proc")
@pytest.mark.parametrize(
    ("ports", "of_its_own"),
    [
        ("{port},connect,suspend", {"start_new_session": True}),  # it has left the group
        ("/mine,nosuspend;{port},connect,suspend", {}),  # it has put another port before ours
        (None, {"process_group": 0}),  # it is of the group, whatever stands in its environment: a title, for one
    ],
)
def test_who_could_dial_is_an_heir(ports: str | None, of_its_own: dict[str, Any], port: Path) -> None:
    environment = dict(os.environ) if ports is None else {**os.environ, PORTS_VARIABLE: ports.format(port=port)}
    with subprocess.Popen(["sleep", "60"], env=environment, **of_its_own) as process:
        group = process.pid if ports is None else 1
        try:
            wait_until(lambda: heirs(str(port), group) == (process.pid,))
            assert process.pid not in heirs(str(port) + "x", 1)
        finally:
            process.kill()
    port.parent.rmdir()


@pytest.mark.parametrize(("platform", "expected"), [("darwin", True), ("win32", False)])
def test_where_processes_cannot_be_seen_a_group_with_members_is_the_heir(
    platform: str, expected: bool, port: Path, heir: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(sys, "platform", platform)
        assert heirs(str(port), heir.pid) == ((heir.pid,) if expected else ())
        heir.kill()
        heir.wait()
        assert heirs(str(port), heir.pid) == ()
    port.parent.rmdir()
