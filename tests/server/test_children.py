from __future__ import annotations

import copy
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dotnetdiag.server import children
from dotnetdiag.server.children import Children
from dotnetdiag.transport import processes
from dotnetdiag.transport.socket_names import router_socket_name, socket_name

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing forks there")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where this process would listen."""
    made = tmp_path / socket_name(os.getpid(), processes.start_time_ticks(os.getpid()) or 0)
    made.touch()
    return made


@pytest.fixture
def parent(monkeypatch: pytest.MonkeyPatch) -> Children:
    """This process, which is its own parent in these tests."""
    monkeypatch.setattr(os, "getppid", os.getpid)
    return Children()


@pytest.fixture
def all_have_ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(processes, "answers", lambda pid: False)
        yield


def child_of(parent: Children) -> Children:
    parent.before_fork()
    child = copy.copy(parent)
    child._forking = parent._forking.copy()
    child.in_child()
    parent.in_parent()
    return child


def test_what_a_child_has_noted_is_removed_when_it_has_ended(
    parent: Children, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child_of(parent).note(str(path))
    parent.remove_ended()
    assert path.exists()
    monkeypatch.setattr(processes, "answers", lambda pid: False)
    parent.remove_ended()
    assert not path.exists()


def test_another_process_of_its_number_is_not_the_child(
    parent: Children, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child_of(parent).note(str(path))
    monkeypatch.setattr(processes, "start_time_ticks", lambda pid: None)  # hidden: nobody knows
    parent.remove_ended()
    assert path.exists()
    monkeypatch.setattr(processes, "start_time_ticks", lambda pid: 1)
    parent.remove_ended()
    assert not path.exists()


def test_a_child_whose_main_thread_alone_has_ended_lives(
    parent: Children, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child_of(parent).note(str(path))
    monkeypatch.setattr(processes, "is_zombie", lambda pid: True)
    monkeypatch.setattr(processes, "task_ids", lambda pid: ["1", "2"])
    parent.remove_ended()
    assert path.exists()
    monkeypatch.setattr(processes, "task_ids", lambda pid: ["1"])
    parent.remove_ended()
    assert not path.exists()


@pytest.mark.usefixtures("all_have_ended")
def test_a_file_that_another_has_put_there_stays(parent: Children, path: Path) -> None:
    child_of(parent).note(str(path))
    (path.parent / "new").touch()
    (path.parent / "new").rename(path)
    parent.remove_ended()
    assert path.exists()


@pytest.mark.usefixtures("all_have_ended")
def test_names_that_another_process_may_have_are_not_noted(parent: Children, tmp_path: Path) -> None:
    pid, ticks = os.getpid(), processes.start_time_ticks(os.getpid()) or 0
    names = "mine", socket_name(pid, ticks + 1), socket_name(pid + 1, ticks), router_socket_name(pid, ticks)
    for name in names:
        (tmp_path / name).touch()
        child_of(parent).note(str(tmp_path / name))
    parent.remove_ended()
    assert len(list(tmp_path.iterdir())) == len(names)


@pytest.mark.usefixtures("all_have_ended")
def test_a_child_that_counts_processes_otherwise_notes_nothing(
    parent: Children, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = child_of(parent)
    monkeypatch.setattr(os, "getppid", lambda: 0)
    child.note(str(path))
    parent.remove_ended()
    assert path.exists()


@pytest.mark.usefixtures("all_have_ended")
def test_a_path_that_is_too_long_and_one_that_is_not_there_are_not_noted(parent: Children, path: Path) -> None:
    child = child_of(parent)
    child.note(str(path.parent / ("x" * 250) / path.name))
    child.note(str(path.parent / "x" / path.name))
    parent.remove_ended()
    assert path.exists()


def test_a_place_is_for_one_living_child_and_free_again_after_it(
    parent: Children, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "MOST_CHILDREN", 2)
    for _ in range(2):
        child_of(parent).note(str(path))
    late = child_of(parent)
    late.note(str(path))
    assert late._place is None
    monkeypatch.setattr(processes, "answers", lambda pid: False)
    parent.remove_ended()
    assert child_of(parent)._place is not None


@pytest.mark.usefixtures("all_have_ended")
def test_a_child_removes_nothing_of_its_siblings(parent: Children, path: Path) -> None:
    child_of(parent).note(str(path))
    child_of(parent).remove_ended()
    assert path.exists()


def test_nobody_looks_again_before_its_time(parent: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[float] = []
    monkeypatch.setattr(parent, "remove_ended", lambda: looked.append(children.LOOK_S))
    for limit_s in (0.0, 0.0, float("inf"), 0.0):
        monkeypatch.setattr(children, "LOOK_S", limit_s)
        parent.before_fork()
    assert looked == [0.0] * 3


def test_where_memory_is_lacking_the_fork_goes_on(parent: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    assert child_of(parent)._place is None
    parent.remove_ended()
