"""Sockets in the temp folder that are not what their names say: of a runtime that is gone, of a program that speaks something else."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.client.scripted import ScriptedRuntime, says

import dotnetdiag
from dotnetdiag.transport import processes
from dotnetdiag.transport.socket_names import socket_name

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where the tool looks for sockets."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


PRETENDER = """
import os, socket, sys
started = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
listener = socket.socket(socket.AF_UNIX)
listener.bind(os.path.join(sys.argv[1], f"dotnet-diagnostic-{os.getpid()}-{started}-socket"))
listener.listen()
print("ready", flush=True)
while True:
    listener.accept()[0].close()
"""


@contextmanager
def pretender(folder: Path, *arguments: bytes, name: bytes = b"pretender") -> Iterator[int]:
    """The pid of a program with a runtime's socket, and such a command line, that says nothing to whoever connects."""
    words = [name, b"-S", b"-c", PRETENDER.encode(), bytes(folder), *arguments]
    with subprocess.Popen(words, executable=sys.executable, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            yield process.pid
        finally:
            process.kill()


def environment(**more: str) -> dict[str, str]:
    """Ours, and more; this package is found from any folder."""
    return {**os.environ, "PYTHONPATH": str(Path(dotnetdiag.__file__).parents[1]), **more}


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dotnetdiag.cli.main", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(TMPDIR=str(folder)),
    )


def test_a_program_that_got_the_number_of_a_runtime_is_not_listed(folder: Path) -> None:
    with (
        subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as other,
        socket.socket(socket.AF_UNIX) as stale,
    ):
        stale.bind(str(folder / f"dotnet-diagnostic-{other.pid}-1-socket"))
        stale.close()
        done = run(folder, "ps")
        other.communicate(b"\n")
    assert done.returncode == 0, done.stderr
    assert not [line for line in done.stdout.splitlines() if line.split()[:1] == [str(other.pid)]]


def test_doctor_tells_its_findings_of_a_socket_whose_answers_are_no_messages(folder: Path) -> None:
    name = socket_name(os.getpid(), processes.start_time_ticks(os.getpid()) or 0)
    runtime = ScriptedRuntime(folder / name, says(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    try:
        done = run(folder, "doctor", str(os.getpid()))
    finally:
        runtime.close()
    assert done.returncode in (0, 1), done.stderr
    assert runtime.asked
    assert str(folder / name) in done.stdout
    assert done.stderr == ""


def test_a_name_finds_a_process_that_cannot_be_asked_so_that_its_reason_is_told(folder: Path) -> None:
    with pretender(folder, b"/srv/Company.App.dll", name=b"dotnet"):
        done = run(folder, "info", "-n", "Company.App")
        listed = run(folder, "ps").stdout
        doctor = run(folder, "doctor").stdout
    assert done.returncode == 1
    assert "There is no active process" not in done.stderr
    assert "Company.App" in listed.split()
    assert "ask about this process alone" not in doctor
