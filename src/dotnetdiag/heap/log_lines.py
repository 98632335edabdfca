"""What is missing of a heap, as lines of the log that a ``.gcdump`` has room for: no other field of the format can say it."""

from __future__ import annotations

from collections.abc import Sequence

PREFIX = "dotnetdiag: the heap is not complete: "


def log_with(log: str | None, problems: Sequence[str]) -> str | None:
    """The log, and a line for each problem behind it."""
    lines = [PREFIX + " ".join(problem.split()) for problem in problems]
    return "\n".join([*(() if log is None else (log,)), *lines]) if lines else log


def without_problems(log: str | None) -> tuple[str | None, tuple[str, ...]]:
    """(the log as it was, the problems): the reverse of :func:`log_with`."""
    if log is None or PREFIX not in log:
        return log, ()
    lines = log.split("\n")
    problems = tuple(line.removeprefix(PREFIX).strip() for line in lines if line.startswith(PREFIX))
    others = [line for line in lines if not line.startswith(PREFIX)]
    return "\n".join(others) if others else None, problems
