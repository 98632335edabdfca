"""Addresses to lines of source: the frames of :mod:`symbols`, told apart by the line that each address is of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from uuid import UUID

import numpy as np

from dotnetdiag import events
from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.events import Scalar
from dotnetdiag.events.layout import Kind
from dotnetdiag.trace.address_space import AddressSpace
from dotnetdiag.trace.bounds import ANY_PROCESS, process_ids
from dotnetdiag.trace.code_maps import NOT_KNOWN, CodeMaps, is_code_map
from dotnetdiag.trace.frame import LineKind
from dotnetdiag.trace.source import wanted_of
from dotnetdiag.trace.symbol_events import RUNDOWN, RUNTIME
from dotnetdiag.trace.symbols import Symbols

if TYPE_CHECKING:
    from dotnetdiag.trace.raw import RawTrace

Array: TypeAlias = "np.ndarray[Any, Any]"

_MODULE_EVENTS = frozenset({152, 153, 154})
_KINDS = (LineKind.EXACT, LineKind.NEAR, LineKind.FIRST)
_EXACT, _NEAR, _FIRST = range(3)


@dataclass(frozen=True, slots=True)
class MethodLines:
    """The lines of a method, as columns (i64): code from ``il_offset[i]`` (ascending) on is of ``line[i]`` in ``document[i]``. ``name`` has the
    documents' names by their numbers; empty for one that is damaged.
    """

    il_offset: Array
    document: Array
    line: Array
    name: Callable[[int], str]


_INEXACT = {
    LineKind.NEAR: (
        "is of code beside: of its own code no line is known (parts of optimised code)",
        "are of code beside: of their own code no line is known (parts of optimised code)",
    ),
    LineKind.FIRST: (
        "is the first of its method: the recording has no map of that code (compiled ahead, for one)",
        "are the first of their methods: the recording has no map of that code (compiled ahead, for one)",
    ),
}
"""Of one line, and of several."""


def inexact_notes(kinds: Iterable[LineKind | None]) -> list[str]:
    """What is to be said of frames whose lines are not exact, by what these are worth."""
    count = Counter(kinds)
    return [
        f"1 line with ~ {one}" if count[kind] == 1 else f"{count[kind]:,} lines with ~ {several}"
        for kind, (one, several) in _INEXACT.items()
        if count[kind]
    ]


class LineSource(Protocol):
    """Who knows the lines of methods: reads PDBs, for one."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was refused or damaged, a line each, and which modules have no lines."""

    def lines(self, module_path: str, pdb_id: UUID | None, token: int) -> MethodLines | None:
        """Of a method by its token; None where they are not known. ``pdb_id`` is the one that the module's PDB has, None: not known."""


