"""Threads of version 6, which have an index and rows of their own (nettrace.md §6.6, §6.7)."""

from __future__ import annotations

from dataclasses import dataclass

from dotnetdiag.nettrace.info import string8
from dotnetdiag.nettrace.records import pack_string8
from dotnetdiag.wire import Cursor, Packer


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadInfo:
    """One thread row. ``index`` is what the ``thread`` column of events holds."""

    index: int
    name: str = ""
    process_id: int | None = None
    os_thread_id: int | None = None
    key_values: tuple[tuple[str, str], ...] = ()


def parse_thread(cursor: Cursor) -> ThreadInfo:
    """One row behind its size. An unknown kind of item ends it: its length is not known."""
    index = cursor.varuint(64, "thread index")
    name = ""
    process_id = os_thread_id = None
    pairs = []
    while cursor.left:
        kind = cursor.u8("item kind")
        if kind == 1:
            name = string8(cursor)
        elif kind == 2:
            process_id = cursor.varuint(64, "process id")
        elif kind == 3:
            os_thread_id = cursor.varuint(64, "thread id")
        elif kind == 4:
            pairs.append((string8(cursor), string8(cursor)))
        else:
            break
    return ThreadInfo(index=index, name=name, process_id=process_id, os_thread_id=os_thread_id, key_values=tuple(pairs))


def pack_thread(thread: ThreadInfo) -> bytes:
    """One row with its size."""
    out = Packer().varuint(thread.index)
    if thread.name:
        out.u8(1)
        pack_string8(out, thread.name)
    if thread.process_id is not None:
        out.u8(2).varuint(thread.process_id)
    if thread.os_thread_id is not None:
        out.u8(3).varuint(thread.os_thread_id)
    for key, value in thread.key_values:
        out.u8(4)
        pack_string8(out, key)
        pack_string8(out, value)
    return bytes(Packer().u16(len(out)).raw(out.buffer))
