"""A dump of a Python process: the stacks of all its threads as text, as :mod:`faulthandler` writes them, which stops at 100 of each.

Rule 1: no lock is taken, and no code of the program is run: what is looked for may be the thread that waits for it for ever.
Rule 2: a thread does not go on while its own stack is looked at, as far as the interpreter lets us; it does while the file is written. So
what is held is no more than :data:`HELD_FRAMES`, or the stack of one thread that has more: 12 bytes for each of its frames.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.server.thread_names import thread_name

HELD_FRAMES = 10_000
"""As many as are looked at before they are written. Ten threads that wait have a few hundred."""
NAME_LIMIT = 500
"""Characters of a name, as faulthandler cuts them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stack:
    """Leaf first. A line 0 is none."""

    thread: int
    codes: list[CodeType]
    lines: array[int]

    @classmethod
    def of(cls, thread: int, frame: FrameType | None) -> _Stack:
        codes: list[CodeType] = []
        lines = array("i")
        while frame is not None:
            codes.append(frame.f_code)
            lines.append(frame.f_lineno or 0)
            frame = frame.f_back
        return cls(thread=thread, codes=codes, lines=lines)


def write_thread_dump(descriptor: int) -> None:
    """Write the stacks of all Python threads, each whole, leaf first, with the names of threads. UTF-8. OSError: they are not all there."""
    with open(descriptor, "w", encoding="utf-8", newline="\n", closefd=False) as file:
        own, separator = threading.get_ident(), ""
        for stacks in _all_stacks():
            for stack in stacks:
                title = "Current thread" if stack.thread == own else "Thread"
                name = _name_of(stack.thread)
                said = f" [{_line(name)}]" if name else ""
                file.write(f"{separator}{title} 0x{stack.thread:016x}{said} (most recent call first):\n")
                file.writelines(_frames(stack))
                separator = "\n"


def _all_stacks() -> Iterator[list[_Stack]]:
    """Those of the threads that there are now, as many at once as may be held. One that has ended meanwhile is left out."""
    left = list(sys._current_frames())
    while left:
        frames = sys._current_frames()
        stacks: list[_Stack] = []
        count = 0
        while left and count < HELD_FRAMES:
            thread = left.pop()
            if thread in frames:
                stacks.append(_Stack.of(thread, frames.pop(thread)))
                count += len(stacks[-1].codes)
        del frames  # they would keep what the program has let go of
        yield stacks


def _frames(stack: _Stack) -> Iterator[str]:
    for code, line in zip(stack.codes, stack.lines, strict=True):
        yield f'  File "{_line(code.co_filename)}", line {line or "???"} in {_line(code.co_qualname)}\n'


def _name_of(ident: int) -> str:
    """Of a thread that :mod:`threading` knows. Its own way to them takes a lock."""
    threads: Any = getattr(threading, "_active", None)
    thread = threads.get(ident) if isinstance(threads, dict) else None
    return thread_name(thread) if isinstance(thread, threading.Thread) else ""


def _line(text: str) -> str:
    """In one line, whatever is in it."""
    text = text[:NAME_LIMIT]
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
