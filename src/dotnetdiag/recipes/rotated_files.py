"""A session in files of about one size, the oldest of which may be removed.

Rule 1: every file is a trace by itself. The last has the rundown that ends the session; names of methods come into an earlier one when it is
closed, from a second, short session. One thread does that, and one rundown serves all files that are waiting for names by then: a flood
that fills files faster than a runtime tells its methods takes no more of them.
Rule 2: the thread that receives waits for nothing but the disk.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.nettrace import Contents
from dotnetdiag.nettrace.part import Part
from dotnetdiag.nettrace.rotation import Rotation
from dotnetdiag.recipes.kept_files import FileNames, KeptFile, OutputFile, counted, wait_for_writer
from dotnetdiag.recipes.rundown import Rundown, append_names, take_or_problem


@dataclass(slots=True, eq=False)
class _Written:
    """A file from its beginning on."""

    file: OutputFile
    part: Part | None = None
    largest_id: int = 0
    kept: KeptFile | None = None
    is_removed: bool = False


class RotatedFiles:
    """A :class:`Keeper` that turns to a new file when one has ``size_bytes``, and keeps the last ``keep`` (None: all)."""

    def __init__(
        self,
        names: FileNames,
        *,
        size_bytes: int,
        keep: int | None,
        rundown: Rundown,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        if keep is not None and keep < 1:
            raise UsageError(f"{keep} files to keep: must be 1 or more")
        self._names, self._keep, self._rundown, self._is_cancelled = names, keep, rundown, is_cancelled
        self._lock = threading.Lock()
        self._written: deque[_Written] = deque()
        self._current: _Written | None = None
        self._before: _Written | None = None
        """The file before the current one, when this has just begun."""
        self._removed = 0
        self._problems: list[str] = []
        self._closed: queue.SimpleQueue[_Written | None] = queue.SimpleQueue()
        self._is_ending = False
        self._rotation = Rotation(size_bytes, self._begin, self._end)
        self._thread: threading.Thread | None = None
        self._begin_thread()

    @property
    def files(self) -> list[KeptFile]:
        """Those that are there, the oldest first; of one that is written what is known."""
        with self._lock:
            return [one.kept or _unfinished(one) for one in self._written]

    def take(self, data: bytes) -> None:
        self._rotation.feed(data)

    def look(self) -> None:
        """What came is to be seen by who looks at the file."""
        if self._written and self._rotation.part is not None:
            self._written[-1].file.flush()

    def hold(self) -> None:
        """What comes from now on is the end, and belongs into the file that is written."""

    def close(self) -> None:
        """The stream has ended. Raises OutputError when the last file could not be written."""
        self._is_ending = True
        try:
            self._rotation.close()
        finally:
            self._closed.put(None)
            if self._thread is not None:
                wait_for_writer(self._thread, self._rundown.end, self._is_cancelled)

    def notes(self) -> list[str]:
        made = list(dict.fromkeys(self._problems))
        if self._removed:
            made.append(f"{self._removed} older files were removed.")
        return made

    def _begin_thread(self) -> None:
        if self._rundown.is_wanted:
            self._thread = threading.Thread(target=self._finish, name="dotnetdiag names", daemon=True)
            self._thread.start()

    # the thread that receives -------------------------------------------------------------------------------------

    def _begin(self) -> OutputFile:
        file = OutputFile(self._names.next(), force=self._names.force)
        with self._lock:
            self._before, self._current = self._current, _Written(file)
            self._written.append(self._current)
            gone = self._written.popleft() if self._keep is not None and len(self._written) > self._keep else None
            if gone is not None:
                gone.is_removed = True
        if gone is not None:
            self._removed += 1
            gone.file.path.unlink(missing_ok=True)
        return file

    def _end(self, part: Part, complete: bool) -> None:
        written = self._before or self._current
        self._before = None
        assert written is not None
        written.part = part
        if self._is_ending or self._thread is None:
            self._close(written, complete=complete, named=complete if self._rundown.is_wanted else None)
            return
        assert self._rotation.head is not None
        written.largest_id = self._rotation.head.largest_id
        written.file.flush()  # its names may take their time, and we be killed before
        self._closed.put(written)

    # the thread that takes rundowns -------------------------------------------------------------------------------

    def _finish(self) -> None:
        is_over = False
        while not is_over:
            waiting = [self._closed.get()]
            with suppress(queue.Empty):
                while True:
                    waiting.append(self._closed.get_nowait())
            is_over = None in waiting
            files = [one for one in waiting if one is not None and not one.is_removed]
            contents, problem = take_or_problem(self._rundown) if files else (None, None)
            for written in (one for one in waiting if one is not None):
                try:
                    self._add_names(written, contents, problem)
                except DiagnosticsError as error:  # the others are written all the same
                    self._problems.append(str(error))

    def _add_names(self, written: _Written, contents: Contents | None, problem: str | None) -> None:
        assert written.part is not None
        if contents is not None and not written.is_removed:
            append_names(written.part, contents, largest_id=written.largest_id)
        if problem is not None:
            self._problems.append(f"Names of methods may be missing in {written.file.path.name}: {problem}")
        self._close(written, complete=True, named=problem is None, problem=problem)

    def _close(self, written: _Written, *, complete: bool, named: bool | None, problem: str | None = None) -> None:
        part, file = written.part, written.file
        assert part is not None
        found = part.close(complete=complete)
        file.close()
        if written.is_removed:
            return
        found = counted(file.path, found)
        written.kept = KeptFile(
            path=file.path,
            size_bytes=part.position,
            complete=None if found is None else found.complete,
            lost_events=None if found is None else found.lost,
            named=named,
            problem=problem,
        )


def _unfinished(written: _Written) -> KeptFile:
    size = 0 if written.part is None else written.part.position
    return KeptFile(path=written.file.path, size_bytes=size, complete=False, lost_events=None)
