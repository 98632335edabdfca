from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dotnetdiag.errors import ConnectFailed, NoDiagnostics, ProcessNotFound, TimedOut, TransportError
from dotnetdiag.transport import diagnosis, discovery, processes
from dotnetdiag.transport.attempts import connect_pid
from dotnetdiag.transport.connecting import connect
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.diagnosis import Finding, RuntimeKind, diagnose, kind_of, reason, switched_off_by
from dotnetdiag.transport.discovery import Endpoint

from .conftest import FakeProc

pytestmark = pytest.mark.usefixtures("no_leaks")

CORECLR = b"7f00-7f01 r-xp 00000000 08:01 12 /usr/share/dotnet/shared/Microsoft.NETCore.App/%s/libcoreclr.so\n"


@pytest.fixture(autouse=True)
def plain_tmp(monkeypatch: pytest.MonkeyPatch, short_tmp: Path) -> Path:
    path = short_tmp / "tmp"
    path.mkdir()
    monkeypatch.setattr(discovery, "DEFAULT_TMPDIR", str(path))
    return path


def codes(findings: tuple[Finding, ...]) -> list[tuple[str, bool]]:
    for finding in findings:
        assert "\n" not in finding.text + finding.advice
        assert finding.ok or finding.advice, "a problem comes with what to do"
    return [(finding.code, finding.ok) for finding in findings]


def look(fake: FakeProc, pid: int, tmp: Path) -> list[tuple[str, bool]]:
    """The codes; and the error of ``connect_pid`` tells the first problem."""

    def try_connect(endpoint: Endpoint) -> None:
        connect(endpoint.address, Deadline(10)).close()

    findings = diagnose(pid, proc=fake.path, tmpdir=str(tmp), try_connect=try_connect)
    if all(finding.ok for finding in findings):
        connect_pid(pid, Deadline(10), proc=fake.path, tmpdir=str(tmp))[0].close()
    else:
        with pytest.raises((NoDiagnostics, ProcessNotFound)) as caught:
            connect_pid(pid, Deadline(10), proc=fake.path, tmpdir=str(tmp))
        first = reason(findings)
        assert str(caught.value) == f"process {pid}: {first.text}; {first.advice}"
        assert isinstance(caught.value, ProcessNotFound) == (first.code == "no-such-process")
    return codes(findings)


def test_no_such_process(fake: FakeProc, plain_tmp: Path) -> None:
    assert look(fake, 7, plain_tmp) == [("no-such-process", False)]
    fake.process(8, state="Z")
    assert look(fake, 8, plain_tmp) == [("no-such-process", False)]
    fake.process(70, inner=(3,), mounts="mnt:[2]", root=plain_tmp)
    assert look(fake, 3, plain_tmp) == [("no-such-process", False)]
    assert "here it is 70" in diagnose(3, proc=fake.path, tmpdir=str(plain_tmp))[0].text


def test_not_dotnet(fake: FakeProc, plain_tmp: Path) -> None:
    fake.process(7, comm="bash", maps=b"7f00-7f01 r-xp 0 08:01 12 /bin/bash\n")
    assert look(fake, 7, plain_tmp) == [("not-dotnet", False)]


def test_reachable(fake: FakeProc, plain_tmp: Path) -> None:
    fake.process(7, environ=b"DOTNET_EnableDiagnostics=0\0")
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")
    assert look(fake, 7, plain_tmp) == [("reachable", True)], "what answers is not switched off"


def test_diagnostics_disabled(fake: FakeProc, plain_tmp: Path) -> None:
    fake.process(7, maps=CORECLR % b"8.0.33", environ=b"DOTNET_EnableDiagnostics_IPC=0\0")
    assert look(fake, 7, plain_tmp) == [("diagnostics-disabled", False), ("no-socket", False)]


