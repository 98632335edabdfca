"""Heaps into files: the one that is being collected, and one that is converted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.errors import UsageError
from dotnetdiag.export.heap_formats import HEAP_FORMATS, HeapFormat, heap_format, heap_format_of
from dotnetdiag.recipes.heap_collect import CollectedHeap, HeapOptions
from dotnetdiag.recipes.outputs import (
    STDOUT,
    check_outputs,
    is_same_file,
    is_stdout,
    is_stream,
    replacing,
    replacing_together,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dotnetdiag.heap.heap import Heap

RAW = ".nettrace"
_PIECE_BYTES = 1 << 20


def new_path(pid: int | None) -> Path:
    """``yyyyMMdd_HHmmss_PID.gcdump``, as dotnet-gcdump has it; never one that is there."""
    from datetime import datetime  # not before the session is asked for

    stem = f"{datetime.now():%Y%m%d_%H%M%S}_{0 if pid is None else pid}"
    for number in count(1):
        path = Path(f"{stem}{f'_{number}' if number > 1 else ''}.gcdump")
        if not os.path.lexists(path):
            return path
    raise AssertionError("there is always another number")


class Writing:
    """Where a heap that is being collected goes to. ``options`` are those to collect it with."""

    def __init__(self, options: HeapOptions, path: Path | None, raw: IO[bytes] | None, *, force: bool) -> None:
        self._path, self._raw, self._force = path, raw, force
        self._begins: list[int] = []
        self.options = options if raw is None else replace(options, raw=self._begin)

    def _begin(self) -> Callable[[memoryview], object]:
        """The session begins, maybe anew: then behind what came before, which may have to do."""
        assert self._raw is not None
        self._begins.append(self._raw.seek(0, os.SEEK_END))
        return self._raw.write

    def finish(self, done: CollectedHeap, path: Path) -> tuple[Path, int]:
        """Write the heap, to ``path`` where no file was named. Returns where it is, and how many bytes it has."""
        path = self._path or path
        if self._raw is None:
            chosen = HEAP_FORMATS["gcdump"] if is_stream(path) or not path.suffix else heap_format_of(str(path))
            return path, write_heap(done.heap, path, chosen.name, force=self._force)
        return path, self._leave(self._raw, done.session)

    def _leave(self, raw: IO[bytes], session: int) -> int:
        """Nothing but what came by one session; how many bytes that is."""
        begin, *behind = [*self._begins, raw.seek(0, os.SEEK_END)][session - 1 :]
        size = behind[0] - begin
        for done in range(0, size if begin else 0, _PIECE_BYTES):
            raw.seek(begin + done)
            piece = raw.read(min(_PIECE_BYTES, size - done))
            raw.seek(done)
            raw.write(piece)
        raw.truncate(size)
        return size


@contextmanager
def write_collected(options: HeapOptions, path: Path | None, *, force: bool) -> Iterator[Writing]:
    """Raises what keeps the file from being written before anything is collected. It takes its name when it is whole."""
    if path is None:
        check_outputs([new_path(None)], force=force)
        yield Writing(options, None, None, force=force)
        return
    check_outputs([path], force=force)
    if path.suffix.lower() != RAW:
        if path.suffix and not is_stream(path):
            chosen = heap_format_of(str(path), others=(RAW,))
            chosen.check()
            if chosen.parts:
                raise UsageError(f"{chosen.name} is several files: collect a .gcdump, and convert that")
        yield Writing(options, path, None, force=force)
        return
    if is_stream(path):
        raise UsageError("a session that may begin anew needs a plain file")
    with replacing(path, force=force, readable=True) as file:
        yield Writing(options, path, file, force=force)


def write_heap(heap: Heap, path: Path, format: str, *, force: bool = False) -> int:
    """Write a heap in one format, to one file. Returns how many bytes it has."""
    with replacing(path, force=force) as file:
        if format == "gcdump" and not is_stream(path):
            from dotnetdiag.heap.gcdump_writer import write_gcdump
            from dotnetdiag.recipes.heap_sharing import shared_by_two
            from dotnetdiag.recipes.heap_writing import writing_behind

            with writing_behind(file) as behind, shared_by_two(heap.nodes) as shared:
                write_gcdump(heap, behind, shared)
        else:
            heap_format(format).write(heap, file)
        return file.tell()


def write_heap_alone(heap: Heap, path: Path, format: str | None, *, force: bool = False) -> int:
    """Write a heap in the format that the name ends in, or in the one named, to one file. Returns how many bytes it has. Raises UsageError for an
    unknown format, and for one of several files.
    """
    chosen = heap_format_of(str(path)) if format is None else heap_format(format.lower())
    chosen.check()
    if chosen.parts:
        parts = ", ".join(chosen.parts)
        raise UsageError(f"{chosen.name} is several files, {parts}: write a .gcdump, and convert that")
    return write_heap(heap, path, chosen.name, force=force)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertedHeap:
    """A file that was written."""

    path: Path
    format: str
    size_bytes: int


def plan(source: Path, formats: Sequence[str], output: Path | None) -> list[tuple[HeapFormat, str | None, Path]]:
    """(format, part, file) of each file to write. Raises UsageError, MissingDependency."""
    if not formats:
        chosen = [HEAP_FORMATS["gcdump"] if output is None or is_stdout(output) else heap_format_of(output.name)]
    else:
        chosen = [heap_format(name) for name in dict.fromkeys(name.lower() for name in formats)]
    for one in chosen:
        one.check()
    if formats and output is not None and not is_stdout(output):
        other = next((one for one in HEAP_FORMATS.values() if output.name.lower().endswith(one.suffix)), None)
        if other is not None and other not in chosen:
            asked = ", ".join(one.name for one in chosen)
            raise UsageError(
                f"{output.name} is the name of a {other.name}, and {asked} is asked for: leave one of them out"
            )
    if output is not None and is_stdout(output):
        if len(chosen) > 1 or chosen[0].parts:
            raise UsageError("several files do not go into one stream")
        return [(chosen[0], None, STDOUT)]
    made: list[tuple[HeapFormat, str | None, Path]] = []
    for one in chosen:
        named = output is not None and len(chosen) == 1 and output.name.lower().endswith(one.suffix)
        bare = _bare(source if output is None else output)
        path = output if named and output is not None else bare.with_name(bare.name + one.suffix)
        if output is None and is_same_file(path, source):
            path = bare.with_name(f"{bare.name}.converted{one.suffix}")
        if not one.parts:
            made.append((one, None, path))
        for part in one.parts:
            made.append((one, part, path.with_name(f"{path.name.removesuffix(one.suffix)}.{part}{one.suffix}")))
    return made


def _bare(path: Path) -> Path:
    """The name without what says its format."""
    name = path.name
    for suffix in (".gz", ".xz", RAW, *(one.suffix for one in HEAP_FORMATS.values())):
        if name.lower().endswith(suffix) and len(name) > len(suffix):
            name = name[: -len(suffix)]
    return path.with_name(name)


def convert_heap(
    source: Path, formats: Sequence[str], output: Path | None = None, *, dump: int | None = None, force: bool = False
) -> tuple[Heap, list[ConvertedHeap]]:
    """The heap of a file in other formats, a file for each, beside it or named after ``output``. None takes its name before all are whole.

    Without formats it is the one that ``output`` ends in, or a ``.gcdump``. Raises UsageError, also for a file onto itself, OutputExists,
    OutputError, MissingDependency, InputError, FormatError.
    """
    from dotnetdiag.recipes.heap_files import open_heap

    planned = plan(source, formats, output)
    check_outputs([path for _, _, path in planned], force=force, sources=[source])
    heap = open_heap(source, dump)
    made = []
    with replacing_together(force=force) as create:
        for one, part, path in planned:
            file = create(path)
            one.write(heap, file, part)
            made.append(ConvertedHeap(path=path, format=one.name, size_bytes=file.tell()))
    return heap, made
