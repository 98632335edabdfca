"""Windows named pipes, with overlapped I/O so that every wait has a deadline and can be ended by ``close``.

**Tested with a fake of the Windows calls only**; no Windows machine was at hand when this was written.
``api`` is the standard library's ``_winapi`` module or something with the same functions. A pipe made here takes local
clients only (ipc-protocol.md §10.1) and has the default security descriptor of the user, which lets others *read*;
a diagnostic client has to write, so they cannot use it.
"""

from __future__ import annotations

import errno
import math
import sys
from typing import Any, Protocol

from dotnetdiag.errors import ConnectFailed, ConnectionEnded, TimedOut, TransportError, UsageError
from dotnetdiag.transport.addresses import PipeAddress
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.streams import Listener, Stream, Usage

GENERIC_READ_WRITE = 0xC0000000
OPEN_EXISTING = 3
FILE_FLAG_OVERLAPPED = 0x40000000
PIPE_ACCESS_DUPLEX = 3
FILE_FLAG_FIRST_PIPE_INSTANCE = 0x00080000
PIPE_REJECT_REMOTE_CLIENTS = 8
"""Byte type, byte read mode and blocking wait are all 0."""
PIPE_UNLIMITED_INSTANCES = 255
BUFFER_BYTES = 65536
INFINITE = 0xFFFFFFFF
WAIT_TIMEOUT = 258

ERROR_FILE_NOT_FOUND = 2
ERROR_ACCESS_DENIED = 5
ERROR_BROKEN_PIPE = 109
ERROR_SEM_TIMEOUT = 121
ERROR_PIPE_BUSY = 231
ERROR_NO_DATA = 232
ERROR_PIPE_NOT_CONNECTED = 233
ERROR_PIPE_CONNECTED = 535
ERROR_OPERATION_ABORTED = 995

_GONE = (ERROR_BROKEN_PIPE, ERROR_NO_DATA, ERROR_PIPE_NOT_CONNECTED)
_LONGEST_WAIT_MS = 0x7FFFFFFF
_REASONS = {
    ERROR_FILE_NOT_FOUND: ("there is no such pipe", errno.ENOENT),
    ERROR_ACCESS_DENIED: ("permission denied: run as the user of the other process, or as administrator", errno.EACCES),
}


class Overlapped(Protocol):
    """One operation under way."""

    event: int

    def GetOverlappedResult(self, wait: bool, /) -> tuple[int, int]: ...
    def getbuffer(self) -> bytes | None: ...
    def cancel(self) -> None: ...


class PipeApi(Protocol):
    """What is used of ``_winapi``."""

    def CreateFile(
        self, name: str, access: int, share: int, security: int, how: int, flags: int, template: int, /
    ) -> int: ...
    def CreateNamedPipe(
        self, name: str, how: int, mode: int, most: int, out: int, into: int, wait: int, security: int, /
    ) -> int: ...
    def ConnectNamedPipe(self, handle: int, overlapped: bool, /) -> Overlapped: ...
    def WaitNamedPipe(self, name: str, wait_ms: int, /) -> None: ...
    def ReadFile(self, handle: int, size: int, overlapped: bool, /) -> tuple[Overlapped, int]: ...
    def WriteFile(self, handle: int, data: bytes, overlapped: bool, /) -> tuple[Overlapped, int]: ...
    def PeekNamedPipe(self, handle: int, size: int = 0, /) -> tuple[Any, ...]: ...
    def WaitForMultipleObjects(self, events: list[int], all_of_them: bool, wait_ms: int, /) -> int: ...
    def CloseHandle(self, handle: int, /) -> None: ...


