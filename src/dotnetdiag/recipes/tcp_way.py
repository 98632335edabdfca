"""One direction of a TCP connection: segments as a capture has them, bytes in their order out."""

from __future__ import annotations

MOST_HELD = 1 << 18
"""Bytes behind a hole. With more, what would fill it is taken for lost by the capture."""
MOST_SEGMENTS = 1024
SEQUENCE = 1 << 32


class TcpWay:
    """``feed`` segments, and the end (``finish``); what comes out is bytes, and the sizes of holes, in order. Repeated bytes come once."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._held: dict[int, tuple[bytes, int]] = {}  # by distance from the first byte, which does not wrap
        self._end: int | None = None
        self._base = 0
        self._held_bytes = 0

    def begin(self, sequence: int) -> None:
        """The number of the first byte is known, by a SYN."""
        if self._next is None:
            self._base, self._next = sequence % SEQUENCE, 0

    def feed(self, sequence: int, data: bytes, missing: int = 0) -> list[bytes | int]:
        """Bytes, and how many are missing between them. ``missing``: so many behind these were not captured."""
        if not data and not missing:
            return []
        place = self._place(sequence)
        assert self._next is not None
        held, _ = self._held.get(place, (b"", 0))
        if len(data) >= len(held) and place + len(data) + missing > self._next:
            self._held_bytes += len(data) - len(held)
            self._held[place] = data, missing
        found = self._in_order()
        while self._held_bytes > MOST_HELD or len(self._held) > MOST_SEGMENTS:
            found += self._over_the_hole()
        return found

    def finish(self, sequence: int) -> None:
        """The number behind the last byte is known, by a FIN."""
        self._end = self._place(sequence)

    @property
    def knows_its_end(self) -> bool:
        """Whether there was a FIN."""
        return self._end is not None

    @property
    def has_ended(self) -> bool:
        """Whether all has come out up to the FIN."""
        return self._end is not None and self._next is not None and self._end <= self._next and not self._held

    @property
    def has_hole(self) -> bool:
        """Whether bytes are held that others have to come before."""
        return bool(self._held)

    def end(self) -> list[bytes | int]:
        """No more segments come: what is held, with the holes before it and behind it."""
        found: list[bytes | int] = []
        while self._held:
            found += self._over_the_hole()
        if self._end is not None and self._next is not None and self._end > self._next:
            found.append(self._end - self._next)
            self._next = self._end
        return found

    def _place(self, sequence: int) -> int:
        """The distance of a number from the first, found from what is expected."""
        self.begin(sequence)
        assert self._next is not None
        distance = (sequence - self._base - self._next) % SEQUENCE
        if distance >= SEQUENCE // 2:
            distance -= SEQUENCE
        return self._next + distance

    def _over_the_hole(self) -> list[bytes | int]:
        assert self._next is not None
        first = min(self._held)
        missing, self._next = first - self._next, first
        return [missing, *self._in_order()]

    def _in_order(self) -> list[bytes | int]:
        """What follows what came before, taken."""
        assert self._next is not None
        found: list[bytes | int] = []
        while self._held and (place := min(self._held)) <= self._next:
            data, missing = self._held.pop(place)
            self._held_bytes -= len(data)
            if rest := data[self._next - place :]:
                found.append(rest)
                self._next += len(rest)
            if (lost := place + len(data) + missing - self._next) > 0:
                found.append(lost)
                self._next += lost
        return found
