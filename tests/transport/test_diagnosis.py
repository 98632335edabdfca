from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from dotnetdiag.errors import (
    ConnectFailed,
    NoDiagnostics,
    ProcessNotFound,
    TargetStopped,
    TimedOut,
    TransportError,
    UsageError,
)
from dotnetdiag.transport import diagnosis, processes
from dotnetdiag.transport.connecting import connect
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.diagnosis import Finding, RuntimeKind, diagnose, kind_of, reason, switched_off_by
from dotnetdiag.transport.discovery import Endpoint

from .conftest import FakeProc, connect_pid

pytestmark = pytest.mark.usefixtures("no_leaks", "plain_tmp")

CORECLR = b"7f00-7f01 r-xp 00000000 08:01 12 /usr/share/dotnet/shared/Microsoft.NETCore.App/%s/libcoreclr.so\n"


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


@pytest.mark.parametrize(("comm", "cmdline"), [("python3.12", b""), ("gunicorn", b"/usr/bin/python3\0gunicorn\0")])
def test_a_python_program_is_told_what_would_let_it_be_looked_at(
    comm: str, cmdline: bytes, fake: FakeProc, plain_tmp: Path
) -> None:
    folder = fake.process(7, comm=comm, maps=b"7f00-7f01 r-xp 0 08:01 12 /usr/bin/python3\n")
    (folder / "cmdline").write_bytes(cmdline)
    assert look(fake, 7, plain_tmp) == [("not-dotnet", False)]
    (finding,) = diagnose(7, proc=fake.path, tmpdir=str(plain_tmp))
    assert "`python -m dotnetdiag.server`" in finding.advice


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


@pytest.mark.parametrize(
    ("user", "effective", "advice"),
    [
        (1000, "0000000000000000", "run as its user or as root"),
        (1000, "0000000000080002", "run as root of the host, outside of any container"),
        (0, "0000000000000000", "give this tool CAP_DAC_OVERRIDE and CAP_SYS_PTRACE"),
        (0, "0000000000000002", "give this tool CAP_SYS_PTRACE"),
        (0, "000001ffffffffff", "run as root of the host, outside of any container"),
    ],
)
def test_nobody_is_advised_what_they_have(
    fake: FakeProc, plain_tmp: Path, monkeypatch: pytest.MonkeyPatch, user: int, effective: str, advice: str
) -> None:
    (fake.path / "self" / "status").write_text(f"Name:\tx\nCapEff:\t{effective}\n")
    fake.process(7, environ=None, uid=user, maps=CORECLR % b"8.0.33")
    monkeypatch.setattr(os, "geteuid", lambda: user)
    (finding,) = diagnose(7, proc=fake.path, tmpdir=str(plain_tmp))
    assert (finding.code, finding.advice) == ("no-socket", advice)
    assert "environment" in finding.text


def test_root_without_capabilities_is_told_whose_process_it_is(
    fake: FakeProc, plain_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fake.path / "self" / "status").write_text("CapEff:\t0000000000000000\n")
    fake.process(7, uid=12345, maps=CORECLR % b"8.0.33")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    finding = diagnose(7, proc=fake.path, tmpdir=str(plain_tmp))[0]
    assert (finding.code, finding.advice) == ("other-user", "give this tool CAP_DAC_OVERRIDE and CAP_SYS_PTRACE")


