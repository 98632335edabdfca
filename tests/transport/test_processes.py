from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dotnetdiag.errors import TransportError
from dotnetdiag.transport import processes

from .conftest import FakeProc

READERS: list[Callable[[int, Path], object]] = [
    processes.start_time_ticks,
    processes.namespace_pids,
    processes.environ,
    processes.argv,
    processes.comm,
    processes.cwd,
    processes.uid,
    processes.uptime_s,
    processes.mapped_files,
]


def test_our_own_process_reads_back() -> None:
    pid = os.getpid()
    assert pid in set(processes.iter_pids())
    assert processes.exists(pid)
    assert (processes.start_time_ticks(pid) or 0) > 0
    assert (processes.namespace_pids(pid) or (0,))[0] == pid
    assert (processes.environ(pid) or {}).get(b"PATH") is not None
    assert processes.cwd(pid) == os.getcwd()
    assert processes.uid(pid) == os.geteuid()
    assert processes.argv(pid)
    assert processes.comm(pid)
    assert 0 <= (processes.uptime_s(pid) or -1) < 86400
    assert processes.thread_names(pid)
    assert any(name.endswith(".so") or ".so." in name for name in processes.mapped_files(pid) or ())
    assert not processes.is_zombie(pid)


@pytest.mark.parametrize("reader", READERS)
def test_a_vanished_process_is_none(reader: Callable[[int, Path], object], tmp_path: Path) -> None:
    assert reader(7, tmp_path) is None
    (tmp_path / "7").mkdir()
    assert reader(7, tmp_path) is None
    assert reader(7, tmp_path / "no such directory") is None


def test_no_proc_has_no_processes(tmp_path: Path) -> None:
    assert list(processes.iter_pids(tmp_path / "none")) == []
    assert processes.thread_names(7, tmp_path) == ()
    assert not processes.exists(7, tmp_path)


@pytest.mark.parametrize("comm", ["a b", "a) R 1 2 (b", "))))", "(", ""])
def test_start_time_is_field_22_after_the_last_parenthesis(fake: FakeProc, comm: str) -> None:
    fake.process(7, start=4242, comm=comm)
    assert processes.start_time_ticks(7, fake.path) == 4242


@pytest.mark.parametrize("line", [b"NSpid:\t7\t3\t1\n", b"NSpid: 7 3 1\n", b"NSpid:7 \t 3\t\t1"])
def test_namespace_pids_are_split_on_any_whitespace(fake: FakeProc, line: bytes) -> None:
    (fake.process(7) / "status").write_bytes(b"Name:\tx\n" + line)
    assert processes.namespace_pids(7, fake.path) == (7, 3, 1)


@pytest.mark.parametrize("line", [b"", b"NSpid:\n", b"NSpid:\tx\t1\n", b"NSpid:\t-7\n", b"\xff\xfe\n"])
def test_a_status_without_namespace_pids_means_our_own(fake: FakeProc, line: bytes) -> None:
    (fake.process(7) / "status").write_bytes(line)
    assert processes.namespace_pids(7, fake.path) == (7,)


def test_undecodable_tmpdir_can_still_be_opened(fake: FakeProc) -> None:
    fake.process(7, environ=b"A=1\0TMPDIR=/tmp/\xff\xe9\0TMPDIR=/second\0=x\0noequals\0\0")
    assert processes.environ(7, fake.path) == {b"A": b"1", b"TMPDIR": b"/tmp/\xff\xe9"}


def test_a_name_may_begin_with_an_equals_sign(fake: FakeProc) -> None:
    """As the current directories of Windows programs do, under Wine too."""
    fake.process(7, environ=b"=C:=C:\\app=1\0A==B\0=\0==\0")
    assert processes.environ(7, fake.path) == {b"=C:": b"C:\\app=1", b"A": b"=B", b"=": b""}


@given(st.lists(st.sampled_from([b"A=1", b"TMPDIR=/x", b"TMPDIR=", b"XTMPDIR=/y", b"A=TMPDIR=/z", b"TMPDIR", b""])))
def test_the_first_of_a_name_in_an_environment_counts(entries: list[bytes]) -> None:
    whole: dict[bytes, bytes] = {}
    for entry in entries:
        name, equals, value = entry.partition(b"=")
        if equals:
            whole.setdefault(name, value)
    with TemporaryDirectory() as folder:
        (Path(folder) / "7").mkdir()
        for block in (b"\0".join(entries), b"".join(entry + b"\0" for entry in entries)):
            (Path(folder) / "7" / "environ").write_bytes(block)
            assert processes.environ(7, Path(folder)) == whole


def test_a_kernel_thread_is_readable_and_empty(fake: FakeProc) -> None:
    folder = fake.process(7)
    for name in ("environ", "cmdline", "maps"):
        (folder / name).write_bytes(b"")
    assert processes.environ(7, fake.path) == {}
    assert processes.argv(7, fake.path) == ()
    assert processes.mapped_files(7, fake.path) == frozenset()


