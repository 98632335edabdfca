"""What is known of a dump beside its objects, and whether all of it is there."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag._dataclasses import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

NOT_TOLD = "addresses are referred to and were not told of"
NOT_DESCRIBED = "objects are referred to and not described"
"""What a heap lacks, of a recording and of a file."""
MOST_BYTES = 1 << 47
"""An object cannot be so large: it is all that a program can address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A range of addresses, and where in it each generation ends; 0: none of it is here. Classic segments nest upwards: what is below
    ``gen2_end`` is of generation 2, what is then below ``gen1_end`` of 1. ``gen3`` are large objects, ``gen4`` pinned ones.
    """

    start: int
    end: int
    gen0_end: int = 0
    gen1_end: int = 0
    gen2_end: int = 0
    gen3_end: int = 0
    gen4_end: int = 0

    @classmethod
    def of(cls, generation: int, start: int, end: int) -> Segment:
        """A range of one generation."""
        if not 0 <= generation <= 4:
            return cls(start=start, end=end)
        return cls(start=start, end=end, **{f"gen{generation}_end": end})

    @property
    def ends(self) -> tuple[int, int, int, int, int]:
        """Of generations 0 to 4."""
        return self.gen0_end, self.gen1_end, self.gen2_end, self.gen3_end, self.gen4_end


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Interop:
    """COM objects: rows of ``RCW``, ``CCW`` and ``INTERFACE`` of ``interop.py``; ``modules``: (base, file size, time stamp, path) of each."""

    rcws: Array
    ccws: Array
    interfaces: Array
    modules: tuple[tuple[int, int, int, str | None], ...] = ()


_WHOLE = (0, 1)
"""Multipliers of what is no sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapFacts:
    """Of the process and of the dump. None, 0 or an empty tuple: not told.

    ``collected`` is UTC; a ``.gcdump`` has no time zone, and PerfView writes local time. ``pause_ms`` is how long the program stood still for
    the dump. ``heap_bytes`` is the size of all generations by the collector's own account, free space included. ``count_multiplier`` and
    ``size_multiplier`` are 1 unless PerfView has taken a sample, and ``multipliers`` those by the numbers of types.
    ``dump`` is which of the ``dumps`` of a recording it is, from 1.
    ``has_sizes_in_names``: types are written as ``System.Byte[] (Bytes > 1M)``, as the reference has them.
    """

    pointer_size: int = 8
    pid: int = 0
    process: str | None = None
    command_line: str | None = None
    machine: str | None = None
    collected: datetime | None = None
    pause_ms: float | None = None
    heap_bytes: int | None = None
    creation_tool: str | None = None
    log: str | None = None
    commit_bytes: int = 0
    working_set_bytes: int = 0
    count_multiplier: float = 1.0
    size_multiplier: float = 1.0
    multipliers: Sequence[float] = ()
    segments: tuple[Segment, ...] = ()
    segments_bytes: int = 0
    interop: Interop | None = field(default=None, compare=False)
    has_javascript: bool = False
    dump: int = 1
    dumps: int = 1
    has_sizes_in_names: bool = True

    @property
    def sample(self) -> str | None:
        """A sentence where PerfView has left out objects of a large heap: numbers are those of what is here, as the reference has them too."""
        most = max((one for one in self.multipliers if one not in _WHOLE), default=None)
        if self.count_multiplier in _WHOLE and self.size_multiplier in _WHOLE and most is None:
            return None
        types = f"; by type up to {most:,.4g}" if most is not None else ""
        return (
            f"it is a sample, and its numbers are not multiplied: of objects {self.count_multiplier:,.4g} times as many were there, "
            f"of bytes {self.size_multiplier:,.4g} times{types}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Completeness:
    """``problems``: what is missing, or does not fit together; a sentence each. None: everything that can be checked is there."""

    problems: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether there is no problem."""
        return not self.problems