class PipeStream(Stream):
    """A stream over one end of a pipe; owns the handle."""

    def __init__(self, api: PipeApi, handle: int, *, address: str) -> None:
        self.address = address
        self._api, self._handle = api, handle
        self._under_way: set[Overlapped] = set()
        self._usage = Usage(lambda: api.CloseHandle(handle))

    def send(self, data: bytes | bytearray | memoryview, deadline: Deadline) -> None:
        if not self._usage.enter():
            raise TransportError("the stream is closed", address=self.address)
        try:
            rest = bytes(data)
            while rest:
                work, _ = self._api.WriteFile(self._handle, rest, True)
                count, _ = self._finish(work, deadline, "the peer does not take the bytes")
                rest = rest[count:]
        except TransportError:
            raise
        except OSError as exc:
            raise self._error(exc, "sending failed") from exc
        finally:
            self._usage.leave()

    def receive_into(self, view: memoryview, deadline: Deadline) -> int:
        """As ``Stream.receive_into``. The system copies into a buffer of its own first."""
        size = len(view)
        if not size:
            raise UsageError("cannot receive 0 bytes")
        if not self._usage.enter():
            return 0
        try:
            while True:
                work, _ = self._api.ReadFile(self._handle, size, True)
                count, _ = self._finish(work, deadline, "nothing arrived")
                if count:  # a write of 0 bytes by the peer arrives as 0 bytes and is no end
                    view[:count] = (work.getbuffer() or b"")[:count]
                    return count
        except TransportError:
            if self._usage.closed:
                return 0
            raise
        except OSError as exc:
            if self._usage.closed or _winerror(exc) in _GONE:
                return 0
            raise self._error(exc, "receiving failed") from exc
        finally:
            self._usage.leave()

    def is_alive(self) -> bool:
        if not self._usage.enter():
            return False
        try:
            self._api.PeekNamedPipe(self._handle, 0)
            return True
        except OSError:
            return False
        finally:
            self._usage.leave()

    def fileno(self) -> int:
        return -1 if self._usage.closed else self._handle

    def close(self) -> None:
        self._usage.shut(lambda: _cancel_all(self._under_way))

    def _finish(self, work: Overlapped, deadline: Deadline, problem: str) -> tuple[int, int]:
        return finish(self._api, work, self._under_way, self._usage, deadline, problem, self.address)

    def _error(self, exc: OSError, what: str) -> TransportError:
        if self._usage.closed:
            return TransportError("the stream is closed", address=self.address)
        if _winerror(exc) in _GONE:
            return ConnectionEnded("the peer closed the connection", address=self.address)
        return TransportError(f"{what}: {exc.strerror or exc}", address=self.address)


class PipeListener(Listener):
    """Listens on a pipe name. One instance of the pipe always waits for the next client."""

    def __init__(self, api: PipeApi, address: PipeAddress) -> None:
        self.address = address
        self._api = api
        self._under_way: set[Overlapped] = set()
        self._next = self._instance(first=True)
        self._usage = Usage(self._free)

    def accept(self, deadline: Deadline) -> Stream:
        if not self._usage.enter():
            raise self._closed_error()
        try:
            work = self._api.ConnectNamedPipe(self._next, True)
            try:
                finish(self._api, work, self._under_way, self._usage, deadline, "nobody connected", str(self.address))
            except OSError as exc:
                if _winerror(exc) != ERROR_PIPE_CONNECTED:
                    raise
            if self._usage.closed:
                raise self._closed_error()
            taken, self._next = self._next, self._instance(first=False)
            return PipeStream(self._api, taken, address=str(self.address))
        except TransportError:
            raise
        except OSError as exc:
            if self._usage.closed:
                raise self._closed_error() from exc
            raise TransportError(f"accepting failed: {exc.strerror or exc}", address=str(self.address)) from exc
        finally:
            self._usage.leave()

    def fileno(self) -> int:
        return -1 if self._usage.closed else self._next

    def close(self) -> None:
        self._usage.shut(lambda: _cancel_all(self._under_way))

    def _free(self) -> None:
        self._api.CloseHandle(self._next)

    def _closed_error(self) -> TransportError:
        return TransportError("the listener is closed", address=str(self.address))

    def _instance(self, *, first: bool) -> int:
        how = PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | (FILE_FLAG_FIRST_PIPE_INSTANCE if first else 0)
        name = str(self.address)
        mode, most = PIPE_REJECT_REMOTE_CLIENTS, PIPE_UNLIMITED_INSTANCES
        try:
            return self._api.CreateNamedPipe(name, how, mode, most, BUFFER_BYTES, BUFFER_BYTES, 0, 0)
        except OSError as exc:
            taken = first and _winerror(exc) == ERROR_ACCESS_DENIED
            reason = "somebody listens there already" if taken else str(exc.strerror or exc)
            raise TransportError(f"cannot listen: {reason}", address=name) from exc


