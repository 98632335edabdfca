"""Addresses to frames: which method, native symbol or module an address belonged to at a time (nettrace.md §11, §12).

Three layers are asked in this order, each a :class:`RangeIndex` per process: methods that the runtime announced,
symbols of perf maps and ELF files (V6), and what is mapped where (V6), which names the module at least.

Rule 1: return addresses are looked up one byte before, because a call may be the last instruction of its method.
Rule 2: methods with the same printed name are one frame: tiers, hot and cold parts, instantiations that share a name.
Rule 3: texts are decoded of those methods only that an address was found in.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

import numpy as np

from dotnetdiag import events
from dotnetdiag.events import Scalar, Table, Text
from dotnetdiag.nettrace import HeaderColumns, Metadata, ThreadInfo, TraceInfo
from dotnetdiag.trace import method_names
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.ranges import ALWAYS, FOREVER, RangeIndex

Array: TypeAlias = "np.ndarray[Any, Any]"

KERNEL_START = 1 << 63
"""Addresses from here on are the kernel's, the same in every process."""
ANY_PROCESS = 0
"""The process of a file that has but one."""

RUNTIME = "Microsoft-Windows-DotNETRuntime"
RUNDOWN = "Microsoft-Windows-DotNETRuntimeRundown"
UNIVERSAL = "Universal.System"
UNKNOWN_MODULE = "ManagedModule"
"""TraceEvent's word for the module of a method whose module no event names."""


class _Role(Enum):
    LOAD = 0
    UNLOAD = 1
    RUNDOWN = 2
    ENTRY_POINT = 3
    MODULE = 4
    MAPPING = 5
    SYMBOL = 6
    START = 7


# nettrace.md §11: the two providers use the same ids with different meaning
_ROLES: dict[tuple[str, int], _Role] = {
    **{(RUNTIME, number): _Role.LOAD for number in (141, 143)},
    **{(RUNTIME, number): _Role.UNLOAD for number in (142, 144)},
    **{(RUNDOWN, number): _Role.RUNDOWN for number in (141, 142, 143, 144)},
    **{(RUNTIME, number): _Role.MODULE for number in (151, 152, 153)},
    **{(RUNDOWN, number): _Role.MODULE for number in (151, 152, 153, 154)},
    (RUNTIME, 159): _Role.ENTRY_POINT,
    (RUNTIME, 187): _Role.START,
}
_IDS = frozenset(number for _, number in _ROLES)
_UNIVERSAL_ROLES = {"ProcessMapping": _Role.MAPPING, "ProcessSymbol": _Role.SYMBOL}

_METHOD_FIELDS = ("MethodID", "ModuleID", "MethodStartAddress", "MethodSize")
_TEXT_FIELDS = ("MethodNamespace", "MethodName", "MethodSignature")
_ENTRY_LIMIT = 1 << 16
"""An R2R entry point has no size: it owns what follows it up to the next one, but not more than this."""
_SYMBOLS_LIMIT = 1 << 22
"""Rows that symbols of mappings shared by many processes may multiply to."""
_PAGE = 4096


