"""Have a runtime write a dump of itself, and say where it is: for the target, and for us."""

from __future__ import annotations

import os
import posixpath
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from dotnetdiag.client import Client
from dotnetdiag.client.arguments import absolute_path
from dotnetdiag.transport import processes
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
        return asdict(self)


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
    client.write_dump(told, KINDS[kind.lower()], flags)
    host_path = told if root is None else root + told
    try:
        size: int | None = os.stat(host_path).st_size
    except OSError:
        size = None  # a name with placeholders, another machine, or no permission
    return Dump(path=told, host_path=host_path, kind=kind, size_bytes=size)


def _other_root(pid: int | None) -> str | None:
    """The target's root as we reach it, when it is not ours."""
    view = None if pid is None else Views(processes.PROC).of(pid)
    if view is None or not view.elsewhere:
        return None
    return f"{processes.PROC}/{pid}/root"