def finish(
    api: PipeApi,
    work: Overlapped,
    under_way: set[Overlapped],
    usage: Usage,
    deadline: Deadline,
    problem: str,
    address: str,
) -> tuple[int, int]:
    """Wait for ``work``: (bytes, error code). When the deadline passes it is cancelled, and ``TimedOut`` raised.

    An operation that finished just before it was cancelled counts as done, so nothing is lost.
    """
    under_way.add(work)
    late: TimedOut | None = None
    try:
        while not usage.closed:
            try:
                wait_ms = _wait_ms(deadline, problem, address)
            except TimedOut as exc:
                late = exc
                break
            if api.WaitForMultipleObjects([work.event], False, wait_ms) != WAIT_TIMEOUT:
                break
        if usage.closed or late is not None:
            work.cancel()
        count, code = work.GetOverlappedResult(True)
        if code == ERROR_OPERATION_ABORTED:
            raise late or TransportError("closed", address=address)
        return count, code
    finally:
        under_way.discard(work)


def connect(address: PipeAddress, deadline: Deadline, *, api: PipeApi | None = None) -> PipeStream:
    """A connection to a pipe. Raises ``ConnectFailed`` or ``TimedOut``; waits while all its instances are busy."""
    api = api or system_api(address)
    name = str(address)
    while True:
        wait_ms = _wait_ms(deadline, "all instances of the pipe are busy", name)
        try:
            handle = api.CreateFile(name, GENERIC_READ_WRITE, 0, 0, OPEN_EXISTING, FILE_FLAG_OVERLAPPED, 0)
            return PipeStream(api, handle, address=name)
        except OSError as exc:
            if _winerror(exc) != ERROR_PIPE_BUSY:
                raise _connect_error(exc, name) from exc
        try:
            api.WaitNamedPipe(name, wait_ms)
        except OSError as exc:
            if _winerror(exc) != ERROR_SEM_TIMEOUT:
                raise _connect_error(exc, name) from exc


def listen(address: PipeAddress, *, api: PipeApi | None = None) -> PipeListener:
    """Listen on a pipe name that nobody has. Raises ``TransportError``."""
    return PipeListener(api or system_api(address), address)


def system_api(address: PipeAddress) -> PipeApi:
    """The calls of this system. Raises ``ConnectFailed`` where there are no named pipes."""
    if sys.platform != "win32":
        raise ConnectFailed("named pipes exist on Windows only", address=str(address), errno=errno.ENOSYS)
    import _winapi

    api: Any = _winapi
    found: PipeApi = api
    return found


def _wait_ms(deadline: Deadline, problem: str, address: str) -> int:
    left = deadline.left(problem, address=address)
    return INFINITE if left is None else min(math.ceil(left * 1000), _LONGEST_WAIT_MS)


def _cancel_all(under_way: set[Overlapped]) -> None:
    for work in tuple(under_way):
        work.cancel()


def _connect_error(exc: OSError, name: str) -> ConnectFailed:
    reason, number = _REASONS.get(_winerror(exc), (str(exc.strerror or exc), exc.errno))
    return ConnectFailed(reason, address=name, errno=number)


def _winerror(exc: OSError) -> int:
    return int(getattr(exc, "winerror", None) or 0)
