"""The loops by numpy give what the compiled ones give: layouts and payloads by the hundred, always the same ones."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pytest
from tests.events.help import decoded, schema_of

from dotnetdiag.events import Scalar, Struct, kernels
from dotnetdiag.events.columns import Column, ListOf
from dotnetdiag.events.layout import SIZES, Count, Kind, Layout, SchemaField

pytestmark = pytest.mark.skipif(kernels.KERNELS is None, reason="the kernels are not compiled")

SCALARS = [*SIZES, Kind.POINTER, Kind.VARINT, Kind.VARUINT]
TEXTS = [Kind.Z16, Kind.Z8]
COUNTED = [Kind.TEXT16, Kind.TEXT8, Kind.BYTES]
COUNTERS = [Kind.U1, Kind.U2, Kind.U4, Kind.VARUINT, Kind.VARINT]


class Maker:
    """Layouts, and payloads that have them: ``draw`` decides."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.pointer_size = self.draw.choice([4, 8])

    def layout(self, depth: int) -> Layout:
        kinds = [self.draw.choice(SCALARS), self.draw.choice(TEXTS), Kind.PAD, Kind.BYTES, Kind.LIST, Kind.STRUCT]
        kind = self.draw.choice(kinds[: 3 if depth > 1 else 6])
        if kind == Kind.STRUCT:
            return Layout(kind=kind, fields=self.fields(depth + 1))
        if kind in (Kind.BYTES, Kind.LIST):
            return self.counted(depth, self.draw.choice([Count.FIXED, Count.U16, Count.U32]))
        return Layout(kind=kind, count=self.draw.randrange(4) if kind == Kind.PAD else 0)

    def counted(self, depth: int, at: Count, field: str = "") -> Layout:
        kind = self.draw.choice([*COUNTED, *[Kind.LIST] * 3] if depth < 2 else COUNTED)
        element = self.layout(depth + 1) if kind == Kind.LIST else None
        count = self.draw.randrange(4) if at == Count.FIXED else 0
        return Layout(kind=kind, element=element, count=count, count_at=at, count_field=field)

    def fields(self, depth: int) -> tuple[SchemaField, ...]:
        layouts = [self.layout(depth) for _ in range(self.draw.randrange(4))]
        fields = [SchemaField(name=f"f{number}", layout=layout) for number, layout in enumerate(layouts)]
        if self.draw.random() < 0.5:
            counters = [Layout(kind=self.draw.choice(COUNTERS)) for _ in range(2)]
            fields += [SchemaField(name=f"n{number}", layout=layout) for number, layout in enumerate(counters)]
            for name in ("n1", "n0"):
                fields.append(SchemaField(name=f"by {name}", layout=self.counted(depth, Count.FIELD, name)))
                fields += [SchemaField(name=f"behind {name}", layout=self.layout(depth))]
        return tuple(fields)

    def top(self) -> tuple[SchemaField, ...]:
        fields = list(self.fields(0))
        if self.draw.random() < 0.3:
            for at in (Count.REL, Count.DATA):
                element = Layout(kind=self.draw.choice([Kind.U2, Kind.GUID, Kind.BOOL32]))
                kind = self.draw.choice([Kind.TEXT16, Kind.BYTES, Kind.LIST])
                layout = Layout(kind=kind, element=element if kind == Kind.LIST else None, count_at=at)
                fields.insert(self.draw.randrange(len(fields) + 1), SchemaField(name=f"at{at}", layout=layout))
        if self.draw.random() < 0.3:
            fields.append(SchemaField(name="rest", layout=Layout(kind=Kind.OPAQUE)))
        return tuple(fields)

    def number(self, limit: int) -> bytes:
        value, out = self.draw.randrange(limit), bytearray()
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes(out) + bytes([value])

    def payload(self, fields: tuple[SchemaField, ...]) -> bytes:
        made, counts = b"", {}
        for field in fields:
            if field.name in ("n0", "n1") and field.layout.kind in COUNTERS:
                count = counts[field.name] = self.draw.choice([0, 1, 2, 3])
                made += bytes([count]) + bytes(SIZES.get(field.layout.kind, 1) - 1)
            else:
                made += self.value(field.layout, counts)
        return made

    def value(self, layout: Layout, counts: dict[str, int]) -> bytes:
        kind = layout.kind
        if kind == Kind.STRUCT:
            return self.payload(layout.fields)
        if kind in (Kind.VARINT, Kind.VARUINT):
            return self.number(1 << self.draw.choice([3, 9, 40, 64]))
        if kind in TEXTS:
            text = self.draw.choice(["", "a", "plain text, and longer", "zażółć 🐍"])
            return text.encode("utf-8") + b"\0" if kind == Kind.Z8 else text.encode("utf-16-le") + b"\0\0"
        if kind in (*COUNTED, Kind.LIST):
            return self.values(layout, counts)
        return self.draw.randbytes(
            {Kind.POINTER: self.pointer_size, Kind.PAD: layout.count}.get(kind) or SIZES.get(kind, 0)
        )

    def values(self, layout: Layout, counts: dict[str, int]) -> bytes:
        at, head = layout.count_at, b""
        if at in (Count.REL, Count.DATA):
            return struct.pack("<HH", self.draw.randrange(12), self.draw.choice([0, 2, 4, 8, 16]))
        count = counts[layout.count_field] if at == Count.FIELD else layout.count
        if at in (Count.U16, Count.U32):
            count = self.draw.choice([0, 1, 2, 3] if layout.element else [0, 1, 300])
            head = struct.pack("<H" if at == Count.U16 else "<I", count)
        if layout.element is None:
            return head + self.draw.randbytes(count * (2 if layout.kind == Kind.TEXT16 else 1))
        return head + b"".join(self.value(layout.element, {}) for _ in range(count))

    def payloads(self, fields: tuple[SchemaField, ...]) -> list[bytes]:
        """Whole ones, longer and shorter ones, changed ones, and noise."""
        made = []
        for _ in range(5):
            whole = self.payload(fields)
            changed = bytearray(whole)
            for _ in range(min(len(changed), 2)):
                changed[self.draw.randrange(len(changed))] = self.draw.choice([0, 1, 0x7F, 0x80, 0xFF])
            made += [whole, whole[: self.draw.randrange(len(whole) + 1)], bytes(changed)]
        return [*made, self.payload(fields) + b"rest", self.draw.randbytes(20), b"\xff" * 30, b""]