class FrameKind(StrEnum):
    """What is known of a frame."""

    METHOD = "method"
    SYMBOL = "symbol"
    UNRESOLVED = "unresolved"
    PSEUDO = "pseudo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a frame id stands for.

    ``module`` is the file's name without folder and without ``.dll`` or ``.exe``, empty when it is not known;
    ``module_path`` the whole of it (of jitted code: of its mapping). ``type_name`` and ``signature`` are in the spelling
    of the runtime's events. ``text`` is what a perf map or ELF file calls a symbol, or the name of a pseudo-frame;
    ``tier`` what a perf map says of jitted code (``OptimizedTier1``), empty for code of several. ``address`` is that of
    an unresolved frame, and ``offset`` its place in the module's file as its symbols count (ELF: virtual address), None
    when no mapping is known.
    """

    kind: FrameKind
    module: str = ""
    module_path: str = ""
    type_name: str = ""
    method: str = ""
    signature: str = ""
    text: str = ""
    tier: str = ""
    address: int | None = None
    offset: int | None = None

    @property
    def namespace(self) -> str:
        """The namespace of the type; empty for native code."""
        return method_names.namespace_of(self.type_name)

    def name(self, style: Style = Style.FULL) -> str:
        """The printed name, see :mod:`.method_names`."""
        if self.kind is FrameKind.PSEUDO:
            return self.text
        if style is Style.TRACEEVENT and self.kind is not FrameKind.METHOD:
            place = self.text if self.kind is FrameKind.SYMBOL else f"{self.address:#x}"
            return f"{_reference_module(self)}!{place}"
        if self.kind is FrameKind.UNRESOLVED:
            if style is Style.FULL:
                return f"{self.module}!{self.address:#x}"
            return f"{self.module or '?'}!{self.address if self.offset is None else self.offset:#x}"
        if style in (Style.FULL, Style.TRACEEVENT):
            if not self.method and self.kind is FrameKind.SYMBOL:
                return f"{self.module}!{self.text}"
            return method_names.full_name(self.module or UNKNOWN_MODULE, self.type_name, self.method, self.signature)
        if not self.method:
            return f"{self.module}!{self.text}" if self.module else self.text
        printed = method_names.short_name if style is Style.SHORT else method_names.source_name
        return printed(self.type_name, self.method)


def _reference_module(frame: Frame) -> str:
    """The name of a mapped file as TraceEvent prints it: files that it knows as PE in lower case, jitted code by the
    mapping's name.
    """
    name = file_name(frame.module_path)
    stem = _stem(name)
    return name if stem == name else stem.lower()


def file_name(path: str) -> str:
    """The last part of a path of either system."""
    return path[max(path.rfind("/"), path.rfind("\\")) + 1 :].removesuffix(" (deleted)")


def _stem(name: str) -> str:
    return name[:-4] if name[-4:].lower() in (".dll", ".exe") else name


@lru_cache(maxsize=1024)  # asked for each method; the profile of 20,000 of them showed a third of the time here
def module_name(path: str) -> str:
    """``System.Linq`` of ``/x/System.Linq.dll``; names without such an ending stay."""
    return _stem(file_name(path))


@dataclass(slots=True)
class _Space:
    """What is known of one process: each layer's ranges, and the global rows that its rows stand for."""

    layers: list[tuple[RangeIndex, Array]] = field(default_factory=list)
    mapping: tuple[RangeIndex, Array] | None = None


class _Rows:
    """Every range of the trace as columns: where, when, and where its texts are."""

    def __init__(self) -> None:
        self.columns: dict[str, list[Array]] = {name: [] for name in _ROW_COLUMNS}
        self.count = 0

    def add(self, **columns: Array) -> Array:
        """Append rows; returns their numbers."""
        rows = len(columns["start"])
        for name, (kind, default) in _ROW_COLUMNS.items():
            values = columns.get(name)
            self.columns[name].append(
                np.full(rows, default, kind) if values is None else values.astype(kind, copy=False)
            )
        self.count += rows
        return np.arange(self.count - rows, self.count)

    def joined(self) -> dict[str, Array]:
        return {
            name: np.concatenate([np.zeros(0, _ROW_COLUMNS[name][0]), *parts]) for name, parts in self.columns.items()
        }


_ROW_COLUMNS: dict[str, tuple[Any, int]] = {
    "start": (np.uint64, 0),
    "end": (np.uint64, 0),
    "begin": (np.int64, ALWAYS),
    "end_at": (np.int64, FOREVER),
    "seen": (np.int64, 0),
    "text": (np.int64, -1),
    "module": (np.uint64, 0),
    "file_offset": (np.uint64, 0),
}


class _Texts:
    """Text columns of many tables under one numbering."""

    def __init__(self) -> None:
        self._parts: list[tuple[Text, ...]] = []
        self._bases = [0]

    def add(self, columns: tuple[Text, ...]) -> int:
        """The number of the first row."""
        self._parts.append(columns)
        self._bases.append(self._bases[-1] + len(columns[0]))
        return self._bases[-2]

    def take(self, numbers: Array) -> Iterator[tuple[str, ...]]:
        """The texts of some rows, in the order given."""
        which = np.searchsorted(np.array(self._bases), numbers, side="right") - 1
        found: list[tuple[str, ...]] = [()] * len(numbers)
        for part in distinct(which).tolist():
            places = np.flatnonzero(which == part)
            local = numbers[places] - self._bases[part]
            columns = [[text or "" for text in column.take(local).to_pylist()] for column in self._parts[part]]
            for place, texts in zip(places.tolist(), zip(*columns, strict=True), strict=True):
                found[place] = texts
        return iter(found)


