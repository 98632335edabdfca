"""Addresses to frames: which method, native symbol or module an address belonged to at a time (nettrace.md §11, §12).

Three layers of each process are asked in this order: methods that the runtime announced, symbols of perf maps and ELF
files (V6), and what is mapped where (V6), which names the module at least.

Rule 1: methods with the same printed name are one frame: tiers, hot and cold parts, instantiations that share a name.
Rule 2: texts are decoded of those methods only that an address was found in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Self, TypeAlias

import numpy as np

from dotnetdiag.trace import method_names
from dotnetdiag.trace.address_space import AddressSpace, address_spaces
from dotnetdiag.trace.bounds import ANY_PROCESS, KERNEL, KERNEL_START
from dotnetdiag.trace.code_ranges import CodeRanges
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.frame import Frame, FrameKind, method_frame, module_name, symbol_frame
from dotnetdiag.trace.mappings import Mappings
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.method_ranges import entry_point_ranges, method_ranges
from dotnetdiag.trace.module_paths import ModulePaths
from dotnetdiag.trace.symbol_events import SymbolEvents, SymbolSource, Texts

Array: TypeAlias = "np.ndarray[Any, Any]"

_NOTHING = AddressSpace()


class Symbols:
    """Frames by address, time and process; frame ids count up from 0 as they are met.

    Keeps the buffer of the trace alive, and reads names from it when they are first needed.
    """

    def __init__(
        self, methods: CodeRanges, entry_points: CodeRanges, mappings: Mappings, module_paths: ModulePaths, texts: Texts
    ) -> None:
        """``texts`` has the names of methods and entry points, and those of the symbols of ``mappings``."""
        self._mappings, self._module_paths, self._texts = mappings, module_paths, texts
        layers = [methods, entry_points, mappings.symbols]
        self._code = CodeRanges.concatenate(layers)
        self._spaces = address_spaces(layers, mappings.ranges)
        processes = self.processes - {ANY_PROCESS}
        self._only = next(iter(processes)) if len(processes) == 1 else ANY_PROCESS
        self._frame_of_row: Array = np.full(len(self._code), -1, np.int32)
        self._frames: list[Frame | tuple[int, int, int]] = []  # unresolved ones as (address, row, mapping)
        self._ids: dict[object, int] = {}
        self._tiered: list[int] = []

    def __len__(self) -> int:
        """Number of frames met so far."""
        return len(self._frames)

    @property
    def ranges(self) -> int:
        """Number of code ranges known."""
        return len(self._code) + len(self._mappings.ranges)

    @property
    def processes(self) -> frozenset[int]:
        """Processes of which something is known; :data:`ANY_PROCESS` in files that have but one."""
        return frozenset(self._spaces) - {KERNEL}

    def are_of_several(self, owners: Iterable[int]) -> bool:
        """Whether an address of these processes may be another's: several are known, or one and addresses are of others too, of which nothing is.
        Those of a process that is not told (0) are the one's.
        """
        known = self.processes
        if len(known) != 1 or known == {ANY_PROCESS}:
            return len(known) > 1
        return not known >= {*owners} - {ANY_PROCESS}

    # addresses to frames ----------------------------------------------------------------------------------------------

    def resolve(
        self,
        addresses: Array,
        times: Array | None = None,
        processes: Array | None = None,
        *,
        exact: Array | None = None,
    ) -> Array:
        """Frame ids (i32) of addresses (u64). Never fails: an address in no known range is a frame of its own.

        ``times`` are in ticks (None: at the end of the trace), ``processes`` process ids (None: the only one). ``exact``
        marks the addresses that are instruction pointers, as those of leaves are; all others are return addresses.
        """
        addresses = np.asarray(addresses, np.uint64)
        frames = np.empty(len(addresses), np.int32)
        for space, places in self._by_space(addresses, processes):
            frames[places] = self._resolve(
                space,
                addresses[places],
                None if times is None else times[places],
                None if exact is None else exact[places],
            )
        return frames

    def changes(
        self, addresses: Array, processes: Array | None = None, *, exact: Array | None = None
    ) -> tuple[Array, Array]:
        """(mask of the addresses whose frame depends on the time, all moments at which one of them changes)."""
        addresses = np.asarray(addresses, np.uint64)
        mask = np.zeros(len(addresses), np.bool_)
        moments = [np.zeros(0, np.int64)]
        for space, places in self._by_space(addresses, processes):
            mask[places], some = space.changes(addresses[places], None if exact is None else exact[places])
            moments += some
        return mask, distinct(np.concatenate(moments))

    def _by_space(self, addresses: Array, processes: Array | None) -> Iterator[tuple[AddressSpace, Any]]:
        has_kernel = KERNEL in self._spaces
        if not has_kernel and processes is None:
            yield self._spaces.get(self._only, _NOTHING), slice(None)
            return
        owner = np.full(len(addresses), self._only, np.int64) if processes is None else processes.astype(np.int64)
        if has_kernel:
            owner[addresses >= np.uint64(KERNEL_START)] = KERNEL
        for number in distinct(owner).tolist():
            yield self._spaces.get(number, _NOTHING), np.flatnonzero(owner == number)

    def _resolve(self, space: AddressSpace, addresses: Array, times: Array | None, exact: Array | None) -> Array:
        rows, mapped = space.lookup(addresses, times, exact)
        named = rows >= 0
        named[named] = self._code.text[rows[named]] >= 0
        frames = np.empty(len(addresses), np.int32)
        hits = rows[named]
        fresh = distinct(hits[self._frame_of_row[hits] < 0])
        if len(fresh):
            self._name(fresh)
        frames[named] = self._frame_of_row[hits]
        bare = ~named
        frames[bare] = self._unresolved(addresses[bare], rows[bare], mapped[bare])
        return frames

    # frames -----------------------------------------------------------------------------------------------------------

    def _name(self, fresh: Array) -> None:
        """Give frames to rows that have none, by their names."""
        code = self._code
        columns = (fresh, *(column[fresh] for column in (code.mapping, code.process, code.module, code.seen)))
        texts = self._texts.take(code.text[fresh])
        rows = zip(*(column.tolist() for column in columns), texts, strict=True)
        for row, mapping, process, module, seen, text in rows:
            if mapping >= 0:
                path = self._mappings.path(mapping)
                key: object = (path, text[0])
            else:
                path = self._module_paths.at(process, module, seen)
                key = (path, *text[:2], method_names.parameters(text[2]))
            frame = self._ids.get(key)
            if frame is None:
                made = symbol_frame(path, text[0]) if mapping >= 0 else method_frame(path, text)
                frame = self._ids[key] = self._append(made)
            self._frame_of_row[row] = frame

    def _unresolved(self, addresses: Array, rows: Array, mapped: Array) -> list[int]:
        """Frames of addresses without a name: without symbols there are as many as samples, so little is done here."""
        frames = []
        ids, known = self._ids, self._frames
        for key in zip(addresses.tolist(), rows.tolist(), mapped.tolist(), strict=True):
            frame = ids.get(key)
            if frame is None:
                frame = ids[key] = len(known)
                known.append(key)
            frames.append(frame)
        return frames

    def _describe(self, address: int, row: int, mapping: int) -> Frame:
        path, offset = "", None
        if mapping >= 0:
            path = self._mappings.path(mapping)
            offset = self._mappings.offset(mapping, address) if path else None
        elif row >= 0:
            code = self._code
            path = self._module_paths.at(*(int(column[row]) for column in (code.process, code.module, code.seen)))
        return Frame(
            kind=FrameKind.UNRESOLVED, module=module_name(path), module_path=path, address=address, offset=offset
        )

    def _append(self, frame: Frame) -> int:
        if frame.tier:
            self._tiered.append(len(self._frames))
        self._frames.append(frame)
        return len(self._frames) - 1

    def pseudo_frame(self, name: str) -> int:
        """The id of a frame that no address has, such as a thread or ``CPU_TIME``."""
        key = (FrameKind.PSEUDO, name)
        found = self._ids.get(key)
        if found is None:
            found = self._ids[key] = self._append(Frame(kind=FrameKind.PSEUDO, text=name))
        return found

    def frame(self, frame_id: int) -> Frame:
        """What is known of a frame."""
        found = self._frames[frame_id]
        if isinstance(found, tuple):
            found = self._frames[frame_id] = self._describe(*found)
        return found

    def frame_name(self, frame_id: int, style: Style = Style.FULL) -> str:
        """The printed name of a frame."""
        return self.frame(frame_id).name(style)

    def frame_names(self, style: Style = Style.FULL) -> list[str]:
        """The printed names of all frames met so far, by id."""
        return [self.frame(number).name(style) for number in range(len(self))]

    @property
    def tiered(self) -> tuple[int, ...]:
        """The frames met so far of jitted code whose tier is known: one for each tier of a method."""
        return tuple(self._tiered)

    def unresolved(self) -> Array:
        """A mask of the frames met so far whose address has no name."""
        return np.array(
            [isinstance(frame, tuple) or frame.kind is FrameKind.UNRESOLVED for frame in self._frames], np.bool_
        )

    @classmethod
    def of(cls, source: SymbolSource, buffer: Array) -> Self:
        """As :func:`build_symbols`."""
        events = SymbolEvents(source, buffer)
        methods = method_ranges(events)
        return cls(methods, entry_point_ranges(events, methods), Mappings(events), ModulePaths(events), events.texts)


def build_symbols(source: SymbolSource, buffer: Array) -> Symbols:
    """The symbols of a whole trace. ``buffer`` (u8) holds the payloads, and must stay as it is while they are in use.

    Never raises for what is in the trace: payloads that break, and events whose fields are not those of the
    runtime's manifest, are left out.
    """
    return Symbols.of(source, buffer)
