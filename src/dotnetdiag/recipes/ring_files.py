"""The last of a session in bounded memory, written whenever that is asked for, while the session goes on.

Rule 1: one thread receives and does nothing else; another writes, one dump at a time. What is asked for while a dump waits to be written is
answered by that dump; what is asked for while one is written, by the next.
Rule 2: a dump is of the window before the moment when it was asked for, also where it had to wait, and of a little more: what happened before
that moment is waited for (``SETTLE_S``), as a runtime empties its buffers ten times a second. Names of methods come from a second, short
session, after that.
Rule 3: while a dump is written the ring goes on, and what it lets go is held until the dump is written: twice ``size_bytes`` at most.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import DiagnosticsError, OutputError, TimedOut, UsageError
from dotnetdiag.nettrace.part import Part
from dotnetdiag.nettrace.ring import Ring, Snapshot
from dotnetdiag.recipes.kept_files import FileNames, KeptFile, counted, wait_for_writer
from dotnetdiag.recipes.outputs import replacing
from dotnetdiag.recipes.rundown import Rundown, append_names, take_or_problem

SETTLE_S = 0.25
"""A runtime empties its buffers every 100 ms, and a piece takes its way."""
MARGIN_S = 0.5
"""The ring holds so much more than the window: a signal takes its time."""
DEFAULT_RING_BYTES = 256_000_000


class DumpTrigger:
    """Given to a recording, it has a dump written: ``ask`` may be called from any thread and from a signal handler, and returns at once.

    What is asked before the recording has begun is answered when it has.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asked: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()  # its `put` may interrupt itself
        self._waits = False
        self._times: deque[float] = deque()
        """When each of what is asked for was."""

    @property
    def asked_at(self) -> float | None:
        """When the oldest of what is asked for was; None when there is nothing."""
        try:
            return self._times[0]
        except IndexError:
            return None

    def ask(self) -> None:
        """Ask for a dump."""
        if not self._waits:  # one that was asked for and not begun has all that this one would have
            self._waits = True
            self._put(_Request())

    def _put(self, request: _Request) -> None:
        self._times.append(self._clock())
        self._asked.put(request)

    def dump(self, path: Path, *, force: bool, timeout_s: float) -> KeptFile:
        """Have one written into this file, and wait for it. Raises OutputError and others, TimedOut (it is written all the same)."""
        request = _Request(path=path, force=force, done=threading.Event())
        assert request.done is not None
        self._put(request)
        if not request.done.wait(timeout_s):
            raise TimedOut("the dump was not written in time", timeout_s=timeout_s)
        if request.error is not None:
            raise request.error
        assert request.file is not None
        return request.file

    def end(self) -> None:
        """Nothing more is asked."""
        self._asked.put(None)

    def wait(self) -> _Request | None:
        """The next that is asked for; None at the end."""
        return self._asked.get()

    def begins(self) -> float | None:
        """What is asked from now on is for the next dump. When this one was asked for."""
        self._waits = False
        return self._times.popleft() if self._times else None


@dataclass(slots=True, eq=False)
class _Request:
    """``path``: None for the next name."""

    path: Path | None = None
    force: bool = False
    done: threading.Event | None = None
    file: KeptFile | None = None
    error: DiagnosticsError | None = None