class Symbols:
    """Frames by address, time and process. Made by :func:`build_symbols`; frame ids count up from 0 as they are met.

    Keeps the buffer of the trace alive, and reads names from it when they are first needed.
    """

    def __init__(self) -> None:
        self._spaces: dict[int, _Space] = {}
        self._columns: dict[str, Array] = {}
        self._symbol_rows = range(0)
        self._texts, self._paths = _Texts(), _Texts()
        self._mapped: dict[int, tuple[str, int]] = {}
        self._modules: dict[int, tuple[list[int], list[str]]] = {}
        self._frame_of_row: Array = np.zeros(0, np.int32)
        self._frames: list[Frame | tuple[int, int, int]] = []  # unresolved ones as (address, row, mapping)
        self._ids: dict[object, int] = {}
        self._tiered: list[int] = []
        self._only = ANY_PROCESS

    def __len__(self) -> int:
        """Number of frames met so far."""
        return len(self._frames)

    @property
    def ranges(self) -> int:
        """Number of code ranges known."""
        return len(self._frame_of_row)

    @property
    def processes(self) -> frozenset[int]:
        """Processes of which something is known; :data:`ANY_PROCESS` in files that have but one."""
        return frozenset(self._spaces) - {KERNEL_START}

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
            first, second = _looked_up(addresses[places], None if exact is None else exact[places])
            for index, _ in [*space.layers, *([space.mapping] if space.mapping else [])]:
                for looked_up in (first, second):
                    some, when = index.changes(looked_up)
                    mask[places] |= some
                    moments.append(when)
        return mask, distinct(np.concatenate(moments))

    def _by_space(self, addresses: Array, processes: Array | None) -> Iterator[tuple[_Space, Any]]:
        kernel = self._spaces.get(KERNEL_START)
        if kernel is None and processes is None:
            yield self._spaces.get(self._only, _NOTHING), slice(None)
            return
        owner = np.full(len(addresses), self._only, np.int64) if processes is None else processes.astype(np.int64)
        if kernel is not None:
            owner[addresses >= np.uint64(KERNEL_START)] = -1
        for number in distinct(owner).tolist():
            space = kernel if number == -1 and kernel is not None else self._spaces.get(number, _NOTHING)
            yield space, np.flatnonzero(owner == number)

    def _resolve(self, space: _Space, addresses: Array, times: Array | None, exact: Array | None) -> Array:
        first, second = _looked_up(addresses, exact)
        rows = np.full(len(addresses), -1, np.int64)
        for index, numbers in space.layers:
            for looked_up in (first, second):
                missing = np.flatnonzero(rows < 0)
                if len(missing):
                    found = index.lookup(looked_up[missing], None if times is None else times[missing])
                    hit = found >= 0
                    rows[missing[hit]] = numbers[found[hit]]
        mapped = np.full(len(addresses), -1, np.int64)
        named = rows >= 0
        named[named] = self._columns["text"][rows[named]] >= 0
        if space.mapping is not None:
            index, numbers = space.mapping
            found = index.lookup(first, times)
            hit = found >= 0
            mapped[hit] = numbers[found[hit]]
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
        columns = self._columns
        texts = self._texts.take(columns["text"][fresh])
        symbols = self._symbol_rows
        for row, module, seen, text in zip(
            fresh.tolist(), columns["module"][fresh].tolist(), columns["seen"][fresh].tolist(), texts, strict=True
        ):
            if row in symbols:
                path = self._mapping(module)[0]
                key: object = (path, text[0])
            else:
                path = self._module_path(module, seen)
                key = (path, *text[:2], method_names.parameters(text[2]))
            frame = self._ids.get(key)
            if frame is None:
                made = _symbol(path, text[0]) if row in symbols else _method(path, text)
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
            path, shift = self._mapping(mapping)
            columns = self._columns
            offset = address - int(columns["start"][mapping]) + int(columns["file_offset"][mapping]) + shift
        elif row >= 0:
            path = self._module_path(int(self._columns["module"][row]), int(self._columns["seen"][row]))
        return Frame(
            kind=FrameKind.UNRESOLVED,
            module=module_name(path),
            module_path=path,
            address=address,
            offset=offset if path else None,
        )

    def _append(self, frame: Frame) -> int:
        if frame.tier:
            self._tiered.append(len(self._frames))
        self._frames.append(frame)
        return len(self._frames) - 1

    def _module_path(self, module: int, time: int) -> str:
        found = self._modules.get(module)
        if found is None:
            return ""
        times, paths = found
        return paths[max(bisect_right(times, time) - 1, 0)]

    def _mapping(self, row: int) -> tuple[str, int]:
        """(path, what is added to a place in the file for the address that its symbols have)."""
        found = self._mapped.get(row)
        if found is None:
            path, metadata = next(self._paths.take(self._columns["module"][row : row + 1].astype(np.int64)))
            found = self._mapped[row] = path, _address_shift(metadata)
        return found

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


