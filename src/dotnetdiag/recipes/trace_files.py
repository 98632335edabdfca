"""Traces opened by path, and files written whole or not at all."""

from __future__ import annotations

import gzip
import lzma
import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dotnetdiag.errors import DiagnosticsError, InputError, OutputError
from dotnetdiag.trace.trace import Trace

UNPACKED_LIMIT = 2 << 30
"""Bytes that a packed file may unpack to: it has to fit into memory, and a small file can claim anything."""


def open_trace(path: str | os.PathLike[str], *, threads: int | None = None) -> Trace:
    """The trace in a file: NetPerf 1-3, nettrace 4-6, whole or cut, also packed as ``.xz`` or ``.gz``.

    The file is mapped, not read, and must not change while the trace is used. ``threads`` (default: as many as there
    are processors) decode blocks side by side. Raises InputError, and FormatError for what is no trace at all.
    """
    path = Path(path)
    try:
        buffer = _unpacked(path) if path.suffix in (".xz", ".gz") else _mapped(path)
    except (OSError, EOFError, lzma.LZMAError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(str(path), getattr(error, "strerror", None) or str(error)) from error
    count = (os.cpu_count() or 1) if threads is None else threads
    if count > 1 and len(buffer) > 4 << 20:
        from concurrent.futures import ThreadPoolExecutor

        return Trace(buffer, name=path.name, threads=count, map=ThreadPoolExecutor(count).map)
    return Trace(buffer, name=path.name)


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _unpacked(path: Path) -> memoryview:
    with (lzma.open if path.suffix == ".xz" else gzip.open)(path, "rb") as file:
        data = file.read(UNPACKED_LIMIT + 1)
    if len(data) > UNPACKED_LIMIT:
        raise InputError(str(path), f"unpacks to more than {UNPACKED_LIMIT >> 30} GB; unpack it to a file first")
    return memoryview(data)


@contextmanager
def replacing(path: Path, *, force: bool) -> Iterator[IO[bytes]]:
    """A file to write that takes its name when all went well: under a temporary name beside it until then.

    Only its owner can read it, as recordings are written: a trace holds command lines, paths and what was logged.
    Raises OutputError when the path exists and ``force`` is not given, and for what the system refuses; the temporary
    file is gone after any error.
    """
    if path.exists() and not force:
        raise OutputError(str(path), "exists; --force overwrites it")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise OutputError(str(path), error.strerror or str(error)) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(name, path)
    except BaseException as error:
        Path(name).unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, DiagnosticsError):
            raise OutputError(str(path), error.strerror or str(error)) from error
        raise
