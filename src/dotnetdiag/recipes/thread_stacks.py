"""The stacks of a process's managed threads at one moment, as values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.errors import UsageError
from dotnetdiag.table import HasTable, Losses, Table

BUSY = 0.05
"""A thread that ran, or waited for a processor, for so much of the session was not waiting, whatever code it was in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStack:
    """One thread. ``tid`` as the target sees it; ``frames`` leaf first; ``mode`` the code it was in, ``native`` or ``managed``.

    ``cpu`` is its share of a processor during the session, as the system counts it (Linux, our own machine), ``runnable`` with the
    share of the time in which it waited for one; ``name`` what the system calls it (.NET 6 and newer, 15 bytes). ``managed_id`` and
    ``role`` are what the runtime says (.NET 9 and newer). None where nobody says.
    """

    tid: int
    mode: str
    frames: tuple[str, ...]
    cpu: float | None = None
    runnable: float | None = None
    name: str | None = None
    managed_id: int | None = None
    role: str | None = None

    @property
    def state(self) -> str:
        """``cpu`` or ``waiting``. In native code threads wait, mostly: the runtime cannot tell, the system can. One that has nothing to do
        but to wait for a processor (a busy machine, a container's quota) is not waiting.
        """
        return "cpu" if self.mode == "managed" or (self.runnable or 0.0) >= BUSY else "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadGroup:
    """Threads with equal stacks, in equal code and state."""

    threads: tuple[ThreadStack, ...]

    @property
    def state(self) -> str:
        """Of all of them."""
        return self.threads[0].state

    @property
    def mode(self) -> str:
        """Of all of them."""
        return self.threads[0].mode

    @property
    def frames(self) -> tuple[str, ...]:
        """Of all of them."""
        return self.threads[0].frames


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StackReport(HasTable):
    """All managed threads at ``utc``, by id. ``unresolved`` of the frames have no name; ``lost`` events did not arrive."""

    pid: int | None
    utc: str
    threads: tuple[ThreadStack, ...]
    unresolved: int
    lost: int

    def groups(self) -> tuple[ThreadGroup, ...]:
        """Threads with equal stacks and states together, in the order of their first thread."""
        found: dict[tuple[str, str, tuple[str, ...]], list[ThreadStack]] = {}
        for thread in self.threads:
            found.setdefault((thread.state, thread.mode, thread.frames), []).append(thread)
        return tuple(ThreadGroup(threads=tuple(threads)) for threads in found.values())

    def only(self, wanted: str) -> StackReport:
        """The threads of an id (decimal, or hex with 0x) or a name. UsageError when there is none."""
        number = _number(wanted)
        kept = tuple(one for one in self.threads if one.tid == number or (one.name or "").lower() == wanted.lower())
        if not kept:
            there = ", ".join(f"0x{one.tid:X}" + (f" {one.name}" if one.name else "") for one in self.threads)
            raise UsageError(f"no managed thread {wanted}; there are {there}")
        return replace(self, threads=kept)

    def table(self) -> Table:
        """A row for each thread."""
        return table_of([self])

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        threads = [
            {
                "tid": one.tid,
                "name": one.name,
                "managed_id": one.managed_id,
                "role": one.role,
                "state": one.state,
                "mode": one.mode,
                "cpu": None if one.cpu is None else round(one.cpu, 3),
                "runnable": None if one.runnable is None else round(one.runnable, 3),
                "frames": list(one.frames),
            }
            for one in self.threads
        ]
        return {
            "pid": self.pid,
            "utc": self.utc,
            "threads": threads,
            "unresolved": self.unresolved,
            "lost": self.lost,
        }


def table_of(reports: Sequence[StackReport]) -> Table:
    """A row for each thread of each time."""
    rows = [{"utc": one.utc, "pid": one.pid, **thread} for one in reports for thread in one.to_json()["threads"]]
    names = ("utc", "pid", "tid", "name", "managed_id", "role", "state", "mode", "cpu", "runnable", "frames")
    return Table.of_rows(rows, columns=names, title="threads", losses=Losses(lost=sum(one.lost for one in reports)))


def _number(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None
