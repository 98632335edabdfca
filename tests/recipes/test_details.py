"""Small changes of a runtime: looked at as a whole, then made."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn
from uuid import UUID

import pytest

from dotnetdiag.client import Client
from dotnetdiag.errors import BadEncoding, NotPossible, RuntimeTooOld, UnsupportedCommand, UsageError
from dotnetdiag.ipc.environment import SetEnvironmentVariable
from dotnetdiag.recipes.details import set_variables, startup_profiler
from dotnetdiag.testing import Runtime

Start = Callable[[str], tuple[Runtime, Client]]


@pytest.fixture
def start() -> Iterator[Start]:
    """A runtime of a release, with a variable ``OLD``, and a client of it."""
    with TemporaryDirectory() as folder, ExitStack() as stack:

        def begin(age: str) -> tuple[Runtime, Client]:
            runtime = stack.enter_context(Runtime(age, listen=f"{folder}/runtime", environment={"OLD": "1"}))
            return runtime, stack.enter_context(Client.connect(f"{folder}/runtime"))

        yield begin


def changes(runtime: Runtime) -> list[tuple[str | None, str | None]]:
    """What was asked to be changed."""
    asked = [one.request for one in runtime.asked]
    return [(one.name, one.value) for one in asked if isinstance(one, SetEnvironmentVariable)]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("A=1 B=2 C", "C: is no variable of the runtime"),
        ("A=1 OLD C D", "C, D: is no variable"),
        ("A=1 =2", "=2: write NAME=VALUE"),
        ("A=1 B=\udce9", "write NAME=VALUE"),
        ("A=1 OLD A=2", "A: is there twice"),
    ],
)
def test_a_wrong_assignment_is_named_and_nothing_is_set(words: str, problem: str, start: Start) -> None:
    runtime, client = start("9")
    with pytest.raises(UsageError) as wrong:
        set_variables(client, words.split())
    assert problem in str(wrong.value)
    assert changes(runtime) == []


def test_what_would_kill_a_native_aot_is_not_possible_and_nothing_is_set(start: Start) -> None:
    runtime, client = start("NativeAOT")
    with pytest.raises(NotPossible, match="kills a NativeAOT runtime"):
        set_variables(client, ["A=1", "OLD"])
    assert changes(runtime) == []


def test_variables_are_set_and_removed(start: Start) -> None:
    runtime, client = start("9")
    set_variables(client, ["A=1=2", "OLD", "B="])
    assert sorted(changes(runtime), key=str) == [("A", "1=2"), ("B", ""), ("OLD", None)]
    assert runtime.environment == {"A": "1=2", "B": ""}


class Startable(Client):
    """A runtime in this process that waits at startup, or does not, or is too old to say."""

    def __init__(self, suspended: bool | None) -> None:
        self.suspended = suspended
        self.registered: list[str] = []

    def target_pid(self, *, timeout_s: float | None = None, confirmed: bool = False) -> int:
        return os.getpid()

    def is_suspended(self) -> bool | None:
        return self.suspended

    def process_info(self) -> NoReturn:
        raise UnsupportedCommand("ProcessInfo", 0x80131385)

    def startup_profiler(self, clsid: UUID, path: str) -> None:
        if self.suspended is None:
            raise BadEncoding("StartupProfiler", 0x80131384)
        self.registered.append(path)


def test_a_runtime_that_runs_gets_no_profiler_for_its_start() -> None:
    client = Startable(False)
    with pytest.raises(UsageError, match="the runtime runs already"):
        startup_profiler(client, UUID(int=1), __file__)
    assert client.registered == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc")
def test_a_profiler_is_looked_for_where_the_target_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Startable(True)
    for path in (str(tmp_path / "no.so"), str(tmp_path), f"{__file__}/x"):
        with pytest.raises(UsageError, match="there is no such file where process"):
            startup_profiler(client, UUID(int=1), path)
    assert client.registered == []
    (tmp_path / "a.so").touch()
    (tmp_path / "link.so").symlink_to(tmp_path / "a.so")
    monkeypatch.chdir(tmp_path)
    for path in ("a.so", str(tmp_path / "a.so"), str(tmp_path / "link.so")):
        startup_profiler(client, UUID(int=1), path)
    assert len(client.registered) == 3


def test_a_runtime_without_profilers_at_startup_is_too_old() -> None:
    with pytest.raises(RuntimeTooOld):
        startup_profiler(Startable(None), UUID(int=1), __file__)
