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
from collections.abc import Callable
from typing import Any, TypeAlias

from dotnetdiag.errors import ConnectFailed, ConnectionEnded, TimedOut, TransportError, UsageError
from dotnetdiag.transport.addresses import PipeAddress
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.refcount import RefCount
from dotnetdiag.transport.streams import Listener, Stream
from dotnetdiag.transport.waiting import Blocking, Steps, T

GENERIC_READ_WRITE = 0xC0000000
OPEN_EXISTING = 3
FILE_FLAG_OVERLAPPED = 0x40000000
PIPE_ACCESS_DUPLEX = 3
FILE_FLAG_FIRST_PIPE_INSTANCE = 0x00080000
PIPE_REJECT_REMOTE_CLIENTS = 8
"""Byte type, byte read mode and blocking wait are all 0."""
PIPE_UNLIMITED_INSTANCES = 255
BUFFER_BYTES = 65536
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
_REASONS = {
    ERROR_FILE_NOT_FOUND: ("there is no such pipe", errno.ENOENT),
    ERROR_ACCESS_DENIED: ("permission denied: run as the user of the other process, or as administrator", errno.EACCES),
}


PipeApi: TypeAlias = Any
"""CreateFile, CreateNamedPipe, ConnectNamedPipe, WaitNamedPipe, ReadFile, WriteFile, PeekNamedPipe,
WaitForMultipleObjects and CloseHandle of ``_winapi``, which type checkers know on Windows only.
"""
Overlapped: TypeAlias = Any
"""One operation under way: ``event``, ``GetOverlappedResult``, ``getbuffer``, ``cancel``."""


class PipeEnd:
    """What a stream and a listener have in common: a handle, and operations under way that ``close`` cancels."""

    def __init__(self, api: PipeApi, handle: int, name: str) -> None:
        self._api, self._handle, self._name = api, handle, name
        self._under_way: set[Overlapped] = set()
        self._refs = RefCount(lambda: api.CloseHandle(self._handle))

    def fileno(self) -> int:
        return -1 if self._refs.closed else self._handle

    def close(self) -> None:
        self._refs.close(self._cancel)

    def _cancel(self) -> None:
        for work in tuple(self._under_way):
            work.cancel()

    def _finish(self, work: Overlapped, deadline: Deadline, problem: str) -> int:
        """Wait for ``work``: how many bytes. When the deadline passes it is cancelled, and ``TimedOut`` raised.

        An operation that finished just before it was cancelled counts as done, so nothing is lost.
        """
        self._under_way.add(work)
        late: TimedOut | None = None
        try:
            while not self._refs.closed:
                try:
                    wait_ms = _wait_ms(deadline, problem, self._name)
                except TimedOut as exc:
                    late = exc
                    break
                if self._api.WaitForMultipleObjects([work.event], False, wait_ms) != WAIT_TIMEOUT:
                    break
            if self._refs.closed or late is not None:
                work.cancel()
            count, code = work.GetOverlappedResult(True)
            if code == ERROR_OPERATION_ABORTED:
                raise late or self._closed_error()
            return int(count)
        finally:
            self._under_way.discard(work)

    def _closed_error(self) -> TransportError:
        return TransportError("the stream is closed", address=self._name)

    def _error(self, exc: OSError, what: str) -> TransportError:
        if isinstance(exc, TransportError):
            return exc
        if self._refs.closed:
            return self._closed_error()
        if _winerror(exc) in _GONE:
            return ConnectionEnded("the peer closed the connection", address=self._name)
        return TransportError(f"{what}: {exc.strerror or exc}", address=self._name)


