"""Where the figures of a profile come from."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.table import Losses
from dotnetdiag.trace.raw import RawTrace

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Context


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The trace behind a profile, and what is wrong with it. ``lost`` is None where the format does not tell. ``others``: command lines of the
    processes beside ``process_id``.
    """

    name: str = ""
    process_id: int | None = None
    command_line: str = ""
    start: datetime | None = None
    events: int = 0
    lost: int | None = None
    complete: bool = True
    damage: str | None = None
    others: tuple[tuple[int, str], ...] = ()

    def command_line_of(self, pid: int) -> str:
        """That of one of the processes, 0: of the first; empty where it is not known."""
        return self.command_line if pid in (0, self.process_id or 0) else dict(self.others).get(pid, "")

    @property
    def losses(self) -> Losses:
        """What is wrong with it, as tables have it."""
        return Losses(lost=self.lost, damage=self.damage)


def origin_of(trace: Context) -> Origin:
    """Where a profile comes from."""
    if not isinstance(trace, RawTrace):  # a session: who reads it knows what it lost
        return Origin(process_id=trace.meaning.info.process_id, lost=trace.losses.lost, damage=trace.losses.damage)
    (process, *others), lost = trace.processes, trace.lost
    return Origin(
        name=trace.name,
        process_id=process.pid,
        command_line=process.command_line or "",
        start=trace.start,
        events=len(trace),
        lost=lost.total if lost.known else None,
        complete=trace.complete,
        damage=trace.damage,
        others=tuple((one.pid, one.command_line) for one in others if one.pid is not None and one.command_line),
    )
