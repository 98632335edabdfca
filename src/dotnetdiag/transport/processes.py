"""The operating system's view of processes: what ``/proc`` says, for one pid at a time.

Rule 1: nothing here raises for a process that vanished, is not ours to read or is a kernel thread: the answer is None.
Only a shortage of descriptors of our own raises TransportError: it must not be taken for such an answer.
Rule 2: text that does not decode is kept by ``os.fsdecode``, so it can be used to open files.
``proc`` is the directory to read; tests give their own.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

from dotnetdiag.errors import TransportError

PROC = Path("/proc")

LARGEST_FILE = 64 << 20
"""More of an environment, a command line or a maps file is not read. The kernel's own limits are far below."""

_STARTTIME = 22 - 3  # field 22; the fields behind the last ')' start with number 3


def read(pid: int | str, name: str, proc: Path = PROC) -> bytes | None:
    """The bytes of ``/proc/PID/NAME``, or None."""
    return _read(f"{proc}/{pid}/{name}")


def link(pid: int | str, name: str, proc: Path = PROC) -> str | None:
    """The target of the symbolic link ``/proc/PID/NAME``, or None."""
    try:
        return os.readlink(f"{proc}/{pid}/{name}")
    except (OSError, ValueError):
        return None


def iter_pids(proc: Path = PROC) -> Iterator[int]:
    """Every pid that ``proc`` shows, ascending. Nothing when there is no such directory."""
    try:
        names = os.listdir(proc)
    except OSError:
        return
    yield from sorted(int(name) for name in names if name.isascii() and name.isdigit())


def exists(pid: int, proc: Path = PROC) -> bool:
    """Whether there is such a process. False for the id of a mere thread, which ``/proc`` answers for as well."""
    status = _status(pid, proc)
    if status is None:
        return os.path.isdir(f"{proc}/{pid}")
    group = _number(status.get(b"Tgid", b""))
    return group is None or group == pid


def is_running(pid: int, proc: Path = PROC) -> bool:
    """Whether there is such a process, and it has not ended: one that nobody has waited for yet has."""
    return exists(pid, proc) and not is_zombie(pid, proc)


def stat_fields(pid: int, proc: Path = PROC) -> list[bytes] | None:
    """The fields of ``/proc/PID/stat`` from number 3 (state) on. A name may hold blanks and parentheses."""
    data = read(pid, "stat", proc)
    if data is None or b")" not in data:
        return None
    return data[data.rindex(b")") + 1 :].split()


def start_time_ticks(pid: int, proc: Path = PROC) -> int | None:
    """When the process started, in clock ticks since boot: the key in its socket's name (ipc-protocol.md §10.1)."""
    fields = stat_fields(pid, proc)
    return None if fields is None or len(fields) <= _STARTTIME else _number(fields[_STARTTIME])


def uptime_s(pid: int, proc: Path = PROC) -> float | None:
    """Seconds since the process started; never below 0."""
    ticks, data = start_time_ticks(pid, proc), _read(f"{proc}/uptime")
    if ticks is None or not data:
        return None
    try:
        return max(0.0, float(data.split()[0]) - ticks / os.sysconf("SC_CLK_TCK"))
    except (ValueError, IndexError, OSError):
        return None


def is_zombie(pid: int, proc: Path = PROC) -> bool:
    """Whether the process has ended and only waits to be collected by its parent."""
    return (stat_fields(pid, proc) or [b""])[0] in (b"Z", b"X")


def is_stopped(pid: int, proc: Path = PROC) -> bool:
    """Whether a signal (SIGSTOP, Ctrl-Z) has stopped the process. A debugger's stop (``t``) does not count: it passes."""
    return (stat_fields(pid, proc) or [b""])[0] == b"T"


