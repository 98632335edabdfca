"""Bytes that stand in a text as hex: plain, as ``xxd``, ``hexdump -C`` and Wireshark write them, as arrays of C, and behind the words of a
document.

Rule 1: an address is one only where it says how many bytes came before it; one that begins at 0 again begins a new piece, as does an empty
line.
Rule 2: in a line with other words the bytes begin with the magic of a message, and end before the next word that is no hex; a line
without a magic is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LONGEST_LINE = 1 << 20
_XXD = re.compile(r"([0-9a-fA-F]{4,16}):\s+(.*)")
_DUMP = re.compile(r"([0-9a-fA-F]{4,16})(?:\s+(.*))?")
_TOKEN = re.compile(r"(?:0[xX])?((?:[0-9a-fA-F]{2})+)")
_MAGICS = ("444f544e45545f4950435f563100", "414456525f563100")
_COMMENT = re.compile(r"(//|#).*")
_BETWEEN = re.compile(r"[{}();,\[\]\"'\\]+")


def hex_pieces(lines: Iterable[str]) -> Iterator[tuple[bool, bytes]]:
    """The bytes of each line that has some, and whether a new piece begins with it."""
    count, begins = 0, True
    for line in lines:
        text = line.strip()
        if not text:
            begins = True
            continue
        address, data = _addressed(text, count)
        if address is None:
            data, is_alone = _plain(text)
            begins = begins or not is_alone
        elif address == 0:
            begins = True
        if data:
            yield begins, data
            count = len(data) if begins else count + len(data)
            begins = False


def _addressed(text: str, count: int) -> tuple[int | None, bytes]:
    """The address that a line begins with, None where it has none, and its bytes."""
    if found := _XXD.fullmatch(text):
        groups = found[2].split("  ")[0]
        return int(found[1], 16), _bytes(groups.split())
    found = _DUMP.fullmatch(text)
    if found is None or int(found[1], 16) not in (0, count) or len(found[1]) not in (4, 8):
        return None, b""
    if found[2] is None:  # the end of a hexdump: how many there were
        return (int(found[1], 16), b"") if count else (None, b"")
    groups = re.split(r"\s*\|", found[2])[0] if "|" in found[2] else re.split(r"\s{3,}", found[2])[0]
    tokens = groups.split()
    if not tokens or any(len(one) != 2 for one in tokens[:1]):
        return None, b""
    return int(found[1], 16), _bytes(tokens[:16])


def _plain(text: str) -> tuple[bytes, bool]:
    """The bytes of a line without an address, and whether it holds nothing else."""
    words = _BETWEEN.sub(" ", _COMMENT.sub("", text).replace("\\x", " ")).split()
    if words and all(_TOKEN.fullmatch(word) for word in words):
        return _bytes(words), True
    for first in range(len(words)):
        data = _bytes(words[first:])
        if data.hex().startswith(_MAGICS):
            return data, False
    return b"", False


def _bytes(words: Iterable[str]) -> bytes:
    """Of the words up to the first that is no hex."""
    made = bytearray()
    for word in words:
        found = _TOKEN.fullmatch(word)
        if found is None:
            break
        made += bytes.fromhex(found[1])
    return bytes(made)
