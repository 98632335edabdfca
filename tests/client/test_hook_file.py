"""A hook's file is looked at as the target sees it; what is no regular file is refused."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.client.assemblies import X64, assembly
from tests.client.hooks import UNUSABLE, USABLE

from dotnetdiag.assemblies import hook_file
from dotnetdiag.assemblies.hook_file import target_machine
from dotnetdiag.client import Client
from dotnetdiag.client.arguments import require_usable_hook
from dotnetdiag.errors import DangerousRequest, RequestRefused

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc")

GOOD, BAD = USABLE["public"], UNUSABLE["not static"][0]
PID = 7


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of process 7. Beside it, in ours, lies a hook that it does not see."""
    root = tmp_path / "box"
    (root / "opt" / "deep").mkdir(parents=True)
    (root / "hook.dll").write_bytes(GOOD)
    (tmp_path / "proc" / str(PID)).mkdir(parents=True)
    (tmp_path / "proc" / str(PID) / "root").symlink_to(root)
    (tmp_path / "outside.dll").write_bytes(GOOD)
    monkeypatch.setattr(hook_file, "PROC", tmp_path / "proc")
    return root


def cause_of(path: str) -> BaseException | None:
    with pytest.raises(DangerousRequest, match=r"^ApplyStartupHook: .*kills .NET 9 and 10") as caught:
        require_usable_hook(path, PID)
    return caught.value.__cause__


def test_hook_is_taken(box: Path) -> None:
    require_usable_hook("/hook.dll", PID)
    (box / "hook.dll").write_bytes(BAD)
    assert cause_of("/hook.dll") is None


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("link.dll", "/hook.dll"),
        ("link.dll", "hook.dll"),
        ("link.dll", "./opt/../hook.dll"),
        ("link.dll", "../../../hook.dll"),  # the root is its own parent
        ("opt/link.dll", "/hook.dll"),
        ("opt/link.dll", "../hook.dll"),
        ("opt/deep/link.dll", "/opt/../../hook.dll"),
    ],
)
def test_links_are_followed_inside_of_the_root(box: Path, link: str, target: str) -> None:
    (box / link).symlink_to(target)
    require_usable_hook(f"/{link}", PID)
    (box / "hook.dll").rename(box / "gone.dll")
    assert isinstance(cause_of(f"/{link}"), FileNotFoundError)


def test_links_never_lead_out_of_the_root(box: Path) -> None:
    outside = box.parent / "outside.dll"
    for number, target in enumerate((str(outside), "../outside.dll", "/../outside.dll", "/..//.//../outside.dll")):
        (box / f"{number}.dll").symlink_to(target)
        assert isinstance(cause_of(f"/{number}.dll"), FileNotFoundError)
    (box / "out").symlink_to(box.parent)
    assert isinstance(cause_of("/out/outside.dll"), FileNotFoundError)
    assert isinstance(cause_of("/../outside.dll"), FileNotFoundError)
    assert isinstance(cause_of("/opt/../../outside.dll"), FileNotFoundError)


def test_dots_after_a_link_are_those_of_its_target(box: Path) -> None:
    """As the kernel has it, and every runtime (measured): not taken off the text."""
    (box / "other" / "deep").mkdir(parents=True)
    (box / "opt" / "link").symlink_to("../other/deep")
    (box / "other" / "there.dll").write_bytes(GOOD)
    (box / "opt" / "text.dll").write_bytes(GOOD)
    require_usable_hook("/opt/link/../there.dll", PID)
    assert isinstance(cause_of("/opt/link/../text.dll"), FileNotFoundError)


@pytest.mark.parametrize(
    "path", ["//hook.dll", "/./hook.dll", "/opt/../hook.dll", "/opt//..//hook.dll", "/../../hook.dll"]
)
def test_paths_may_be_written_in_other_ways(box: Path, path: str) -> None:
    require_usable_hook(path, PID)


@pytest.mark.parametrize("path", ["/hook.dll/", "/hook.dll/.", "/hook.dll/../hook.dll", "/hook.dll/x"])
def test_a_file_is_no_folder(box: Path, path: str) -> None:
    assert isinstance(cause_of(path), NotADirectoryError)


def test_what_comes_of_dots_must_be_there_before(box: Path) -> None:
    assert isinstance(cause_of("/missing/../hook.dll"), FileNotFoundError)


def test_loops_of_links_end(box: Path) -> None:
    (box / "a").symlink_to("b")
    (box / "b").symlink_to("a")
    (box / "self").symlink_to("self/self")
    assert "symbolic links" in str(cause_of("/a"))
    assert "symbolic links" in str(cause_of("/self"))


def test_links_up_to_the_limit_of_the_kernel_are_followed(box: Path) -> None:
    (box / "0").symlink_to("hook.dll")
    for number in range(1, hook_file.MAX_LINKS + 1):
        (box / str(number)).symlink_to(str(number - 1))
    require_usable_hook(f"/{hook_file.MAX_LINKS - 1}", PID)
    assert "symbolic links" in str(cause_of(f"/{hook_file.MAX_LINKS}"))