class PipeStream(PipeEnd, Stream):
    """A stream over one end of a pipe; owns the handle."""

    def __init__(self, api: PipeApi, handle: int, *, address: str) -> None:
        super().__init__(api, handle, address)
        self.address = address

    def sending(self, data: bytes | bytearray | memoryview) -> Steps[None]:
        return self._one_step(lambda deadline: self._send(data, deadline))

    def receiving_into(self, view: memoryview) -> Steps[int]:
        return self._one_step(lambda deadline: self._receive(view, deadline))

    def _one_step(self, call: Callable[[Deadline], T]) -> Steps[T]:
        """A cancellation closes the stream: what a thread has begun cannot be taken back."""
        try:
            result: T = yield Blocking(call)
            return result
        except GeneratorExit:
            self.close()
            raise

    def _send(self, data: bytes | bytearray | memoryview, deadline: Deadline) -> None:
        if not self._refs.acquire():
            raise self._closed_error()
        try:
            rest = bytes(data)
            while rest:
                work, _ = self._api.WriteFile(self._handle, rest, True)
                rest = rest[self._finish(work, deadline, "the peer does not take the bytes") :]
        except OSError as exc:
            raise self._error(exc, "sending failed") from exc
        finally:
            self._refs.release()

    def _receive(self, view: memoryview, deadline: Deadline) -> int:
        """The system copies into a buffer of its own first."""
        size = len(view)
        if not size:
            raise UsageError("cannot receive 0 bytes")
        if not self._refs.acquire():
            return 0
        try:
            while True:
                work, _ = self._api.ReadFile(self._handle, size, True)
                count = self._finish(work, deadline, "nothing arrived")
                if count:  # a write of 0 bytes by the peer arrives as 0 bytes and is no end
                    view[:count] = (work.getbuffer() or b"")[:count]
                    return count
        except OSError as exc:
            if self._refs.closed or _winerror(exc) in _GONE:
                return 0
            raise self._error(exc, "receiving failed") from exc
        finally:
            self._refs.release()

    def is_alive(self) -> bool:
        if not self._refs.acquire():
            return False
        try:
            self._api.PeekNamedPipe(self._handle, 0)
            return True
        except OSError:
            return False
        finally:
            self._refs.release()


class PipeListener(PipeEnd, Listener):
    """Listens on a pipe name. One instance of the pipe always waits for the next client."""

    def __init__(self, api: PipeApi, address: PipeAddress) -> None:
        super().__init__(api, new_instance(api, str(address), first=True), str(address))
        self.address = address

    def accepting(self) -> Steps[Stream]:
        stream: Stream = yield Blocking(self._accept)
        return stream

    def _accept(self, deadline: Deadline) -> Stream:
        if not self._refs.acquire():
            raise self._closed_error()
        try:
            while True:
                stays = self._wait_for_client(deadline)
                # the next instance is there before this one goes, so that nobody else takes the name
                taken, self._handle = self._handle, new_instance(self._api, self._name, first=False)
                if stays:
                    return PipeStream(self._api, taken, address=self._name)
                self._api.CloseHandle(taken)
        except OSError as exc:
            raise self._error(exc, "accepting failed") from exc
        finally:
            self._refs.release()

    def _wait_for_client(self, deadline: Deadline) -> bool:
        """False when a client has come to the waiting instance and left again, which makes it useless."""
        try:
            self._finish(self._api.ConnectNamedPipe(self._handle, True), deadline, "nobody connected")
        except OSError as exc:
            if _winerror(exc) in _GONE:
                return False
            if _winerror(exc) != ERROR_PIPE_CONNECTED:
                raise
        if self._refs.closed:
            raise self._closed_error()
        return True

    def _closed_error(self) -> TransportError:
        return TransportError("the listener is closed", address=self._name)


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


def new_instance(api: PipeApi, name: str, *, first: bool) -> int:
    """The handle of a new server end. ``first``: nobody may have the name yet."""
    how = PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | (FILE_FLAG_FIRST_PIPE_INSTANCE if first else 0)
    mode, most = PIPE_REJECT_REMOTE_CLIENTS, PIPE_UNLIMITED_INSTANCES
    try:
        handle: int = api.CreateNamedPipe(name, how, mode, most, BUFFER_BYTES, BUFFER_BYTES, 0, 0)
        return handle
    except OSError as exc:
        taken = first and _winerror(exc) == ERROR_ACCESS_DENIED
        reason = "somebody listens there already" if taken else str(exc.strerror or exc)
        raise TransportError(f"cannot listen: {reason}", address=name) from exc


def system_api(address: PipeAddress) -> PipeApi:
    """The calls of this system. Raises ``ConnectFailed`` where there are no named pipes."""
    if sys.platform != "win32":
        raise ConnectFailed("named pipes exist on Windows only", address=str(address), errno=errno.ENOSYS)
    import _winapi

    return _winapi


def _wait_ms(deadline: Deadline, problem: str, address: str) -> int:
    return math.ceil(deadline.wait_s(problem, address=address) * 1000)


def _connect_error(exc: OSError, name: str) -> ConnectFailed:
    reason, number = _REASONS.get(_winerror(exc), (str(exc.strerror or exc), exc.errno))
    return ConnectFailed(reason, address=name, errno=number)


def _winerror(exc: OSError) -> int:
    return int(getattr(exc, "winerror", None) or 0)
