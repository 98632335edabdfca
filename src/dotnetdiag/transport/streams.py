"""The contracts: a byte stream, and a listener that accepts them.

Each operation has two forms: ``send`` waits in the calling thread; ``sending`` is the generator of its steps, which is
all that a kind of stream defines. ``aio`` drives the same steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self

from dotnetdiag.errors import TransportError, UsageError
from dotnetdiag.transport.addresses import Address
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.waiting import Steps, run


class Closing(ABC):
    """What is closed at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None:
        """Close it and wake whoever waits on it. May be called again, and from another thread."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Stream(Closing):
    """A connection that carries bytes both ways. One reader and one writer may use it at the same time.

    After ``close`` whoever waits in ``receive`` sees the end of the stream.
    """

    address: str

    @abstractmethod
    def fileno(self) -> int:
        """The descriptor or handle; -1 when closed."""

    def send(self, data: bytes | bytearray | memoryview, deadline: Deadline) -> None:
        """Send all of ``data``, in one piece where the system takes it.

        Raises ``ConnectionEnded`` when the peer is gone and ``TimedOut``; then an unknown part of it has been sent.
        """
        run(self.sending(data), deadline)

    def receive_into(self, view: memoryview, deadline: Deadline) -> int:
        """Wait for bytes and put them into ``view``; how many, 0 at the end of the stream.

        A reset by the peer is an end too (ipc-protocol.md §21.3), and so is ``close``.
        After ``TimedOut`` nothing is lost and the stream can be used again.
        """
        return run(self.receiving_into(view), deadline)

    def receive(self, size: int, deadline: Deadline) -> bytes:
        """Wait for 1 to ``size`` bytes; ``b""`` at the end of the stream. As ``receive_into`` otherwise."""
        buffer = receive_buffer(size)
        return bytes(buffer[: self.receive_into(buffer, deadline)])

    def send_descriptor(self, fd: int, deadline: Deadline) -> None:
        """Pass the open file ``fd`` to the peer, with one byte of data that carries it. Unix sockets only."""
        run(self.sending_descriptor(fd), deadline)

    @abstractmethod
    def is_alive(self) -> bool:
        """Whether the peer still holds its end. Takes no bytes, never waits."""

    def is_quiet(self) -> bool:
        """Whether the peer still holds its end, and has said nothing that waits to be read. Takes no bytes, never waits.

        Of one that speaks only when it is asked, anything else is the end: where a TLS peer says goodbye and waits for ours, only that it has
        said something can be seen.
        """
        return self.is_alive() and not self.has_arrived()

    def has_arrived(self, size: int = 1) -> bool:  # noqa: ARG002 - a protocol has it
        """Whether so many bytes, or the end, wait to be read. Never waits; false where the system does not say."""
        return False

    def peer_pid(self) -> int | None:
        """Who made the other end; 0: a process that our pid namespace does not show; None: the system does not say."""
        return None

    def peer_uid(self) -> int | None:
        """The user as whom the other end was made; None: the system does not say. Over TCP within a machine it is that of the socket,
        as long as that is open: -1 then.
        """
        return None

    @abstractmethod
    def sending(self, data: bytes | bytearray | memoryview) -> Steps[None]: ...

    @abstractmethod
    def receiving_into(self, view: memoryview) -> Steps[int]: ...

    def sending_descriptor(self, fd: int) -> Steps[None]:  # noqa: ARG002 - a protocol has it
        raise TransportError("a descriptor can be passed over a Unix socket only", address=self.address)


class Listener(Closing):
    """Waits for connections. ``address`` is the real one, with the port that the system chose."""

    address: Address

    def socket_file(self) -> tuple[str, tuple[int, int]] | None:
        """The path of its socket, and the file's device and inode, where it removes it at its end."""
        return None

    @abstractmethod
    def fileno(self) -> int: ...

    def accept(self, deadline: Deadline) -> Stream:
        """The next connection. Raises ``TimedOut``, and ``TransportError`` once the listener is closed."""
        return run(self.accepting(), deadline)

    @abstractmethod
    def accepting(self) -> Steps[Stream]: ...


def receive_buffer(size: int) -> memoryview:
    """Room for ``size`` bytes. Raises ``UsageError`` for less than 1."""
    if size < 1:
        raise UsageError(f"cannot receive {size} bytes")
    return memoryview(bytearray(size))
