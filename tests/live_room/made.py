"""Sessions without a runtime: bytes that come in pieces, when the test lets them."""

from __future__ import annotations

import io
import queue
import struct
from collections.abc import Callable
from uuid import UUID

from dotnetdiag.errors import ConnectionEnded, TimedOut
from dotnetdiag.nettrace import Field, FieldType, Metadata, ThreadInfo, TypeCode, Writer

PROVIDER = "Test-Provider"
NUMBER = Metadata(
    metadata_id=1,
    provider=PROVIDER,
    event_id=1,
    name="Number",
    level=4,
    fields=(Field(name="n", type=FieldType(code=TypeCode.INT32)),),
)
OTHER = Metadata(
    metadata_id=2,
    provider=PROVIDER,
    event_id=2,
    name="OtherStart",
    level=4,
    fields=(Field(name="text", type=FieldType(code=TypeCode.STRING)),),
)


class FakeSession:
    """A session whose bytes are given with :meth:`say`; ``None`` is the end, an error is raised."""

    def __init__(self, *pieces: bytes | BaseException | None) -> None:
        self._pieces: queue.Queue[bytes | BaseException | None] = queue.Queue()
        self.stopped = self.closed = self.was_aborted = False
        self.ended = False
        self.on_stop: Callable[[], None] = lambda: self.say(None)
        for piece in pieces:
            self.say(piece)

    def say(self, piece: bytes | BaseException | None) -> None:
        self._pieces.put(piece)

    def read(self, size: int = 0, *, timeout_s: float | None = None) -> bytes:
        if self.ended:
            return b""
        try:
            piece = self._pieces.get(timeout=timeout_s)
        except queue.Empty:
            raise TimedOut("nothing came", timeout_s=timeout_s) from None
        if isinstance(piece, BaseException):
            raise piece
        self.ended = piece is None
        return piece or b""

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.on_stop()

    def abort(self) -> None:
        self.was_aborted = True

    def close(self) -> None:
        self.closed = True


def quiet() -> TimedOut:
    """Nothing comes for a while."""
    return TimedOut("nothing came")


def ended() -> ConnectionEnded:
    """What a killed target looks like on some systems."""
    return ConnectionEnded("the target is gone")


class Made:
    """A trace that is written piece by piece; :meth:`take` gives the bytes since the last time."""

    def __init__(self, version: int = 5, *, sync_ticks: int = 0, start_ns: int = 0) -> None:
        self._file = io.BytesIO()
        self._taken = 0
        self.writer = Writer(self._file, version=version, process_id=77, sync_ticks=sync_ticks, start_ns=start_ns)
        self.writer.add_metadata(NUMBER)
        self.writer.add_metadata(OTHER)
        if version == 6:
            self.writer.add_thread(ThreadInfo(index=1, os_thread_id=501, process_id=77, name="one"))
            self.writer.add_thread(ThreadInfo(index=2, os_thread_id=502, process_id=78))

    def number(
        self,
        n: int,
        time: int,
        *,
        thread: int = 1,
        sequence: int | None = None,
        is_sorted: bool = True,
        activity: UUID | None = None,
        stack: int = 0,
        labels: int = 0,
    ) -> None:
        self.writer.write_event(
            1, time, struct.pack("<i", n), thread=thread, sequence=sequence, is_sorted=is_sorted, activity=activity,
            stack=stack, labels=labels,
        )  # fmt: skip

    def text(self, text: str, time: int, *, thread: int = 1) -> None:
        self.writer.write_event(2, time, text.encode("utf-16-le") + b"\0\0", thread=thread)

    def take(self) -> bytes:
        self.writer.flush()
        data = self._file.getvalue()[self._taken :]
        self._taken += len(data)
        return data

    def finish(self) -> bytes:
        self.writer.close()
        return self.take_raw()

    def take_raw(self) -> bytes:
        data = self._file.getvalue()[self._taken :]
        self._taken += len(data)
        return data