@pytest.mark.parametrize(
    ("kind", "environ", "switch"),
    [
        (RuntimeKind(dotnet=True, major=3), b"DOTNET_EnableDiagnostics=0", False),
        (RuntimeKind(dotnet=True, major=3), b"COMPlus_EnableDiagnostics=0", True),
        (RuntimeKind(dotnet=True, major=3), b"COMPlus_EnableDiagnostics_IPC=0", False),
        (RuntimeKind(dotnet=True, major=6), b"DOTNET_EnableDiagnostics=0", True),
        (RuntimeKind(dotnet=True, major=6), b"DOTNET_EnableDiagnostics_IPC=0", False),
        (RuntimeKind(dotnet=True, major=8), b"DOTNET_EnableDiagnostics=0", True),
        (RuntimeKind(dotnet=True, major=10), b"COMPlus_EnableDiagnostics_IPC=0x0", True),
        (RuntimeKind(dotnet=True), b"DOTNET_EnableDiagnostics_IPC=00", True),
        (RuntimeKind(dotnet=True, native=True), b"DOTNET_EnableDiagnostics=0", True),
        (RuntimeKind(dotnet=True, native=True), b"COMPlus_EnableDiagnostics=0", False),
        (RuntimeKind(dotnet=True, native=True), b"DOTNET_EnableDiagnostics_IPC=0", False),
        (RuntimeKind(dotnet=True, major=10), b"DOTNET_EnableDiagnostics=1", False),
        (RuntimeKind(dotnet=True, major=10), b"DOTNET_EnableDiagnostics=", False),
        (RuntimeKind(dotnet=True, major=10), b"DOTNET_EnableDiagnostics=\xff0", False),
        (RuntimeKind(dotnet=True, major=10), b"DOTNET_EnableDiagnostics_Debugger=0", False),
    ],
)
def test_switches_by_runtime(kind: RuntimeKind, environ: bytes, switch: bool) -> None:
    name, _, value = environ.partition(b"=")
    assert switched_off_by({name: value}, kind) == (environ.decode() if switch else None)


