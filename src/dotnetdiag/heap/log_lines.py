"""What no other field of the format can say, as lines of the log that a ``.gcdump`` has room for: what is missing of a heap, and sizes of objects
that records cannot say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dotnetdiag._dataclasses import dataclass

PREFIX = "dotnetdiag: the heap is not complete: "
SIZES = "dotnetdiag: bytes of nodes that are larger than 2147483647: "
MOST_PROBLEMS = 64
"""More than a writer has; a log may have any number of lines."""
MOST_SIZES = 1 << 16
"""So many objects of 2 GiB fill all that a program can address."""
_SIZE = re.compile(r"([0-9]{1,10})=([0-9]{10,15})")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnLines:
    """The log as it was, the problems, and the bytes of nodes."""

    log: str | None = None
    problems: tuple[str, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()


def log_with(log: str | None, problems: Sequence[str], sizes: Mapping[int, int] | None = None) -> str | None:
    """The log, and behind it a line for each problem, and one of the bytes of nodes."""
    lines = [PREFIX + " ".join(problem.split()) for problem in problems]
    if sizes:
        lines.append(SIZES + " ".join(f"{node}={size}" for node, size in sizes.items()))
    return "\n".join([*(() if log is None else (log,)), *lines]) if lines else log


def without_own_lines(log: str | None) -> OwnLines:
    """The reverse of :func:`log_with`."""
    if log is None or (PREFIX not in log and SIZES not in log):
        return OwnLines(log=log)
    lines = log.split("\n")
    told = [line.removeprefix(SIZES) for line in lines if line.startswith(SIZES)]
    sizes = [
        (int(node), int(size))
        for words in told
        for node, size in (one.groups() for one in map(_SIZE.fullmatch, words.split(" ", MOST_SIZES)) if one)
    ]
    others = [line for line in lines if not line.startswith((PREFIX, SIZES))]
    problems = [line.removeprefix(PREFIX).strip() for line in lines if line.startswith(PREFIX)]
    if len(problems) > MOST_PROBLEMS:
        problems[MOST_PROBLEMS:] = [f"{len(problems) - MOST_PROBLEMS:,} other problems are in the log"]
    return OwnLines(
        log="\n".join(others) if others else None,
        problems=tuple(problems),
        sizes=tuple(sizes[:MOST_SIZES]),
    )
