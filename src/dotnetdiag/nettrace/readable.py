"""Metadata as readers will understand it, or not at all."""

from __future__ import annotations

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.arguments import REFUSED
from dotnetdiag.nettrace.metadata import Metadata
from dotnetdiag.nettrace.records import pack_record, pack_row, parse_record, parse_row
from dotnetdiag.wire import Cursor

_METADATA_LIMITS = {"event_id": 0xFFFF, "version": 0xFF, "level": 0xFF}
"""TraceEvent takes the low bits of larger ones, though there is room for them in the file."""


def pack_readable(metadata: Metadata, *, version: int) -> bytes:
    """The record in versions 4 to 6. UsageError where the version cannot say it, or readers would take it for something else."""
    try:
        if version == 6:
            record = pack_row(metadata)
            same = parse_row(Cursor(record[2:]))
        else:
            record = pack_record(metadata, version=version)
            same = parse_record(Cursor(record))
    except UsageError:
        raise
    except REFUSED as error:
        raise UsageError(f"metadata {metadata.metadata_id} does not fit the format: {error}") from error
    if replace(same, declared=metadata.declared) != metadata:
        raise UsageError(f"metadata {metadata.metadata_id} would be read as something else")
    for name, most in _METADATA_LIMITS.items():
        if not 0 <= getattr(metadata, name) <= most:
            raise UsageError(
                f"{name} {getattr(metadata, name)} of metadata {metadata.metadata_id}: readers take 0 to {most}"
            )
    return record
