"""Hex in texts: as programs write it, and as documents do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.recipes.hex_text import MOST_SQUEEZED, hex_pieces

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
OD_HEX = """\
000000 44 4f 54 4e 45 54 5f 49 50 43 5f 56 31 00 14 00  >DOTNET_IPC_V1...<
000010 04 08 00 00 44 4f 54 4e 45 54 5f 49 50 43 5f 56  >....DOTNET_IPC_V<
000020 31 00 20 61 62 63 64 65 66                       >1. abcdef<
000029
"""
OD_OCTAL = """\
0000000 44 4f 54 4e 45 54 5f 49 50 43 5f 56 31 00 14 00
0000020 04 08 00 00 44 4f 54 4e 45 54 5f 49 50 43 5f 56
0000040 31 00 20 61 62 63 64 65 66
0000051
"""
OD_DECIMAL = OD_OCTAL.replace("0000020", "0000016").replace("0000040", "0000032").replace("0000051", "0000041")
HXD = """\
00000000  44 4F 54 4E 45 54 5F 49 50 43 5F 56 31 00 14 00  DOTNET_IPC_V1...
00000010  04 08 00 00 44 4F 54 4E 45 54 5F 49 50 43 5F 56  ....DOTNET_IPC_V
00000020  31 00 20 61 62 63 64 65 66                       1. abcdef
"""
COLONS = DATA.hex(":")
OPENSSL = f"    {DATA[:15].hex(':')}:\n    {DATA[15:30].hex(':')}:\n    {DATA[30:].hex(':')}\n"
DASHES = DATA.hex("-").upper()
C = "{ " + ", ".join(f"0x{byte:02X}" for byte in DATA) + " }; // the request"
ESCAPES = '"' + "".join(f"\\x{byte:02x}" for byte in DATA) + '"'


def pieces(text: str) -> list[bytes]:
    made: list[bytes] = []
    for begins, data in hex_pieces(text.splitlines(keepends=True)):
        if begins:
            made.append(b"")
        made[-1] += data
    return made


@pytest.mark.parametrize("text", [PLAIN, PLAIN.upper(), C, ESCAPES, DATA.hex(" ", 2), COLONS, OPENSSL, DASHES])
def test_the_bytes_are_found(text: str) -> None:
    assert pieces(text) == [DATA]


@pytest.mark.parametrize("text", [XXD, HEXDUMP, WIRESHARK, OD_HEX, OD_OCTAL, OD_DECIMAL, HXD])
def test_the_bytes_of_a_dump_are_found_as_often_as_it_is_there(text: str) -> None:
    assert pieces(text) == [DATA]
    assert pieces(text + text) == [DATA, DATA]


SQUEEZED = DATA[:32] + bytes(64) + b"end"


@pytest.mark.parametrize(
    "text",
    [
        """\
00000000  44 4f 54 4e 45 54 5f 49  50 43 5f 56 31 00 14 00  |DOTNET_IPC_V1...|
00000010  04 08 00 00 44 4f 54 4e  45 54 5f 49 50 43 5f 56  |....DOTNET_IPC_V|
00000020  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  |................|
*
00000060  65 6e 64                                          |end|
00000063
""",
        """\
00000000: 444f 544e 4554 5f49 5043 5f56 3100 1400  DOTNET_IPC_V1...
00000010: 0408 0000 444f 544e 4554 5f49 5043 5f56  ....DOTNET_IPC_V
00000020: 0000 0000 0000 0000 0000 0000 0000 0000  ................
*
00000060: 656e 64                                  end
""",
        """\
0000000 44 4f 54 4e 45 54 5f 49 50 43 5f 56 31 00 14 00
0000016 04 08 00 00 44 4f 54 4e 45 54 5f 49 50 43 5f 56
0000032 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
*
0000096 65 6e 64
0000099
""",
    ],
)
def test_rows_that_a_star_stands_for_are_there(text: str) -> None:
    assert pieces(text) == [SQUEEZED]
    assert pieces(text[: text.index("*") + 2]) == [SQUEEZED[:48]]


def test_a_star_stands_for_no_more_than_the_limit_and_for_whole_rows() -> None:
    row = "00000000  44 4f 54 4e  |DOTN|\n*\n"
    assert pieces(row + f"{MOST_SQUEEZED + 4:08x}  65  |e|") == [b"DOTN" * (MOST_SQUEEZED // 4 + 1) + b"e"]
    assert pieces(row + f"{MOST_SQUEEZED + 8:08x}  65  |e|") == [b"DOTN", b"e"]
    assert pieces(row + "00000006  65  |e|") == [b"DOTN", b"e"]


def test_a_part_of_a_dump_that_can_be_nothing_else_is_read_from_where_it_begins() -> None:
    for text in (XXD, HEXDUMP, OD_HEX, OD_OCTAL, OD_DECIMAL, WIRESHARK, HXD):
        assert pieces(text[text.index("\n") + 1 :]) == [DATA[16:]]
    lines = HEXDUMP.splitlines(keepends=True)
    assert pieces(lines[0] + lines[2]) == [DATA[:16], DATA[32:]]  # a line is missing


def test_plain_lines_that_look_like_addresses_are_bytes() -> None:
    assert pieces("444f544e\n00000004\n0000\n") == [b"DOTN\0\0\0\4\0\0"]


@pytest.mark.parametrize("line", ["07:44:56", "00:1b:44:11:3a:b7", "12-24"])
def test_a_time_or_the_address_of_a_card_is_no_message(line: str) -> None:
    assert pieces(f"{line}\n{COLONS}\n") == [DATA]
    assert pieces(f"{COLONS}\n{line}\n") == [DATA + bytes.fromhex(line.replace(":", "").replace("-", ""))]


@pytest.mark.parametrize("text", ["0000000 4f44 4e54 5445 495f\n0000008\n", "0000000 047504 047124\n"])
def test_words_in_the_order_of_a_machine_are_not_read(text: str) -> None:
    assert pieces(text) == []


def test_lines_of_plain_hex_are_one_piece_and_an_empty_line_ends_it() -> None:
    assert pieces(f"{PLAIN[:40]}\n{PLAIN[40:]}\n") == [DATA]
    assert pieces(f"{PLAIN[:40]}\n\n{PLAIN[40:]}\n") == [DATA[:20], DATA[20:]]


def test_behind_words_the_bytes_begin_with_a_magic_and_end_with_the_next_word() -> None:
    text = f"Some text of a face\nDead ProcessInfo3   {PLAIN[:28]} 1400 04 08 0000     (id 0x1122)\n| 02 | a table |\n"
    assert pieces(text) == [DATA[:20]]
    assert pieces(f"Advertise pid 12345: {b'ADVR_V1'.hex()}00 {'00' * 26}") == [b"ADVR_V1\0" + bytes(26)]


@given(st.binary(min_size=1, max_size=100))
def test_any_bytes_come_back_from_plain_hex(data: bytes) -> None:
    assert pieces(data.hex()) == [data]
    assert pieces(data.hex(" ")) == [data]
    assert pieces(f"{PLAIN}\n{data.hex(':')}") == [DATA + data]


@given(st.text(max_size=300) | st.text("0123456789abf:-*|<> \n\u00a0\u0663", max_size=300))
def test_no_text_raises(text: str) -> None:
    pieces(text)