class LineSymbols(Symbols):
    """Symbols with a frame for each line of a method that an address was found in. Of code that no map is of (compiled ahead, or recorded without)
    the first line of the method is known, and no more; code that its map says nothing of has the line of code beside. They are frames of their own.
    """

    _maps: CodeMaps
    _source: LineSource
    _pdb_ids: dict[tuple[int, int], UUID]
    _methods: dict[tuple[str, UUID | None, int], MethodLines | None]
    _placed: dict[tuple[int, str, int, LineKind], int]
    _by_name: bool

    @property
    def source(self) -> LineSource:
        """Who knows the lines."""
        return self._source

    @property
    def notes(self) -> tuple[str, ...]:
        """Of the frames that were asked for by now: which modules have no lines, and why, and which lines are not exact."""
        return (*self._source.notes, *inexact_notes(kind for *_, kind in self._placed))

    @classmethod
    def build(cls, raw: RawTrace, source: LineSource, *, by_name: bool = False) -> LineSymbols:
        """Those of a whole trace. Never raises for what is in it. ``by_name``: what is written alike, ``~12``, is one frame, whatever kind its line
        is.
        """
        made = cls.of(raw.symbol_headers(), raw.buffer)
        made._source = source
        schemas = {number: raw.types.name_of(number) for number in raw.type_ids}
        maps = {number: raw.schema(number) for number, one in schemas.items() if is_code_map(one)}
        threads = raw.source.scan.threads if raw.format.startswith("nettrace 6") else {}
        made._maps = CodeMaps(maps, raw.source.collect(wanted_of(maps)), threads, raw.buffer)
        made._pdb_ids = _pdb_ids(raw)
        made._methods = {}
        made._placed = {}
        made._by_name = by_name
        return made

    def _resolve(self, space: AddressSpace, addresses: Array, times: Array | None, exact: Array | None) -> Array:
        frames = super()._resolve(space, addresses, times, exact)
        rows, _ = space.lookup(addresses, times, exact)
        named = np.flatnonzero(rows >= 0)
        code = self._code
        named = named[(code.token[rows[named]] > 0) & (code.text[rows[named]] >= 0)]
        if not len(named):
            return frames
        row = rows[named]
        place = addresses[named] - np.minimum(code.start[row], addresses[named])
        if exact is None:
            place -= (place > 0).astype(np.uint64)
        else:
            place -= ((place > 0) & ~exact[named].astype(np.bool_)).astype(np.uint64)
        frames[named] = self._lines(row, place, frames[named])
        return frames

    def _lines(self, row: Array, place: Array, frames: Array) -> Array:
        """Frames of places in code, by the rows of the code; ``frames`` are those of their methods."""
        code = self._code
        codes, which = np.unique(row, return_inverse=True)
        which = which.reshape(-1)
        size = code.end[codes] - code.start[codes]
        known = (code.process[codes], code.method[codes], code.version[codes], size)
        il, told = self._maps.il_offsets(known, which, place)
        made = frames.copy()
        order = np.argsort(which, kind="stable")
        edges = np.append(np.flatnonzero(np.diff(which[order], prepend=-1)), len(order))
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            rows = order[first:last]
            lines = self._of_method(int(row[rows[0]]))
            if lines is not None and len(lines.il_offset):
                made[rows] = self._placed_frames(lines, il[rows], told[rows], int(frames[rows[0]]))
        return made

    def _of_method(self, row: int) -> MethodLines | None:
        code = self._code
        process, module, token = int(code.process[row]), int(code.module[row]), int(code.token[row])
        path = self._module_paths.at(process, module, int(code.seen[row]))
        key = (path, self._pdb_ids.get((process, module)) or self._pdb_ids.get((ANY_PROCESS, module)), token)
        if key not in self._methods:
            self._methods[key] = self._source.lines(*key) if path else None
        return self._methods[key]

    def _placed_frames(self, lines: MethodLines, il: Array, told: Array, frame: int) -> list[int]:
        """One frame for each line of a method, and what it is worth. Of code before the first of its lines the PDB says none."""
        at = np.searchsorted(lines.il_offset, il, side="right") - 1
        kind = np.where(il == NOT_KNOWN, _FIRST, np.where(told & (at >= 0), _EXACT, _NEAR))
        pairs = list(zip(np.maximum(at, 0).tolist(), kind.tolist(), strict=True))
        made = {pair: self._placed_frame(frame, lines, *pair) for pair in set(pairs)}
        return [made[pair] for pair in pairs]

    def _placed_frame(self, frame: int, lines: MethodLines, place: int, kind_number: int) -> int:
        kind = _KINDS[kind_number]
        file, line = lines.name(int(lines.document[place])), int(lines.line[place])
        if not file or line <= 0:
            return frame
        key = (frame, file, line, kind)
        found = self._placed.get(key)
        if found is None and self._by_name and kind is not LineKind.EXACT:
            alike = LineKind.FIRST if kind is LineKind.NEAR else LineKind.NEAR
            found = self._placed.get((frame, file, line, alike))
        if found is None:
            made = replace(self.frame(frame), file=file, line=line, line_kind=kind)
            found = self._placed[key] = self._append(made)
        return found


def _pdb_ids(raw: RawTrace) -> dict[tuple[int, int], UUID]:
    """The ids of the PDBs of modules, by process and module id."""
    found: dict[tuple[int, int], UUID] = {}
    threads = raw.source.scan.threads if raw.format.startswith("nettrace 6") else {}
    for number in raw.type_ids:
        name = raw.types.name_of(number)
        if name.provider not in (RUNTIME, RUNDOWN) or name.event_id not in _MODULE_EVENTS:
            continue
        schema = raw.schema(number)
        if not {field.name for field in schema.fields} >= {"ModuleID", "ManagedPdbSignature"}:
            continue
        headers = raw.source.collect(wanted_of([number]))
        table = events.decode(
            schema,
            raw.buffer,
            headers.payload_offset,
            headers.payload_length,
            fields=("ModuleID", "ManagedPdbSignature"),
            lazy_text=True,
        )
        module, pdb_id = table["ModuleID"], table["ManagedPdbSignature"]
        if isinstance(module, Scalar) and isinstance(pdb_id, Scalar) and pdb_id.kind is Kind.GUID:
            processes = process_ids(threads, headers.thread)
            owners = [ANY_PROCESS] * len(headers) if processes is None else processes.tolist()
            for owner, one, said in zip(owners, module.to_pylist(), pdb_id.to_pylist(), strict=True):
                if one is not None and said is not None and said.int:
                    found[owner, one] = said
    return found
