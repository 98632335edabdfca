"""How much of a terminal's line a text takes, and what is left of one that takes too much."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_WIDTH = 8
"""What is left of a last column that is cut, on the narrowest terminal: such lines are then longer than it."""


def cells(text: str) -> int:
    """The cells of a terminal that a text takes: most characters one, those of East Asian scripts two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def padded(text: str, width: int, *, right: bool = False) -> str:
    """The text in ``width`` cells, with blanks after it, or before it."""
    blanks = " " * (width - cells(text))
    return blanks + text if right else text + blanks


def aligned(row: Sequence[str], widths: Sequence[int], right: Sequence[bool], *, shorten: bool = False) -> str:
    """The cells of a row one beside the other; what is wider than its column stays so, unless it is to be shortened."""
    parts = (
        padded(shortened(text, width) if shorten else text, width, right=is_right)
        for text, width, is_right in zip(row, widths, right, strict=True)
    )
    return "  ".join(parts).rstrip()


def begin_of(text: str, width: int) -> str:
    """As much of the text's begin as fits ``width`` cells."""
    width = max(width, 0)
    if text.isascii():
        return text[:width]
    end = min(len(text), width)
    while cells(text[:end]) > width:
        end -= 1
    return text[:end]


def end_of(text: str, width: int) -> str:
    """As much of the text's end as fits ``width`` cells."""
    width = max(width, 0)
    first = max(len(text) - width, 0)
    while cells(text[first:]) > width:
        first += 1
    return text[first:]


def cut(text: str, width: int) -> str:
    """The text in ``width`` cells: its end gives way."""
    return text if cells(text) <= width else f"{begin_of(text, width - 1)}…"[: max(width, 0)]


def shortened(text: str, width: int) -> str:
    """The text in ``width`` cells: both ends say something, and the last more."""
    if cells(text) <= width:
        return text
    head = begin_of(text, (width - 1) // 3)
    return f"{head}…{end_of(text, width - 1 - cells(head))}"[: max(width, 0)]


def shortened_method(text: str, width: int) -> str:
    """A method's name in ``width`` cells: its parameters give way first, then its beginning."""
    if cells(text) <= width:
        return text
    bare = text.partition("(")[0] or text
    if bare != text and cells(bare) + 3 <= width:
        return f"{bare}(…)"
    return bare if cells(bare) <= width else f"…{end_of(bare, width - 1)}"
