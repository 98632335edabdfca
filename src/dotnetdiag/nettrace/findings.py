"""What reading a trace finds beside its events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.info import TraceInfo
from dotnetdiag.nettrace.label_table import LabelLists
from dotnetdiag.nettrace.loss import LossAccount
from dotnetdiag.nettrace.metadata import Metadata
from dotnetdiag.nettrace.part_range import range_of
from dotnetdiag.nettrace.stacks import StackTable
from dotnetdiag.nettrace.state import TraceState
from dotnetdiag.nettrace.threads import ThreadInfo


class Findings:
    """As far as has been read: of a stream, a file that is indexed, or a file that was read."""

    def _found(self) -> TraceState:
        raise NotImplementedError

    @property
    def format(self) -> str:
        """``NetPerf 3``, ``nettrace 4`` (which includes 5), ``nettrace 6.0``; empty until it is known."""
        return self._found().format

    @property
    def info(self) -> TraceInfo | None:
        """The Trace object, once it was seen."""
        return self._found().info

    @property
    def metadata(self) -> Mapping[int, Metadata]:
        """Metadata by id (NetPerf: what was decoded so far)."""
        return self._found().metadata.records

    @property
    def stacks(self) -> StackTable:
        """The table of the latest batch."""
        return self._found().stacks

    @property
    def guids(self) -> GuidTable:
        """The table of the latest batch."""
        return self._found().guids

    @property
    def labels(self) -> LabelLists:
        """Label lists of version 6; index 0 is the empty one."""
        return self._found().labels.lists

    @property
    def threads(self) -> Mapping[int, ThreadInfo]:
        """Thread rows of version 6 by index, removed ones too (in a stream until a sequence point drops all)."""
        return self._found().threads.infos

    @property
    def begins_late(self) -> bool:
        """Whether more was recorded before: the file is a part, of a ring, of a recording in several files, or one that was cut out. Ours say so
        by a sequence point before their start and ahead of their events.
        """
        return bool(self._found().ahead)

    @property
    def part_ticks(self) -> tuple[int, int | None] | None:
        """From when to when, in ticks of the clock, a part that was cut out tells, whatever its events are; the end may not be told. None: nothing
        says it, or the file is no part.
        """
        found = self._found()
        return range_of(found.ahead, found.info.sync_ticks) if found.info is not None else None

    @property
    def lost(self) -> LossAccount:
        """Lost events."""
        return self._found().lost

    @property
    def skipped(self) -> Counter[str]:
        """Blocks of unknown kinds, by name."""
        return self._found().remarks.skipped

    @property
    def warnings(self) -> list[str]:
        """Oddities, one line each."""
        return self._found().remarks.warnings

    @property
    def damage(self) -> str | None:
        """What was wrong first, with its offset."""
        error = self._found().remarks.error
        return None if error is None else str(error)

    @property
    def damage_offset(self) -> int | None:
        """Where that was."""
        error = self._found().remarks.error
        return None if error is None else error.offset
