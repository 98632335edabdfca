"""Traces opened by path."""

from __future__ import annotations

import mmap
import os
import stat
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from dotnetdiag.errors import FormatError, InputError, UsageError
from dotnetdiag.recipes import own_process

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from dotnetdiag.trace.trace import Trace

UNPACKED_LIMIT = 2 << 30
"""Bytes that a packed file may unpack to, or a pipe bring: they have to fit into memory, and a small file can claim anything."""

PIECE_BYTES = 1 << 20
CUT_CODE = 2
"""The exit code of the command line for a file that cannot be read."""


def open_trace(path: str | os.PathLike[str], *, threads: int | None = None, name: str | None = None) -> Trace:
    """The trace in a file: NetPerf 1-3, nettrace 4-6, whole or cut, also packed as ``.xz`` or ``.gz``.

    The file is mapped, not read, and must not change while the trace is used; what comes through a pipe is read into memory.
    ``threads`` (default: as many as there are processors, with the caller's) decode blocks side by side. ``name`` is what messages call it, None: the
    last part of its path. Raises InputError, and FormatError for what is no trace at all.
    """
    path = text_of(path)
    buffer, oddities = read_bytes(path)
    if is_gcdump(buffer):
        raise FormatError("it is a heap dump, not a recording: see gcdump report", where=name or os.path.basename(path))
    return trace_of(path, buffer, oddities, threads=threads, name=name)


def text_of(path: str | os.PathLike[str]) -> str:
    """A path as text. Raises UsageError for what is none, bytes too, in which a file's content is given more often than its name."""
    text: object = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise UsageError(f"give the path of a file as text, not {type(text).__name__}")
    return text


def read_bytes(path: str) -> tuple[memoryview, tuple[str, ...]]:
    """What is in a file, mapped or unpacked, and what is odd about that. Raises InputError."""
    try:
        return _unpacked(path) if path.endswith((".xz", ".gz")) else (_mapped(path), ())
    except ValueError as error:  # a name with a NUL
        raise InputError(path, str(error)) from error
    except OSError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(path, getattr(error, "strerror", None) or str(error)) from error


def is_gcdump(buffer: memoryview) -> bool:
    """Whether it is a heap dump, by its first bytes."""
    head = bytes(buffer[:64])
    return b"!FastSerialization.1" in head and b"GCHeapDump" in head


def trace_of(
    path: str, buffer: memoryview, oddities: tuple[str, ...], *, threads: int | None = None, name: str | None = None
) -> Trace:
    """The trace in these bytes, as of :func:`open_trace`."""
    from dotnetdiag.trace.trace import Trace  # not for a .gcdump

    name, place = name or os.path.basename(path), _lasting(path)
    count = (os.cpu_count() or 1) if threads is None else threads
    if len(buffer) > 4 << 20:
        pool = _Pool(count - 1) if count > 1 else None  # the caller's thread does what nobody has begun
        return Trace(buffer, name=name, executor=pool, release=_releaser(buffer, pool), oddities=oddities, path=place)
    return Trace(buffer, name=name, oddities=oddities, path=place)


def _lasting(path: str) -> str | None:
    """The path by which other processes find the file; None of what is no plain file."""
    place = os.path.abspath(path)
    if place.startswith(("/dev/fd/", "/dev/std", "/proc/")):  # what this process calls it
        place = os.path.realpath(place)
    return place if os.path.isfile(place) else None


class _Pool:
    """Threads that are made when something is first submitted to them, and end when nobody holds this any more: the trace, or a pass over it."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._executor: ThreadPoolExecutor | None = None

    def submit(self, fn: Callable[[Any], Any], argument: Any, /) -> Future[Any]:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor  # brings logging with it

            self._executor = ThreadPoolExecutor(self._threads)
            weakref.finalize(self, self._executor.shutdown, wait=False, cancel_futures=True)
        return self._executor.submit(fn, argument)


def _opened_again(path: str, status: os.stat_result) -> int:
    """A descriptor of the same file. Raises OSError where another has its name."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
    if os.path.samestat(os.fstat(descriptor), status):
        return descriptor
    os.close(descriptor)
    raise FileNotFoundError(path)


def _mapped(path: str) -> memoryview:
    from dotnetdiag.nettrace.buffers import MappedFile

    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            data = file.read(UNPACKED_LIMIT + 1)
            if len(data) > UNPACKED_LIMIT:
                raise InputError(path, f"brings more than {UNPACKED_LIMIT >> 30} GB; write it to a file first")
            return memoryview(data)
        if not status.st_size:
            return memoryview(b"")
        mapped = MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ)
        mapped.opening = partial(_opened_again, os.path.abspath(path), status)
    if own_process.IS_OURS:
        from dotnetdiag.nettrace import kernels

        kernels.say_when_cut(path, CUT_CODE)
        kernels.keep_freed()
    return memoryview(mapped)


def _releaser(buffer: memoryview, pool: _Pool | None) -> Callable[[int, int], None] | None:
    """Takes pages of a mapped file out of this process; the system still has them, and gives them back when asked. The threads of the pool do it,
    where there are compiled loops: it is 8 ms for 77 MB, which else those wait for who ask for windows.
    """
    mapped = buffer.obj
    if not isinstance(mapped, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return None
    from dotnetdiag.nettrace import kernels

    def let_go(span: tuple[int, int]) -> None:
        if not kernels.let_go(buffer, *span):
            mapped.madvise(mmap.MADV_DONTNEED, span[0], span[1] - span[0])

    owner = os.getpid()  # a forked child has no thread of the pool's
    waiting: Future[None] | None = None

    def release(start: int, end: int) -> None:
        nonlocal waiting
        first = -(-start // mmap.PAGESIZE) * mmap.PAGESIZE
        if end <= first:
            return
        is_behind = waiting is not None and not waiting.done()  # it has work for 60 MB: so much more would be here
        if pool is None or kernels.KERNELS is None or os.getpid() != owner or is_behind:
            let_go((first, end))
        else:
            waiting = pool.submit(let_go, (first, end))

    return release


def _unpacked(path: str) -> tuple[memoryview, tuple[str, ...]]:
    """What comes out of a packed file; of one that is damaged or broken off what came before, and what is wrong."""
    import gzip
    import lzma
    import zlib

    data, oddities = bytearray(), list[str]()
    with (lzma.open if path.endswith(".xz") else gzip.open)(path, "rb") as file:
        try:
            while len(data) <= UNPACKED_LIMIT and (
                piece := file.read1(PIECE_BYTES)
            ):  # `read` would lose what came before an error
                data += piece
        except (EOFError, gzip.BadGzipFile, lzma.LZMAError, zlib.error) as error:
            if not data:
                raise InputError(path, str(error)) from error
            oddities.append(f"the packed file is damaged behind {len(data):,} bytes that came out of it: {error}")
    if len(data) > UNPACKED_LIMIT:
        raise InputError(path, f"unpacks to more than {UNPACKED_LIMIT >> 30} GB; unpack it to a file first")
    return memoryview(data), tuple(oddities)