_NOTHING = _Space()


def _looked_up(addresses: Array, exact: Array | None) -> tuple[Array, Array]:
    """Where to look first and, when nothing is there, second (rule 1).

    The leaf of an event that native code wrote is a return address as well, so an exact address gets a second look too.
    """
    before = addresses - (addresses > 0).astype(np.uint64)
    if exact is None:
        return before, addresses
    exact = exact.astype(np.bool_, copy=False)
    return np.where(exact, addresses, before), np.where(exact, before, addresses)


def _method(path: str, text: Sequence[str]) -> Frame:
    type_name, method, signature = text
    return Frame(
        kind=FrameKind.METHOD,
        module=module_name(path),
        module_path=path,
        type_name=type_name,
        method=method,
        signature=signature,
    )


def _symbol(path: str, text: str) -> Frame:
    jitted = method_names.parse_jitted(text)
    if jitted is None:
        return Frame(kind=FrameKind.SYMBOL, module=module_name(path), module_path=path, text=text)
    return Frame(
        kind=FrameKind.SYMBOL,
        module=jitted.module,
        module_path=path,
        type_name=jitted.type_name,
        method=jitted.method,
        signature=method_names.event_signature(jitted.signature),
        text=text,
        tier=jitted.tier,
    )


def _address_shift(metadata: str) -> int:
    """``p_vaddr - p_offset`` of a mapping's SymbolMetadata (JSON, nettrace.md §12), 0 where it says nothing."""
    try:
        found = json.loads(metadata) if metadata else {}
        if not isinstance(found, dict):
            return 0
        named = {str(name).lower(): value for name, value in found.items()}
        return _whole(named.get("p_vaddr", 0)) - _whole(named.get("p_offset", 0))
    except (ValueError, RecursionError):
        return 0


def _whole(value: object) -> int:
    """A number, or its text in decimal or with ``0x``."""
    return int(value, 0) if isinstance(value, str) else value if isinstance(value, int) else 0


# what a trace says ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """The whole rows of one event type: their numbers among the events, and the columns asked for."""

    role: _Role
    rows: Array
    table: Table

    def scalar(self, name: str) -> Array:
        column = self.table[name]
        assert isinstance(column, Scalar)
        return column.values

    def texts(self, *names: str) -> tuple[Text, ...]:
        columns = tuple(self.table[name] for name in names)
        return tuple(column for column in columns if isinstance(column, Text))


