"""Hex in texts: as programs write it, and as documents do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.recipes.hex_text import hex_pieces

DATA = b"DOTNET_IPC_V1\0" + bytes((0x14, 0, 4, 8, 0, 0)) + b"DOTNET_IPC_V1\0 abcdef"
PLAIN = DATA.hex()

XXD = """\
00000000: 444f 544e 4554 5f49 5043 5f56 3100 1400  DOTNET_IPC_V1...
00000010: 0408 0000 444f 544e 4554 5f49 5043 5f56  ....DOTNET_IPC_V
00000020: 3100 2061 6263 6465 66                   1. abcdef
"""
HEXDUMP = """\
00000000  44 4f 54 4e 45 54 5f 49  50 43 5f 56 31 00 14 00  |DOTNET_IPC_V1...|
00000010  04 08 00 00 44 4f 54 4e  45 54 5f 49 50 43 5f 56  |....DOTNET_IPC_V|
00000020  31 00 20 61 62 63 64 65  66                       |1. abcdef|
00000029
"""
WIRESHARK = """\
0000   44 4f 54 4e 45 54 5f 49 50 43 5f 56 31 00 14 00   DOTNET_IPC_V1...
0010   04 08 00 00 44 4f 54 4e 45 54 5f 49 50 43 5f 56   ....DOTNET_IPC_V
0020   31 00 20 61 62 63 64 65 66                        1. abcdef
"""
C = "{ " + ", ".join(f"0x{byte:02X}" for byte in DATA) + " }; // the request"
ESCAPES = '"' + "".join(f"\\x{byte:02x}" for byte in DATA) + '"'


def pieces(text: str) -> list[bytes]:
    made: list[bytes] = []
    for begins, data in hex_pieces(text.splitlines(keepends=True)):
        if begins:
            made.append(b"")
        made[-1] += data
    return made


@pytest.mark.parametrize("text", [PLAIN, PLAIN.upper(), XXD, HEXDUMP, WIRESHARK, C, ESCAPES, DATA.hex(" ", 2)])
def test_the_bytes_are_found(text: str) -> None:
    assert pieces(text) == [DATA]


def test_lines_of_plain_hex_are_one_piece_and_an_empty_line_ends_it() -> None:
    assert pieces(f"{PLAIN[:40]}\n{PLAIN[40:]}\n") == [DATA]
    assert pieces(f"{PLAIN[:40]}\n\n{PLAIN[40:]}\n") == [DATA[:20], DATA[20:]]


def test_an_address_of_0_begins_a_new_piece() -> None:
    assert pieces(XXD + XXD) == [DATA, DATA]
    assert pieces(HEXDUMP + HEXDUMP) == [DATA, DATA]


def test_behind_words_the_bytes_begin_with_a_magic_and_end_with_the_next_word() -> None:
    text = f"Some text of a face\nDead ProcessInfo3   {PLAIN[:28]} 1400 04 08 0000     (id 0x1122)\n| 02 | a table |\n"
    assert pieces(text) == [DATA[:20]]
    assert pieces(f"Advertise pid 12345: {b'ADVR_V1'.hex()}00 {'00' * 26}") == [b"ADVR_V1\0" + bytes(26)]


@given(st.binary(min_size=1, max_size=100))
def test_any_bytes_come_back_from_plain_hex(data: bytes) -> None:
    assert pieces(data.hex()) == [data]
    assert pieces(data.hex(" ")) == [data]


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    pieces(text)
