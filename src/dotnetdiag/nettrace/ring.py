"""The last of a stream in bounded memory, and parts made of it whenever they are asked for.

Rule 1: event blocks are let go from the oldest on, when they are older than the window or when all together are too large. Their events
are counted on the way out, so that a part can say which numbers came before it.
Rule 2: stacks are kept as long as an event block of their segment is.
Rule 3: times are those of arrival, which the caller tells: an event is not older than its block, so the window is never too short.
Rule 4: a part says from when to when it is (``part_range``). What the clock of its events says now is known by the block that took the least time
to come.
"""

from __future__ import annotations

import struct
from collections import deque
from math import ceil

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.info import TraceInfo
from dotnetdiag.nettrace.last_numbers import LastNumbers
from dotnetdiag.nettrace.part import Head, Part, Sink
from dotnetdiag.nettrace.stream_blocks import StreamBlock, StreamBlocks

_HEADER = struct.Struct("<hhqq")
"""Of a block of events (nettrace.md §5.3): its size, flags, the times of the first and the last."""
_LONGEST_S = 10 * 365 * 86_400
"""A session of ten years."""
_CLOCKS = 64
"""A block whose header is damaged counts no longer than so many others have come."""
BLOCK_BYTES = 300
"""What a block takes beside its content: of a quiet stream they are many and small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a ring held at one moment: references, no copies. ``window_s`` is how far back it goes, ``is_cut``: less far than it was to, as
    that was too much.
    """

    head: Head
    metadata: tuple[StreamBlock, ...]
    numbers: LastNumbers | None
    blocks: tuple[StreamBlock, ...]
    window_s: float
    is_cut: bool
    size_bytes: int
    part_ticks: tuple[int, int] | None
    """From when to when that is, by the clock of the events; None where no block has told the time."""

    def write(self, file: Sink) -> Part:
        """A part with all of it, still open."""
        part = Part(self._head(), file, numbers=self.numbers)
        for block in self.blocks:
            part.write(block)
        return part

    def _head(self) -> Head:
        """As it was at that moment."""
        made = Head(self.head.opening, self.head.info, is_numbered=False)
        made.metadata, made.part_ticks = list(self.metadata), self.part_ticks
        return made