_FIELDS: dict[_Role, tuple[tuple[str, ...], tuple[str, ...]]] = {
    _Role.LOAD: (_METHOD_FIELDS, _TEXT_FIELDS),
    _Role.UNLOAD: (_METHOD_FIELDS, _TEXT_FIELDS),
    _Role.RUNDOWN: (_METHOD_FIELDS, _TEXT_FIELDS),
    _Role.ENTRY_POINT: (("MethodID", "EntryPoint"), _TEXT_FIELDS),
    _Role.MODULE: (("ModuleID",), ("ModuleILPath", "ModuleNativePath")),
    _Role.MAPPING: (("Id", "StartAddress", "EndAddress", "FileOffset"), ("FileName", "SymbolMetadata")),
    _Role.SYMBOL: (("MappingId", "StartAddress", "EndAddress"), ("Name",)),
}
_OPTIONAL = frozenset({"ModuleNativePath", "SymbolMetadata"})
"""The last of what is read; one-collect has versions that do not write SymbolMetadata (nettrace.md §14)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolHeaders:
    """The events that say something of addresses, and what their columns mean: what symbols are built from."""

    headers: HeaderColumns
    metadata: Mapping[int, Metadata]
    threads: Mapping[int, ThreadInfo]
    info: TraceInfo | None


class SymbolSource(Protocol):
    """What symbols are built from, such as :class:`nettrace.Contents`: the headers of all events, or at least of those
    that :func:`symbol_events` names. Payload offsets are those in the buffer given beside it.
    """

    @property
    def headers(self) -> HeaderColumns: ...
    @property
    def metadata(self) -> Mapping[int, Metadata]: ...
    @property
    def threads(self) -> Mapping[int, ThreadInfo]: ...
    @property
    def info(self) -> TraceInfo | None: ...


def symbol_events(metadata: Mapping[int, Metadata]) -> frozenset[int]:
    """The metadata ids of the events that say something of addresses."""
    return frozenset(_wanted(metadata, 8)[0])


def build_symbols(contents: SymbolSource, buffer: Array) -> Symbols:
    """The symbols of a whole trace. ``buffer`` (u8) holds the payloads, and must stay as it is while they are in use.

    Never raises for what is in the trace: payloads that break, and events whose fields are not those of the
    runtime's manifest, are left out.
    """
    parts, from_start = _decode(contents, buffer)
    owners = process_ids(contents.threads, contents.headers.thread)
    made = Symbols()
    rows = _Rows()
    made._modules = _modules(parts, contents.headers.time)
    spaces: dict[int, list[Array]] = {}
    methods = _methods(parts, contents.headers.time, owners, rows, made._texts, spaces)
    symbols: dict[int, list[Array]] = {}
    if from_start:
        _entry_points(parts, rows, made._texts, methods, spaces)
    mappings, made._symbol_rows = _universal(parts, contents.headers.time, owners, rows, made, symbols)
    columns = made._columns = rows.joined()
    made._frame_of_row = np.full(rows.count, -1, np.int32)
    for process in {*spaces, *symbols, *mappings}:
        space = made._spaces[process] = _Space()
        space.layers = [_index(columns, numbers) for numbers in (*spaces.get(process, ()), *symbols.get(process, ()))]
        if process in mappings:
            space.mapping = _index(columns, mappings[process])
    known = made.processes - {ANY_PROCESS}
    if len(known) == 1 and owners is not None:
        (made._only,) = known
    return made


def _index(columns: dict[str, Array], numbers: Array) -> tuple[RangeIndex, Array]:
    names = ("start", "end", "begin", "end_at")
    return RangeIndex(*(columns[name][numbers] for name in names)), numbers


def process_ids(threads: Mapping[int, ThreadInfo], thread: Array) -> Array | None:
    """The process of each event (i64, 0 where it is not known) from its ``thread`` column; None in files that have but
    one process, which are those without thread rows.
    """
    if not threads:
        return None
    infos = sorted(threads.values(), key=lambda info: info.index)
    indices = np.array([info.index for info in infos], np.uint64)
    processes = np.array([min(info.process_id or 0, FOREVER) for info in infos], np.int64)
    place = np.minimum(np.searchsorted(indices, thread), len(indices) - 1)
    found: Array = np.where(indices[place] == thread, processes[place], 0)
    return found


def _role(provider: str, event_id: int, name: str) -> _Role | None:
    return _UNIVERSAL_ROLES.get(name) if provider == UNIVERSAL else _ROLES.get((provider, event_id))


def _wanted(
    metadata: Mapping[int, Metadata], pointer_size: int
) -> tuple[dict[int, tuple[_Role, events.EventSchema]], bool]:
    wanted: dict[int, tuple[_Role, events.EventSchema]] = {}
    from_start = False
    for number, record in metadata.items():
        if record.event_id in _IDS or record.name in _UNIVERSAL_ROLES:
            schema = events.resolve(record, pointer_size)
            role = _role(schema.provider, schema.event_id, record.name)
            if role is _Role.START:
                from_start = True
            elif role is not None:
                wanted[number] = role, schema
    return wanted, from_start


def _decode(contents: SymbolSource, buffer: Array) -> tuple[list[_Part], bool]:
    """The tables of all events that say something of addresses, and whether the session saw the runtime start."""
    wanted, from_start = _wanted(contents.metadata, contents.info.pointer_size if contents.info is not None else 8)
    if not wanted:
        return [], from_start
    headers = contents.headers
    numbers = np.array(list(wanted), np.uint32)
    # one pass over all events, and the passes for each type over what that leaves
    every = np.flatnonzero(np.isin(headers.metadata_id, numbers))
    ids = headers.metadata_id[every]
    parts = []
    for number, (role, schema) in wanted.items():
        rows = every[ids == number]
        part = _decode_one(schema, role, rows, contents, buffer) if len(rows) else None
        if part is not None:
            parts.append(part)
    return parts, from_start


def _decode_one(
    schema: events.EventSchema, role: _Role, rows: Array, contents: SymbolSource, buffer: Array
) -> _Part | None:
    scalars, texts = _FIELDS[role]
    there = {field.name for field in schema.fields}
    if not there.issuperset(scalars):
        return None
    names = [name for name in (*scalars, *texts) if name in there]
    headers = contents.headers
    table = events.decode(
        schema, buffer, headers.payload_offset[rows], headers.payload_length[rows], fields=names, lazy_text=True
    )
    if table.undecodable is not None:  # what breaks off behind the fields that count is good enough
        valid = [table[name].valid for name in names if name not in _OPTIONAL]
        whole = np.flatnonzero(np.all([mask for mask in valid if mask is not None] or [~table.undecodable], axis=0))
        table, rows = table.take(whole), rows[whole]
    if any(not isinstance(table[name], Scalar) for name in scalars) or not len(rows):
        return None
    return _Part(role, rows, table)


def _modules(parts: Sequence[_Part], times: Array) -> dict[int, tuple[list[int], list[str]]]:
    """Paths by module id, each with the times at which it was said, in order."""
    said: list[tuple[int, int, str]] = []
    for part in parts:
        if part.role is _Role.MODULE:
            paths = [part.table[name].to_pylist() for name in _FIELDS[_Role.MODULE][1] if name in part.table]
            best = [next((path for path in row if path), "") for row in zip(*paths, strict=True)]
            said += zip(part.scalar("ModuleID").tolist(), times[part.rows].tolist(), best, strict=False)
    found: dict[int, tuple[list[int], list[str]]] = {}
    for module, time, path in sorted(said):
        moments, paths_of = found.setdefault(module, ([], []))
        if path and (not paths_of or paths_of[-1] != path):
            moments.append(time)
            paths_of.append(path)
    return {module: both for module, both in found.items() if both[1]}


def _methods(
    parts: Sequence[_Part],
    times: Array,
    owners: Array | None,
    rows: _Rows,
    texts: _Texts,
    spaces: dict[int, list[Array]],
) -> Array:
    """Code ranges of methods, one for each time that a method lay at an address. Returns their starts, sorted.

    The events of one (process, start, method) in order of time: a load begins a range, an unload ends it, rundown says
    that it was there all along. What follows an unload is a new range: ids of dynamic methods are used again. Of ranges
    whose begin nobody saw, the one that ended first was there first.
    """
    some = [part for part in parts if part.role in (_Role.LOAD, _Role.UNLOAD, _Role.RUNDOWN)]
    if not some:
        return np.zeros(0, np.uint64)
    columns = {name: np.concatenate([part.scalar(name) for part in some]) for name in _METHOD_FIELDS}
    event = np.concatenate([part.rows for part in some])
    role = np.repeat([part.role.value for part in some], [len(part.rows) for part in some])
    text = np.concatenate([_text_numbers(part, texts) for part in some])
    start: Array = columns["MethodStartAddress"]
    method: Array = columns["MethodID"]
    size: Array = columns["MethodSize"].astype(np.uint64)
    process: Array = np.zeros(len(event), np.int64) if owners is None else owners[event]
    order = np.lexsort((event, times[event], method, start, process))
    sorted_columns: list[Array] = [column[order] for column in (start, method, size, role, text, process, times[event])]
    start, method, size, role, text, process, time = sorted_columns
    same = (start[1:] == start[:-1]) & (method[1:] == method[:-1]) & (process[1:] == process[:-1])
    is_unload = role == _Role.UNLOAD.value
    new = np.ones(len(start), np.bool_)
    new[1:] = ~same | is_unload[:-1]
    firsts = np.flatnonzero(new)
    lasts = np.append(firsts[1:], len(start)) - 1
    text = np.maximum.reduceat(text, firsts)
    size = np.maximum.reduceat(size, firsts)
    text = _texts_of_others(method[firsts], text)
    end = start[firsts] + size
    numbers = rows.add(
        start=start[firsts],
        end=np.where(end < start[firsts], start[firsts], end),
        begin=np.where(role[firsts] == _Role.LOAD.value, time[firsts], ALWAYS),
        end_at=np.where(is_unload[lasts], time[lasts], FOREVER),
        seen=time[firsts],
        text=text,
        module=columns["ModuleID"][order][firsts],
    )
    owner = process[firsts]
    for number in distinct(owner).tolist():
        spaces.setdefault(number, []).append(numbers[owner == number])
    return distinct(start)


def _text_numbers(part: _Part, texts: _Texts) -> Array:
    """The numbers of the rows' texts, -1 for the events that have none."""
    columns = part.texts(*(name for name in _TEXT_FIELDS if name in part.table))
    if len(columns) != len(_TEXT_FIELDS):
        return np.full(len(part.rows), -1, np.int64)
    return texts.add(columns) + np.arange(len(part.rows))