def test_other_user(fake: FakeProc, plain_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.process(7, environ=None, uid=12345, maps=CORECLR % b"8.0.33")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert look(fake, 7, plain_tmp) == [("other-user", False), ("no-socket", False)]
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert look(fake, 7, plain_tmp) == [("no-socket", False)]


def test_a_root_that_is_closed_to_us(fake: FakeProc, plain_tmp: Path) -> None:
    folder = fake.process(70, inner=(1,), mounts="mnt:[2]", environ=None, maps=CORECLR % b"8.0.33")
    (folder / "root").unlink()
    assert look(fake, 70, plain_tmp) == [("other-namespace", False), ("no-socket", False)]


def test_a_container_with_another_tmpdir(fake: FakeProc, short_tmp: Path, plain_tmp: Path) -> None:
    root = short_tmp / "box"
    fake.process(70, inner=(1,), mounts="mnt:[2]", root=root, environ=b"TMPDIR=/var\0")
    fake.socket(root / "var", "dotnet-diagnostic-1-1000-socket")
    assert look(fake, 70, plain_tmp) == [("other-namespace", True), ("other-tmpdir", True), ("reachable", True)]


def test_stale_sockets(fake: FakeProc, plain_tmp: Path) -> None:
    fake.process(7, maps=CORECLR % b"10.0.14")
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket", stale=True)
    fake.socket(plain_tmp, "dotnet-diagnostic-7-999-socket", stale=True)
    assert look(fake, 7, plain_tmp) == [("stale-socket", False)]
    assert "2 were tried" in diagnose(7, proc=fake.path, tmpdir=str(plain_tmp))[0].text


@pytest.mark.parametrize(
    ("error", "uid", "expected"),
    [
        (ConnectFailed("denied", errno=errno.EACCES), 12345, [("other-user", False)]),
        (ConnectFailed("denied", errno=errno.EACCES), 1000, [("permission-denied", False)]),
        (TimedOut("no connection", timeout_s=2), 1000, [("busy", False)]),
        (ConnectFailed("odd", errno=errno.ENETDOWN), 1000, [("no-connection", False)]),
    ],
)
def test_a_socket_that_does_not_answer_is_called_stale_only_when_it_is(
    fake: FakeProc,
    plain_tmp: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: TransportError,
    uid: int,
    expected: list[tuple[str, bool]],
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    fake.process(7, maps=CORECLR % b"10.0.14", uid=uid)
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")

    def try_connect(endpoint: Endpoint) -> None:
        raise error

    assert codes(diagnose(7, proc=fake.path, tmpdir=str(plain_tmp), try_connect=try_connect)) == expected


def test_a_tmpdir_too_long_for_the_runtime(fake: FakeProc, short_tmp: Path, plain_tmp: Path) -> None:
    long = short_tmp / ("d" * 90)
    long.mkdir()
    fake.process(7, maps=CORECLR % b"8.0.33", environ=f"TMPDIR={long}\0".encode())
    assert look(fake, 7, plain_tmp) == [("path-too-long", False), ("no-socket", False), ("other-tmpdir", True)]


def test_a_path_too_long_only_for_other_tools(fake: FakeProc, short_tmp: Path, plain_tmp: Path) -> None:
    root = short_tmp / ("r" * 80)
    fake.process(70, mounts="mnt:[2]", root=root, environ=b"TMPDIR=/%s\0" % (b"d" * 70))
    fake.socket(root / ("d" * 70), "dotnet-diagnostic-70-1000-socket")
    assert ("path-too-long", True) in look(fake, 70, plain_tmp)


def test_a_tmpdir_that_is_missing(fake: FakeProc, plain_tmp: Path) -> None:
    fake.process(7, maps=CORECLR % b"8.0.33", environ=b"TMPDIR=/no/such/place\0")
    assert look(fake, 7, plain_tmp) == [("tmpdir-missing", False), ("no-socket", False), ("other-tmpdir", True)]


def test_no_socket(fake: FakeProc, plain_tmp: Path) -> None:
    fake.process(7, maps=CORECLR % b"8.0.33")
    assert look(fake, 7, plain_tmp) == [("no-socket", False)]
    (fake.process(8) / "maps").unlink()
    assert "whether it is a .NET process cannot be seen" in diagnose(8, proc=fake.path, tmpdir=str(plain_tmp))[0].text


def test_kind_of_process(fake: FakeProc) -> None:
    fake.process(1, maps=CORECLR % b"9.0.22")
    fake.process(2, maps=b"7f00-7f01 r-xp 0 08:01 12 /app/libclrjit.so\n")
    native = fake.process(3, maps=b"7f00-7f01 r-xp 0 08:01 12 /app/native\n")
    unreadable = fake.process(4)
    (unreadable / "maps").unlink()
    for folder, name in ((native, ".NET EventPipe\n"), (unreadable, ".NET SigHandler\n")):
        (folder / "task" / "9").mkdir(parents=True)
        (folder / "task" / "9" / "comm").write_text(name)
    kernel = fake.process(5)
    for name in ("cmdline", "maps"):
        (kernel / name).write_bytes(b"")
    (fake.process(6) / "maps").unlink()
    assert kind_of(1, fake.path) == RuntimeKind(dotnet=True, major=9)
    assert kind_of(2, fake.path) == RuntimeKind(dotnet=True)
    assert kind_of(3, fake.path) == RuntimeKind(dotnet=True, native=True)
    assert kind_of(4, fake.path) == RuntimeKind(dotnet=True)
    assert kind_of(5, fake.path) == RuntimeKind(dotnet=False)
    assert kind_of(6, fake.path) == RuntimeKind(dotnet=None)


def test_without_a_given_way_to_connect_a_real_one_is_made(plain_tmp: Path, short_tmp: Path, child_pid: int) -> None:
    real = FakeProc(short_tmp)
    real.socket(plain_tmp, f"dotnet-diagnostic-{os.getpid()}-0-socket")
    assert ("reachable", True) in codes(diagnose(os.getpid(), tmpdir=str(plain_tmp)))
    real.socket(plain_tmp, f"dotnet-diagnostic-{child_pid}-{processes.start_time_ticks(child_pid)}-socket")
    assert ("no-connection", False) in codes(diagnose(child_pid, tmpdir=str(plain_tmp)))
    real.close()


def test_a_failure_that_no_longer_shows_is_said_to_be_one() -> None:
    assert reason((Finding(code="reachable", ok=True, text="x", advice=""),)).code == "unknown"
    assert diagnosis.CONNECT_TIMEOUT_S > 0
    assert issubclass(ConnectFailed, ConnectionError)