class Ring:
    """Takes a stream of nettrace 4 and 5 with the time of each piece. ``size_bytes`` held at most, of ``window_s`` seconds."""

    def __init__(self, *, window_s: float, size_bytes: int) -> None:
        if window_s <= 0 or size_bytes < 1:
            raise UsageError(f"a ring of {window_s} s and {size_bytes} bytes")
        self.head: Head | None = None
        self.held_bytes = 0
        self._window_s, self._size_bytes = window_s, size_bytes
        self._stream = StreamBlocks()
        self._blocks: deque[tuple[float, StreamBlock]] = deque()
        self._events = 0
        """Event blocks among them."""
        self._stacks: list[StreamBlock] = []
        """Of the segment that the oldest event block is in."""
        self._tail: Part | None = None
        """All that was let go, counted."""
        self._since: float | None = None
        self._ahead_ticks: deque[float] = deque(maxlen=_CLOCKS)
        """By how much the clock of the events was ahead of the caller's, of the last blocks: the largest took the least time to come."""
        self._has_let_go = False
        self._is_cut = False
        """Whether what was let go last was not too old."""
        self._window_begin: float | None = None
        self.asked_at: float | None = None
        """When a part was asked for that is not made yet: what is in the window of that moment is not too old."""

    def close(self) -> bool:
        """No more bytes come. Whether the stream had its end; a block that is cut is not kept."""
        self._stream.close()
        return self._stream.is_done

    def feed(self, data: bytes | memoryview, now: float) -> None:
        """Take bytes that came now. Raises FormatError, and UsageError for NetPerf and nettrace 6."""
        if self._since is None:
            self._since = now
        for block in self._stream.feed(data):
            self._take(block, now)
        self.expire(now)

    def hold(self, now: float) -> None:
        """From here on nothing gets too old, as what comes is the end of the stream: the window is that before now."""
        self.expire(now)
        self._window_begin = now - self._window_s

    def expire(self, now: float) -> None:
        """Let go what is too old now, or too much."""
        begin = now - self._window_s if self._window_begin is None else self._window_begin
        if self.asked_at is not None:
            begin = min(begin, self.asked_at - self._window_s)
        while self._blocks:
            arrived, block = self._blocks[0]
            is_event = block.kind is BlockKind.EVENT
            if is_event and arrived >= begin and self.held_bytes <= self._size_bytes:
                break
            self._blocks.popleft()
            self._let_go(block)
            if is_event:
                self._events -= 1
                self._since = arrived
                self._is_cut = arrived >= begin
        if self.held_bytes > self._size_bytes and not self._events:  # stacks without an event
            self.held_bytes -= sum(map(_cost, self._stacks))
            self._stacks = []

    def window_s(self, now: float) -> float:
        """How many seconds before now it holds: the window, or less, when it began later or when that was too much."""
        return 0.0 if self._since is None else max(0.0, min(self._window_s, now - self._since))

    def snapshot(self, now: float) -> Snapshot | None:
        """What it holds now; None before the stream has begun. ``window_s`` counts from when it was asked for."""
        self.expire(now)
        asked_at = now if self.asked_at is None else self.asked_at
        window_s = self.window_s(asked_at)
        head = self._opened()
        if head is None or self._tail is None:
            return None
        return Snapshot(
            part_ticks=self._ticks(head.info, asked_at, window_s, now),
            head=head,
            metadata=tuple(head.metadata),
            numbers=self._tail.last_numbers(),
            blocks=(*self._stacks, *(block for _, block in self._blocks)),
            window_s=window_s,
            is_cut=self._is_cut and window_s < self._window_s,
            size_bytes=self.held_bytes,
        )

    def _ticks(self, info: TraceInfo, until: float, window_s: float, now: float) -> tuple[int, int] | None:
        """From when to when a window is, with all events that are there: younger ones came while the last of it was waited for."""
        if not self._ahead_ticks:
            return None
        end, latest = (ceil(at * info.frequency + max(self._ahead_ticks)) for at in (until, now))
        times = [times for _, block in self._blocks if (times := _times(block, info)) is not None]
        begin = max(info.sync_ticks, end - round(window_s * info.frequency)) if self._has_let_go else info.sync_ticks
        begin = min([begin, *(first for first, _ in times)])
        end = max([begin, end, *(min(last, latest) for _, last in times)])
        return max(begin, info.sync_ticks), end

    def _opened(self) -> Head | None:
        stream = self._stream
        if self.head is None and stream.info is not None:
            if stream.is_numbered:
                raise UsageError("a ring of nettrace 6: runtimes write nettrace 4 and 5")
            self.head = Head(stream.opening, stream.info, is_numbered=False)
            self._tail = Part(self.head, None)
        return self.head

    def _take(self, block: StreamBlock, now: float) -> None:
        head = self._opened()
        assert head is not None
        head.follow(block)
        if block.kind is BlockKind.METADATA:
            return  # it is repeated in every part
        if (times := _times(block, head.info)) is not None:
            self._ahead_ticks.append(times[1] - now * head.info.frequency)
        self._blocks.append((now, block))
        self._events += block.kind is BlockKind.EVENT
        self.held_bytes += _cost(block)

    def _let_go(self, block: StreamBlock) -> None:
        assert self._tail is not None
        assert self.head is not None
        if block.kind is BlockKind.STACK:
            self._stacks.append(block)
            return
        self.held_bytes -= _cost(block)
        self._has_let_go = True
        self._tail.write(block)
        if block.kind is BlockKind.SEQUENCE_POINT:
            self.held_bytes -= sum(map(_cost, self._stacks))
            self._stacks = []
            # begun anew: only threads of one segment are remembered that have ended
            bare = Head(self.head.opening, self.head.info, is_numbered=False)
            self._tail = Part(bare, None, numbers=self._tail.last_numbers())


def _times(block: StreamBlock, info: TraceInfo) -> tuple[int, int] | None:
    """Of a block of events the times of the first and the last, which its header says; None where it does not, or says what no clock does."""
    if block.kind is not BlockKind.EVENT or len(block.content) < _HEADER.size:
        return None
    size, _, first, last = _HEADER.unpack_from(block.content)
    is_time = info.sync_ticks <= first <= last <= info.sync_ticks + _LONGEST_S * info.frequency
    return (first, last) if size >= _HEADER.size and is_time else None


def _cost(block: StreamBlock) -> int:
    return block.size_bytes + BLOCK_BYTES
