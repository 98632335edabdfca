"""Verdicts by the names of threads; ``tests/live/test_suspension.py`` asks the same of real runtimes."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotnetdiag.transport import suspension
from dotnetdiag.transport.suspension import HELD, SERVING, WAITING, is_suspended

from .conftest import FakeProc

SYNCH, PIPE, FINALIZER = ".NET SynchManag", ".NET EventPipe", ".NET Finalizer"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suspension, "PAUSE_S", 0)


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        (["app", SYNCH, PIPE], True),
        (["app", PIPE, SYNCH, PIPE], True),
        (["app", SYNCH, PIPE, ".NET DebugPipe"], False),
        (["app", SYNCH, PIPE, FINALIZER], False),
        (["renamed main", SYNCH, PIPE, "renamed finalizer", ".NET SigHandler"], False),
        (["host", SYNCH, PIPE, "host worker"], None),
        (["app", SYNCH], None),
        (["aot", "aot"], True),
        (["aot", "aot", "aot", ".NET SigHandler"], False),
        (["dotnet", "dotnet", "dotnet"], None),
        (["app"], None),
        ([], None),
    ],
)
def test_verdicts(fake: FakeProc, names: list[str], verdict: bool | None) -> None:
    fake.process(7)
    for number, name in enumerate(names):
        fake.thread(7, 7 + number, name)
    assert is_suspended(7, fake.path) is verdict


@pytest.mark.parametrize(
    ("statuses", "verdict"),
    [
        (["S 5", "S 5"], True),
        (["S 5", "S 6", "S 6"], True),
        (["R 5", "R 5", "S 6", "S 6"], True),
        (["R 5"], None),
        (["D 5"], None),
        (["T 5"], None),
    ],
)
def test_a_main_thread_that_does_not_sleep_on_is_on_its_way(
    fake: FakeProc, monkeypatch: pytest.MonkeyPatch, statuses: list[str], verdict: bool | None
) -> None:
    fake.process(7)
    for number, name in enumerate(["app", SYNCH, PIPE]):
        fake.thread(7, 7 + number, name)

    def tell(_: float = 0) -> None:
        state, switches = (statuses.pop(0) if len(statuses) > 1 else statuses[0]).split()
        text = f"Name:\tapp\nState:\t{state} (x)\nvoluntary_ctxt_switches:\t{switches}\n"
        (fake.path / "7" / "task" / "7" / "status").write_text(text)

    tell()
    monkeypatch.setattr("time.sleep", tell)
    assert is_suspended(7, fake.path) is verdict


def test_a_runtime_that_is_still_starting_is_waited_for(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.process(7)
    fake.thread(7, 7, "app")
    fake.thread(7, 8, SYNCH)
    pauses: list[float] = []

    def sleep(_: float) -> None:
        if not pauses:
            fake.thread(7, 9, PIPE)
        pauses.append(1)

    monkeypatch.setattr("time.sleep", sleep)
    assert is_suspended(7, fake.path) is True
    assert len(pauses) == 2


def test_a_runtime_that_goes_on_meanwhile_is_not_suspended(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.process(7)
    for number, name in enumerate(["app", SYNCH, PIPE]):
        fake.thread(7, 7 + number, name)
    monkeypatch.setattr("time.sleep", lambda _: fake.thread(7, 20, FINALIZER))
    assert is_suspended(7, fake.path) is False


def test_without_proc_it_cannot_be_told(tmp_path: Path) -> None:
    assert is_suspended(7, tmp_path / "none") is None


def serving(fake: FakeProc, *names: str) -> None:
    fake.process(7, comm="python")
    for number, name in enumerate(("python", *names)):
        fake.thread(7, 7 + number, name)


@pytest.mark.parametrize(
    ("names", "verdict"),
    [
        ((SERVING,), False),
        ((WAITING,), True),
        ((HELD,), None),
        (("python", SERVING), False),
        (("python", WAITING, "python"), True),
        ((SERVING, SYNCH, PIPE, FINALIZER), False),
        ((WAITING, SYNCH, PIPE, FINALIZER), False),
    ],
)
def test_python_that_serves_says_it_itself(fake: FakeProc, names: tuple[str, ...], verdict: bool | None) -> None:
    serving(fake, *names)
    assert is_suspended(7, fake.path) is verdict


def test_python_that_is_about_to_wait_is_looked_at_twice(fake: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    serving(fake, SERVING)
    monkeypatch.setattr("time.sleep", lambda _: (fake.path / "7" / "task" / "8" / "comm").write_text(f"{WAITING}\n"))
    assert is_suspended(7, fake.path) is True


@pytest.mark.parametrize(
    ("comm", "exe", "maps"),
    [
        ("python3", "", b""),
        ("gunicorn", "/usr/bin/python3.11", b""),
        ("host", "/bin/host", b"7f00-7f01 r-xp 00000000 08:01 9 /usr/lib/libpython3.11.so.1.0\n"),
        ("pypy3", "", b""),
    ],
)
def test_python_of_two_threads_does_not_pass_for_native_aot_that_waits(
    fake: FakeProc, comm: str, exe: str, maps: bytes
) -> None:
    fake.process(7, comm=comm, maps=maps)
    if exe:
        fake.link("7", "exe", exe)
    for number in (7, 8):
        fake.thread(7, number, comm)
    assert is_suspended(7, fake.path) is None
