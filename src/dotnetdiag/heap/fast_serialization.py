"""The container of ``.gcdump`` files, FastSerialization: objects with types, references to objects and regions that may be passed over
(gcdump.md §1).

Rule 1: a count is compared with the bytes that are left before anything is made of it.
Rule 2: objects in objects are read to a depth of ``MAX_DEPTH``; a reference leads back to what was read, or to what is read where it points,
and what refers to itself while it is read is an error.
Rule 3: references may lead into the middle of other objects, and so a file of a megabyte could say the same megabyte thousands of times: of texts,
and of what is passed over before an object, no more is read than :data:`MOST_READ` times the size of the file.
Rule 4: numpy is not loaded for it: that alone takes as long as a heap of a million objects.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import FormatError
from dotnetdiag.wire.cursor import Cursor

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

MAGIC = "!FastSerialization.1"
HEADER = len(MAGIC).to_bytes(4, "little") + MAGIC.encode()
MAX_DEPTH = 8
"""Files of PerfView have five."""
MAX_TYPES = 64
MOST_READ = 4
"""A text is read once, in modules of .NET Native twice."""


class Tag(IntEnum):
    """What follows."""

    NULL = 1
    REFERENCE = 2
    FORWARD = 3
    BEGIN = 4
    BEGIN_PRIVATE = 5
    END = 6
    FORWARD_DEFINITION = 7
    BYTE = 8
    INT16 = 9
    INT32 = 10
    INT64 = 11
    SKIP = 12
    STRING = 13
    BLOB = 14


_VALUE_BYTES = {Tag.BYTE: 1, Tag.INT16: 2, Tag.INT32: 4, Tag.INT64: 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeObject:
    """The type of an object, and the oldest reader that may read it; 0: any."""

    name: str
    version: int
    min_reader: int


Read: TypeAlias = "Callable[[Deserializer, TypeObject], Any]"


def label_width(data: memoryview) -> int | None:
    """Bytes of a label, by the last one of the file, which points at the one before; None where neither fits: the file was cut off."""
    size = len(data)
    if size >= 8 and int.from_bytes(data[-4:], "little") == size - 8:
        return 4
    if size >= 16 and int.from_bytes(data[-8:], "little") == size - 16:
        return 8
    return None


class Deserializer:
    """Reads one file. ``cut`` says whether its end is missing: what stands there, the places of regions, is not known then."""

    def __init__(self, data: memoryview, readers: Mapping[str, Read]) -> None:
        self.cursor = Cursor(data, where=".gcdump")
        self._readers = readers
        if bytes(data[: len(HEADER)]) != HEADER:
            raise self.cursor.fail("it does not begin as FastSerialization does")
        self.cursor.position = len(HEADER)
        width = label_width(data)
        self.cut = width is None
        self.width = width or 4
        self._forward_at, self._forward_count = self._forward_table(data) if width else (0, 0)
        self._left = MOST_READ * len(data)
        self._objects: dict[int, Any] = {}
        self._kinds: dict[int, str] = {}
        self._types: dict[int, TypeObject] = {}
        self._depth = 0

    def _forward_table(self, data: memoryview) -> tuple[int, int]:
        """(where it begins, how many places it has)."""
        width = self.width
        trailer = len(data) - 2 * width
        position = int.from_bytes(data[trailer : trailer + width], "little")
        if not len(HEADER) <= position <= trailer - 4:
            raise FormatError(f"the table of forward references would be at 0x{position:x}", offset=trailer)
        count = int.from_bytes(data[position : position + 4], "little", signed=True)
        if not 0 <= count <= (trailer - position - 4) // width:
            raise FormatError(f"{count:,} forward references do not fit", offset=position)
        return position + 4, count

    # values -----------------------------------------------------------------------------------------------------------

    def string(self, what: str = "text") -> str | None:
        """A counted text: UTF-16 units, each as one to three bytes in the fashion of UTF-8."""
        cursor = self.cursor
        units = cursor.i32(what)
        if units < 0:
            if units == -1:
                return None
            raise cursor.fail(f"{what} of {units} characters")
        raw = cursor.data[cursor.position : cursor.position + units]
        if len(raw) < units:
            raise cursor.fail(f"{what} of {units:,} characters, {cursor.left:,} bytes left")
        self._spend(units)
        plain = bytes(raw)
        if plain.isascii():
            cursor.position += units
            return plain.decode("ascii")
        return self._wide(units, what)

    def _spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self.cursor.fail("objects lie in each other: they have more text than the file")

    def _wide(self, units: int, what: str) -> str:
        cursor, made = self.cursor, bytearray()
        data, position, end = cursor.data, cursor.position, cursor.end
        for _ in range(units):
            if position >= end:
                raise cursor.fail(f"{what} has no end")
            lead = data[position]
            size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3
            part = data[position : position + size]
            if len(part) < size:
                raise cursor.fail(f"{what} has no end")
            unit = lead if size == 1 else (lead & 0x1F) << 6 | part[1] & 0x3F
            if size == 3:
                unit = (lead & 0x0F) << 12 | (part[1] & 0x3F) << 6 | part[2] & 0x3F
            made += (unit & 0xFFFF).to_bytes(2, "little")
            position += size
        cursor.position = position
        return made.decode("utf-16-le", "surrogatepass")

    def count(self, row: int, what: str, *, wide: bool = False) -> int:
        """A count of rows of so many bytes at least, which are there."""
        number = self.cursor.i64(what) if wide else self.cursor.i32(what)
        if not 0 <= number <= self.cursor.left // row:
            raise self.cursor.fail(f"{number:,} {what} do not fit into {self.cursor.left:,} bytes")
        return number

    def numbers(self, count: int, kind: str, what: str) -> tuple[Any, ...]:
        """So many numbers of a kind of ``struct``."""
        form = struct.Struct(f"<{count}{kind}")
        return form.unpack(self.cursor.view(form.size, what))

    def singles(self, count: int, what: str) -> array[float]:
        """So many singles."""
        made = array("f", self.cursor.take(4 * count, what))
        if sys.byteorder == "big":
            made.byteswap()
        return made

    def boolean(self, what: str) -> bool:
        """One byte."""
        return self.cursor.u8(what) != 0

    def f32(self, what: str) -> float:
        """A single."""
        return float(self.numbers(1, "f", what)[0])

    def label(self, what: str) -> int:
        """A place in the file."""
        place = self.cursor.u32(what) if self.width == 4 else self.cursor.u64(what)
        if place >= self.cursor.end:
            raise self.cursor.fail(f"{what} 0x{place:x} is outside of the file")
        return place

    def forward(self) -> int:
        """A place in the file that stands in the table at its end."""
        index = self.cursor.i32("forward reference")
        if not 0 <= index < self._forward_count:
            raise self.cursor.fail(f"forward reference {index}, there are {self._forward_count}")
        at = self._forward_at + index * self.width
        place = int.from_bytes(self.cursor.data[at : at + self.width], "little")
        if place > self.cursor.end:
            raise self.cursor.fail(f"forward reference to 0x{place:x}, outside of the file")
        return place

    # tagged values ----------------------------------------------------------------------------------------------------

    def maybe_tagged(self, tag: Tag) -> bool:
        """Whether the next value has this tag, which is passed then."""
        cursor = self.cursor
        if not cursor.left or cursor.data[cursor.position] != tag:
            return False
        cursor.position += 1
        return True

    def end_object(self) -> None:
        """Pass over what newer writers have behind the fields that are known, and the end of the object."""
        cursor = self.cursor
        while True:
            tag = cursor.u8("tag")
            if tag == Tag.END:
                return
            if tag in _VALUE_BYTES:
                cursor.skip(_VALUE_BYTES[Tag(tag)])
            elif tag == Tag.STRING:
                self.string()
            elif tag == Tag.BLOB:
                cursor.skip(self.count(1, "bytes"))
            elif tag == Tag.SKIP:
                place = self.forward()
                if place < cursor.position:
                    raise cursor.fail(f"a region that ends before it begins, at 0x{place:x}")
                cursor.position = place
            else:
                raise cursor.fail(f"tag {tag} where an object ends")

    # objects ----------------------------------------------------------------------------------------------------------

    def object(self, what: str, *, expected: str = "") -> Any:
        """The next object: what its type's reader makes of it. None for null."""
        cursor = self.cursor
        start = cursor.position
        tag = cursor.u8(what)
        while tag == Tag.BLOB:
            cursor.skip(self.count(1, "bytes"))
            start, tag = cursor.position, cursor.u8(what)
            self._spend(5)  # of its tag and its size
        if tag == Tag.NULL:
            return None
        if tag == Tag.REFERENCE:
            return self._referred(self.label(what), what, expected)
        if tag == Tag.FORWARD:
            place = self.forward()
            self._type_object()
            return self._referred(place, what, expected)
        if tag == Tag.FORWARD_DEFINITION:
            cursor.skip(4, "forward reference")
            tag = cursor.u8(what)
        if tag not in (Tag.BEGIN, Tag.BEGIN_PRIVATE):
            raise cursor.fail(f"tag {tag} where {what} begins")
        return self._new(start, what, expected)

    def _new(self, start: int, what: str, expected: str) -> Any:
        if self._depth >= MAX_DEPTH:
            raise self.cursor.fail(f"objects in objects, more than {MAX_DEPTH} deep")
        kind = self._type_object()
        read = self._readers.get(kind.name)
        if read is None or (expected and kind.name != expected):
            raise self.cursor.fail(f"{what} is a {kind.name}")
        self._depth += 1
        self._objects[start], self._kinds[start] = _UNFINISHED, kind.name
        made = self._objects[start] = read(self, kind)
        self._depth -= 1
        return made

    def _referred(self, place: int, what: str, expected: str) -> Any:
        known = self._objects.get(place)
        if known is _UNFINISHED:
            raise self.cursor.fail(f"{what} is inside of itself")
        if known is not None:
            if expected and self._kinds[place] != expected:
                raise self.cursor.fail(f"{what} is a {self._kinds[place]}")
            return known
        here, self.cursor.position = self.cursor.position, place
        if self._depth >= MAX_DEPTH:
            raise self.cursor.fail(f"references to references, more than {MAX_DEPTH}")
        self._depth += 1
        made = self.object(what, expected=expected)
        self._depth -= 1
        self.cursor.position = here
        return made

    def _type_object(self) -> TypeObject:
        """An object whose own type is null."""
        cursor = self.cursor
        start, tag = cursor.position, cursor.u8("type")
        if tag == Tag.REFERENCE:
            place = self.label("type")
            if place in self._types:
                return self._types[place]
            here, cursor.position = cursor.position, place
            if cursor.data[place] != Tag.BEGIN:
                raise cursor.fail("a reference to a type leads to none")
            made = self._type_object()
            cursor.position = here
            return made
        if tag not in (Tag.BEGIN, Tag.BEGIN_PRIVATE) or cursor.u8("type") != Tag.NULL:
            raise cursor.fail("no type where one is expected")
        version, least = cursor.i32("version"), cursor.i32("least reader")
        made = TypeObject(name=self.string("name of a type") or "", version=version, min_reader=least)
        if cursor.u8("end of a type") != Tag.END:
            raise cursor.fail("a type without an end")
        if len(self._types) >= MAX_TYPES:
            raise cursor.fail(f"more than {MAX_TYPES} types")
        self._types[start] = made
        return made


