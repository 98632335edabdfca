"""Layouts → a program for the kernel, and its output → columns.

One program decodes the values of one level: the top
level of a payload, or the elements of a list; elements that vary in size are found by the kernel first, then decoded
as rows of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.errors import FormatError
from dotnetdiag.events import kernels
from dotnetdiag.events.columns import Bytes, Column, ListOf, Mask, Scalar, Spans, Struct, Text
from dotnetdiag.events.layout import Count, Kind, Layout, SchemaField, fixed_size, least_size, unit_size
from dotnetdiag.events.operations import Op, Operation, as_table

Array: TypeAlias = "np.ndarray[Any, Any]"
Selection: TypeAlias = Sequence[str] | None


DTYPES: dict[Kind, str] = {
    Kind.CHAR: "<u2",
    Kind.CHAR8: "u1",
    Kind.I1: "i1",
    Kind.U1: "u1",
    Kind.I2: "<i2",
    Kind.U2: "<u2",
    Kind.I4: "<i4",
    Kind.U4: "<u4",
    Kind.I8: "<i8",
    Kind.U8: "<u8",
    Kind.F4: "<f4",
    Kind.F8: "<f8",
    Kind.DECIMAL: "V16",
    Kind.DATETIME: "<i8",
    Kind.GUID: "V16",
    Kind.VARINT: "<i8",
    Kind.VARUINT: "<u8",
}
BOOLS = frozenset({Kind.BOOL, Kind.BOOL32})
LOCATED_RATIO = 2
"""Fields that point into the payload may have so many times its bytes together. Each of those that are written has its own."""
ENCODINGS = {Kind.Z16: "utf16", Kind.TEXT16: "utf16", Kind.Z8: "utf8", Kind.TEXT8: "utf8"}


def _scalar(raw: Array, kind: Kind, valid: Mask | None) -> Scalar:
    """Raw bytes of one scalar per row as a column."""
    if kind == Kind.BOOL:
        return Scalar(raw.view(np.uint8) != 0, valid, kind)
    if kind == Kind.BOOL32:
        return Scalar(raw.view("<u4") != 0, valid, kind)
    return Scalar(raw.view(DTYPES[kind]), valid, kind)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)  # quick to import
class _Node:
    """One value of a program: where its output stands, and what stands in it."""

    name: str
    layout: Layout
    ordinal: int
    slot: int = -1
    size: int = 0
    children: tuple[_Node, ...] = ()
    program: Program | None = None
    body: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)  # quick to import
class Program:
    """What :func:`build` made. ``complete`` says that it runs to the end of the fields; ``locations`` that it has
    such.
    """

    ops: Array
    widths: tuple[int, ...]
    registers: int
    values: int
    nodes: tuple[_Node, ...]
    complete: bool
    locations: bool

    @property
    def row_bytes(self) -> int:
        """Bytes of output per row, without what varies."""
        return sum(self.widths)

    @property
    def element_bytes(self) -> int:
        """Bytes that an element of a list takes while it is decoded: output, its offsets, and the rows of the walk."""
        return self.row_bytes + 8 * len(self.widths) + 48


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Room:
    """Bytes that the elements of lists may still take in one call."""

    left: int


class NoRoom(Exception):
    """Values would take more than is left: ``costs`` are their bytes for each row of the call."""

    def __init__(self, costs: Array, left: int) -> None:
        super().__init__(f"{int(costs.sum())} bytes of values, {left} are left")
        self.costs, self.left = costs, left


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)  # quick to import
class Decoded:
    """Columns by name (made unique), and per row where decoding ended and how."""

    columns: dict[str, Column]
    walked: kernels.Walked


def has_field(fields: Sequence[SchemaField], path: str) -> bool:
    """Whether a name of a selection stands for one of the fields or a member."""
    taken: dict[str, int] = {}
    for field in fields:
        layout = field.layout
        if layout.kind == Kind.PAD:
            continue
        names = {field.name, unique_name(field.name, taken)}
        while layout.element is not None:
            layout = layout.element
        rests = [path[len(name) + 1 :] for name in names if path.startswith(name + ".")]
        if path in names or any(has_field(layout.fields, rest) for rest in [*rests, *([] if field.name else [path])]):
            return True
    return False


def _select(selection: Selection, name: str, unique: str) -> tuple[bool, Selection]:
    """Whether a field is selected, by its own or its column's name, and what of it (None: all)."""
    if selection is None:
        return True, None
    if name in selection or unique in selection:
        return True, None
    if name == "":  # the single unnamed object: its members are meant
        return True, selection
    inner = [path[len(one) + 1 :] for one in {name, unique} for path in selection if path.startswith(one + ".")]
    return bool(inner), inner