def _texts_of_others(method: Array, text: Array) -> Array:
    """Ranges without texts (events 141, 142) take those of another range of the same method."""
    bare = np.flatnonzero(text < 0)
    if not len(bare):
        return text
    named = np.flatnonzero(text >= 0)
    ids, first = np.unique(method[named], return_index=True)
    if not len(ids):
        return text
    place = np.minimum(np.searchsorted(ids, method[bare]), len(ids) - 1)
    hit = ids[place] == method[bare]
    text = text.copy()
    text[bare[hit]] = text[named[first[place[hit]]]]
    return text


def _entry_points(
    parts: Sequence[_Part], rows: _Rows, texts: _Texts, methods: Array, spaces: dict[int, list[Array]]
) -> None:
    """R2RGetEntryPoint gives precompiled methods a start but no size (nettrace.md §11).

    Only of use when the session saw every method being prepared, which is when it saw the runtime start: then code
    between an entry point and what begins next is that method's, or was never run.
    """
    some = [part for part in parts if part.role is _Role.ENTRY_POINT]
    numbers = [_text_numbers(part, texts) for part in some]
    if not some:
        return
    text = np.concatenate(numbers)
    start, first = np.unique(np.concatenate([part.scalar("EntryPoint") for part in some]), return_index=True)
    fresh = ~np.isin(start, methods) & (start > 0)
    edges = np.append(np.union1d(start, methods), np.uint64((1 << 64) - 1))
    start, text = start[fresh], text[first[fresh]]
    following = edges[np.searchsorted(edges, start, side="right").clip(max=len(edges) - 1)]
    end = np.minimum(following, start + np.uint64(_ENTRY_LIMIT))
    # the event names no module; another event of the same method may
    method = np.concatenate([part.scalar("MethodID") for part in some])[first][fresh]
    others = [part for part in parts if part.role in (_Role.LOAD, _Role.UNLOAD, _Role.RUNDOWN)]
    module = np.zeros(len(start), np.uint64)
    if others:
        ids, which = np.unique(np.concatenate([part.scalar("MethodID") for part in others]), return_index=True)
        place, known = np.minimum(np.searchsorted(ids, method), len(ids) - 1), np.isin(method, ids)
        modules = np.concatenate([part.scalar("ModuleID") for part in others])[which]
        module[known] = modules[place[known]]
    named = text >= 0
    added = rows.add(start=start[named], end=end[named], text=text[named], module=module[named])
    spaces.setdefault(ANY_PROCESS, []).append(added)


