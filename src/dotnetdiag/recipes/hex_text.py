"""Bytes that stand in a text as hex: plain, as programs dump them (``_FORMS``), as arrays of C, and behind the words of a document.

Rule 1: an address is one only where it says how many bytes came before it, or where the line can be nothing else; one that begins at 0
again, or that does not go on, begins a new piece, as does an empty line.
Rule 2: in a line with other words the bytes begin with the magic of a message, and end before the next word that is no hex; a line
without a magic is passed over, and so are a few pairs with colons that begin a piece: a time, the address of a network card.
Rule 3: words of more than a byte in the order of a machine (``hexdump`` without ``-C``, ``od -x``) are not read: they do not say which order.
Those of ``xxd -e`` look like any others of ``xxd``, and are taken for such.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dotnetdiag._dataclasses import dataclass

LONGEST_LINE = 1 << 20
MOST_SQUEEZED = 1 << 20
"""Bytes that one ``*`` stands for."""
ACCEPTED = (
    "hex as 444f54, 44 4f 54, 44:4f:54, 44-4f-54, 0x44 or \\x44, or as xxd, hexdump -C, od -t x1 and Wireshark print it"
)
"""What is read, in a line."""

_PAIR = "[0-9a-fA-F]{2}"
_GROUPS = rf"(?P<bytes>(?:{_PAIR})+(?:\s(?:{_PAIR})+)*)(?:\s{{2,}}.*)?"
_PAIRS = (
    rf"(?P<bytes>{_PAIR}(?:\s{{1,2}}{_PAIR}){{15}}(?=\s{{2}})|{_PAIR}(?:\s{{1,2}}{_PAIR})*)"
    r"(?:\s+(?P<closed>\|.*\||>.*<)|\s{2,}.*)?"
)


@dataclass(frozen=True, slots=True)
class _Form:
    """How a program dumps: ``address`` and ``row``, which are patterns, and the bases in which it counts. ``is_sure``: no other line looks so;
    else only one that is full, or whose characters stand between bars or arrows, is sure.
    """

    address: str
    row: str
    bases: tuple[int, ...] = (16,)
    is_sure: bool = False


_FORMS = {
    "xxd": _Form("[0-9a-fA-F]{4,16}:", _GROUPS, bases=(16, 10), is_sure=True),
    "hexdump -C": _Form("[0-9a-fA-F]{8}", _PAIRS),
    "od -A x -t x1": _Form("[0-9a-fA-F]{6}", _PAIRS),
    "od -t x1": _Form("[0-9]{7}", _PAIRS, bases=(8, 10), is_sure=True),  # no bytes have seven digits
    "Wireshark": _Form("[0-9a-fA-F]{4}", _PAIRS),
}
_LINES = {form: re.compile(rf"(?P<address>{form.address})(?:\s+{form.row})?") for form in _FORMS.values()}
_TOKEN = re.compile(rf"(?:0[xX])?(?:{_PAIR})+|{_PAIR}(?:[:-]{_PAIR})+[:-]?")
_IN_TOKEN = re.compile("0[xX]|[:-]")
_MAGICS = ("444f544e45545f4950435f563100", "414456525f563100")
_ROW_BYTES = 16
"""Of a full row of all of them."""
_MAGIC_WORDS = 14
_SHORTEST_MAGIC = 8
_SEPARATED = re.compile("[:-]")
_COMMENT = re.compile(r"(//|#).*")
_BETWEEN = re.compile(r"[{}();,\[\]\"'\\]+")


def hex_pieces(lines: Iterable[str]) -> Iterator[tuple[bool, bytes]]:
    """The bytes of each line that has some, and whether a new piece begins with it."""
    dump: _Dump | None = None
    begins = True
    for line in lines:
        text = line.strip()
        if not text:
            dump, begins = None, True
        elif dump is not None and text == "*":
            dump.is_squeezed = True
        elif row := _dumped(text, dump):
            if dump is None or not row.goes_on:
                dump, begins = _Dump(row.form, row.address), True
            data = dump.taken(row)
            if data:
                yield begins, data
                begins = False
        else:
            dump = None
            data, is_alone = _plain(text, begins=begins)
            begins = begins or not is_alone
            if data:
                yield begins, data
                begins = False


# -- lines with addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A line of a dump. ``left_out``: how many bytes a ``*`` stands for before it."""

    form: _Form
    address: str
    data: bytes
    goes_on: bool = False
    left_out: int = 0


class _Dump:
    """Rows of one form, one behind the other, from the first address on. ``is_squeezed``: a ``*`` has come, for rows like the last."""

    def __init__(self, form: _Form, first: str) -> None:
        self.form, self.is_squeezed = form, False
        self._first, self._count, self._last = first, 0, b""

    def left_out(self, address: str) -> int | None:
        """How many bytes stand between what has come and an address; None: that it is one of ours cannot be said."""
        found = set()
        for base in self.form.bases:
            numbers = _number(address, base), _number(self._first, base)
            if numbers[0] is not None and numbers[1] is not None:
                found.add(numbers[0] - numbers[1] - self._count)
        if not self.is_squeezed:
            return 0 if 0 in found else None
        fitting = {one for one in found if 0 < one <= MOST_SQUEEZED and self._last and one % len(self._last) == 0}
        return fitting.pop() if len(fitting) == 1 else None

    def taken(self, row: _Row) -> bytes:
        """The bytes that come with a row of ours."""
        data = row.data
        if row.left_out:
            data = self._last * (row.left_out // len(self._last)) + data
        self.is_squeezed = False
        self._count += len(data)
        self._last = row.data
        return data


def _dumped(text: str, dump: _Dump | None) -> _Row | None:
    """A line as a row: of this dump, or the first of another; None where it is neither."""
    for form, line in _LINES.items():
        found = line.fullmatch(text)
        if found is None:
            continue
        address = found["address"].removesuffix(":")
        data = _bytes((found["bytes"] or "").split())
        left_out = dump.left_out(address) if dump is not None and dump.form is form else None
        if left_out is not None:
            return _Row(form=form, address=address, data=data, goes_on=True, left_out=left_out)
        is_sure = form.is_sure or found.groupdict().get("closed") is not None or len(data) == _ROW_BYTES
        if data and (is_sure or _number(address, 16) == 0):
            return _Row(form=form, address=address, data=data)
    return None


def _number(address: str, base: int) -> int | None:
    try:
        return int(address, base)
    except ValueError:
        return None


# -- lines without


def _plain(text: str, *, begins: bool) -> tuple[bytes, bool]:
    """The bytes of a line without an address, and whether it holds nothing else."""
    words = _BETWEEN.sub(" ", _COMMENT.sub("", text).replace("\\x", " ")).split()
    if words and all(_TOKEN.fullmatch(word) for word in words):
        data = _bytes(words)
        is_time = begins and len(data) < _SHORTEST_MAGIC and _SEPARATED.search(text) is not None
        return (b"", False) if is_time else (data, True)
    for first in range(len(words)):
        if _bytes(words[first : first + _MAGIC_WORDS]).hex().startswith(_MAGICS):
            return _bytes(words[first:]), False
    return b"", False


def _bytes(words: Iterable[str]) -> bytes:
    """Of the words up to the first that is no hex."""
    made = bytearray()
    for word in words:
        if _TOKEN.fullmatch(word) is None:
            break
        made += bytes.fromhex(_IN_TOKEN.sub("", word))
    return bytes(made)