def unique_name(name: str, taken: dict[str, int]) -> str:
    """``name``, or the first of ``name#2``, ``name#3``, … that is free; ``taken`` has the number last tried."""
    made = name
    while made in taken:
        taken[name] += 1
        made = f"{name}#{taken[name]}"
    taken[made] = 1
    return made


def not_in_front(name: str, layout: Layout) -> FormatError:
    """Of a value whose count stands nowhere."""
    return FormatError(f"{name} is counted by {layout.count_field}, which is not in front of it", where="fields")


class _Builder:
    def __init__(self, pointer_size: int) -> None:
        self.pointer_size = pointer_size
        self.ops: list[Operation] = []
        self.widths: list[int] = []
        self.registers = 0
        self.ordinal = 0
        self.depth = 0
        self.locations = False

    def slot(self, width: int, wanted: bool) -> int:
        if not wanted or self.depth:
            return -1
        self.widths.append(width)
        return len(self.widths) - 1

    def op(self, code: Op, **values: int) -> Operation:
        made = Operation(code=code, ordinal=self.ordinal, **values)
        self.ops.append(made)
        return made

    def fields(self, fields: Sequence[SchemaField], selection: Selection) -> tuple[_Node, ...]:
        counted = {field.layout.count_field for field in fields if field.layout.count_at == Count.FIELD}
        keeps: dict[str, int] = {}
        taken: dict[str, int] = {}
        nodes = []
        for field in fields:
            keep = -1
            if field.name in counted:
                keep = keeps[field.name] = self.registers
                self.registers += 1
            unique = field.name if field.layout.kind == Kind.PAD else unique_name(field.name, taken)
            wanted, inner = _select(selection, field.name, unique)
            node = self.value(field.name, field.layout, wanted, inner, keep, keeps)
            if node is not None and wanted:
                nodes.append(node if unique == node.name else replace(node, name=unique))
        return tuple(nodes)

    def value(
        self, name: str, layout: Layout, wanted: bool, selection: Selection, keep: int, keeps: dict[str, int]
    ) -> _Node | None:
        kind = layout.kind
        ordinal = self.ordinal
        if kind == Kind.STRUCT:
            children = self.fields(layout.fields, selection if wanted else ())
            if wanted and selection is not None and not children:
                return None
            return _Node(name=name, layout=layout, ordinal=ordinal, children=children)
        size = fixed_size(layout, self.pointer_size)
        if kind == Kind.PAD:
            self.op(Op.SCALAR, size=layout.count)
            self.ordinal += 1
            return None
        if kind <= Kind.POINTER:
            assert size is not None
            slot = self.slot(size, wanted)
            self.op(Op.SCALAR, slot=slot, size=size, keep=keep)
            self.ordinal += 1
            return _Node(name=name, layout=layout, ordinal=ordinal, slot=slot, size=size)
        if kind in (Kind.VARINT, Kind.VARUINT):
            slot = self.slot(8, wanted)
            self.op(Op.VARINT if kind == Kind.VARINT else Op.VARUINT, slot=slot, keep=keep)
            self.ordinal += 1
            return _Node(name=name, layout=layout, ordinal=ordinal, slot=slot)
        slot = self.slot(16, wanted)
        if kind in (Kind.Z16, Kind.Z8, Kind.OPAQUE):
            self.op({Kind.Z16: Op.Z16, Kind.Z8: Op.Z8, Kind.OPAQUE: Op.REMAINDER}[kind], slot=slot)
            self.ordinal += 1
            return _Node(name=name, layout=layout, ordinal=ordinal, slot=slot)
        return self.counted(name, layout, slot, selection, keeps)

    def counted(self, name: str, layout: Layout, slot: int, selection: Selection, keeps: dict[str, int]) -> _Node:
        ordinal, param = self.ordinal, layout.count
        self.locations = self.locations or layout.count_at in (Count.REL, Count.DATA)
        if layout.count_at == Count.FIELD:
            if layout.count_field not in keeps:
                raise not_in_front(name, layout)
            param = keeps[layout.count_field]
        unit = unit_size(layout, self.pointer_size)
        program: Program | None = None
        if layout.element is not None and slot >= 0 and unit != 0:
            program = build((SchemaField(name="", layout=layout.element),), self.pointer_size, selection)
        if unit is not None:
            self.op(Op.SPAN, slot=slot, size=unit, count_at=layout.count_at, param=param)
            self.ordinal += 1
            return _Node(name=name, layout=layout, ordinal=ordinal, slot=slot, size=unit, program=program)
        assert layout.element is not None
        least = max(least_size(layout.element, self.pointer_size), 1)
        made = self.op(Op.LIST, slot=slot, size=least, count_at=layout.count_at, param=param)
        first = len(self.ops)
        self.depth += 1
        self.fields((SchemaField(name="", layout=layout.element),), None)
        self.depth -= 1
        made.behind = len(self.ops)
        self.ordinal = ordinal + 1
        return _Node(name=name, layout=layout, ordinal=ordinal, slot=slot, program=program, body=(first, made.behind))


