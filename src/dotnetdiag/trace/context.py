"""What a table of events needs of the trace that they are in: a whole file, or what has just arrived of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np

from dotnetdiag.nettrace import GuidTable, HeaderColumns, LabelList
from dotnetdiag.trace.header import HeaderMeaning

Array: TypeAlias = "np.ndarray[Any, Any]"


class Context(Protocol):
    """``Trace`` is one. Payload offsets of the events are positions in ``buffer``; ``guids`` and ``overrides`` are by the
    indices in their headers.
    """

    @property
    def buffer(self) -> Array: ...
    @property
    def meaning(self) -> HeaderMeaning: ...
    @property
    def guids(self) -> GuidTable: ...
    @property
    def overrides(self) -> Mapping[int, LabelList]: ...
    def frames_of(self, headers: HeaderColumns) -> list[tuple[str, ...]]: ...
