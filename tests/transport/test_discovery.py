"""Discovery over a fake ``/proc`` with real sockets. "Hole (x)" is the letter in dotnet-tools.md §2.5."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dotnetdiag.errors import AmbiguousName
from dotnetdiag.transport import directories, discovery, processes
from dotnetdiag.transport.addresses import PipeAddress, UnixAddress
from dotnetdiag.transport.discovery import MOST_CANDIDATES, Endpoint, candidates, endpoints, pipe_endpoints
from dotnetdiag.transport.inside import resolve_inside

from .conftest import FakeProc, paths, reach, refusal

pytestmark = pytest.mark.usefixtures("no_leaks", "plain_tmp")


def test_a_process_without_tmpdir_is_found_by_a_tool_with_its_own(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path
) -> None:
    """Hole (a)."""
    fake.process(7)
    made = fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")
    found = reach(fake, 7, tool_tmp)
    assert found == Endpoint(
        pid=7,
        namespace_pid=7,
        address=UnixAddress(str(made)),
        key=1000,
        modified_ns=made.stat().st_mtime_ns,
        other_namespace=False,
        other_tmpdir=True,
        started_ticks=1000,
    )


def test_the_next_directory_is_tried_when_the_first_has_none(fake: FakeProc, short_tmp: Path, tool_tmp: Path) -> None:
    """Hole (b)."""
    (short_tmp / "theirs").mkdir()
    fake.process(7, environ=f"TMPDIR={short_tmp}/theirs\0".encode())
    fake.socket(tool_tmp, "dotnet-diagnostic-7-1000-socket")
    found = reach(fake, 7, tool_tmp)
    assert not found.other_tmpdir


def test_a_stale_socket_newer_than_the_live_one_loses(fake: FakeProc, plain_tmp: Path, tool_tmp: Path) -> None:
    """Hole (c), twice: by the key, and by trying where no key fits."""
    fake.process(7, start=1000)
    live = fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket", modified_s=1)
    fake.socket(plain_tmp, "dotnet-diagnostic-7-999-socket", stale=True)
    assert paths(candidates(7, proc=fake.path, tmpdir=str(tool_tmp)))[0] == str(live)
    fake.process(8, start=5)
    live = fake.socket(plain_tmp, "dotnet-diagnostic-8-0-socket", modified_s=1)
    stale = fake.socket(plain_tmp, "dotnet-diagnostic-8-999-socket", stale=True)
    assert paths(candidates(8, proc=fake.path, tmpdir=str(tool_tmp))) == [str(stale), str(live)]
    assert reach(fake, 8, tool_tmp).key == 0


def test_thousands_of_stale_sockets_cost_one_look_at_all_processes(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may leave them in /tmp. The live one is among those that are tried, which are few."""
    looks = 0
    real = processes.iter_pids

    def counted(proc: Path) -> Iterator[int]:
        nonlocal looks
        looks += 1
        return real(proc)

    fake.process(7, start=1000)
    fake.process(8)
    live = fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket", modified_s=1)
    for key in range(3 * MOST_CANDIDATES):
        fake.socket(plain_tmp, f"dotnet-diagnostic-7-{key}-socket", stale=True)
    monkeypatch.setattr(processes, "iter_pids", counted)
    found = paths(candidates(7, proc=fake.path, tmpdir=str(tool_tmp)))
    assert looks == 1
    assert len(found) == MOST_CANDIDATES
    assert found[0] == str(live)
    assert reach(fake, 7, tool_tmp).key == 1000


@pytest.mark.parametrize("link", ["/data/sockets", "../data/sockets", "/hop", "loop/../../data/sockets"])
def test_a_link_in_a_container_is_followed_inside_of_it(
    fake: FakeProc, short_tmp: Path, tool_tmp: Path, link: str
) -> None:
    """Hole (d): /run/link -> /data/sockets must not lead to /data/sockets of the host."""
    root = short_tmp / "box"
    (root / "run").mkdir(parents=True)
    (root / "run" / "link").symlink_to(link)
    (root / "run" / "loop").mkdir()
    (root / "hop").symlink_to("/data/./sockets")
    made = fake.socket(root / "data" / "sockets" / "deep", "dotnet-diagnostic-1-1000-socket")
    fake.process(70, inner=(1,), mounts="mnt:[2]", root=root, environ=b"TMPDIR=/run/link/deep\0")
    found = reach(fake, 70, tool_tmp)
    assert os.path.samefile(paths([found])[0], made)
    assert (found.pid, found.namespace_pid, found.other_namespace) == (70, 1, True)


def test_a_loop_of_links_is_given_up(fake: FakeProc, short_tmp: Path, tool_tmp: Path) -> None:
    root = short_tmp / "box"
    root.mkdir()
    (root / "a").symlink_to("/b")
    (root / "b").symlink_to("a")
    assert resolve_inside(str(root), "/a/x") is None
    fake.process(70, inner=(1,), mounts="mnt:[2]", root=root, environ=b"TMPDIR=/a\0")
    assert candidates(70, proc=fake.path, tmpdir=str(tool_tmp)) == []