def _with_blocks(ops: list[Operation]) -> tuple[list[Operation], list[int]]:
    """Runs of scalars at top level get a block operation in front. Also gives where each one (or its block), and the end, is now."""
    made: list[Operation] = []
    moved: list[int] = []
    inside_until = 0
    for position, op in enumerate(ops):
        moved.append(len(made))
        if position >= inside_until and op.code == Op.SCALAR:
            run = list(takewhile(lambda one: one.code == Op.SCALAR, ops[position:]))
            size = sum(one.size for one in run)
            made.append(Operation(code=Op.BLOCK, size=size, behind=len(made) + 1 + len(run), ordinal=op.ordinal))
            inside_until = position + len(run)
        elif position >= inside_until and op.code == Op.LIST:
            inside_until = op.behind
        made.append(op)
    moved.append(len(made))
    for op in made:
        if op.code == Op.LIST:
            op.behind = moved[op.behind]
    return made, moved


def build(fields: Sequence[SchemaField], pointer_size: int, selection: Selection = None) -> Program:
    """The program that decodes ``fields``, or the selected ones of them and what stands in front."""
    builder = _Builder(pointer_size)
    nodes = builder.fields(fields, selection)
    ops = builder.ops
    complete = True
    if selection is not None:
        end = max((index + 1 for index, op in enumerate(ops) if op.slot >= 0), default=0)
        if end and ops[end - 1].code == Op.LIST:
            end = ops[end - 1].behind
        complete = end == len(ops)
        ops = ops[:end]
    ops, moved = _with_blocks(ops)
    return Program(
        ops=as_table(ops),
        widths=tuple(builder.widths),
        registers=builder.registers,
        values=builder.ordinal,
        nodes=tuple(_moved(node, moved) for node in nodes),
        complete=complete,
        locations=builder.locations,
    )


def _moved(node: _Node, moved: list[int]) -> _Node:
    first, last = node.body
    if not last and not node.children:
        return node
    children = tuple(_moved(child, moved) for child in node.children)
    return replace(node, children=children, body=(moved[first], moved[last]) if last else (0, 0))


def _is_empty(layout: Layout) -> bool:
    """A structure with nothing in it, which is there even where a payload has ended."""
    return layout.kind == Kind.STRUCT and all(_is_empty(field.layout) for field in layout.fields)


