"""The files of a recording that is kept in several: their names, and what each of them is."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import OutputError, TimedOut
from dotnetdiag.nettrace.loss_count import LossCount, count_losses

TICK_S = 0.1
READ_BYTES = 1 << 18
END_S = 120.0
"""How long the end of a session waits for files that are to get their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """One file of a recording. ``complete``: it has its end; ``lost_events`` in the time that it is of: both None where they are not known.

    ``named``: names of methods are in it, as far as the runtime told; None where none were asked for. ``window_s`` is how far back from the
    moment it was asked for a dump of a flight recorder goes, ``is_cut``: that is less than it was to be, as the ring was full. ``problem``
    is what is to be said of it, in one line.
    """

    path: Path
    size_bytes: int
    complete: bool | None
    lost_events: int | None
    named: bool | None = None
    window_s: float | None = None
    is_cut: bool = False
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


class FileNames:
    """``app.1.nettrace``, ``app.2.nettrace`` … for ``app.nettrace``: what is there is passed over, or with ``force`` overwritten."""

    def __init__(self, path: Path, *, force: bool) -> None:
        self._path, self.force, self._number = path, force, 0

    def next(self) -> Path:
        """The name of the next file."""
        while True:
            self._number += 1
            path = self._path.with_name(f"{self._path.stem}.{self._number}{self._path.suffix or '.nettrace'}")
            if self.force or not os.path.lexists(path):
                return path


class Keeper(Protocol):
    """What takes the bytes of a session instead of one file."""

    @property
    def files(self) -> list[KeptFile]: ...
    def take(self, data: bytes, /) -> None: ...
    def look(self) -> None: ...
    def hold(self) -> None: ...
    def close(self) -> None: ...
    def notes(self) -> list[str]: ...


@runtime_checkable
class Held(Protocol):
    """A keeper that holds in memory what it keeps."""

    @property
    def held_s(self) -> float: ...
    @property
    def held_bytes(self) -> int: ...


class Readable(Protocol):
    """What is needed of ``client.TraceSession``."""

    @property
    def problem(self) -> Exception | None: ...
    @property
    def was_stopped(self) -> bool: ...
    def read(self, size: int = ..., *, timeout_s: float | None = ...) -> bytes: ...
    def stop(self) -> None: ...


def receive(
    session: Readable,
    keeper: Keeper,
    *,
    duration_s: float | None,
    tee: Callable[[memoryview], None],
    report: Callable[[int], None],
    clock: Callable[[], float],
) -> int:
    """Give a session's bytes to a keeper until the stream ends; stop it after ``duration_s``. How many there were.

    ``report`` gets the bytes so far, several times a second also when nothing comes. ``keeper.hold`` is called once, when the end was asked
    for. Raises what broke the session, what a keeper raises, and what ``tee`` and ``report`` do; the keeper is not closed.
    """
    ends = None if duration_s is None else clock() + duration_s
    is_held, count, reported = False, 0, clock()
    while True:
        try:
            data = session.read(READ_BYTES, timeout_s=TICK_S)
        except TimedOut as error:
            if error is session.problem:
                raise
        else:
            if not data:
                break
            tee(memoryview(data))
            keeper.take(data)
            count += len(data)
        now = clock()
        if ends is not None and now >= ends:
            ends = None
            session.stop()
        if session.was_stopped and not is_held:
            is_held = True
            keeper.hold()
        if now - reported >= TICK_S:
            reported = now
            keeper.look()
            report(count)
    report(count)
    return count


def counted(path: Path, found: LossCount | None) -> LossCount | None:
    """What was counted while a file was written, or what it says."""
    if found is not None:
        return found
    try:
        with open(path, "rb", buffering=0) as file:
            return count_losses(file)
    except OSError:
        return None


def wait_for_writer(thread: threading.Thread, give_up: Callable[[], None], is_cancelled: Callable[[], bool]) -> None:
    """Wait for the thread that takes names and writes files. ``give_up`` has it take no more names: after ``END_S``, or when all is to end at
    once.
    """
    ends, gave_up = time.monotonic() + END_S, False
    while thread.is_alive():
        thread.join(TICK_S)
        if not gave_up and (is_cancelled() or time.monotonic() >= ends):
            gave_up, ends = True, time.monotonic() + END_S
            give_up()
        elif gave_up and time.monotonic() >= ends:
            return


class OutputFile:
    """A file that is written, its owner's alone. Raises OutputError for what the system refuses."""

    def __init__(self, path: Path, *, force: bool) -> None:
        self.path = path
        try:
            if force and os.path.lexists(path):
                os.unlink(path)  # who has it open keeps what was there
            self._file = open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115 - see close
        except OSError as error:
            raise OutputError(str(path), error.strerror or str(error)) from error

    def write(self, data: bytes) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from error

    def flush(self) -> None:
        """Bring what is held into the file."""
        self.write(b"")
        try:
            self._file.flush()
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from error

    def close(self) -> None:
        """May be called again."""
        try:
            self._file.close()
        except OSError as error:
            raise OutputError(str(self.path), error.strerror or str(error)) from error

    def remove(self) -> None:
        """It is there no more."""
        try:
            self._file.close()
        finally:
            self.path.unlink(missing_ok=True)
