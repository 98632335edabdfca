"""What a table of events needs of the trace that they are in: a whole file, or what has just arrived of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from dotnetdiag.nettrace import GuidTable, HeaderColumns, LabelList, Metadata, StackTable, TraceInfo
from dotnetdiag.trace.header import HeaderMeaning

if TYPE_CHECKING:
    from dotnetdiag.events import Column, EventSchema
    from dotnetdiag.table import Losses
    from dotnetdiag.trace.event_types import EventTypes
    from dotnetdiag.trace.gaps import Gaps
    from dotnetdiag.trace.source import Source
    from dotnetdiag.trace.symbols import Symbols

Array: TypeAlias = "np.ndarray[Any, Any]"


class Context(Protocol):
    """``RawTrace`` is one. Payload offsets of the events are positions in ``buffer``; ``guids``, ``stacks`` and ``overrides`` are by the
    indices in their headers. ``recording`` is the same object for all windows of one file, or session; ``keeps_stacks``: whether the
    call stacks of its events are there, where they have some.
    """

    @property
    def buffer(self) -> Array: ...
    @property
    def meaning(self) -> HeaderMeaning: ...
    @property
    def guids(self) -> GuidTable: ...
    @property
    def overrides(self) -> Mapping[int, LabelList]: ...
    @property
    def stacks(self) -> StackTable: ...
    @property
    def symbols(self) -> Symbols: ...
    @property
    def losses(self) -> Losses: ...
    @property
    def gaps(self) -> Gaps: ...
    @property
    def recording(self) -> object: ...
    @property
    def keeps_stacks(self) -> bool: ...
    def frames_of(self, headers: HeaderColumns) -> list[tuple[str, ...]]: ...
    def frames_column(self, headers: HeaderColumns) -> Column: ...
    def leaves_of(self, headers: HeaderColumns) -> Column: ...


class Recording(Context, Protocol):
    """What reads events out of a whole trace needs of it; ``Trace`` is one."""

    @property
    def source(self) -> Source: ...
    @property
    def format(self) -> str: ...
    @property
    def info(self) -> TraceInfo | None: ...
    @property
    def metadata(self) -> Mapping[int, Metadata]: ...
    @property
    def types(self) -> EventTypes: ...
    @property
    def type_ids(self) -> tuple[int, ...]: ...
    def schema(self, metadata_id: int) -> EventSchema: ...
    def require_within(self, ticks: tuple[int, int]) -> None: ...