class _Run:
    """One run of a program over rows of a buffer, and the columns of its output."""

    def __init__(
        self,
        program: Program,
        buffer: Array,
        origins: Array,
        positions: Array,
        ends: Array,
        lazy_text: bool,
        room: Room,
        outer: tuple[_Run, Array] | None = None,
    ) -> None:
        """``outer``: the run of which this one decodes the elements of a list, and the offsets of that list."""
        self.program, self.buffer, self.origins, self.ends, self.lazy_text = program, buffer, origins, ends, lazy_text
        self.rows, self.room, self.outer = len(positions), room, outer
        self.walked = kernels.walk(
            buffer,
            origins,
            positions,
            ends,
            program.ops,
            list(program.widths),
            registers=program.registers,
            values=program.values,
        )
        self.least = self.walked.least

    def valid(self, ordinal: int) -> Mask | None:
        if self.least > ordinal:
            return None
        valid: Mask = self.walked.present > ordinal
        return None if valid.all() else valid

    def located(self, nodes: Sequence[_Node]) -> Array:
        """Bytes of each payload's values that fields point to."""
        total = np.zeros(self.rows, np.int64)
        for node in nodes:
            if node.layout.count_at in (Count.REL, Count.DATA):
                total += self.walked.slots[node.slot].view(np.int64)[self.rows :]
            total += self.located(node.children) if node.children else 0
        return total

    def columns(self, nodes: Sequence[_Node]) -> dict[str, Column]:
        return {node.name: self.column(node) for node in nodes}

    def column(self, node: _Node) -> Column:
        kind = node.layout.kind
        valid = self.valid(node.ordinal)
        if kind == Kind.STRUCT:
            return Struct(self.columns(node.children), self.rows, None if _is_empty(node.layout) else valid)
        raw = self.walked.slots[node.slot]
        if kind == Kind.POINTER:  # those of 32 bits as those of 64
            return Scalar(raw.view(f"<u{node.size}").astype(np.uint64, copy=False), valid, Kind.U8)
        if kind < Kind.POINTER or kind in (Kind.VARINT, Kind.VARUINT):
            return _scalar(raw, kind, valid)
        pairs = raw.view(np.int64)
        starts, lengths = pairs[: self.rows], pairs[self.rows :]
        if kind in (Kind.BYTES, Kind.OPAQUE):
            return Bytes(*kernels.gather(self.buffer, starts, lengths), valid)
        if kind in ENCODINGS:
            known = kind == Kind.Z16 and self.walked.ascii[node.slot]
            text = Text.from_spans(Spans(self.buffer, starts, lengths, ENCODINGS[kind], known), valid)
            if not self.lazy_text:
                text.load()
            return text
        return self.list(node, starts, lengths, valid)

    def costs_of_payloads(self, costs: Array) -> Array:
        """What is known for each row of this run, added up for each payload."""
        if self.outer is None:
            return costs
        run, offsets = self.outer
        sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(costs)])
        return run.costs_of_payloads(sums[offsets[1:]] - sums[offsets[:-1]])

    def list(self, node: _Node, starts: Array, lengths: Array, valid: Mask | None) -> Column:
        element = node.layout.element
        assert element is not None
        last = node.body[1]
        unit = node.size
        numbers = lengths if last or not unit else lengths // unit
        offsets = np.zeros(self.rows + 1, np.int64)
        np.cumsum(numbers, out=offsets[1:])
        total = int(offsets[-1])
        if node.program is None:  # elements of no bytes
            return ListOf(offsets, Struct({}, total), valid)
        cost = node.program.element_bytes
        if total * cost > self.room.left:
            raise NoRoom(self.costs_of_payloads(numbers * cost), self.room.left)
        self.room.left -= total * cost
        if not last and element.kind in DTYPES.keys() | BOOLS:
            return ListOf(offsets, _scalar(kernels.gather(self.buffer, starts, lengths)[1], element.kind, None), valid)
        if last:
            ops, registers = self.program.ops, self.program.registers
            firsts = kernels.elements(self.buffer, starts, numbers, self.ends, ops, *node.body, registers)
            ends = np.repeat(self.ends, numbers)
        else:
            firsts = np.repeat(starts - offsets[:-1] * unit, numbers) + np.arange(total, dtype=np.int64) * unit
            ends = firsts + unit
        origins = np.repeat(self.origins, numbers)
        inner = _Run(node.program, self.buffer, origins, firsts, ends, self.lazy_text, self.room, (self, offsets))
        (child,) = inner.columns(node.program.nodes).values() or (Struct({}, total),)
        return ListOf(offsets, child, valid)


def run(program: Program, buffer: Array, starts: Array, ends: Array, *, room: Room, lazy_text: bool = False) -> Decoded:
    """Decode the payloads ``starts[r]`` to ``ends[r]`` of ``buffer``. :class:`NoRoom` when lists, or what fields
    point to, would take too much.
    """
    made = _Run(program, buffer, starts, starts, ends, lazy_text, room)
    if program.locations:
        located = made.located(program.nodes)
        is_beyond = located > LOCATED_RATIO * (ends - starts)
        if is_beyond.any():
            raise NoRoom(np.where(is_beyond, located, 0), 0)
    return Decoded(columns=made.columns(program.nodes), walked=made.walked)
