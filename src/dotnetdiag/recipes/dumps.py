"""Have a runtime write a dump of itself, and say where it is: for the target, and for us."""

from __future__ import annotations

import os
import posixpath
import re
import time
from datetime import datetime
from typing import Any

from dotnetdiag._dataclasses import as_dict, dataclass
from dotnetdiag.client import Client
from dotnetdiag.client.arguments import absolute_path
from dotnetdiag.errors import NotSupported, OutputError, ServerError
from dotnetdiag.transport import processes
from dotnetdiag.transport.diagnosis import kind_of
from dotnetdiag.transport.inside import resolve_inside
from dotnetdiag.transport.views import Views

KINDS = {"mini": 1, "heap": 2, "triage": 3, "full": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """A dump that was written. ``path`` is as the target sees it, ``host_path`` as we do: they differ when the target lives in a
    container. ``size_bytes`` is None where we cannot see the file.
    """

    path: str
    host_path: str
    kind: str
    size_bytes: int | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return as_dict(self)


def write_dump(client: Client, path: str | None, kind: str, flags: int = 0) -> Dump:
    """``kind`` is Full, Heap, Mini or Triage. Without ``path``: ``core_DATE_TIME``. A relative path is one of our working directory; of
    the target's, when it has another root than we do (a container).
    """
    pid = client.target_pid()
    root = _other_root(pid)
    wanted = path or f"core_{datetime.now():%Y%m%d_%H%M%S}"
    if root is not None and pid is not None and not posixpath.isabs(wanted):
        wanted = posixpath.join(processes.cwd(pid) or "/", wanted)
    told = absolute_path(wanted)
    begun = time.time()
    _write(client, pid, told, kind, flags)
    if "%" in told and pid is not None:
        told = _expanded(told, root, begun) or told
    host_path = told if root is None else root + told
    return Dump(path=told, host_path=host_path, kind=kind, size_bytes=_size_bytes(told, root, pid))


def _expanded(path: str, root: str | None, begun: float) -> str | None:
    """What the runtime has made of a name with placeholders: the newest file that it may be, of those that are as new as the dump. None: there
    is none to be seen, or folders have placeholders too.
    """
    folder, name = posixpath.split(path)
    if "%" in folder:
        return None
    wanted = re.compile("".join(_PLACEHOLDERS.get(part, re.escape(part)) for part in re.split("(%.?)", name)))
    seen = folder if root is None else resolve_inside(root, folder)
    made: list[tuple[float, str]] = []
    try:
        with os.scandir(seen or folder) as entries:
            for entry in entries:
                if wanted.fullmatch(entry.name):
                    made.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
    except OSError:
        return None
    newest = max(made, default=(0.0, ""))
    return posixpath.join(folder, newest[1]) if newest[0] >= begun - CLOCKS_S else None


CLOCKS_S = 2.0
"""Times of files may be as coarse."""
_PLACEHOLDERS = {"%p": r"\d+", "%e": ".*", "%h": ".*", "%t": r"\d+", "%%": "%", "%": ""}
"""As createdump expands them (``dotnetdiag.server.dump_names``), as patterns."""


def _write(client: Client, pid: int | None, path: str, kind: str, flags: int) -> None:
    try:
        client.write_dump(path, KINDS[kind.lower()], flags)
    except ServerError as error:
        if pid is not None and kind_of(pid).native:
            raise NotSupported(
                error.command, error.hresult, name=error.name, text="NativeAOT writes no dumps; use gcore"
            ) from error
        raise


def _size_bytes(path: str, root: str | None, pid: int | None) -> int | None:
    """Of the dump; None where we cannot look: another machine, no permission, links without end, a name with placeholders. Raises
    OutputError when there is no such file.
    """
    if pid is None or "%" in path:
        return None
    seen = path if root is None else resolve_inside(root, path)
    if seen is None:
        return None
    try:
        return os.stat(seen).st_size
    except FileNotFoundError as error:
        if root is not None and not os.path.isdir(root):
            return None  # the process has gone, and what it saw with it
        raise OutputError(seen, "the runtime says that it wrote the dump, but there is no such file") from error
    except OSError:
        return None


def host_path(pid: int, path: str) -> str:
    """A path of a process, who may mean one of its working directory, as we reach it."""
    return (_other_root(pid) or "") + posixpath.join(processes.cwd(pid) or "/", path)


def _other_root(pid: int | None) -> str | None:
    """The target's root as we reach it, when it is not ours."""
    view = None if pid is None else Views(processes.PROC).of(pid)
    if view is None or not view.elsewhere:
        return None
    return f"{processes.PROC}/{pid}/root"
