"""Names of events in both forms, opcodes that names imply, and ids of providers.

TraceEvent prints ``GC/Start`` where the runtime's manifest says ``GCStart_V2``, and ``Request/Start`` for
``RequestStart`` of an EventSource (nettrace.md §9). Either is understood wherever a name is asked for.
"""

from __future__ import annotations

import re
from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag._patterns import pattern

START, STOP = 1, 2
OPCODES: dict[int, str] = {
    0: "Info",
    1: "Start",
    2: "Stop",
    3: "DataCollectionStart",
    4: "DataCollectionStop",
    5: "Extension",
    6: "Reply",
    7: "Resume",
    8: "Suspend",
    9: "Transfer",
}
"""What TraceEvent calls opcodes; every other one is printed as a number."""


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of an event that its file does not describe. ``fields`` is a text for ``layout.parse_fields``."""

    name: str
    """TraceEvent's."""
    manifest_name: str
    opcode: int
    level: int
    keywords: int
    version: int
    """Of the fields."""
    fields: str


_NAMESPACE = bytes.fromhex("482c2db2c39047c887f81a15bfc130fb")
_FIXED = {
    "microsoft-windows-dotnetruntime": UUID("e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"),
    "microsoft-windows-dotnetruntimerundown": UUID("a669021c-c450-4609-a035-5af59af4df18"),
    "microsoft-windows-dotnetruntimestress": UUID("cc2bcbba-16b6-4cf3-8990-d74c2e8af500"),
    "microsoft-windows-dotnetruntimeprivate": UUID("763fd754-7086-4dfe-95eb-c01a46faf4ca"),
    "microsoft-dotnetruntimemonoprofiler": UUID("7f442d82-0f1d-5155-4b8c-1529eb2e31c2"),
    "microsoft-dotnetcore-sampleprofiler": UUID("3c530d44-97ae-513a-1e6d-783e8f8e03a9"),
}


def provider_guid(name: str) -> UUID:
    """The id of a provider: fixed for the runtime's own, by the EventSource rule (SHA-1 of the name) for all others."""
    fixed = _FIXED.get(name.lower())
    if fixed is not None:
        return fixed
    import hashlib

    text = name.upper().encode("utf-16-be", "surrogatepass")
    digest = bytearray(hashlib.sha1(_NAMESPACE + text, usedforsecurity=False).digest()[:16])
    digest[7] = digest[7] & 0x0F | 0x50
    return UUID(bytes_le=bytes(digest))


def implied_opcode(name: str) -> int:
    """1 or 2 when the name ends in Start or Stop, else 0."""
    lowered = name.lower()
    return START if lowered.endswith("start") else STOP if lowered.endswith("stop") else 0


def event_name(name: str, opcode: int | None, event_id: int) -> str:
    """The name as TraceEvent prints it, of an event that its file names ``name``."""
    if not name:
        return f"EventID({event_id})"
    number = opcode or implied_opcode(name)
    if not number:
        return name
    word = OPCODES.get(number, str(number))
    if number in (START, STOP) and name.lower().endswith(word.lower()):
        name = name[: -len(word)]
    return f"{name}/{word}"


_CARRIERS = {"GCDynamicEvent": "GC/DynamicEvent"}
"""Events that carry others: their names mean all that they carry."""
_VERSION = pattern(r"_V\d+$", re.IGNORECASE)


def spellings(provider: str, name: str, manifest_name: str) -> frozenset[str]:
    """All texts, in lower case, that mean an event: both names, with and without version and provider."""
    carrier = _CARRIERS.get(manifest_name, "")
    forms = {name, name.replace("/", ""), manifest_name, _VERSION.sub("", manifest_name), carrier} - {""}
    return frozenset(form.lower() for form in forms | {f"{provider}/{form}" for form in forms})


def matches(text: str, provider: str, name: str, manifest_name: str) -> bool:
    """Whether ``text``, as a user wrote it, means the event. Case does not count."""
    known = spellings(provider, name, manifest_name)
    return text.strip().lower() in known or text.lower() in known  # a name may end in a space
