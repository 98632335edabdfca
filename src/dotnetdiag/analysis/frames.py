"""The frames of a profile: those of the trace's symbols, and those that an analysis makes (groups, threads, states)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.method_names import Style

if TYPE_CHECKING:
    from dotnetdiag.trace.symbols import Symbols

Array: TypeAlias = "np.ndarray[Any, Any]"


class Frames(Sequence[Frame]):
    """Frames by id. Never changed: the symbols may meet more frames afterwards, these do not.

    A frame of the symbols is described when it is first asked for; an id that is none raises UsageError.
    """

    __slots__ = ("_count", "_extra", "_symbols")

    def __init__(self, symbols: Symbols | None = None, extra: Sequence[Frame] = ()) -> None:
        """Those met by ``symbols`` so far, with ``extra`` behind them."""
        self._symbols = symbols
        self._count = 0 if symbols is None else len(symbols)
        self._extra = tuple(extra)

    def __len__(self) -> int:
        return self._count + len(self._extra)

    def __getitem__(self, frame_id: Any) -> Any:
        if isinstance(frame_id, slice):
            return tuple(self[number] for number in range(*frame_id.indices(len(self))))
        number = int(frame_id)
        if not 0 <= number < len(self):
            raise UsageError(f"no frame {number}: there are {len(self)}")
        if number >= self._count or self._symbols is None:
            return self._extra[number - self._count]
        return self._symbols.frame(number)

    def __iter__(self) -> Iterator[Frame]:
        return (self[number] for number in range(len(self)))

    def name(self, frame_id: int, style: Style = Style.FULL) -> str:
        """The printed name of a frame."""
        frame: Frame = self[frame_id]
        return frame.name(style)

    def names(self, frame_ids: Array | Sequence[int] | None = None, style: Style = Style.FULL) -> list[str]:
        """The printed names of some frames, of all without ``frame_ids``."""
        numbers = range(len(self)) if frame_ids is None else np.asarray(frame_ids).tolist()
        return [self.name(number, style) for number in numbers]

    def extended(self, more: Sequence[Frame]) -> Frames:
        """These frames with more behind them; the ids of these stay."""
        made = Frames(extra=(*self._extra, *more))
        made._symbols, made._count = self._symbols, self._count
        return made

    @property
    def tiered(self) -> tuple[int, ...]:
        """The frames that the symbols tell apart by the tier of their code."""
        return () if self._symbols is None else tuple(one for one in self._symbols.tiered if one < self._count)

    def unresolved(self) -> Array:
        """A mask of the frames whose address has no name."""
        mask = np.zeros(len(self), np.bool_)
        if self._symbols is not None:
            mask[: self._count] = self._symbols.unresolved()[: self._count]
        mask[self._count :] = [frame.kind is FrameKind.UNRESOLVED for frame in self._extra]
        return mask


def pseudo(name: str) -> Frame:
    """A frame that no address has."""
    return Frame(kind=FrameKind.PSEUDO, text=name)
