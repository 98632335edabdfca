"""Files that are written: whole or not at all, and of several all or none.

Rule 1: what is there is overwritten with ``force`` only. ``check_outputs`` looks before anything is read, recorded or written.
Rule 2: a file is written under another name beside it, and takes its own when all went well. A link is followed.
Rule 3: what is no plain file (a device, a FIFO, standard output) is written as it comes: there is nothing to overwrite.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dotnetdiag.errors import DiagnosticsError, OutputError, OutputExists

STDOUT = Path("-")
BUFFER_BYTES = 1 << 18


def is_stdout(path: Path) -> bool:
    """Whether it is ``-``, or another name of what our standard output is (``/dev/stdout``)."""
    try:
        return path == STDOUT or os.path.samestat(os.stat(path), os.fstat(1))
    except (OSError, ValueError):
        return False


def check_outputs(paths: Iterable[Path], *, force: bool) -> None:
    """Raises OutputExists for the first that is there and may not be overwritten, OutputError for one that cannot be made."""
    for path in paths:
        if is_stream(path):
            continue
        try:
            place = Path(os.path.realpath(path))
            there = place.exists()
            if there and not force:
                raise OutputExists(str(path))
            if place.is_dir():
                raise OutputError(str(path), os.strerror(errno.EISDIR))
            if not place.parent.is_dir():
                raise OutputError(str(path), f"there is no folder {place.parent}")
        except ValueError as error:  # a NUL
            raise OutputError(ascii(str(path)), f"no file can have this name: {error}") from error
        if not there and not os.access(place.parent, os.W_OK | os.X_OK):
            raise OutputError(str(path), f"nothing may be written in {place.parent}")


def is_stream(path: Path) -> bool:
    """Whether it is no plain file: a device, a FIFO, standard output."""
    if is_stdout(path):
        return True
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def replacing(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """A file to write. Its ``tell`` counts what was written, also where nothing can be sought.

    Only its owner can read a file that is made: a trace holds command lines, paths and what was logged.
    Raises as ``check_outputs``, and OutputError for what the system refuses; the temporary file is gone after any error.
    """
    check_outputs([path], force=force)
    try:
        with _streaming(path) if is_stream(path) else _renamed(Path(os.path.realpath(path))) as file:
            yield file
    except BrokenPipeError:
        raise  # who reads has had enough: not for us to say what that is
    except OSError as error:
        if isinstance(error, DiagnosticsError):
            raise
        raise OutputError(str(path), error.strerror or str(error)) from error


@contextmanager
def _renamed(place: Path) -> Iterator[IO[bytes]]:
    import tempfile  # brings five compressors with it

    handle, name = tempfile.mkstemp(prefix=f".{place.name}.", suffix=".part", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(name, place)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


@contextmanager
def _streaming(path: Path) -> Iterator[IO[bytes]]:
    if is_stdout(path):
        descriptor = os.dup(1)
    else:
        try:
            descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0))
        except OSError as error:
            if error.errno == errno.ENXIO:
                raise OutputError(str(path), "nobody reads this pipe") from error
            raise
        os.set_blocking(descriptor, True)
    with io.BufferedWriter(_Counted(descriptor), BUFFER_BYTES) as file:
        yield file


class _Counted(io.FileIO):
    """Its position is what was written."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb")
        self._count = 0

    def write(self, data: object, /) -> int:
        count = super().write(data)  # type: ignore[arg-type]
        self._count += count or 0
        return count

    def tell(self) -> int:
        return self._count

    def seekable(self) -> bool:
        return False
