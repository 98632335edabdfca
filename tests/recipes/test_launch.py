"""Programs that are started for a recording: what is said of their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.client.dialling import DiallingRuntime

from dotnetdiag.errors import ProcessNotFound, UsageError
from dotnetdiag.recipes import launch, watchdog
from dotnetdiag.recipes.launch import (
    Launch,
    _environment,
    end_of,
    launched,
    port_folder,
    shell_code,
    told_of_heirs,
)
from dotnetdiag.transport import processes
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.dialable import undialable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (None, (None, None)),
        (0, (0, None)),
        (7, (7, None)),
        (-signal.SIGABRT, (134, "SIGABRT")),
        (-signal.SIGKILL, (137, "SIGKILL")),
        (-63, (191, "signal 63")),
    ],
)
def test_the_code_is_that_of_a_shell(code: int | None, told: tuple[int | None, str | None]) -> None:
    assert shell_code(code) == told


@pytest.mark.parametrize(
    ("program", "told"),
    [("exit 3", r"ended with code 3 before"), ("kill -9 $$", r"ended with code 137 \(SIGKILL\) before")],
)
def test_a_program_that_ends_without_a_runtime_may_be_too_old(program: str, told: str) -> None:
    with (
        pytest.raises(ProcessNotFound, match=told) as gone,
        launched(
            Launch(
                command=(
                    "sh",
                    "-c",
                    program,
                )
            )
        ),
    ):
        pass
    assert ".NET Core 3.1" in str(gone.value)


def test_what_a_script_has_started_is_waited_for_and_ended_when_no_runtime_comes() -> None:
    """The script ends before its runtime has dialled; whoever dials later would wait for ever."""
    with (
        pytest.raises(ProcessNotFound, match=r"ended with code 3 before") as gone,
        launched(
            Launch(
                command=(
                    "sh",
                    "-c",
                    "sleep 0.5 & exit 3",
                )
            )
        ),
    ):
        pass
    group = gone.value.pid
    assert group is not None
    assert members(group) == []


def members(group: int) -> list[int]:
    """Of a process group, but for those that have ended and wait to be asked for their code."""
    found = {pid: processes.stat_fields(pid) or [] for pid in processes.iter_pids()}
    return [pid for pid, fields in found.items() if fields[2:3] == [b"%d" % group] and fields[0] != b"Z"]


class Dials:
    """A runtime of ours that dials the port of a program, in the place of the program's own. To be given as ``check``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dotnetdiag-test-", dir="/tmp"))
        self.runtime: DiallingRuntime | None = None
        monkeypatch.setattr(launch, "port_folder", lambda: str(self.folder))

    def __call__(self) -> None:
        if self.runtime is None:
            self.runtime = DiallingRuntime(self.folder / "port")
            self.runtime.start()


@pytest.fixture
def dials(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dials]:
    made = Dials(monkeypatch)
    yield made
    if made.runtime is not None:
        made.runtime.stop()
    assert not made.folder.exists()


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("program", ["exec sleep 60", "sleep 60 & sleep 60", "trap '' TERM INT HUP; sleep 60 & wait"])
def test_a_program_that_still_runs_when_its_recording_is_over_is_ended_with_all_it_has_started(
    program: str, fails: bool, dials: Dials
) -> None:
    with (
        suppress(LookupError),
        launched(
            Launch(
                command=(
                    "sh",
                    "-c",
                    program,
                )
            ),
            check=dials,
        ) as child,
    ):
        assert members(child.pid)
        if fails:
            raise LookupError
    assert members(child.pid) == []
    assert child.process.returncode == -signal.SIGKILL
    assert child.heirs == ()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_that_leaves_the_block_leaves_the_program_to_its_parent(dials: Dials) -> None:
    try:
        with launched(Launch(command=("sh", "-c", "exec sleep 60")), check=dials) as child:
            worker = os.fork()
            if not worker:
                raise ChildEnds
            assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 7
            assert members(child.pid)
            assert dials.folder.exists()
    except ChildEnds:
        os._exit(7)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_that_leaves_the_block_leaves_the_watchdog_to_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dogs: list[Any] = []
    begin = watchdog._start

    def start(address: str, inherited: bool) -> Any:
        dogs.append(begin(address, inherited))
        return dogs[-1]

    monkeypatch.setattr(watchdog, "_start", start)
    try:
        with watchdog.watched_over(str(tmp_path / "port")):
            worker = os.fork()
            if not worker:
                raise ChildEnds
            assert os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1]) == 7
            (dog,) = dogs
            with pytest.raises(subprocess.TimeoutExpired):
                dog.wait(0.5)
        assert dog.returncode == 0
    except ChildEnds:
        os._exit(7)


class ChildEnds(Exception):
    """Raised in a forked child."""


