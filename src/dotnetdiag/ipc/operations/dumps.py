"""Dumps, written by the runtime itself."""

from __future__ import annotations

from dotnetdiag.errors import RuntimeTooOld, UnsupportedCommand
from dotnetdiag.ipc import dump
from dotnetdiag.ipc.constants import DumpFlags
from dotnetdiag.ipc.exchange import Operation, ask


def write_dump(path: str, dump_type: int, flags: int) -> Operation[None]:
    """GenerateCoreDump 3, 2, 1. The first can only say ``LOGGING``: other flags raise RuntimeTooOld."""
    for kind in (dump.GenerateCoreDump3, dump.GenerateCoreDump2):
        try:
            yield from ask(kind(path=path, dump_type=dump_type, flags=flags), slow=True)
        except UnsupportedCommand:
            continue
        return
    if flags & ~DumpFlags.LOGGING:
        raise RuntimeTooOld("GenerateCoreDump", "a crash report or verbose log", needs=".NET 6")
    yield from ask(dump.GenerateCoreDump(path=path, dump_type=dump_type, flags=flags), slow=True)
