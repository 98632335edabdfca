"""The recordings that are asked: given as traces, or opened when they are read, and closed again where they are many."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from threading import Lock
from typing import Any, Protocol, TypeVar

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UsageError
from dotnetdiag.query.unreadable import Unreadable
from dotnetdiag.table import Losses
from dotnetdiag.trace.trace import Trace

KEPT_OPEN = 2
"""Recordings that stay open for the next question, and what is known of them with them."""
_T = TypeVar("_T")


class Recording(Protocol):
    """One file, by the ``name`` that the column ``file`` has for it."""

    @property
    def name(self) -> str: ...

    def open(self) -> Trace:
        """The trace. Raises InputError, FormatError."""

    def close(self, trace: Trace) -> None:
        """Let go of it."""


@dataclass(frozen=True, slots=True, eq=False)
class OpenTrace:
    """A trace that somebody has open, and keeps. Where it is pickled, its file goes with it by its path, to be opened by ``opener``, a function of
    a module. UsageError of a trace that came as bytes or through a pipe.
    """

    trace: Trace
    opener: Callable[[str, str], Trace] | None = None
    alias: str | None = None
    """What it is told apart by from another one of its name."""

    @property
    def name(self) -> str:
        """The trace's, or what was given for it."""
        return self.trace.name if self.alias is None else self.alias

    def open(self) -> Trace:
        """It is."""
        return self.trace

    def close(self, trace: Trace) -> None:
        """Who has opened it closes it."""

    def __reduce__(self) -> tuple[Any, ...]:
        path = self.trace.raw.path
        if path is None or self.opener is None:
            raise UsageError(
                f"{self.name or 'a trace'}: what came as bytes or through a pipe is in this process alone: "
                "write it to a file, and give the path of that to dd.dataset"
            )
        return TraceFile, (self.name, path, self.opener)


@dataclass(frozen=True, slots=True, eq=False)
class TraceFile:
    """The file of a trace that another process has open, by the trace's name: opened when it is read."""

    name: str
    path: str
    opener: Callable[[str, str], Trace]

    def open(self) -> Trace:
        """The trace. Raises InputError, FormatError."""
        return self.opener(self.path, self.path)

    def close(self, trace: Trace) -> None:
        """Let go of it."""
        trace.close()


class Shelf:
    """Opens recordings, several at the same time where they are read together; the last :data:`KEPT_OPEN` stay open. For several threads.

    ``losses`` are what those that were read lack, by their names; ``notes`` what reports say of them. ``unreadable`` is what becomes of those that
    cannot be opened.
    """

    def __init__(self, unreadable: Unreadable | None = None) -> None:
        """Without ``unreadable``, of one that cannot be opened the error is raised."""
        self.unreadable = unreadable or Unreadable()
        self._lock = Lock()
        self.losses: dict[str, Losses] = {}
        self.notes: dict[str, dict[str, None]] = {}
        self._open: dict[int, tuple[Recording, Trace, int]] = {}
        self._is_closed = False

    def each(
        self, recordings: Iterable[Recording], read: Callable[[str, Trace], Iterable[_T]]
    ) -> Generator[_T, None, None]:
        """What ``read`` gives of each by its name and trace, which is open meanwhile; nothing of those that are passed over. Raises what opening
        and reading them raise.
        """
        for recording in recordings:
            trace = self._maybe_take(recording)
            if trace is not None:
                try:
                    yield from read(recording.name, trace)
                finally:
                    self._put_back(recording)

    def read(self, name: str, trace: Trace, notes: Iterable[str]) -> None:
        """Remember what is to be said of a recording that was read."""
        with self._lock:
            self.losses[name] = trace.raw.losses
            self.notes.setdefault(name, {}).update(dict.fromkeys(notes))

    def close(self) -> None:
        """Close all that are open; those that another thread reads once it has ended."""
        with self._lock:
            self._is_closed = True
            self._let_go(0)

    def _maybe_take(self, recording: Recording) -> Trace | None:
        if recording.name in self.unreadable.skipped:
            self.unreadable.require_some()
            return None
        key = id(recording)
        with self.unreadable.told(recording.name), self._lock:
            found = self._open.pop(key, None)
            _, trace, readers = (recording, recording.open(), 0) if found is None else found
            self._open[key] = recording, trace, readers + 1
            return trace
        return None

    def _put_back(self, recording: Recording) -> None:
        key = id(recording)
        with self._lock:
            _, trace, readers = self._open[key]
            self._open[key] = recording, trace, readers - 1
            self._let_go(0 if self._is_closed else KEPT_OPEN)

    def _let_go(self, kept: int) -> None:
        idle = [one for one, (_, _, users) in self._open.items() if not users]
        for one in idle[: max(0, len(self._open) - kept)]:
            recording, trace, _ = self._open.pop(one)
            recording.close(trace)