def test_what_a_program_that_has_ended_has_started_is_ended_when_the_recording_failed(dials: Dials) -> None:
    with (
        suppress(LookupError),
        launched(
            Launch(
                command=(
                    "sh",
                    "-c",
                    "sleep 60 & exit 7",
                )
            ),
            check=dials,
        ) as child,
    ):
        assert child.wait() == 7
        assert members(child.pid)
        raise LookupError
    assert members(child.pid) == []
    assert child.wait() == 7


def test_a_signal_is_passed_on_to_all_of_the_group(dials: Dials) -> None:
    with launched(
        Launch(
            command=(
                "sh",
                "-c",
                "trap '' INT; (trap - INT; exec sleep 60) & wait",
            )
        ),
        check=dials,
    ) as child:
        child.send_signal(signal.SIGTERM)
        assert child.wait() == -signal.SIGTERM
    assert members(child.pid) == []


def test_what_cannot_be_executed_is_said_so(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF no program")
    program.chmod(0o755)
    for command in ([str(program)], ["/bin/sh", "-c", "a" * 200_000], ["/bin/sh", "a\0b"], ["no-such-program"]):
        with pytest.raises(UsageError, match=r"cannot be started|no program"), launched(Launch(command=tuple(command))):
            pass


def test_a_started_program_waits_for_nobody_but_us(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "DOTNET_DefaultDiagnosticPortSuspend",
        "COMPlus_DefaultDiagnosticPortSuspend",
        "COMPlus_DiagnosticPorts",
    ):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("DOTNET_DiagnosticPorts", "/other")
    monkeypatch.setenv("KEPT", "1")
    environment = _environment("/tmp/x/port")
    assert environment["DOTNET_DiagnosticPorts"] == "/tmp/x/port,connect,suspend"
    assert environment["KEPT"] == "1"
    assert not [name for name in environment if "DiagnosticPort" in name and name != "DOTNET_DiagnosticPorts"]


@pytest.mark.parametrize("name", ["x" * 90, "a,b", "a;b"])
def test_a_port_is_made_where_a_runtime_can_dial_it(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / name))
    (tmp_path / name).mkdir()
    folder = port_folder()
    os.rmdir(folder)
    assert not undialable(UnixAddress(f"{folder}/port"))
    assert list((tmp_path / name).iterdir()) == []


def test_a_port_is_made_in_the_usual_place_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        assert os.path.dirname(port_folder()) == place


class Child:
    """A program that ends with the first of ``ending`` signals that comes, or after so many looks."""

    def __init__(self, *, looks: int | None = None, ending: tuple[int, ...] = ()) -> None:
        self.looks, self.ending, self.sent = looks, ending, list[int]()

    def send_signal(self, number: int) -> bool:
        self.sent.append(number)
        return True

    def wait(self, _: float) -> int | None:
        if self.looks is not None:
            self.looks -= 1
            if self.looks < 0:
                return 7
        return next((-number for number in self.sent if number in self.ending), None)


ENDED, KILLED = "The program still ran, and was told to end (SIGTERM).", "The program still ran, and was killed."


@pytest.mark.parametrize(
    ("child", "came", "ended_by_us", "expected"),
    [
        (Child(looks=5), None, False, (7, [], [])),
        (Child(looks=0), None, True, (7, [], [])),
        (Child(ending=(signal.SIGTERM,)), None, True, (None, [ENDED], [signal.SIGTERM])),
        (Child(), None, True, (None, [KILLED], [signal.SIGTERM])),
        (Child(ending=(signal.SIGINT,)), signal.SIGINT, True, (-signal.SIGINT, [], [signal.SIGINT])),
        (Child(ending=(signal.SIGHUP,)), signal.SIGHUP, False, (-signal.SIGHUP, [], [signal.SIGHUP])),
        (Child(), signal.SIGINT, True, (None, [KILLED], [signal.SIGINT])),
    ],
)
def test_the_end_of_a_program_that_was_recorded(
    child: Child, came: int | None, ended_by_us: bool, expected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter(range(1000))
    monkeypatch.setattr(launch, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    made = Child(looks=child.looks, ending=child.ending)
    end = end_of(made, ended_by_us=ended_by_us, signal_for_it=lambda: came)  # type: ignore[arg-type]
    assert (end.code, list(end.notes), made.sent) == expected


def test_of_what_runs_still_three_are_named_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "comm", {1: "web", 2: "db", 4: "no"}.get)
    for count, said in ((1, "1 (web):"), (3, "1 (web), 2 (db), 3 (?):"), (5, "1 (web), 2 (db), 3 (?) and 2 more:")):
        (line,) = told_of_heirs(tuple(range(1, count + 1)))
        assert line.startswith(f"What the program has started runs still, as {said}")
    assert told_of_heirs(()) == ()
