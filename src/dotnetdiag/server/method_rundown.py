"""``Microsoft-Windows-DotNETRuntimeRundown``: at the end of a session, the names of the Python code on its stacks (nettrace.md §11).

A file is a module and an assembly, a function a method of it: readers show ``script.py!package.module.Class.method(script.py:12)``,
with the line where it begins, and ``asyncio!task.NAME`` for a task. Which line an address is on stands in the map from native to IL
offsets: there the IL offsets are the lines of the file.
"""

from __future__ import annotations

import os
import struct
import sys

from dotnetdiag.nettrace import Metadata
from dotnetdiag.server.code_addresses import CODE_ADDRESSES, CodeAddresses, CodeRange
from dotnetdiag.server.event_fields import z16
from dotnetdiag.server.native_events import CLR_INSTANCE, native_event
from dotnetdiag.server.registry import RUNDOWN
from dotnetdiag.server.subscription import Subscription

_DOMAIN_ID = 1
_JITTED = 8
_MAP_LIMIT = 7000
"""Entries, as runtimes have it."""
_NAME_LIMIT = 1000
"""Units of a name: three of them and a path fit the largest payload."""
_NO_FILE = "python"


_END_INIT = native_event(RUNDOWN, 148, version=1, keywords=0x20038)
_METHOD_END = native_event(RUNDOWN, 144, version=1, keywords=0x30)
_MAP_END = native_event(RUNDOWN, 150, version=0, level=5, keywords=0x20000)
_MODULE_END = native_event(RUNDOWN, 154, version=2, keywords=0x20000008)
_DOMAIN_MODULE_END = native_event(RUNDOWN, 152, version=1, keywords=0x8)
_ASSEMBLY_END = native_event(RUNDOWN, 156, version=1, keywords=0x8)
_DOMAIN_END = native_event(RUNDOWN, 158, version=1, keywords=0x8)
_END_COMPLETE = native_event(RUNDOWN, 146, version=1, keywords=0x20038)
_NO_PDB = bytes(16) + struct.pack("<I", 0) + b"\0\0"


class MethodRundown:
    """The provider that a session joins at its end: everything is written before :meth:`join` returns."""

    name = RUNDOWN

    def __init__(self, addresses: CodeAddresses = CODE_ADDRESSES) -> None:
        self._addresses = addresses

    def join(self, subscription: Subscription) -> None:
        """Write all methods and modules that are known."""
        ranges = list(self._addresses.ranges())
        modules: dict[str, int] = {}
        for one in ranges:
            modules.setdefault(_file_of(one), len(modules) + 1)
        say = _Events(subscription)
        say(_END_INIT, CLR_INSTANCE)
        for number, one in enumerate(ranges, 1):
            say(_METHOD_END, _method(number, modules[_file_of(one)], one))
            say(_MAP_END, _line_map(number, one))
        for path, number in modules.items():
            module, assembly = _module_id(number), _assembly_id(number)
            say(
                _MODULE_END,
                struct.pack("<QQII", module, assembly, 0, 0) + z16(path) + z16("") + CLR_INSTANCE + 2 * _NO_PDB,
            )
            say(
                _DOMAIN_MODULE_END,
                struct.pack("<QQQII", module, assembly, _DOMAIN_ID, 0, 0) + z16(path) + z16("") + CLR_INSTANCE,
            )
            name = os.path.splitext(os.path.basename(path))[0]
            say(_ASSEMBLY_END, struct.pack("<QQQI", assembly, _DOMAIN_ID, 0, 0) + z16(name) + CLR_INSTANCE)
        say(_DOMAIN_END, struct.pack("<QI", _DOMAIN_ID, 0) + z16(_program()) + struct.pack("<I", 1) + CLR_INSTANCE)
        say(_END_COMPLETE, CLR_INSTANCE)

    def leave(self, subscription: Subscription) -> None:
        """All is written already."""


class _Events:
    """Writes events whose channels are asked for once."""

    def __init__(self, subscription: Subscription) -> None:
        self._channels = {
            id(kind): subscription.channel(kind)
            for kind in (
                _END_INIT,
                _METHOD_END,
                _MAP_END,
                _MODULE_END,
                _DOMAIN_MODULE_END,
                _ASSEMBLY_END,
                _DOMAIN_END,
                _END_COMPLETE,
            )
        }

    def __call__(self, kind: Metadata, payload: bytes) -> None:
        write = self._channels[id(kind)]
        if write is not None:
            write(payload)


def _module_id(number: int) -> int:
    return number << 16 | 0x1


def _assembly_id(number: int) -> int:
    return number << 16 | 0x2


def _file_of(one: CodeRange) -> str:
    """Its path as far as it is known; code without a file (a task's name) is in a module of the name that it was given."""
    if one.code is None:
        return one.module or _NO_FILE
    path = one.file[-2 * _NAME_LIMIT :]
    return os.path.abspath(path) if path and not path.startswith("<") and os.path.exists(path) else path or _NO_FILE


def _method(number: int, module: int, one: CodeRange) -> bytes:
    if one.code is None:
        namespace, name, where = "task", one.qualified_name, ""
    else:
        inside, _, name = one.qualified_name.rpartition(".")
        namespace = f"{one.module}.{inside}" if inside else one.module
        where = f"({os.path.basename(one.file)}:{one.line})"
    head = struct.pack("<QQQIII", number << 16, _module_id(module), one.start, one.size, number, _JITTED)
    return head + z16(namespace[-_NAME_LIMIT:]) + z16(name[-_NAME_LIMIT:]) + z16(where[-_NAME_LIMIT:]) + CLR_INSTANCE


def _line_map(number: int, one: CodeRange) -> bytes:
    lines = one.lines[:_MAP_LIMIT]
    count = len(lines)
    head = struct.pack("<QQBH", number << 16, 0, 0, count)
    offsets = struct.pack(f"<{2 * count}I", *(line for _, line in lines), *(offset for offset, _ in lines))
    return head + offsets + CLR_INSTANCE


def _program() -> str:
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] else _NO_FILE
