"""Addresses that stand for Python code, so that stacks and symbols can be written as runtimes write theirs.

Each code object gets a range of addresses of its own, as long as its bytecode, from a part of the address space that no program maps. The
address of a frame is that of the instruction behind the one it executes, as return addresses are: whoever looks up ``address - 1``, as
readers do for callers, finds the same function and line. Names without code (a task) have a range too.

Rule: code objects that have a range are kept alive, for another could get their identity: at most :data:`CODE_LIMIT` of them.
"""

from __future__ import annotations

import os
import struct
import sys
import weakref
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.server import kernels
from dotnetdiag.server.blocking import own_lock

FIRST_ADDRESS = 0x5000_0000_0000
"""User space of 47 bits, below where Linux maps libraries and stacks, above where it puts programs."""
_GAP = 16
_FRAME_AT = 2
"""From a frame's ``f_lasti`` (-1: it has not begun) to its offset in the range; the range begins before the first instruction's."""
CODE_LIMIT = 50_000
"""More distinct functions than any program has that does not make them as it runs."""
_LONGEST = 1 << 31
NAME_LIMIT = 10_000
FRAMES_LIMIT = 1000
"""Of a deeper stack the outermost frames are left out: a payload of TraceEvent's size holds 8,000, a recursion's are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRange:
    """A function and its addresses. ``file`` is as the compiler had it; ``line`` 0 is none.

    Without ``code`` it is a name: ``qualified_name`` in a ``module`` that stands for what it is.

    ``lines``: (offset into the range, line) where a line begins, by offset.
    """

    start: int
    size: int
    module: str
    qualified_name: str
    file: str
    line: int
    code: CodeType | None = None

    @property
    def lines(self) -> list[tuple[int, int]]:
        """Computed when asked for: only rundown does."""
        found: list[tuple[int, int]] = []
        for start, _, line in self.code.co_lines() if self.code is not None else ():
            if line is not None and (not found or found[-1][1] != line):
                found.append((start + _FRAME_AT - 1, line))
        return found


class CodeAddresses:
    """Ranges by code object, given when it is first seen on a stack. From any thread."""

    def __init__(self) -> None:
        self._lock = own_lock()
        _all.add(self)
        self._bases: dict[int, int] = {}
        self._named: dict[tuple[str, str], int] = {}
        self._ranges: list[CodeRange] = []
        self._walker: Any = None if kernels.KERNELS is None else kernels.KERNELS.Walker(self._bases)
        self._next = FIRST_ADDRESS
        self._rest = 0

    def stack(self, skipped: int = 0) -> bytes:
        """The caller's stack, without itself and so many of its callers' innermost frames."""
        return self.walk(sys._getframe(skipped + 1))[0]

    def walk(self, frame: FrameType, mark: CodeType | None = None) -> tuple[bytes, int]:
        """The :meth:`addresses` of a stack as they are written, 8 bytes each, and how many of them are before the innermost frame of the
        code ``mark``; -1 where there is none.
        """
        if self._walker is not None:
            walked: tuple[bytes, int] | None = self._walker.walk(frame, mark, FRAMES_LIMIT)
            if walked is not None:
                return walked
        # without the kernel, or there is a function that had no addresses yet
        addresses = self.addresses(frame)
        return pack_addresses(addresses), self._position(mark, addresses)

    def _position(self, mark: CodeType | None, addresses: list[int]) -> int:
        base = self._bases.get(id(mark))
        if mark is None or base is None:
            return -1
        first, end = base - _FRAME_AT, base + len(mark.co_code)
        return next((at for at, address in enumerate(addresses) if first <= address < end), -1)

    def addresses(self, frame: FrameType | None) -> list[int]:
        """Leaf first; at most :data:`FRAMES_LIMIT`."""
        found: list[int] = []
        add, bases = found.append, self._bases
        for _ in range(FRAMES_LIMIT):
            if frame is None:
                break
            try:
                add(bases[id(frame.f_code)] + frame.f_lasti)
            except KeyError:
                add(self._add(frame) + frame.f_lasti)
            frame = frame.f_back
        return found

    def named(self, module: str, name: str) -> int:
        """The address of something that has a name, and no code."""
        found = self._named.get((module, name))
        if found is not None:
            return found
        with self._lock:
            if len(self._named) >= NAME_LIMIT and name:
                return self.named(module, "")
            made = self._range(_GAP, module, name or "(beyond the limit)", "", 0, None) + _GAP // 2
            self._named[module, name] = made
            return made

    def ranges(self) -> Iterator[CodeRange]:
        """All so far."""
        return iter(tuple(self._ranges))

    def _add(self, frame: FrameType) -> int:
        code = frame.f_code
        with self._lock:
            if id(code) in self._bases:
                return self._bases[id(code)]
            if len(self._bases) >= CODE_LIMIT:
                return self._beyond()
            names: object = frame.f_globals
            module = (
                names.get("__name__") if isinstance(names, dict) else None
            )  # of a running thread's frame it has been a function
            start = self._range(
                len(code.co_code) + _FRAME_AT,
                module if isinstance(module, str) else "",
                code.co_qualname,
                code.co_filename,
                code.co_firstlineno,
                code,
            )
            self._bases[id(code)] = start + _FRAME_AT
            return start + _FRAME_AT

    def _beyond(self) -> int:
        """One range for all code beyond the limit, as long as any bytecode."""
        if not self._rest:
            self._rest = self._range(_LONGEST, "", "code beyond the limit", "", 0, None) + _FRAME_AT
        return self._rest

    def _range(self, size: int, module: str, name: str, file: str, line: int, code: CodeType | None) -> int:
        start = self._next
        self._next += (size + 2 * _GAP - 1) // _GAP * _GAP
        self._ranges.append(
            CodeRange(
                start=start, size=size, module=module, qualified_name=name, file=file, line=max(line, 0), code=code
            )
        )
        return start


def pack_addresses(addresses: list[int]) -> bytes:
    """As stacks are written: 8 bytes each."""
    return struct.pack(f"<{len(addresses)}Q", *addresses)


_all: weakref.WeakSet[CodeAddresses] = weakref.WeakSet()


def _in_child() -> None:
    """Another thread may have held a lock when the process forked. What it was adding is whole, or is added once more."""
    for one in tuple(_all):
        one._lock = own_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

CODE_ADDRESSES = CodeAddresses()
"""Those of the process, the same in all its sessions."""
