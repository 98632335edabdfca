"""``dd.heap``: the heap of a process, or of a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import dotnetdiag.heap
from dotnetdiag.recipes.heap_files import looks_like_file, open_heap

if TYPE_CHECKING:
    from dotnetdiag.heap.heap import Heap
    from dotnetdiag.recipes.sources import PathText
    from dotnetdiag.recipes.stop import Stop
    from dotnetdiag.recipes.verbs import Runtime, Seconds


def heap(
    source: Runtime | PathText,
    *,
    dump: int | None = None,
    timeout: Seconds = None,
    buffer_mb: int | None = None,
    progress: Callable[[int, int, int, float], None] | None = None,
    stop: Stop | None = None,
) -> Heap:
    """The objects of a process, who refers to whom, and what that comes to.

    ``source`` is a runtime, as :func:`collect` takes it, or a file: a ``.gcdump``, or a recording of a heap session (the ``dump``-th of several,
    from 1). A path where nothing is names a file, which is missing: to listen there, say ``/run/port,listen``.

    A runtime makes a blocking collection of everything and walks its heap: the program stands still for that (``facts.pause_ms`` says for
    how long), and before .NET 10 for another collection when the session ends; one that waits at its start is let run before. ``timeout`` is
    how long nothing may come of it: no object, no answer, no runtime where one is waited for (None: 30 s, and the runtime however long);
    ``buffer_mb`` is of the session in the target (1024). ``progress`` gets objects, references, bytes and seconds, several times a second.
    Whether all is there says ``completeness``.

    Raises InputError and FormatError for a file; TimedOut, NotPossible for NativeAOT, which walks no heap, ConnectionEnded for a process that
    has gone, Cancelled, and the errors of the client.
    """
    if isinstance(source, os.PathLike) or (isinstance(source, str) and looks_like_file(source)):
        return open_heap(source, dump)
    from dotnetdiag.recipes.heap_collect import BUFFER_MB, HeapObserver, HeapOptions, collect_heap
    from dotnetdiag.recipes.verbs import target_of

    options = HeapOptions(target=target_of(source), timeout=timeout, buffer_mb=buffer_mb or BUFFER_MB)
    observer = HeapObserver() if progress is None else HeapObserver(progress=progress)
    return collect_heap(options, observer, stop).heap


room = dotnetdiag.heap
"""What ``dd.heap`` is: the package, which calls :func:`heap`."""
