"""Noticing that something comes to a folder."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dotnetdiag.transport import arrivals
from dotnetdiag.transport.arrivals import Arrivals

linux = pytest.mark.skipif(not hasattr(os, "O_NONBLOCK") or arrivals._library() is None, reason="inotify of Linux")


@linux
def test_what_comes_ends_the_wait(tmp_path: Path) -> None:
    with Arrivals([str(tmp_path)]) as watch:
        assert watch.is_told
        assert not watch.wait(0)
        threading.Timer(0.05, (tmp_path / "x").touch).start()
        assert watch.wait(30)
        assert not watch.wait(0)


@linux
def test_what_came_between_two_waits_is_told_by_the_second_and_what_is_moved_there_too(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with Arrivals([str(tmp_path / "folder")]) as watch:
        for number in range(100):
            (tmp_path / f"{number}").touch()
        assert not watch.wait(0)
        (tmp_path / "0").rename(tmp_path / "folder" / "0")
        assert watch.wait(0)
        assert not watch.wait(0)


@linux
def test_folders_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    with Arrivals([str(tmp_path / "none"), str(tmp_path)]) as watch:
        (tmp_path / "x").touch()
        assert watch.wait(0)
    with Arrivals([str(tmp_path / "none")]) as watch:
        assert not watch.is_told


def test_where_nothing_is_told_a_wait_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "_library", lambda: None)
    monkeypatch.setattr(arrivals, "LOOK_S", 0.001)
    with Arrivals([str(tmp_path)]) as watch:
        assert not watch.is_told
        assert not watch.wait(600)


def test_a_watch_is_closed_twice(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else None
    watch = Arrivals([str(tmp_path)])
    watch.close()
    watch.close()
    if before is not None:
        assert len(os.listdir("/proc/self/fd")) == before
