"""Portable PDBs: which line an offset is of; what is damaged is a ValueError, wherever it is cut."""

from __future__ import annotations

import random
import struct
from uuid import UUID

import pytest

from dotnetdiag.assemblies import sequence_points
from dotnetdiag.assemblies.sequence_points import PortablePdb, SourceLine

NO_ID = UUID(int=0)


def compressed(number: int) -> bytes:
    """ECMA-335 II.23.2."""
    if number < 0x80:
        return bytes([number])
    return struct.pack(">H", 0x8000 | number) if number < 0x4000 else struct.pack(">I", 0xC0000000 | number)


def signed(number: int) -> bytes:
    """Small ones alone: seven bits, rotated."""
    assert -64 <= number < 64
    return bytes([(number << 1 & 0x7E) | (number < 0)])


def pdb(*methods: tuple[int, bytes], separator: bytes = b"/", pdb_id: UUID = NO_ID) -> bytes:
    """A PDB of two documents, ``/src/A.cs`` and ``/src/B.cs``. A method: the number of its document or 0, its sequence points."""
    blobs = bytearray(b"\0")

    def blob(data: bytes) -> int:
        blobs.extend(compressed(len(data)) + data)
        return len(blobs) - len(compressed(len(data)) + data)

    parts = [blob(part) for part in (b"", b"src", b"A.cs", b"B.cs")]
    names = [blob(separator + b"".join(compressed(parts[at]) for at in (0, 1, last))) for last in (2, 3)]
    tables = struct.pack("<IBBBBQQII", 0, 2, 0, 0, 1, 1 << 0x30 | 1 << 0x31, 0, 2, len(methods))
    tables += b"".join(struct.pack("<HHHH", name, 0, 0, 0) for name in names)
    tables += b"".join(struct.pack("<HH", document, blob(points) if points else 0) for document, points in methods)
    streams = {b"#Pdb": pdb_id.bytes_le + bytes(16), b"#~": tables, b"#Blob": bytes(blobs)}
    head = (
        b"BSJB" + struct.pack("<HHII", 1, 1, 0, 12) + b"PDB v1.0".ljust(12, b"\0") + struct.pack("<HH", 0, len(streams))
    )
    offset = len(head) + sum(8 + (len(name) + 4) // 4 * 4 for name in streams)
    body = b""
    for name, data in streams.items():
        head += struct.pack("<II", offset + len(body), len(data)) + name.ljust((len(name) + 4) // 4 * 4, b"\0")
        body += data
    return head + body


NO_LOCALS = compressed(0)
SIMPLE = (  # offsets 0, 5 (hidden), 9, 300: lines 10, -, 12, 4
    NO_LOCALS
    + (compressed(0) + compressed(0) + compressed(8) + compressed(10) + compressed(5))
    + (compressed(5) + compressed(0) + compressed(0))
    + (compressed(4) + compressed(1) + signed(-3) + signed(2) + signed(0))
    + (compressed(291) + compressed(0) + compressed(8) + signed(-8) + signed(1))
)
TWO_DOCUMENTS = (  # begins in the first, goes on in the second
    NO_LOCALS
    + compressed(1)
    + (compressed(0) + compressed(0) + compressed(8) + compressed(10) + compressed(5))
    + (compressed(0) + compressed(2))
    + (compressed(7) + compressed(0) + compressed(8) + signed(30) + signed(0))
)


@pytest.mark.parametrize(
    ("offset", "line"), [(0, 10), (4, 10), (5, 10), (8, 10), (9, 12), (299, 12), (300, 4), (1 << 31, 4)]
)
def test_an_offset_is_of_the_last_visible_point_up_to_it(offset: int, line: int) -> None:
    assert PortablePdb(pdb((1, SIMPLE))).line(0x06000001, offset) == SourceLine(document="/src/A.cs", line=line)


def test_a_method_may_be_of_two_documents() -> None:
    made = PortablePdb(pdb((1, b""), (0, TWO_DOCUMENTS)))
    assert made.line(0x06000002, 0) == SourceLine(document="/src/A.cs", line=10)
    assert made.line(0x06000002, 7) == SourceLine(document="/src/B.cs", line=40)


@pytest.mark.parametrize("token", [0x06000000, 0x06000002, 0x06000003, 0x0A000001, 1])
def test_what_has_no_points_has_no_line(token: int) -> None:
    assert PortablePdb(pdb((1, SIMPLE), (1, b""))).line(token, 0) is None


def test_nothing_visible_is_no_line() -> None:
    hidden = NO_LOCALS + compressed(0) + compressed(0) + compressed(0)
    assert PortablePdb(pdb((1, hidden))).line(0x06000001, 5) is None


def test_a_name_without_a_separator_is_its_parts() -> None:
    line = PortablePdb(pdb((1, SIMPLE), separator=b"\0")).line(0x06000001, 0)
    assert line is not None
    assert line.document == "srcA.cs"


def test_a_cut_file_is_a_value_error_or_says_the_same() -> None:
    whole = pdb((1, SIMPLE), (0, TWO_DOCUMENTS))
    for size in range(len(whole)):
        try:
            PortablePdb(whole[:size]).line(0x06000002, 7)
        except ValueError:
            continue
        raise AssertionError(f"cut to {size} of {len(whole)} bytes")


def test_a_changed_byte_is_a_value_error_or_another_answer() -> None:
    whole = pdb((1, SIMPLE), (0, TWO_DOCUMENTS))
    for place in range(len(whole)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            try:
                PortablePdb(whole[:place] + bytes([value]) + whole[place + 1 :]).line(0x06000002, 7)
            except ValueError:
                pass


@pytest.mark.parametrize("data", [b"", b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0", b"BSJB"])
def test_another_file_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="no portable PDB"):
        PortablePdb(data)


def test_all_points_of_a_method_by_their_offsets() -> None:
    made = PortablePdb(pdb((1, SIMPLE), (0, TWO_DOCUMENTS), (1, b"")))
    assert [(p.il_offset, p.document, p.line) for p in made.points(0x06000001)] == [(0, 1, 10), (9, 1, 12), (300, 1, 4)]
    assert [(p.il_offset, p.document, p.line) for p in made.points(0x06000002)] == [(0, 1, 10), (7, 2, 40)]
    assert made.points(0x06000003) == made.points(0x06000009) == made.points(0) == []
    assert (made.document(1), made.document(2)) == ("/src/A.cs", "/src/B.cs")


@pytest.mark.parametrize("number", [0, 3, -1, 1 << 40])
def test_a_document_that_is_not_there_is_a_value_error(number: int) -> None:
    with pytest.raises(ValueError, match=f"there is no document {number}"):
        PortablePdb(pdb((1, SIMPLE))).document(number)


def test_the_id_is_the_first_of_the_pdb_stream() -> None:
    own = UUID("f2353642-b577-4e37-9a3c-e9589b929998")
    assert PortablePdb(pdb((1, SIMPLE), pdb_id=own)).id == own


@pytest.mark.parametrize(("limit", "is_read"), [(4, True), (3, False)])
def test_more_points_than_the_limit_are_damage(limit: int, is_read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_points, "MAX_POINTS", limit)
    made = PortablePdb(pdb((1, SIMPLE)))
    if is_read:
        assert len(made.points(0x06000001)) == 3
    else:
        with pytest.raises(ValueError, match="more than 3 sequence points"):
            made.points(0x06000001)


@pytest.mark.parametrize(("limit", "is_read"), [(7, True), (6, False)])
def test_a_name_longer_than_the_limit_is_damage(limit: int, is_read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_points, "MAX_NAME_BYTES", limit)
    made = PortablePdb(pdb((1, SIMPLE)))
    if is_read:
        assert made.document(1) == "/src/A.cs"
    else:
        with pytest.raises(ValueError, match="longer than 6 bytes"):
            made.document(1)


def everything(data: bytes) -> None:
    made = PortablePdb(data)
    for token in range(0x06000000, 0x06000004):
        for point in made.points(token):
            made.document(point.document)


def test_every_cut_is_a_value_error_of_all_points() -> None:
    whole = pdb((1, SIMPLE), (0, TWO_DOCUMENTS))
    everything(whole)
    for size in range(len(whole)):
        with pytest.raises(ValueError, match=r"it is (no portable PDB|damaged)"):
            everything(whole[:size])


def test_random_bytes_in_it_are_a_value_error_or_other_points() -> None:
    whole, chance, refused = pdb((1, SIMPLE), (0, TWO_DOCUMENTS)), random.Random(16), 0
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            everything(bytes(data))
        except ValueError:
            refused += 1
    assert 0 < refused < 2000
