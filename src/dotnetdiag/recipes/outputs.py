"""Files that are written: whole or not at all, and of several all or none.

Rule 1: what is there is overwritten with ``force`` only, and what is read for it never, where it is of another kind. ``check_outputs`` looks
before anything is read, recorded or written.
Rule 2: a file is written under another name beside it, and takes its own when all went well: when all files are complete, where there
are several. A link is followed.
Rule 3: what is no plain file (a device, a FIFO, standard output) is written as it comes: there is nothing to overwrite. Standard output may
lead into a file that is read: that is refused, of whichever kind.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from dotnetdiag.errors import DiagnosticsError, OutputError, OutputExists, UsageError

STDOUT = Path("-")
BUFFER_BYTES = 1 << 18


def is_stdout(path: Path) -> bool:
    """Whether it is ``-``, or another name of what our standard output is (``/dev/stdout``)."""
    try:
        return path == STDOUT or os.path.samestat(os.stat(path), os.fstat(1))
    except (OSError, ValueError):
        return False


def check_outputs(paths: Iterable[Path], *, force: bool, sources: Iterable[Path] = (), replaces: bool = False) -> None:
    """Raises OutputExists for the first that is there and may not be overwritten, OutputError for one that cannot be written, and UsageError
    for one that is also read: one of ``sources``, by whichever name; and for two that are one. What ``replaces`` a source, when it is whole, may have
    its name, and not be written into it through standard output.

    Nothing is opened: whether somebody reads a FIFO is not known here, since its reader would see an end.
    """
    sources, places = list(sources), set[str]()
    for path in paths:
        if (is_stdout(path) or not replaces) and any(is_same_file(path, source) for source in sources):
            raise UsageError(f"{path} is what is read: name another file to write")
        try:
            if not is_stdout(path):
                _check(path, force)
        except OSError as error:
            if isinstance(error, DiagnosticsError):
                raise
            raise OutputError(str(path), error.strerror or str(error)) from error
        except ValueError as error:  # a NUL
            raise OutputError(ascii(str(path)), f"no file can have this name: {error}") from error
        if not is_stream(path):
            place = os.path.realpath(path)
            if place in places:
                raise UsageError(f"{path} leads to a file that is written too: name another one")
            places.add(place)


def is_same_file(one: Path, other: Path) -> bool:
    """Whether both are there, and are names of one plain file; ``-`` is one of the file that standard output leads into."""
    try:
        status = os.fstat(1) if one == STDOUT else one.stat()
        return stat.S_ISREG(status.st_mode) and os.path.samestat(status, other.stat())
    except (OSError, ValueError):
        return False


def _check(path: Path, force: bool) -> None:
    place = Path(os.path.realpath(path))
    try:
        mode = place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if not place.parent.is_dir():
            raise OutputError(str(path), f"there is no folder {place.parent}") from None
        if not os.access(place.parent, os.W_OK | os.X_OK):
            raise OutputError(str(path), f"nothing may be written in {place.parent}") from None
        return
    if stat.S_ISREG(mode) and not force:
        raise OutputExists(str(path))
    if stat.S_ISDIR(mode):
        raise OutputError(str(path), os.strerror(errno.EISDIR))
    if stat.S_ISSOCK(mode):
        raise OutputError(str(path), "it is a socket")
    if not os.access(place, os.W_OK):
        raise OutputError(str(path), "it may not be written")


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
def replacing(path: Path, *, force: bool, readable: bool = False) -> Iterator[IO[bytes]]:
    """A file to write, and to read what was written if it has to be ``readable``. Its ``tell`` counts what was written, also where nothing can be
    sought.

    Only its owner can read a file that is made: a trace holds command lines, paths and what was logged.
    Raises as ``check_outputs``, and OutputError for what the system refuses; the temporary file is gone after any error.
    """
    with replacing_together(force=force, readable=readable) as create:
        yield create(path)


@contextmanager
def replacing_together(*, force: bool, readable: bool = False) -> Iterator[Callable[[Path], IO[bytes]]]:
    """Creates files as ``replacing`` does, one after the other. All are complete and closed before the first takes its name."""
    outputs: list[_Output] = []
    current = None

    def create(path: Path) -> IO[bytes]:
        nonlocal current
        check_outputs([path], force=force)
        current = _Output(path, force=force)
        outputs.append(current)
        return current.open(readable=readable)

    try:
        yield create
        for current in outputs:
            current.close()
        try:
            for current in outputs:
                current.take_name()
        except BaseException:
            for output in outputs:
                output.give_back()
            raise
    except BrokenPipeError:
        raise  # who reads has had enough: not for us to say what that is
    except OSError as error:
        if current is None or isinstance(error, DiagnosticsError):
            raise
        name = "stdout" if is_stdout(current.path) else str(current.path)
        raise OutputError(name, error.strerror or str(error)) from error
    finally:
        for output in outputs:
            output.discard()


def open_in_place(path: Path, *, force: bool) -> IO[bytes]:
    """A file under its own name from the first byte on, for what is to be there when its writer is killed. Raises OutputExists, OutputError."""
    try:
        if is_stream(path):
            return _open_stream(path)
        return open(path, "wb" if force else "xb", opener=_private)
    except FileExistsError as error:
        raise OutputExists(str(path)) from error
    except OSError as error:
        if isinstance(error, DiagnosticsError):
            raise
        raise OutputError(str(path), error.strerror or str(error)) from error


class _Output:
    """What is written to, and the name that it takes. The name of the temporary file stands before there is one: an interrupt at any
    moment finds what to remove.
    """

    def __init__(self, path: Path, *, force: bool) -> None:
        self.path, self._force = path, force
        self._place = None if is_stream(path) else Path(os.path.realpath(path))
        self._part = None if self._place is None else _name_beside(self._place)
        self._old: Path | None = None
        self._taken: os.stat_result | None = None
        self._is_final = False
        self._file: IO[bytes] | None = None

    def open(self, *, readable: bool = False) -> IO[bytes]:
        if self._part is None:
            self._file = _open_stream(self.path)
        else:
            self._file = open(self._part, "x+b" if readable else "xb", opener=_private)  # noqa: SIM115 - see close
        return self._file

    def close(self) -> None:
        """What is left in the buffer is written."""
        if self._file is not None:
            self._file.close()

    def take_name(self) -> None:
        """What had it before stays within reach, where the system links files, until all is well."""
        if self._part is not None and self._place is not None:
            status = os.stat(self._part)
            if not self._force and self._is_linked():
                os.unlink(self._part)
            else:
                if self._force:
                    self._keep_old(self._place)
                os.replace(self._part, self._place)
            self._part, self._taken = None, status

    def _keep_old(self, place: Path) -> None:
        self._old = _name_beside(place)
        try:
            os.link(place, self._old)
        except FileNotFoundError:
            pass  # there is none
        except (OSError, NotImplementedError):
            self._is_final = True

    def give_back(self) -> None:
        """The name is again of what had it before; of no effect where that is lost, the name was not taken, or somebody else has it since."""
        if self._taken is None or self._place is None or self._is_final:
            return
        with suppress(OSError):
            if os.path.samestat(os.stat(self._place), self._taken):
                if self._old is not None and self._old.exists():
                    os.replace(self._old, self._place)
                else:
                    os.unlink(self._place)

    def _is_linked(self) -> bool:
        """Whether it has its name beside that of the temporary file; False where the system links no files. Raises OutputExists for a name that
        somebody has taken meanwhile.
        """
        assert self._part is not None
        assert self._place is not None
        try:
            os.link(self._part, self._place)
        except FileExistsError as error:
            raise OutputExists(str(self.path)) from error
        except (
            OSError,
            NotImplementedError,
        ):  # FAT, some that are mounted over a network; what else is wrong `replace` says too
            return False
        return True

    def discard(self) -> None:
        """Of no effect on what has its name."""
        with suppress(OSError):
            self.close()
        for leftover in (self._part, self._old):
            if leftover is not None:
                with suppress(OSError):
                    os.unlink(leftover)


def _name_beside(place: Path) -> Path:
    """Hidden, and short enough wherever that of ``place`` is: 56 characters have up to 224 bytes, and 255 are allowed."""
    return place.with_name(f".{place.name[:56]}.{os.urandom(8).hex()}.part")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _open_stream(path: Path) -> IO[bytes]:
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
    return io.BufferedWriter(_Counted(descriptor), BUFFER_BYTES)


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