@pytest.mark.parametrize(
    ("path", "inside"), [("/../../etc", "/etc"), ("/x/../y//./z/", "/y/z"), ("/", ""), ("/none/such", "/none/such")]
)
def test_no_path_leads_out_of_its_root(tmp_path: Path, path: str, inside: str) -> None:
    assert resolve_inside(str(tmp_path), path) == f"{tmp_path}{inside}"


def test_undecodable_tmpdir_and_blanks_in_nspid_are_no_obstacle(
    fake: FakeProc, short_tmp: Path, tool_tmp: Path
) -> None:
    """Hole (e)."""
    root = short_tmp / "box"
    directory = Path(os.fsdecode(os.fsencode(root) + b"/\xff\xfe dir"))
    folder = fake.process(70, inner=(1,), mounts="mnt:[2]", root=root, environ=b"TMPDIR=/\xff\xfe dir\0")
    (folder / "status").write_bytes(b"Tgid: 70\nNSpid: 70  1\n")
    fake.socket(directory, "dotnet-diagnostic-1-1000-socket")
    assert reach(fake, 70, tool_tmp).namespace_pid == 1


def test_a_dsrouter_is_found_by_its_own_name_and_preferred_when_newer(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path
) -> None:
    """Hole (f)."""
    fake.process(7)
    plain = fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket", modified_s=50)
    router = fake.socket(plain_tmp, "dotnet-diagnostic-dsrouter-7-1700000000-socket", modified_s=50)
    assert paths(candidates(7, proc=fake.path, tmpdir=str(tool_tmp))) == [str(router), str(plain)]
    found = reach(fake, 7, tool_tmp)
    assert found.dsrouter
    assert found.key == 1700000000
    os.utime(router, (49, 49))
    assert paths(candidates(7, proc=fake.path, tmpdir=str(tool_tmp))) == [str(plain), str(router)]


def test_a_relative_tmpdir_is_relative_to_the_target(fake: FakeProc, short_tmp: Path, tool_tmp: Path) -> None:
    fake.process(7, environ=b"TMPDIR=sub/dir\0", cwd=f"{short_tmp}/work")
    fake.socket(short_tmp / "work" / "sub" / "dir", "dotnet-diagnostic-7-1000-socket")
    assert reach(fake, 7, tool_tmp).other_tmpdir


def test_an_empty_tmpdir_is_the_plain_one(fake: FakeProc, plain_tmp: Path, tool_tmp: Path) -> None:
    fake.process(7, environ=b"TMPDIR=\0")
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")
    assert reach(fake, 7, tool_tmp).key == 1000
    wanted = discovery.Search(fake.path, str(tool_tmp)).views.of(7)
    assert wanted is not None
    assert "/" in discovery.Search(fake.path, str(tool_tmp)).own_directories(wanted), "NativeAOT"


def test_a_process_whose_environment_is_closed_is_found_in_the_usual_places(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path
) -> None:
    fake.process(7, environ=None)
    fake.process(8, environ=None)
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")
    fake.socket(tool_tmp, "dotnet-diagnostic-8-1000-socket")
    assert reach(fake, 7, tool_tmp).pid == 7
    assert reach(fake, 8, tool_tmp).pid == 8


def test_a_container_is_reached_by_host_pid_and_by_inner_pid(fake: FakeProc, short_tmp: Path, tool_tmp: Path) -> None:
    root = short_tmp / "box"
    fake.process(70, inner=(5, 2), mounts="mnt:[2]", root=root, environ=f"TMPDIR=/{'t' * 120}\0".encode())
    fake.socket(root / ("t" * 120), "dotnet-diagnostic-2-1000-socket")
    assert reach(fake, 70, tool_tmp) == reach(fake, 2, tool_tmp)
    fake.process(2, comm="kthreadd")
    assert reach(fake, 2, tool_tmp).pid == 70, "a host process of that number without a socket is no obstacle"


def test_an_inner_pid_that_several_containers_have_lists_the_choices(
    fake: FakeProc, short_tmp: Path, tool_tmp: Path
) -> None:
    for pid in (70, 80):
        root = short_tmp / f"box{pid}"
        fake.process(pid, inner=(1,), mounts=f"mnt:[{pid}]", root=root)
        fake.socket(Path(f"{root}{short_tmp}/tmp"), "dotnet-diagnostic-1-1000-socket")
    with pytest.raises(AmbiguousName) as caught:
        candidates(1, proc=fake.path, tmpdir=str(tool_tmp))
    assert caught.value.pids == (70, 80)
    assert "70, 80" in refusal(fake, 1, tool_tmp)


def test_containers_that_share_a_directory_are_told_apart_by_the_key(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path
) -> None:
    """Ours is 7, and so are two others in their own namespaces, all with the same /tmp."""
    fake.process(7, start=100)
    fake.process(70, start=200, inner=(7,))
    fake.process(80, start=300, inner=(7,), mounts="mnt:[2]")
    sockets = {start: fake.socket(plain_tmp, f"dotnet-diagnostic-7-{start}-socket") for start in (200, 300, 400)}
    assert paths(candidates(70, proc=fake.path, tmpdir=str(tool_tmp))) == [str(sockets[200])]
    found = paths(candidates(80, proc=fake.path, tmpdir=str(tool_tmp)))
    assert [os.path.samefile(path, sockets[300]) for path in found] == [True]
    # 400 is nobody's that we see: it can only be tried, last. 200 and 300 are not even candidates.
    assert paths(candidates(7, proc=fake.path, tmpdir=str(tool_tmp))) == [str(sockets[400])]