_UNFINISHED: Any = object()


class Serializer:
    """Writes one file, with labels of 4 bytes, front to back."""

    def __init__(self, write: Callable[[bytes | memoryview], object]) -> None:
        self._write = write
        self.position = 0
        self._types: dict[str, int] = {}
        self._forward: list[int] = []
        self.raw(HEADER)

    def raw(self, data: bytes | memoryview | Array) -> None:
        """Bytes as they are."""
        view = data if isinstance(data, bytes) else memoryview(data).cast("B")  # type: ignore[arg-type]  # arrays are buffers
        self._write(view)
        self.position += len(view)

    def string(self, text: str | None) -> None:
        """A counted text, or null."""
        self.raw(packed_text(text))

    def number(self, value: int, size: int = 4) -> None:
        """A signed number; what does not fit is cut off, as it comes in addresses alone."""
        self.raw((value & ((1 << 8 * size) - 1)).to_bytes(size, "little"))

    def boolean(self, value: bool) -> None:
        """One byte."""
        self.number(value, 1)

    def f32(self, value: float) -> None:
        """A single."""
        self.raw(struct.pack("<f", value))

    def tag(self, tag: Tag) -> None:
        """What follows."""
        self.number(tag, 1)

    def begin(self, name: str, version: int, least: int) -> None:
        """The begin of an object, and its type: in full where it is the first of its type."""
        self.tag(Tag.BEGIN)
        known = self._types.get(name)
        if known is not None:
            self.tag(Tag.REFERENCE)
            self.number(known)
            return
        self._types[name] = self.position
        self.raw(bytes((Tag.BEGIN, Tag.NULL)))
        self.number(version)
        self.number(least)
        self.string(name)
        self.tag(Tag.END)

    def begin_region(self) -> int:
        """The begin of a region that readers may pass over; what :meth:`end_region` takes."""
        self.tag(Tag.SKIP)
        self.number(len(self._forward))
        self._forward.append(0)
        return len(self._forward) - 1

    def end_region(self, number: int) -> None:
        """Its end."""
        self._forward[number] = self.position

    def finish(self) -> None:
        """The end of all objects, the places of regions, and where those stand."""
        self.tag(Tag.END)
        table = self.position
        self.number(len(self._forward))
        for place in self._forward:
            self.number(place)
        trailer = self.position
        self.number(table)
        self.number(trailer)


def packed_text(text: str | None) -> bytes:
    """Count of UTF-16 units, then each as one to three bytes; null is a count of -1."""
    if text is None:
        return b"\xff\xff\xff\xff"
    if text.isascii():
        return len(text).to_bytes(4, "little") + text.encode()
    raw = text.encode("utf-16-le", "surrogatepass")
    units = struct.unpack(f"<{len(raw) // 2}H", raw)
    body = "".join(map(chr, units)).encode("utf-8", "surrogatepass")
    return len(units).to_bytes(4, "little") + body
