"""What an assembly says of its PDB; what is damaged is a ValueError, wherever it is cut, and unpacks to no more than it says."""

from __future__ import annotations

import random
import struct
import zlib
from uuid import UUID

import pytest
from tests.client.assemblies import HOOK, assembly

from dotnetdiag.assemblies import debug_directory
from dotnetdiag.assemblies.debug_directory import DebugDirectory

ID = UUID("f2353642-b577-4e37-9a3c-e9589b929998")
RVA, RAW = 0x2000, 0x200
CODEVIEW, EMBEDDED, REPRODUCIBLE = 2, 17, 16


def codeview(pdb_id: UUID = ID) -> bytes:
    return b"RSDS" + pdb_id.bytes_le + struct.pack("<I", 1) + b"/src/app.pdb\0"


def packed(data: bytes, size: int | None = None) -> bytes:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return b"MPDB" + struct.pack("<I", len(data) if size is None else size) + squeeze.compress(data) + squeeze.flush()


def image(*entries: tuple[int, bytes], is_wide: bool = False) -> bytes:
    """A PE file (of 64 bits if ``is_wide``) with one section, which has the debug directory and what it names."""
    section = bytearray(28 * len(entries))
    for number, (kind, data) in enumerate(entries):
        place = struct.pack("<IIHHIIII", 0, 0, 0, 0, kind, len(data), RVA + len(section), RAW + len(section))
        section[28 * number : 28 * (number + 1)] = place
        section += data
    optional = struct.pack("<H", 0x20B if is_wide else 0x10B).ljust(112 if is_wide else 96, b"\0")
    optional += bytes(6 * 8) + struct.pack("<II", RVA, 28 * len(entries)) + bytes(9 * 8)
    header = b"PE\0\0" + struct.pack("<HHIIIHH", 0x14C, 1, 0, 0, 0, len(optional), 0) + optional
    header += b".text\0\0\0" + struct.pack("<IIII", len(section), RVA, len(section), RAW) + bytes(16)
    return (b"MZ".ljust(0x3C, b"\0") + struct.pack("<I", 0x40) + header).ljust(RAW, b"\0") + bytes(section)


@pytest.mark.parametrize("is_wide", [False, True])
def test_the_id_and_the_embedded_pdb_are_read(is_wide: bool) -> None:
    entries = [(CODEVIEW, codeview()), (EMBEDDED, packed(b"BSJB and more" * 99)), (REPRODUCIBLE, b"")]
    made = DebugDirectory(image(*entries, is_wide=is_wide))
    assert made.pdb_id == ID
    assert made.embedded_pdb() == b"BSJB and more" * 99


def test_the_first_of_several_ids_counts() -> None:
    other = UUID(int=7)
    assert DebugDirectory(image((CODEVIEW, codeview()), (CODEVIEW, codeview(other)))).pdb_id == ID


@pytest.mark.parametrize("data", [b"NB10" + bytes(40), b"RSDS", b""])
def test_another_codeview_entry_says_nothing(data: bytes) -> None:
    assert DebugDirectory(image((CODEVIEW, data))).pdb_id is None


def test_an_assembly_without_a_debug_directory_says_nothing() -> None:
    made = DebugDirectory(assembly(HOOK))
    assert made.pdb_id is None
    assert made.embedded_pdb() is None


@pytest.mark.parametrize("data", [b"", b"MZ", b"\x7fELF" + bytes(200), b"MZ".ljust(500, b"\0")])
def test_another_file_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="it is no assembly"):
        DebugDirectory(data)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (packed(b"x" * 5000, 4999), "4999 bytes announced"),
        (packed(b"x" * 5000, 5001), "5001 bytes announced"),
        (packed(b"x" * 5000)[:-3], "5000 bytes announced"),
        (packed(b"x", 1 << 31), "it says that it has 2147483648 bytes"),
        (b"PDBM" + packed(b"x")[4:], "it does not begin with MPDB"),
        (b"MPDB\5\0\0\0\xff\xff\xff", "its embedded PDB is damaged"),
        (b"MPD", "its embedded PDB is damaged"),
    ],
)
def test_an_embedded_pdb_that_lies_is_a_value_error(data: bytes, says: str) -> None:
    made = DebugDirectory(image((EMBEDDED, data)))
    with pytest.raises(ValueError, match=says):
        made.embedded_pdb()


@pytest.mark.parametrize(("limit", "is_read"), [(5000, True), (4999, False)])
def test_what_unpacks_to_more_than_the_limit_is_not_unpacked(
    limit: int, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug_directory, "MAX_EMBEDDED_BYTES", limit)
    made = DebugDirectory(image((EMBEDDED, packed(b"x" * 5000))))
    if is_read:
        assert made.embedded_pdb() == b"x" * 5000
    else:
        with pytest.raises(ValueError, match="5000 bytes unpacked"):
            made.embedded_pdb()


def test_too_many_entries_are_a_value_error() -> None:
    DebugDirectory(image(*[(REPRODUCIBLE, b"")] * 64))
    with pytest.raises(ValueError, match="65 entries"):
        DebugDirectory(image(*[(REPRODUCIBLE, b"")] * 65))


def everything(data: bytes) -> None:
    DebugDirectory(data).embedded_pdb()


def test_every_cut_is_a_value_error() -> None:
    whole = image((CODEVIEW, codeview()), (EMBEDDED, packed(b"BSJB and more" * 9)))
    everything(whole)
    for size in range(len(whole)):
        with pytest.raises(ValueError, match=r"no assembly|is damaged"):
            everything(whole[:size])


def test_random_bytes_in_it_are_a_value_error_or_another_answer() -> None:
    whole, chance, refused = image((CODEVIEW, codeview()), (EMBEDDED, packed(b"BSJB" * 9))), random.Random(16), 0
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 5)):
            data[chance.choice([*range(0x40, 0x180), *range(RAW, len(data))])] = chance.randrange(256)
        try:
            everything(bytes(data))
        except ValueError:
            refused += 1
    assert 0 < refused < 2000