def test_a_path_of_endless_parts_ends(box: Path) -> None:
    assert "too long" in str(cause_of("/." * hook_file.MAX_PARTS + "/hook.dll"))


def fifo(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def server(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


@pytest.mark.parametrize("make", [fifo, folder, server])
def test_what_is_no_regular_file_is_refused_at_once(box: Path, make: Callable[[Path], None]) -> None:
    make(box / "x")
    (box / "link").symlink_to("x")
    for path in ("/x", "/link"):
        assert "regular file" in str(cause_of(path)) or isinstance(cause_of(path), IsADirectoryError)


def test_fifo_is_not_waited_for_on_other_systems_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    os.mkfifo(tmp_path / "x")
    assert "regular file" in str(cause_of(str(tmp_path / "x")))
    (tmp_path / "hook.dll").write_bytes(GOOD)
    require_usable_hook(str(tmp_path / "hook.dll"), PID)


def test_links_of_proc_are_not_followed(box: Path) -> None:
    """``/proc/self`` is us when we look, and the target when it looks."""
    (box / "proc" / "7").mkdir(parents=True)
    (box / "proc" / "self").symlink_to("7")
    (box / "proc" / "7" / "hook.dll").write_bytes(GOOD)
    assert "/proc" in str(cause_of("/proc/self/hook.dll"))
    (box / "dev").symlink_to("proc/self")
    assert "/proc" in str(cause_of("/dev/hook.dll"))
    (box / "opt" / "link").symlink_to("/proc/self/hook.dll")
    assert "/proc" in str(cause_of("/opt/link"))
    (box / "opt" / "proc").mkdir()
    (box / "opt" / "proc" / "link").symlink_to("/hook.dll")
    for path in ("/proc/7/hook.dll", "/opt/proc/link", "/proc/../opt/proc/link"):
        require_usable_hook(path, PID)


def test_file_beyond_the_limit_is_not_read(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_file, "MAX_SIZE_BYTES", len(GOOD))
    require_usable_hook("/hook.dll", PID)
    monkeypatch.setattr(hook_file, "MAX_SIZE_BYTES", len(GOOD) - 1)
    with pytest.raises(DangerousRequest, match="it is too large"):
        require_usable_hook("/hook.dll", PID)


def test_file_that_we_may_not_read_is_refused(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        (box / "hook.dll").chmod(0)
        assert isinstance(cause_of("/hook.dll"), PermissionError)
        return
    for path in (box, *box.parents):  # root may read everything: as nobody, who may pass all folders but the last
        if path.stat().st_uid == 0 and path.stat().st_mode & 0o005 != 0o005 and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o005)
    (box / "opt" / "hook.dll").write_bytes(GOOD)
    (box / "opt").chmod(0o700)
    os.seteuid(65534)
    try:
        assert isinstance(cause_of("/opt/hook.dll"), PermissionError)
    finally:
        os.seteuid(0)


def test_process_that_is_gone_is_refused(box: Path) -> None:
    (box.parent / "proc" / str(PID) / "root").unlink()
    assert isinstance(cause_of("/hook.dll"), FileNotFoundError)


def test_target_known_only_by_its_address_is_refused() -> None:
    with pytest.raises(DangerousRequest, match="known only by its address"):
        require_usable_hook("/hook.dll", None)


def test_processor_and_version_of_the_target_are_compared(box: Path) -> None:
    exe = box.parent / "proc" / str(PID) / "exe"
    exe.write_bytes(b"\x7fELF".ljust(18, b"\0") + (183).to_bytes(2, "little"))
    (box / "hook.dll").write_bytes(assembly(machine=X64))
    with pytest.raises(DangerousRequest, match="built for x64, and the target runs on arm64"):
        require_usable_hook("/hook.dll", PID)
    exe.write_bytes(b"#!/bin/sh of nothing known")
    (box / "hook.dll").write_bytes(UNUSABLE["for a newer runtime"][0])
    require_usable_hook("/hook.dll", PID)
    with pytest.raises(DangerousRequest, match=r"built for .NET 11\.0, and the target runs 10\.0\.14"):
        require_usable_hook("/hook.dll", PID, runtime_version="10.0.14")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="expects x64")
def test_machine_of_a_process() -> None:
    assert target_machine(os.getpid()) == X64
    assert target_machine(0) is None


def test_handles_are_closed(box: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    require_usable_hook("/opt/deep/../../hook.dll", PID)
    cause_of("/opt/missing")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("path", ["hook.dll", "/a.dll:/b.dll", "/nonexistent/hook.dll", "/etc/passwd", ""])
def test_client_refuses_it_before_anything_is_sent(path: str) -> None:
    # our own process has no runtime: anything that got as far as connecting would raise TargetError instead
    with pytest.raises(RequestRefused, match="ApplyStartupHook") as caught:
        Client(os.getpid()).apply_startup_hook(path)
    assert isinstance(caught.value, DangerousRequest) or path == ""
