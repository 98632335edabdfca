"""Help for the tests of this room: payloads into decode and back, and the folder of recordings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dotnetdiag.events import EventSchema, Table, decode
from dotnetdiag.events.layout import SchemaField, parse_fields

CHECKOUT = Path(__file__).resolve().parents[2]


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


def shared_folder(name: str, variable: str) -> Path:
    """A folder beside the checkout (or where the environment says); with ``CI=true`` its absence is a failure."""
    folder = Path(os.environ.get(variable, CHECKOUT.parent / "shared" / name))
    if not folder.is_dir():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{folder} is missing ({variable} says where it is)")
        pytest.skip(f"{folder} is not here ({variable} says where it is)")
    return folder