def test_sockets_of_dead_processes_and_files_that_are_none_are_left_out(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path
) -> None:
    fake.process(7)
    fake.process(9)
    good = fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")
    fake.socket(plain_tmp, "dotnet-diagnostic-8-1000-socket")
    (plain_tmp / "dotnet-diagnostic-7-1001-socket").touch()
    for name in (
        "x-dotnet-diagnostic-9-1-socket",
        "dotnet-diagnostic-9-1-socket.bak",
        "dotnet-diagnostic-٩-1-socket",
        "dotnet-diagnostic-",
        "dotnet-diagnostic-9",
    ):
        fake.socket(plain_tmp, name)
    fake.socket(plain_tmp, "clr-debug-pipe-7-1000-in")
    fake.socket(plain_tmp, "dotnet-diagnostic-99999999999-1-socket")
    assert paths(endpoints(proc=fake.path, tmpdir=str(tool_tmp))) == [str(good)]


def test_a_socket_seen_by_two_paths_is_one_candidate(fake: FakeProc, plain_tmp: Path, tool_tmp: Path) -> None:
    fake.process(7, environ=f"TMPDIR={plain_tmp}//.\0".encode())
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")
    assert len(candidates(7, proc=fake.path, tmpdir=f"{plain_tmp}/")) == 1


def test_garbage_in_proc_hides_nobody_else(fake: FakeProc, plain_tmp: Path, tool_tmp: Path) -> None:
    fake.process(7)
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")
    for pid in (5, 6):
        folder = fake.process(pid)
        for name in ("stat", "status", "environ"):
            (folder / name).write_bytes(b"\xff\0TMPDIR=\0)(\nNSpid:\tx\xfe\n")
        fake.socket(plain_tmp, f"dotnet-diagnostic-{pid}-1-socket", stale=True)
    (fake.path / "4").mkdir()
    assert {endpoint.pid for endpoint in endpoints(proc=fake.path, tmpdir=str(tool_tmp))} == {5, 6, 7}
    assert reach(fake, 7, tool_tmp).pid == 7


def test_a_directory_that_does_not_change_is_listed_once(
    fake: FakeProc, plain_tmp: Path, tool_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty threads that each listed a full /tmp took minutes."""
    listdir = os.listdir
    listed: list[str] = []

    def counted(path: str) -> list[str]:
        if path == str(plain_tmp):
            listed.append(path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", counted)
    fake.process(7)
    fake.socket(plain_tmp, "dotnet-diagnostic-7-1000-socket")

    def found() -> list[str]:
        return paths(candidates(7, proc=fake.path, tmpdir=str(plain_tmp)))

    assert len(found()) == len(found()) == 1
    assert len(listed) == 2, "its clock may be too coarse to tell of what comes next"
    monkeypatch.setattr(directories, "SETTLED_NS", 0)
    assert [len(found()) for _ in range(50)] == [1] * 50
    assert len(listed) == 3
    other = fake.socket(plain_tmp, "dotnet-diagnostic-7-999-socket")
    assert len(found()) == 2
    other.unlink()
    assert len(found()) == 1
    assert len(listed) == 5


def test_without_proc_the_temp_directories_are_listed(short_tmp: Path, tool_tmp: Path, fake: FakeProc) -> None:
    fake.socket(tool_tmp, f"dotnet-diagnostic-{os.getpid()}-1-socket", modified_s=1)
    newest = fake.socket(tool_tmp, f"dotnet-diagnostic-{os.getpid()}-2-socket")
    fake.socket(tool_tmp, "dotnet-diagnostic-4194999-1-socket")
    found = endpoints(proc=short_tmp / "no proc", tmpdir=str(tool_tmp))
    assert [endpoint.key for endpoint in found] == [2, 1]
    assert paths(candidates(os.getpid(), proc=short_tmp / "no proc", tmpdir=str(tool_tmp)))[0] == str(newest)


def test_windows_pipes_are_endpoints_too() -> None:
    names = [
        "dotnet-diagnostic-9",
        "dotnet-diagnostic-7",
        "other",
        "dotnet-diagnostic-dsrouter-7",
        "dotnet-diagnostic-x",
    ]
    found = pipe_endpoints(names)
    assert [(endpoint.pid, endpoint.dsrouter) for endpoint in found] == [(7, True), (7, False), (9, False)]
    assert found[1].address == PipeAddress("dotnet-diagnostic-7")


def test_the_tools_temp_directory_follows_the_rule_of_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert discovery.tool_tmpdir() == "/elsewhere"
    monkeypatch.setenv("TMPDIR", "")
    assert discovery.tool_tmpdir() == discovery.DEFAULT_TMPDIR
