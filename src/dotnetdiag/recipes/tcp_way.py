"""One direction of a TCP connection: segments as a capture has them, bytes in their order out."""

from __future__ import annotations

MOST_HELD = 1 << 18
"""Bytes behind a hole. With more, what would fill it is taken for lost by the capture."""
MOST_SEGMENTS = 1024
SEQUENCE = 1 << 32


class TcpWay:
    """``feed`` segments; what comes out is bytes, and the sizes of holes, in order. Repeated bytes come once."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._held: dict[int, bytes] = {}  # by distance from the first byte, which does not wrap
        self._base = 0
        self._held_bytes = 0

    def begin(self, sequence: int) -> None:
        """The number of the first byte is known, by a SYN."""
        if self._next is None:
            self._base, self._next = sequence % SEQUENCE, 0

    def feed(self, sequence: int, data: bytes) -> list[bytes | int]:
        """Bytes, and how many are missing between them."""
        if not data:
            return []
        self.begin(sequence)
        assert self._next is not None
        distance = (sequence - self._base - self._next) % SEQUENCE
        if distance >= SEQUENCE // 2:
            distance -= SEQUENCE
        place = self._next + distance
        if len(data) > len(self._held.get(place, b"")) and place + len(data) > self._next:
            self._held_bytes += len(data) - len(self._held.get(place, b""))
            self._held[place] = data
        found: list[bytes | int] = list(self._in_order())
        while self._held_bytes > MOST_HELD or len(self._held) > MOST_SEGMENTS:
            found += self._over_the_hole()
        return found

    @property
    def has_hole(self) -> bool:
        """Whether bytes are held that others have to come before."""
        return bool(self._held)

    def end(self) -> list[bytes | int]:
        """No more segments come: what is held, with the holes before it."""
        found: list[bytes | int] = []
        while self._held:
            found += self._over_the_hole()
        return found

    def _over_the_hole(self) -> list[bytes | int]:
        assert self._next is not None
        first = min(self._held)
        missing, self._next = first - self._next, first
        return [missing, *self._in_order()]

    def _in_order(self) -> list[bytes]:
        """What follows what came before, taken."""
        assert self._next is not None
        found = []
        while self._held and (place := min(self._held)) <= self._next:
            data = self._held.pop(place)
            self._held_bytes -= len(data)
            if rest := data[self._next - place :]:
                found.append(rest)
                self._next += len(rest)
        return found
