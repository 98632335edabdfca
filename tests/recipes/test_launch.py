"""Programs that are started for a recording: what is said of their end."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from dotnetdiag.errors import ProcessNotFound, UsageError
from dotnetdiag.recipes.launch import LONGEST_PORT, _environment, _port_folder, launched, shell_code
from dotnetdiag.transport import processes

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
    with pytest.raises(ProcessNotFound, match=told) as gone, launched(["sh", "-c", program]):
        pass
    assert ".NET Core 3.1" in str(gone.value)


def test_what_a_script_has_started_is_waited_for_and_ended_when_no_runtime_comes() -> None:
    """The script ends before its runtime has dialled; whoever dials later would wait for ever."""
    with (
        pytest.raises(ProcessNotFound, match=r"ended with code 3 before") as gone,
        launched(["sh", "-c", "sleep 0.5 & exit 3"]),
    ):
        pass
    group = gone.value.pid
    assert group is not None
    found = [processes.stat_fields(pid) or [] for pid in processes.iter_pids()]
    assert not [fields for fields in found if fields[2:3] == [b"%d" % group] and fields[0] != b"Z"]


def test_what_cannot_be_executed_is_said_so(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF no program")
    program.chmod(0o755)
    for command in ([str(program)], ["/bin/sh", "-c", "a" * 200_000], ["/bin/sh", "a\0b"], ["no-such-program"]):
        with pytest.raises(UsageError, match=r"cannot be started|no program"), launched(command):
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
    folder = _port_folder()
    os.rmdir(folder)
    assert len(f"{folder}/port") <= LONGEST_PORT
    assert not {",", ";"} & set(folder)
    assert list((tmp_path / name).iterdir()) == []


def test_a_port_is_made_in_the_usual_place_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        assert os.path.dirname(_port_folder()) == place
