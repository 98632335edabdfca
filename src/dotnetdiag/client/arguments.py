"""What callers give, made into what a target is told."""

from __future__ import annotations

import ntpath
import os
import posixpath

from dotnetdiag.errors import UsageError


def absolute_path(path: str) -> str:
    """A path that is absolute on any system, as it is: the target may run on another one than we do. Another one from our working
    directory; an empty one stays empty (the runtime then chooses). Raises UsageError when our working directory was deleted.
    """
    if not path or posixpath.isabs(path) or ntpath.isabs(path):
        return path
    try:
        return os.path.abspath(path)
    except OSError as error:
        raise UsageError(f"{path}: our working directory is gone; give an absolute path") from error


def milliseconds(timeout_s: float) -> int:
    """For a u32 of milliseconds. Raises UsageError for what is no time."""
    if not 0 <= timeout_s <= 0xFFFFFFFF / 1000:  # also refuses NaN
        raise UsageError(f"a timeout of {timeout_s} s: must be 0 to {0xFFFFFFFF // 1000}")
    return round(timeout_s * 1000)


def require_usable_hook(path: str, pid: int | None, *, runtime_version: str = "") -> None:
    """Raise DangerousRequest unless the file is there, for the target, and is a startup hook that it can load."""
    from dotnetdiag.assemblies.hook_file import hook_file_problem
    from dotnetdiag.ipc.process import ApplyStartupHook

    request = ApplyStartupHook(path=path)
    request.check()
    if pid is None:
        raise request.dangerous(
            "a target known only by its address: the file cannot be checked, and one that is missing kills .NET 9 and 10"
        )
    try:
        problem = hook_file_problem(path, pid, runtime_version=runtime_version)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        problem = f"cannot be read as the target sees it ({why})"
        raise request.dangerous(f"{path} {problem}; such a hook kills .NET 9 and 10") from error
    if problem:
        raise request.dangerous(f"{path} is no startup hook: {problem}; such a hook kills .NET 9 and 10")