def test_empty_arguments_stay_in_the_command_line(fake: FakeProc) -> None:
    (fake.process(7) / "cmdline").write_bytes(b"a\0\0b c\0")
    assert processes.argv(7, fake.path) == ("a", "", "b c")


def test_the_id_of_a_thread_is_no_process(fake: FakeProc) -> None:
    (fake.process(8) / "status").write_text("Tgid:\t7\nPid:\t8\n")
    assert not processes.exists(8, fake.path)


def test_mapped_files_keep_blanks_and_forget_deleted(fake: FakeProc) -> None:
    maps = (
        b"7f00-7f01 r-xp 00000000 08:01 12 /a dir/libcoreclr.so\n7f00-7f01 rw-p 0 00:00 0 \n"
        b"7f02-7f03 r-xp 0 0:0 0 [vdso]\n7f04-7f05 r--p 0 0:1 5 /x (deleted)\ngarbage\n"
    )
    fake.process(7, maps=maps)
    assert processes.mapped_files(7, fake.path) == frozenset({"/a dir/libcoreclr.so", "/x"})


def test_uptime_counts_from_the_start_and_never_below_zero(fake: FakeProc) -> None:
    (fake.path / "uptime").write_text("500.25 900.00\n")
    ticks = os.sysconf("SC_CLK_TCK")
    fake.process(7, start=100 * ticks)
    fake.process(8, start=1000 * ticks)
    assert processes.uptime_s(7, fake.path) == 400.25
    assert processes.uptime_s(8, fake.path) == 0
    (fake.path / "uptime").write_text("soon\n")
    assert processes.uptime_s(7, fake.path) is None


@given(st.binary(max_size=300))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_garbage_in_every_file_raises_nothing(tmp_path: Path, data: bytes) -> None:
    folder = tmp_path / "7"
    folder.mkdir(exist_ok=True)
    for name in ("stat", "status", "environ", "cmdline", "comm", "maps"):
        (folder / name).write_bytes(data)
    (tmp_path / "uptime").write_bytes(data)
    for reader in READERS:
        reader(7, tmp_path)
    processes.is_zombie(7, tmp_path)
    processes.exists(7, tmp_path)


@pytest.mark.parametrize(("state", "stopped"), [("T", True), ("t", False), ("S", False), ("R", False)])
def test_only_a_signal_stops(fake: FakeProc, state: str, stopped: bool) -> None:
    fake.process(7, state=state)
    assert processes.is_stopped(7, fake.path) is stopped
    assert not processes.is_stopped(8, fake.path)


def test_our_capabilities(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    status = fake.path / "self" / "status"
    status.write_text("CapPrm:\tffffffffffffffff\nCapEff:\t0000000000080000\n")
    assert processes.has_capability(19, fake.path)
    assert not processes.has_capability(18, fake.path)
    for user in (0, 1000):
        status.write_text("CapEff:\tx\n")
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert processes.has_capability(19, fake.path) is (user == 0)


def test_what_our_own_proc_shows_is_not_hidden(fake: FakeProc) -> None:
    assert not processes.is_hidden(os.getpid())
    assert not processes.is_hidden(os.getpid(), fake.path), "another /proc than ours says nothing of our processes"
    assert not processes.is_hidden(999999999)
    assert not processes.is_hidden(0)


def test_the_main_thread_comes_first(fake: FakeProc) -> None:
    fake.process(9)
    for thread_id, name in ((10, "b"), (9, "main"), (8, "a")):
        fake.thread(9, thread_id, name)
    assert processes.thread_names(9, fake.path)[0] == "main"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.EACCES])
def test_a_shortage_of_descriptors_is_not_taken_for_the_end_of_a_process(
    number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(processes, "open", none_left, raising=False)
    if number == errno.EACCES:
        assert processes.start_time_ticks(os.getpid()) is None
    else:
        with pytest.raises(TransportError, match="no free file descriptor left"):
            processes.start_time_ticks(os.getpid())


@pytest.mark.parametrize(
    ("root", "link", "path"),
    [
        ("/", "/work", "/work"),
        ("/jail", "/jail/work", "/work"),
        ("/jail", "/jail", "/"),
        ("/jail", "/jailor", "/jailor"),
        ("/jail", "/jail/work (deleted)", "/work"),
        ("/", "/", "/"),
        (None, "/work", "/work"),
    ],
)
def test_a_working_directory_is_what_the_process_itself_calls_it(
    tmp_path: Path, root: str | None, link: str, path: str
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cwd").symlink_to(link)
    if root is not None:
        (tmp_path / "7" / "root").symlink_to(root)
    assert processes.cwd(7, tmp_path) == path
