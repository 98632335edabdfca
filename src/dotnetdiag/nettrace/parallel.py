"""Work done by an executor that the caller gives, its results given out in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from concurrent.futures import Future  # brings logging with it

AHEAD = 3
"""Pieces that wait or are worked on: with less a second thread is idle at times, with more the columns leave the cache."""

_Work = TypeVar("_Work")
_Result = TypeVar("_Result")


class Executor(Protocol):
    """What is asked of a ``concurrent.futures.Executor``, whose workers must be threads of this process. They pay: kernels release the GIL."""

    def submit(self, fn: Callable[[Any], Any], argument: Any, /) -> Future[Any]:
        """Call ``fn(argument)`` some time."""


def checked(executor: Executor | None) -> Executor | None:
    """The same. UsageError when it is not one."""
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise UsageError(f"an executor has submit(), {type(executor).__name__} has not")
    return executor


class _Piece(Generic[_Work, _Result]):
    __slots__ = ("_done", "_error", "_future", "_result", "work")

    def __init__(self, work: _Work, future: Future[_Result]) -> None:
        self.work, self._future, self._done = work, future, False

    @property
    def is_done(self) -> bool:
        return self._done or (self._future.done() and not self._future.cancelled())

    def cancel(self) -> bool:
        """False when somebody has begun it. True also where somebody else has cancelled it."""
        return not self._done and self._future.cancel()

    def run_here(self, act: Callable[[_Work], _Result]) -> None:
        """Once it was cancelled."""
        self._done, self._error = True, None
        try:
            self._result = act(self.work)
        except BaseException as error:
            self._error = error  # raised where the result is wanted

    def result(self) -> _Result:
        """Waits for the thread that has begun it."""
        if not self._done:
            return self._future.result()
        if self._error is not None:
            raise self._error
        return self._result


def in_order(
    source: Iterable[_Work],
    act: Callable[[_Work], _Result],
    executor: Executor | None,
    *,
    size: Callable[[_Work], int] = lambda _: 1,
    usual: int = 1,
) -> Iterator[tuple[_Work, _Result]]:
    """(work, ``act(work)``) for all of ``source``, which only the caller's thread reads, a few pieces ahead.

    Without an executor the caller's thread does everything; with one it does what nobody has begun instead of waiting:
    waking a thread costs more than decoding a few thousand events. So for n processors an executor has n - 1 threads (seen on two: 128
    million events a second with one, 66 with two, which are in each other's way). What ``act`` raises is raised in its place. When the
    iteration is left, what nobody has begun is cancelled. ``size`` is that of a piece, ``usual`` that of most: smaller
    ones are taken ahead in larger numbers.
    """
    if executor is None:
        for work in source:
            yield work, act(work)
        return
    works = iter(source)
    ahead: deque[_Piece[_Work, _Result]] = deque()
    room = AHEAD * usual
    try:
        while True:
            while room > 0:
                for work in islice(works, 1):
                    room -= size(work)
                    ahead.append(_Piece(work, executor.submit(act, work)))
                    break
                else:
                    break
            if not ahead:
                break
            for piece in ahead:
                if ahead[0].is_done:
                    break
                if piece.cancel():
                    piece.run_here(act)
            piece = ahead.popleft()
            room += size(piece.work)
            yield piece.work, piece.result()
            del piece
    finally:
        for piece in ahead:
            piece.cancel()