def test_a_process_that_proc_hides_is_there(fake: FakeProc, plain_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``hidepid=2`` shows nothing of it, ``hidepid=1`` an empty folder."""

    def kill(pid: int, _: int) -> None:
        raise PermissionError if pid in (7, 8) else ProcessLookupError

    monkeypatch.setattr(os, "kill", kill)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(processes, "PROC", fake.path)
    (fake.path / "8").mkdir()
    assert look(fake, 7, plain_tmp) == [("hidden", False)]
    assert look(fake, 8, plain_tmp)[0] == ("hidden", False)
    assert look(fake, 9, plain_tmp) == [("no-such-process", False)]
    fake.socket(plain_tmp, "dotnet-diagnostic-8-1000-socket")
    assert look(fake, 8, plain_tmp) == [("reachable", True)], "no permission to look is no obstacle to connecting"


def test_where_there_is_no_proc_a_process_without_a_socket_is_no_missing_one(plain_tmp: Path, tmp_path: Path) -> None:
    assert codes(diagnose(os.getpid(), proc=tmp_path / "none", tmpdir=str(plain_tmp))) == [("no-socket", False)]
    assert codes(diagnose(999999999, proc=tmp_path / "none", tmpdir=str(plain_tmp))) == [("no-such-process", False)]


def deny_listing(monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
    listdir = os.listdir

    def denying(path: object = ".") -> list[str]:
        if str(path) == str(directory):
            raise PermissionError(errno.EACCES, "Permission denied")
        return listdir(str(path))

    monkeypatch.setattr(os, "listdir", denying)


def test_a_directory_that_we_may_not_list_is_named_and_a_socket_in_it_found(
    fake: FakeProc, short_tmp: Path, plain_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = short_tmp / "theirs"
    theirs.mkdir()
    deny_listing(monkeypatch, theirs)
    fake.process(7, maps=CORECLR % b"8.0.33", environ=b"TMPDIR=%s\0" % os.fsencode(theirs))
    findings = diagnose(7, proc=fake.path, tmpdir=str(plain_tmp))
    assert findings[0].code == "permission-denied"
    assert str(theirs) in findings[0].text
    fake.socket(theirs, "dotnet-diagnostic-7-1000-socket")
    assert look(fake, 7, plain_tmp)[-1] == ("reachable", True)


def test_a_socket_that_an_earlier_process_of_the_number_left_makes_nobody_dotnet(
    fake: FakeProc, plain_tmp: Path
) -> None:
    fake.process(7, comm="sleep", start=2000, maps=b"7f00-7f01 r-xp 0 08:01 12 /bin/sleep\n")
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket", stale=True, modified_s=1)
    assert look(fake, 7, plain_tmp) == [("not-dotnet", False)]
    assert "sleep" in diagnose(7, proc=fake.path, tmpdir=str(plain_tmp))[0].text


def test_a_stopped_process(fake: FakeProc, plain_tmp: Path) -> None:
    fake.process(7, state="T", maps=CORECLR % b"8.0.33")
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")
    (finding,) = diagnose(7, proc=fake.path, tmpdir=str(plain_tmp))
    assert (finding.code, finding.advice) == ("stopped", "continue it: kill -CONT 7")
    fake.process(8, state="T", maps=CORECLR % b"8.0.33")
    with pytest.raises(TargetStopped):
        connect_pid(8, Deadline(10), proc=fake.path, tmpdir=str(plain_tmp))


def test_findings_have_three_levels_and_a_warning_is_no_failure() -> None:
    assert Finding(code="x", ok=True, text="", advice="").level == "ok"
    assert Finding(code="x", ok=False, text="", advice="").level == "failure"
    assert Finding(code="x", ok=True, text="", advice="", level="warning").level == "warning"
    for ok, level in ((False, "warning"), (False, "ok"), (True, "failure")):
        with pytest.raises(UsageError):
            Finding(code="x", ok=ok, text="", advice="", level=level)  # type: ignore[arg-type]


def test_no_finding_speaks_of_a_command_line() -> None:
    assert not re.search(r"dotnetdiag [a-z]|--[a-z]", Path(diagnosis.__file__).read_text(encoding="utf-8"))


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
    findings = diagnose(70, proc=fake.path, tmpdir=str(plain_tmp), try_connect=lambda _: None)
    levels = {finding.code: finding.level for finding in findings}
    assert levels == {"other-namespace": "ok", "other-tmpdir": "ok", "path-too-long": "warning", "reachable": "ok"}


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
    fake.process(3, maps=b"7f00-7f01 r-xp 0 08:01 12 /app/native\n")
    unreadable = fake.process(4)
    (unreadable / "maps").unlink()
    fake.thread(3, 9, ".NET EventPipe")
    fake.thread(4, 9, ".NET SigHandler")
    kernel = fake.process(5)
    for name in ("cmdline", "maps"):
        (kernel / name).write_bytes(b"")
    (fake.process(6) / "maps").unlink()
    (fake.process(8) / "maps").unlink()
    (fake.path / "8" / "cmdline").unlink()
    assert kind_of(1, fake.path) == RuntimeKind(dotnet=True, major=9)
    assert kind_of(2, fake.path) == RuntimeKind(dotnet=True)
    assert kind_of(3, fake.path) == RuntimeKind(dotnet=True, native=True)
    assert kind_of(4, fake.path) == RuntimeKind(dotnet=True)
    assert kind_of(5, fake.path) == RuntimeKind(dotnet=False)
    assert kind_of(6, fake.path) == RuntimeKind(dotnet=None)
    assert kind_of(8, fake.path) == RuntimeKind(dotnet=None), "nothing of it can be read"


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
