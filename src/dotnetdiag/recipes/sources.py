"""What a verb is given: a path, or a trace that is open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from dotnetdiag.trace.trace import Trace

PathText: TypeAlias = str | os.PathLike[str]


def path_of(source: object) -> Path:
    """Raises UsageError for what is none."""
    if not isinstance(source, str | os.PathLike):
        raise UsageError(f"give the path of a file, not a {type(source).__name__}")
    from pathlib import Path  # 3 ms, which a report of a small file notices

    return Path(source)


@contextmanager
def opened(source: PathText | Trace) -> Iterator[Trace]:
    """The trace of a path, or the one that is given. Raises InputError and FormatError as ``open``."""
    from dotnetdiag.recipes.trace_files import open_trace
    from dotnetdiag.trace.trace import Trace

    if isinstance(source, list | tuple | set | frozenset):
        raise UsageError(
            f"one recording is asked, not a {type(source).__name__}: ask each in turn, or several at once with dd.sql or dd.dataset; "
            "dd.merge makes one of them"
        )
    if isinstance(source, Trace):
        yield source
    else:
        yield open_trace(path_of(source))
