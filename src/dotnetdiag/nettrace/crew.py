"""Work done by several threads, its results given out in order.

The thread that wants the results does work too, whatever nobody has begun: with two cores, one helper. So none of them
sleeps as long as there is work, and waking a thread costs more than decoding a few thousand events (seen: 79 pieces of
a trace handed to a pool of two one by one took 33 ms, most of it waiting; 25 ms like this). No thread is started here:
the caller's ``map`` may run some.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from queue import SimpleQueue

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""``map`` itself, or the ``map`` of a thread pool: kernels release the GIL."""

_Work = TypeVar("_Work")
_Result = TypeVar("_Result")
IDLE_S = 1.0
"""A helper without work looks so often whether it is still wanted."""
AHEAD = 2
"""Pieces taken ahead beyond one for each thread: with less somebody waits, with more the columns leave the cache."""


class _Piece(Generic[_Work, _Result]):
    __slots__ = ("_done", "work")

    def __init__(self, work: _Work, done: SimpleQueue[tuple[_Result | None, BaseException | None]]) -> None:
        self.work, self._done = work, done

    def run(self, act: Callable[[_Work], _Result]) -> None:
        try:
            self._done.put((act(self.work), None))
        except BaseException as error:
            self._done.put((None, error))  # raised where the result is wanted

    @property
    def is_done(self) -> bool:
        return not self._done.empty()

    def result(self) -> _Result:
        """Once; waits for the helper that has begun it."""
        result, error = self._done.get()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # there is one when there is no error


def in_order(
    source: Iterable[_Work],
    act: Callable[[_Work], _Result],
    threads: int,
    map: Map,
    *,
    size: Callable[[_Work], int] = lambda _: 1,
    usual: int = 1,
) -> Iterator[tuple[_Work, _Result]]:
    """(work, ``act(work)``) for all of ``source``, which only the caller's thread reads, a few pieces ahead.

    ``threads`` - 1 helpers run by ``map``; when it runs none, or late, the caller's thread does everything. What
    ``act`` raises is raised in its place. ``size`` is that of a piece, and ``usual`` the size to think of: smaller ones
    are taken ahead in larger numbers.
    """
    if threads <= 1:
        for work in source:
            yield work, act(work)
        return
    from queue import Empty, SimpleQueue  # with one thread, 2 ms for nothing

    offered: SimpleQueue[_Piece[_Work, _Result] | None] = SimpleQueue()
    stopped = False

    def help_out(_: int) -> None:
        while not stopped:
            try:
                piece = offered.get(timeout=IDLE_S)
            except Empty:
                continue
            if piece is None:
                break
            piece.run(act)
            del piece

    helpers = map(help_out, range(threads - 1))
    pieces: Iterator[_Piece[_Work, _Result]] = (_Piece(work, SimpleQueue()) for work in source)
    ahead: deque[_Piece[_Work, _Result]] = deque()
    room = (threads + AHEAD) * usual
    try:
        while True:
            while room > 0 and (piece := next(pieces, None)) is not None:
                room -= size(piece.work)
                ahead.append(piece)
                offered.put(piece)
            if not ahead:
                break
            first = ahead.popleft()
            room += size(first.work)
            while not first.is_done:
                try:
                    begun = offered.get_nowait()
                except Empty:  # somebody has begun it
                    break
                assert begun is not None, "only offered at the end"
                begun.run(act)
            yield first.work, first.result()
    finally:
        stopped = True
        for _ in range(threads - 1):
            offered.put(None)
        del helpers