def _universal(
    parts: Sequence[_Part],
    times: Array,
    owners: Array | None,
    rows: _Rows,
    made: Symbols,
    symbols: dict[int, list[Array]],
) -> tuple[dict[int, Array], range]:
    """Mappings by process, and the rows of their symbols: those of the kernel in a space of their own."""
    mapped = [part for part in parts if part.role is _Role.MAPPING]
    mappings: dict[int, Array] = {}
    if not mapped:
        return mappings, range(rows.count, rows.count)
    event: Array = np.concatenate([part.rows for part in mapped])
    start, end, offset, ids = (
        np.concatenate([part.scalar(name) for part in mapped])
        for name in ("StartAddress", "EndAddress", "FileOffset", "Id")
    )
    paths = np.concatenate(
        [made._paths.add(part.texts("FileName", "SymbolMetadata")) + np.arange(len(part.rows)) for part in mapped]
    )
    process = np.zeros(len(event), np.int64) if owners is None else owners[event]
    process[start >= np.uint64(KERNEL_START)] = -1
    whole = _possible(start, end)
    # inclusive ends (nettrace.md §12): of kernel mappings, and of those that end one byte before a page does
    inclusive = (start >= np.uint64(KERNEL_START)) | ((end + np.uint64(1)) % np.uint64(_PAGE) == 0)
    event, ids, process = event[whole], ids[whole], process[whole]
    numbers = rows.add(
        start=start[whole],
        end=_past(end, inclusive)[whole],
        begin=times[event],
        seen=times[event],
        module=paths[whole],
        file_offset=offset[whole],
    )
    for number in distinct(process).tolist():
        mappings[KERNEL_START if number < 0 else number] = numbers[process == number]
    first = rows.count
    _mapping_symbols(parts, rows, made, symbols, ids, process, numbers)
    return mappings, range(first, rows.count)