def told(column: Column) -> Any:
    """What a column holds, down to its arrays; numbers of rows without one do not count."""
    valid = None if column.valid is None else column.valid.tolist()
    if isinstance(column, Scalar):
        return valid, column.values.dtype, column.to_pylist()
    if isinstance(column, Struct):
        return valid, len(column), {name: told(inner) for name, inner in column.fields.items()}
    offsets = column.offsets.tolist()
    return (valid, offsets, told(column.child) if isinstance(column, ListOf) else column.data.tobytes())


def everything(schema: Any, payloads: list[bytes], **more: Any) -> Any:
    table = decoded(schema, payloads, infer_layout=False, **more)
    return (
        {name: told(column) for name, column in table.columns.items()},
        None if table.undecodable is None else table.undecodable.tolist(),
        None if table.remainder is None else table.remainder.to_pylist(),
    )


@pytest.mark.parametrize("seed", range(8))
def test_any_payloads_of_any_layout_are_the_same_without_a_compiler(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = kernels.KERNELS
    for number in range(seed * 40, seed * 40 + 40):
        maker = Maker(number)
        fields = maker.top()
        payloads, schema = maker.payloads(fields), schema_of(fields, pointer_size=maker.pointer_size)
        names = [field.name for field in fields if field.layout.kind != Kind.PAD]
        for selection in (None, names[len(names) // 2 :][:1]):
            monkeypatch.setattr(kernels, "KERNELS", compiled)
            wanted = everything(schema, payloads, fields=selection)
            monkeypatch.setattr(kernels, "KERNELS", None)
            assert repr(everything(schema, payloads, fields=selection)) == repr(wanted), (number, fields)


@pytest.mark.parametrize("top", [1, 3, 5000])
def test_rows_of_ids_are_the_same_without_a_compiler(top: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = np.random.default_rng(top).integers(0, top, 300).astype(np.uint32)
    expected = {number: np.flatnonzero(ids == number).tolist() for number in np.unique(ids).tolist()}
    for loops in (kernels.KERNELS, None):
        monkeypatch.setattr(kernels, "KERNELS", loops)
        assert {number: rows.tolist() for number, rows in kernels.grouped(ids).items()} == expected
        assert kernels.grouped(ids[:0]) == {}


def test_spans_that_begin_alike_are_the_same_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.frombuffer(b"abcabd-abc", np.uint8)
    offsets, lengths = np.array([0, 3, 7, 7, 8, -1, 40]), np.array([3, 3, 3, 2, 3, 3, 3])
    for loops in (kernels.KERNELS, None):
        monkeypatch.setattr(kernels, "KERNELS", loops)
        fronts = kernels.Fronts([(b"abd", -1), (b"abc", 4), (b"ab", 3), (b"abc", -1)])
        assert fronts.of(data, offsets, lengths).tolist() == [2, 0, 2, *[4] * 4]
        assert kernels.Fronts([(b"abc", -1)]).of(data, offsets, lengths).tolist() == [0, 1, 0, *[1] * 4]
        assert fronts.of(data, offsets[:0], lengths[:0]).tolist() == []
