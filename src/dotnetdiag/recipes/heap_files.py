"""Heaps in files: a ``.gcdump``, whoever wrote it, or a recording of a heap session, which may hold several."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.recipes.trace_files import is_gcdump, read_bytes, text_of, trace_of

if TYPE_CHECKING:
    from dotnetdiag.heap.fold import HeapFold
    from dotnetdiag.heap.heap import Heap
    from dotnetdiag.heap.type_totals import TypeTotals
    from dotnetdiag.recipes.sources import PathText
    from dotnetdiag.trace.trace import Trace

_PORT = r"(?i)[a-z.]{2,}:|\\\\\.\\pipe\\|.*,\s*(connect|listen)\s*$"
"""Addresses that are no paths, and paths of which is said what to do there."""
SUFFIXES = (".gcdump", ".nettrace", ".netperf", ".gz", ".xz")


def looks_like_file(text: str) -> bool:
    """Whether a text names a file rather than a process: by its end, because the file is there, or because nothing is at a path that is not
    said to be a port.
    """
    if text.lower().endswith(SUFFIXES) or os.path.isfile(text):
        return True
    is_path = any(sign in text for sign in "/\\") and not re.match(_PORT, text)
    return is_path and (os.path.isdir(text) or not os.path.exists(text))


def open_file(path: PathText, *, threads: int | None = None, must_be_heap: bool = False) -> Trace | Heap:
    """What is in a file: a recording, as :func:`open_trace` gives it, or the heap of a ``.gcdump``. ``must_be_heap``: the error for what is neither
    says what files of heaps are.

    Raises InputError and FormatError.
    """
    path = text_of(path)
    buffer, oddities = read_bytes(path)
    if is_gcdump(buffer):
        from dotnetdiag.heap.gcdump_reader import read_gcdump

        try:
            return read_gcdump(buffer)
        except FormatError as error:
            raise FormatError(error.problem, offset=error.offset, where=os.path.basename(path)) from error
    if must_be_heap:
        from dotnetdiag.nettrace.framing import begins_as_recording

        if not len(buffer) or not begins_as_recording(bytes(buffer[:32])):
            raise FormatError(
                "no heap is in it: a .gcdump is wanted, or the recording of a heap session (.nettrace)",
                where=os.path.basename(path),
            )
    return trace_of(path, buffer, oddities, threads=threads)


def read_heaps(path: PathText) -> tuple[Heap, ...]:
    """Every heap in a file, in the order of their dumps: one of a ``.gcdump``, as many as were walked of a recording.

    Raises InputError, and FormatError for a file that is neither, or has none.
    """
    found = _found(path)
    return found if isinstance(found, tuple) else found.result()


def _found(path: PathText) -> tuple[Heap] | HeapFold:
    """The heap of a ``.gcdump``, or all that a recording tells of one or more."""
    found = open_file(path, must_be_heap=True)
    from dotnetdiag.heap.heap import Heap

    if isinstance(found, Heap):
        return (found,)
    from dotnetdiag.heap.fold import HeapFold

    fold = HeapFold()
    for window in found.windows(fold.wants):
        fold.feed(window)
    if not fold.dumps:
        raise FormatError(
            "no heap is in it: record one with gcdump collect (a heap is recorded with the keyword GCHeapSnapshot, 0x1980001, at level Verbose)",
            where=os.path.basename(os.fspath(path)),
        )
    return fold


def read_totals(path: PathText) -> TypeTotals | None:
    """The totals by type of a ``.gcdump``, in a third of the time of its heap; None of any other file, and where anything is odd:
    :func:`read_heaps` says what. Raises InputError.
    """
    buffer, oddities = read_bytes(text_of(path))
    if oddities or not is_gcdump(buffer):
        return None
    from dotnetdiag.heap.type_totals import of_file

    search = of_file(buffer)
    if search is None:
        return None
    searching = threading.Thread(target=search.search, daemon=True)
    try:
        searching.start()
    except RuntimeError:  # no more threads: one after the other
        search.search()
        search.prepare()
    else:
        search.prepare()
        searching.join()
    return search.totals()


def open_heap(path: PathText, dump: int | None = None) -> Heap:
    """The heap in a file; of several the ``dump``-th, counted from 1 (None: the first). UsageError where there are not so many."""
    found = _found(path)
    dumps = len(found) if isinstance(found, tuple) else found.dumps
    if dump is not None and not 1 <= dump <= dumps:
        raise UsageError(f"there is no dump {dump}: the file has {dumps}")
    return found[0] if isinstance(found, tuple) else found.result(dump or 1)[0]