def _possible(start: Array, end: Array) -> Array:
    """Zeroed symbols of the kernel have impossible sizes (nettrace.md §12)."""
    possible: Array = (end > start) & (end - start < np.uint64(KERNEL_START)) & (start > 0)
    return possible


def _past(end: Array, inclusive: Array) -> Array:
    """The first address behind a range; the last address there is stands behind none."""
    past: Array = end + (inclusive & (end < np.uint64((1 << 64) - 1))).astype(np.uint64)
    return past


def _mapping_symbols(
    parts: Sequence[_Part],
    rows: _Rows,
    made: Symbols,
    symbols: dict[int, list[Array]],
    ids: Array,
    process: Array,
    numbers: Array,
) -> None:
    """ProcessSymbol rows, once for each process that announced the mapping."""
    some = [part for part in parts if part.role is _Role.SYMBOL]
    if not some:
        return
    start, end, mapping = (
        np.concatenate([part.scalar(name) for part in some]) for name in ("StartAddress", "EndAddress", "MappingId")
    )
    text = np.concatenate([made._texts.add(part.texts("Name")) + np.arange(len(part.rows)) for part in some])
    whole = np.flatnonzero(_possible(start, end))
    # a mapping said twice of one process is one
    order = np.lexsort((numbers, process, ids))
    keep = np.ones(len(order), np.bool_)
    keep[1:] = (ids[order][1:] != ids[order][:-1]) | (process[order][1:] != process[order][:-1])
    order = order[keep]
    ids, process, numbers = ids[order], process[order], numbers[order]
    low = np.searchsorted(ids, mapping[whole], side="left")
    count = np.searchsorted(ids, mapping[whole], side="right") - low
    if int(count.sum()) > _SYMBOLS_LIMIT:
        count = np.minimum(count, 1)
    which = np.repeat(whole, count)
    place = np.repeat(low, count) + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    added = rows.add(
        start=start[which],
        end=_past(end, start >= np.uint64(KERNEL_START))[which],
        text=text[which],
        module=numbers[place],
    )
    for number in distinct(process[place]).tolist():
        symbols.setdefault(KERNEL_START if number < 0 else number, []).append(added[process[place] == number])
