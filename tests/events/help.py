"""Help for the tests of this room: payloads into decode and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from dotnetdiag.events import EventSchema, Table, decode
from dotnetdiag.events.layout import SchemaField, parse_fields


def schema_of(fields: str | tuple[SchemaField, ...], **more: Any) -> EventSchema:
    """A schema with these fields."""
    made = parse_fields(fields) if isinstance(fields, str) else fields
    return EventSchema(provider="P", event_id=1, version=0, name="E", manifest_name="E", fields=made, **more)


def decoded(schema: EventSchema, payloads: list[bytes], **more: Any) -> Table:
    """The payloads, with other bytes in front of, between and behind them, decoded."""
    buffer, offsets = bytearray(b"\xee\xee\xee"), []
    for payload in payloads:
        offsets.append(len(buffer))
        buffer += payload + b"\xee"
    lengths = np.array([len(payload) for payload in payloads], np.uint32)
    return decode(schema, np.frombuffer(bytes(buffer), np.uint8), np.array(offsets, np.int64), lengths, **more)
