"""How a process sees the world, as far as it matters for finding its socket: its namespaces, its root, its TMPDIR."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.transport import processes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessView:
    """The view of one process."""

    pid: int
    namespace_pid: int
    nested: bool
    """It has another pid in a namespace of its own."""
    root: str | None
    """Its root directory as we reach it, when that is not ours; None when its root is ours or out of reach."""
    elsewhere: bool
    """Another pid namespace, mount namespace or root than ours."""
    readable: bool
    """Whether we may read its environment."""
    tmpdir: str | None
    """As it stands in its environment; None when unset or unreadable."""


class Views:
    """The views of all processes, each looked at once."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self._views: dict[int, ProcessView | None] = {}
        self._our_mounts = processes.link("self", "ns/mnt", proc)
        self._our_pids = processes.link("self", "ns/pid", proc)
        self._our_root = file_id(f"{proc}/self/root") or file_id("/")

    def of(self, pid: int) -> ProcessView | None:
        """None when there is no such process."""
        if pid not in self._views:
            self._views[pid] = self._look(pid)
        return self._views[pid]

    def nested(self, namespace_pid: int) -> Iterator[ProcessView]:
        """The processes which have this number in a namespace of their own."""
        for pid in processes.iter_pids(self.proc):
            if (view := self.of(pid)) is not None and view.nested and view.namespace_pid == namespace_pid:
                yield view

    def _look(self, pid: int) -> ProcessView | None:
        proc = self.proc
        mounts, pids = processes.link(pid, "ns/mnt", proc), processes.link(pid, "ns/pid", proc)
        numbers: tuple[int, ...] | None = (pid,)
        if pids is None or pids != self._our_pids:
            numbers = processes.namespace_pids(pid, proc)
        if numbers is None:  # hidden from us but for its number, or this system has no /proc at all
            if not processes.exists(pid, proc) and (os.path.isdir(proc) or not processes.answers(pid)):
                return None
            numbers = (pid,)
        root = f"{proc}/{pid}/root"
        place = file_id(root)
        elsewhere = place is not None and place != self._our_root
        if mounts is not None and self._our_mounts is not None:
            elsewhere = elsewhere or mounts != self._our_mounts
        nested = len(numbers) > 1
        environ = processes.environ(pid, proc)
        tmpdir = None if environ is None else environ.get(b"TMPDIR")
        return ProcessView(
            pid=pid,
            namespace_pid=numbers[-1],
            nested=nested,
            root=root if place is not None and (elsewhere or (nested and mounts is None)) else None,
            elsewhere=elsewhere or nested,
            readable=environ is not None,
            tmpdir=None if tmpdir is None else os.fsdecode(tmpdir),
        )


def file_id(path: str) -> tuple[int, int] | None:
    """Device and inode of what ``path`` leads to; None when that cannot be reached."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
