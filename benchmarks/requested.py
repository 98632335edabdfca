"""A recording of very many requests, made and not recorded: a server's, each with one that goes out, and the message that tells its status."""

from __future__ import annotations

import struct
from pathlib import Path
from uuid import UUID

from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer

REQUESTS, PATHS, THREADS = 200_000, 50, 16
HOSTING, HTTP, LOGGING = "Microsoft.AspNetCore.Hosting", "System.Net.Http", "Microsoft-Extensions-Logging"
STEP = 100
"""Ticks from one event to the next."""


def make(path: Path) -> None:
    """Write it: seven events for each of :data:`REQUESTS`."""
    text, number = FieldType(code=TypeCode.STRING), FieldType(code=TypeCode.INT32)
    message = {"Level": number, "FactoryID": number, "LoggerName": text, "EventId": number, "EventName": text}
    types = {
        1: (HOSTING, "RequestStart", {"method": text, "path": text}),
        2: (HOSTING, "RequestStop", {}),
        3: (HTTP, "RequestStart", {"scheme": text, "host": text}),
        4: (HTTP, "RequestStop", {}),
        5: (HTTP, "RequestHeadersStart", {}),
        6: (HTTP, "RequestHeadersStop", {}),
        7: (LOGGING, "FormattedMessage", {**message, "FormattedMessage": text}),
    }
    came = [_text("GET") + _text(f"/api/items/{one}") for one in range(PATHS)]
    went = _text("http") + _text("store")
    said = (
        struct.pack("<ii", 2, 1)
        + _text(f"{HOSTING}.Diagnostics")
        + struct.pack("<i", 2)
        + _text("RequestFinished")
        + _text("Request finished HTTP/1.1 GET http://localhost/api/items - 200 - text/plain 1.2ms")
    )
    with path.open("wb") as file, Writer(file) as writer:
        for kind, (provider, name, fields) in types.items():
            told = tuple(Field(name=field, type=type_) for field, type_ in fields.items())
            writer.add_metadata(Metadata(metadata_id=kind, provider=provider, event_id=kind, name=name, fields=told))
        for one in range(REQUESTS):
            server, client, headers = (UUID(int=(3 * one + place) << 64 | 1) for place in (1, 2, 3))
            steps = (
                (1, came[one % PATHS], server, None),
                (3, went, client, server),
                (5, b"", headers, client),
                (6, b"", headers, None),
                (4, b"", client, None),
                (7, said, server, None),
                (2, b"", server, None),
            )
            for place, (kind, payload, activity, related) in enumerate(steps):
                time = (one * (len(steps) + 1) + place) * STEP
                writer.write_event(kind, time, payload, thread=1 + one % THREADS, activity=activity, related=related)


def _text(text: str) -> bytes:
    return f"{text}\0".encode("utf-16-le")
