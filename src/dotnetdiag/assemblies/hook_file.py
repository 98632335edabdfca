"""A startup hook's file, looked at as the target sees it, before it is named to the target.

What is checked is the file that is there now. Nothing keeps somebody from changing it before the target opens it.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dotnetdiag.assemblies import startup_hook

PROC = Path("/proc")
# Real hooks have some KB; what is larger than this is not read.
MAX_SIZE_BYTES = 64 << 20
# As Linux has it.
MAX_LINKS = 40
# Links can make more parts of a path than it had; each is an open file while we look.
MAX_PARTS = 500

# e_machine of ELF files as PE files number it.
_MACHINES = {3: startup_hook.X86, 40: startup_hook.ARM, 62: startup_hook.X64, 183: startup_hook.ARM64}


def hook_file_problem(path: str, pid: int, *, runtime_version: str = "") -> str:
    """Why a file is no startup hook that the process can load, or ``""``. Raises OSError, or ValueError, where it cannot be read.

    On Linux the path is followed inside of the process's own root (``/proc/PID/root``), links and ``..`` too, so that a path of a container
    is meant. Nothing but a regular file is opened. ``runtime_version`` (``9.0.22``), where it is known, is compared with what the hook
    was built for.
    """
    on_linux = sys.platform == "linux"
    data = _read_inside(PROC / str(pid) / "root", path) if on_linux else _read(path)
    if len(data) > MAX_SIZE_BYTES:
        return "it is too large"
    machine = target_machine(pid) if on_linux else None
    return startup_hook.startup_hook_problem(data, machine=machine, runtime_version=runtime_version)


def target_machine(pid: int) -> int | None:
    """The processor that a process runs on, as PE files number it; None for one that is not known."""
    try:
        with open(PROC / str(pid) / "exe", "rb") as file:
            head = file.read(20)
    except OSError:
        return None
    return _MACHINES.get(int.from_bytes(head[18:20], "little")) if head[:4] == b"\x7fELF" else None


def _read_inside(root: Path, path: str) -> bytes:
    with _open_inside(root, path) as handle:
        # The handle allows no reading. This opens the same file, whatever has become of the path.
        return _read(f"/proc/self/fd/{handle}")


def _read(path: str) -> bytes:
    """At most one byte more than MAX_SIZE_BYTES. Raises OSError for what is no regular file, and does not wait for a FIFO's writer."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        _require_regular(os.fstat(file.fileno()))
        return file.read(MAX_SIZE_BYTES + 1)


def _require_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")


@contextmanager
def _open_inside(root: Path, path: str) -> Iterator[int]:
    """A handle (O_PATH) of the regular file at ``path`` for a process whose root that is: links and ``..`` never lead out.

    Each part is opened inside of the one before and never followed by the kernel, so it does not matter who renames or links
    what meanwhile; a device or FIFO is looked at and not opened.
    """
    with ExitStack() as handles:

        def opened(name: str, folder: int | None) -> int:
            follow = os.O_NOFOLLOW if folder is not None else 0
            handle = os.open(name, os.O_PATH | os.O_CLOEXEC | follow, dir_fd=folder)
            handles.callback(os.close, handle)
            return handle

        places = [("", opened(str(root), None))]  # names and handles, from the root down
        rest = path.split("/")[::-1]
        links = parts = 0
        while rest:
            name = rest.pop()
            parts += 1
            if parts > MAX_PARTS:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            if name in ("", ".", ".."):
                if not stat.S_ISDIR(os.fstat(places[-1][1]).st_mode):
                    raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
                if name == ".." and len(places) > 1:
                    places.pop()
                continue
            handle = opened(name, places[-1][1])
            if not stat.S_ISLNK(os.fstat(handle).st_mode):
                places.append((name, handle))
                continue
            if len(places) > 1 and places[1][0] == "proc":
                raise OSError(errno.EINVAL, "links in /proc lead the target to another place than us")
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            target = os.readlink("", dir_fd=handle)
            if target.startswith("/"):
                del places[1:]
            rest += target.split("/")[::-1]
        _, handle = places[-1]
        _require_regular(os.fstat(handle))
        yield handle