class RingFiles:
    """A :class:`~dotnetdiag.recipes.kept_files.Keeper` that holds the last ``window_s`` seconds of a session, in ``size_bytes`` at most, and
    writes them when ``trigger`` asks: into files by ``names``, of which the last ``keep`` stay (None: all).
    """

    def __init__(
        self,
        names: FileNames | None,
        *,
        window_s: float,
        size_bytes: int,
        rundown: Rundown,
        trigger: DumpTrigger,
        keep: int | None = None,
        dump_at_end: bool = True,
        dumped: Callable[[KeptFile], None] = lambda _: None,
        is_cancelled: Callable[[], bool] = lambda: False,
        settle_s: float = SETTLE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if keep is not None and keep < 1:
            raise UsageError(f"{keep} files to keep: must be 1 or more")
        self._names, self._rundown, self._trigger, self._keep = names, rundown, trigger, keep
        self._dump_at_end, self._dumped, self._settle_s, self._clock = dump_at_end, dumped, settle_s, clock
        self._window_s, self._is_cancelled = window_s, is_cancelled
        self._ring = Ring(window_s=window_s + MARGIN_S, size_bytes=size_bytes)
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._is_held = False
        self._is_complete = False
        self._removed = 0
        self._problems: list[str] = []
        self.files: list[KeptFile] = []
        """The dumps that are there."""
        self._thread = threading.Thread(target=self._write_dumps, name="dotnetdiag dumps", daemon=True)
        self._thread.start()

    @property
    def held_bytes(self) -> int:
        """What the ring has."""
        return self._ring.held_bytes

    @property
    def held_s(self) -> float:
        """How far back it goes."""
        return min(self._window_s, self._ring.window_s(self._clock()))

    # the thread that receives -------------------------------------------------------------------------------------

    def take(self, data: bytes) -> None:
        with self._lock:
            self._ring.asked_at = self._trigger.asked_at
            self._ring.feed(data, self._clock())

    def look(self) -> None:
        with self._lock:
            self._ring.asked_at = self._trigger.asked_at
            self._ring.expire(self._clock())

    def hold(self) -> None:
        """What comes from now on is the end of the session: the window is the one before it."""
        with self._lock:
            self._is_held = True
            self._ring.hold(self._clock())

    def close(self) -> None:
        """The stream has ended: dumps that were asked for are written, and a last one. Raises OutputError where that cannot be."""
        with self._lock:
            self._is_complete = self._ring.close()
        self._ended.set()
        self._trigger.end()
        wait_for_writer(self._thread, self._rundown.end, self._is_cancelled)
        if self._dump_at_end and self._names is not None and (snapshot := self._snapshot()) is not None:
            problem = None if self._is_complete else "the session was gone before its end"
            self._keep_file(
                self._write(snapshot, self._names.next(), self._names.force, named=self._is_complete, problem=problem)
            )

    def notes(self) -> list[str]:
        made = list(dict.fromkeys(self._problems))
        if self._removed:
            made.append(f"{self._removed} older dumps were removed.")
        return made

    # the thread that writes ---------------------------------------------------------------------------------------

    def _write_dumps(self) -> None:
        while (request := self._trigger.wait()) is not None:
            self._ended.wait(self._settle_s)
            try:
                request.file = self._dump(request)
            except DiagnosticsError as error:
                request.error = error
                if request.done is None:
                    self._problems.append(f"A dump could not be written: {error}")
            except OSError as error:
                request.error = OutputError(str(request.path), error.strerror or str(error))
                self._problems.append(f"A dump could not be written: {error}")
            if request.done is not None:
                request.done.set()

    def _dump(self, request: _Request) -> KeptFile | None:
        path, force = request.path, request.force
        if path is None:
            assert self._names is not None
            path, force = self._names.next(), self._names.force
        snapshot = self._snapshot()
        if snapshot is None:
            raise DiagnosticsError("nothing has come of the session yet")
        contents, problem = (None, None) if self._is_complete else take_or_problem(self._rundown)
        append = (
            None if contents is None else lambda part: append_names(part, contents, largest_id=snapshot.head.largest_id)
        )
        named = problem is None if self._rundown.is_wanted else None
        made = self._write(snapshot, path, force, named=named, problem=problem, append=append)
        if request.path is None:
            self._keep_file(made)
        return made

    def _snapshot(self) -> Snapshot | None:
        with self._lock:
            self._ring.asked_at = self._trigger.begins()
            return self._ring.snapshot(self._clock())

    def _write(
        self,
        snapshot: Snapshot,
        path: Path,
        force: bool,
        *,
        named: bool | None,
        problem: str | None,
        append: Callable[[Part], None] | None = None,
    ) -> KeptFile:
        """Under another name, until it is whole."""
        with replacing(path, force=force) as file:
            part = snapshot.write(file)
            if append is not None:
                append(part)
            found = part.close()
        found = counted(path, found)
        return KeptFile(
            path=path,
            size_bytes=part.position,
            complete=None if found is None else found.complete,
            lost_events=None if found is None else found.lost,
            named=named if self._rundown.is_wanted else None,
            window_s=min(self._window_s, snapshot.window_s),
            is_cut=snapshot.is_cut and snapshot.window_s < self._window_s,
            problem=problem,
        )

    def _keep_file(self, file: KeptFile) -> None:
        self.files = [*self.files, file]
        if self._keep is not None and len(self.files) > self._keep:
            gone, *rest = self.files
            self.files = rest
            self._removed += 1
            gone.path.unlink(missing_ok=True)
        if file.problem is not None:
            self._problems.append(f"Names of methods may be missing in {file.path.name}: {file.problem}")
        self._dumped(file)


def window_s_of(window: float | str) -> float:
    """Seconds of a ring. Raises GrammarError, UsageError."""
    seconds = seconds_of(window, "ring")
    if not seconds:
        raise UsageError("a ring of no seconds keeps nothing: give more, as 60s")
    return seconds