def answers(pid: int) -> bool:
    """Whether the system takes a signal for the process, or refuses it for want of permission: then it exists."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True


def is_hidden(pid: int, proc: Path = PROC) -> bool:
    """Whether the process exists, but our ``/proc`` shows nothing of it (mounted with ``hidepid``)."""
    return proc == PROC and _status(pid, proc) is None and pid > 0 and answers(pid)


def has_capability(number: int, proc: Path = PROC) -> bool:
    """Whether we ourselves have this capability in effect. Where the system does not say, root has all."""
    try:
        return bool(int((_status("self", proc) or {})[b"CapEff"], 16) >> number & 1)
    except (KeyError, ValueError):
        return hasattr(os, "geteuid") and os.geteuid() == 0


def namespace_pids(pid: int, proc: Path = PROC) -> tuple[int, ...] | None:
    """The process's pids, from our namespace to its own innermost. One number: it lives in ours.

    ``(pid,)`` when the kernel does not say (before 4.1). None when there is no such process.
    """
    status = _status(pid, proc)
    if status is None:
        return None
    numbers = [_number(word) for word in status.get(b"NSpid", b"").split()]
    found = tuple(number for number in numbers if number is not None)
    return found if found and len(found) == len(numbers) else (pid,)


def is_number_of(namespace_pid: int, pid: int) -> bool:
    """Whether a process is numbered so where it lives: a relay is another process than the runtime that it leads to."""
    return namespace_pid in (namespace_pids(pid) or (pid,))[-1:]


def uid(pid: int, proc: Path = PROC) -> int | None:
    """The effective user id, who owns the socket that the process makes."""
    words = (_status(pid, proc) or {}).get(b"Uid", b"").split()
    return _number(words[1]) if len(words) > 1 else None


def environ(pid: int, proc: Path = PROC) -> dict[bytes, bytes] | None:
    """The environment the process was started with; None when it may not be read. The first of a name counts."""
    data = read(pid, "environ", proc)
    if data is None:
        return None
    found: dict[bytes, bytes] = {}
    for entry in data.split(b"\0"):
        end = entry.find(b"=", 1)  # a name may begin with one: =C: under Wine
        if end > 0:
            found.setdefault(entry[:end], entry[end + 1 :])
    return found


def argv(pid: int, proc: Path = PROC) -> tuple[str, ...] | None:
    """The command line, word by word; empty for a kernel thread."""
    data = read(pid, "cmdline", proc)
    if data is None:
        return None
    return tuple(map(os.fsdecode, data.removesuffix(b"\0").split(b"\0") if data else ()))


def comm(pid: int, proc: Path = PROC) -> str | None:
    """The short name of the process (at most 15 bytes)."""
    data = read(pid, "comm", proc)
    return None if data is None else os.fsdecode(data.removesuffix(b"\n"))


def task_ids(pid: int, proc: Path = PROC) -> list[str]:
    """The numbers of all threads, that of the main thread first."""
    try:
        tasks = os.listdir(f"{proc}/{pid}/task")
    except (OSError, ValueError):
        return []
    return sorted(tasks, key=lambda task: (task != str(pid), task))


def thread_names(pid: int, proc: Path = PROC) -> tuple[str, ...]:
    """The short names of all threads, the main thread first. Readable for every user."""
    names = (name for task in task_ids(pid, proc) if (name := read(pid, f"task/{task}/comm", proc)) is not None)
    return tuple(os.fsdecode(name.removesuffix(b"\n")) for name in names)


def mapped_files(pid: int, proc: Path = PROC) -> frozenset[str] | None:
    """Paths of the files in the memory map; None when it may not be read."""
    data = read(pid, "maps", proc)
    if data is None:
        return None
    found = set()
    for line in data.split(b"\n"):
        fields = line.split(None, 5)
        if len(fields) == 6 and fields[5].startswith(b"/"):
            found.add(os.fsdecode(fields[5].removesuffix(b" (deleted)")))
    return frozenset(found)


def cwd(pid: int, proc: Path = PROC) -> str | None:
    """The working directory as the process itself sees it: ``/proc`` shows that of a chroot with the way to its root in front."""
    target, root = link(pid, "cwd", proc), (link(pid, "root", proc) or "").rstrip("/")
    if target is None:
        return None
    path = target.removesuffix(" (deleted)")
    return path.removeprefix(root) or "/" if f"{path}/".startswith(f"{root}/") else path


def _status(pid: int | str, proc: Path) -> dict[bytes, bytes] | None:
    data = read(pid, "status", proc)
    if data is None:
        return None
    found: dict[bytes, bytes] = {}
    for line in data.split(b"\n"):
        name, _, value = line.partition(b":")
        found.setdefault(name.strip(), value.strip())
    return found


def _number(word: bytes) -> int | None:
    return int(word) if word.isdigit() and len(word) <= 20 else None


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:
            data = bytearray()
            while len(data) < LARGEST_FILE and (part := file.read(65536)):
                data += part
            return bytes(data)
    except OSError as exc:
        if exc.errno in (errno.EMFILE, errno.ENFILE):  # says nothing of the process
            raise TransportError("this program has no free file descriptor left", address=path) from exc
        return None
    except ValueError:  # a NUL in a fabricated path
        return None
