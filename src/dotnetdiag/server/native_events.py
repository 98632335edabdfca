"""Events that readers know by provider and number: they have no name and no fields in the stream, as those of runtimes."""

from __future__ import annotations

import struct

from dotnetdiag.nettrace import Metadata

CLR_INSTANCE = struct.pack("<H", 0)
"""The last field of many: which of several runtimes in a process."""


def native_event(provider: str, event_id: int, *, version: int, level: int = 4, keywords: int = 0) -> Metadata:
    """Its metadata; the session gives it a number."""
    return Metadata(
        metadata_id=0,
        provider=provider,
        event_id=event_id,
        version=version,
        level=level,
        keywords=keywords,
        declared=False,
    )
