"""Where TraceEvent 3.1.23 and the manifests (or the files) say different things about the recordings, and why ours
differs.

One table: what is not in it must be equal. ``ours`` or ``theirs`` None: the other side has no such field. Where both
have a field and ``same`` is given, it makes of our value (and of all our values of the row) what they show.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

RUNTIME = "Microsoft-Windows-DotNETRuntime"
RUNDOWN = "Microsoft-Windows-DotNETRuntimeRundown"
PRIVATE = "Microsoft-Windows-DotNETRuntimePrivate"
SYSTEM = "Universal.System"
TPL = "System.Threading.Tasks.TplEventSource"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field that differs, for events of a provider by id (None: all of them)."""

    provider: str
    ids: tuple[int, ...]
    ours: str | None
    theirs: str | None
    reason: str
    same: Callable[[Any, dict[str, Any]], Any] | None = None


def signed(value: Any, row: dict[str, Any]) -> Any:
    return value - (1 << 32) if value is not None and value >= 1 << 31 else value


def low_seven_bits(value: Any, row: dict[str, Any]) -> Any:
    return value & 0x7F


def number_of_highest_bit(value: int) -> int:
    """Index of the one bit below bit 31 that is set, when bit 31 is."""
    return (value & 0x7FFFFFFF).bit_length() - 1


def left_out(provider: str, ids: tuple[int, ...], *fields: str, why: str) -> list[Difference]:
    return [Difference(provider=provider, ids=ids, ours=field, theirs=None, reason=why) for field in fields]


def added(provider: str, ids: tuple[int, ...], *fields: str, why: str) -> list[Difference]:
    return [Difference(provider=provider, ids=ids, ours=None, theirs=field, reason=why) for field in fields]


METHODS = (141, 142, 143, 144)
NATIVE_MAPS = (149, 150, 190)
BULK = (15, 16, 17, 18, 19, 21, 22, 36, 37, 38, 204, 205, 208, 209)

FIELDS: list[Difference] = [
    *left_out(RUNTIME, BULK, "Values", why="elements of bulk events are reached by methods, not by payload names"),
    *left_out(RUNTIME, NATIVE_MAPS, "ILOffsets", "NativeOffsets", "ILVersionID", why="IL maps are reached by methods"),
    *left_out(RUNDOWN, NATIVE_MAPS, "ILOffsets", "NativeOffsets", "ILVersionID", why="IL maps are reached by methods"),
    *added(RUNTIME, (15,), "TypeID_0", "TypeName_0", why="it shows the first element only"),
    *added(RUNTIME, METHODS, "OptimizationTier", why="made of bits 7 to 9 of MethodFlags"),
    *added(RUNDOWN, METHODS, "OptimizationTier", why="made of bits 7 to 9 of MethodFlags"),
    *added(RUNTIME, METHODS, "ReJITID", why="shown as 0 for version 1, which has none"),
    *added(RUNDOWN, METHODS, "ReJITID", why="shown as 0 for version 1, which has none"),
    *(
        Difference(
            provider=provider,
            ids=METHODS,
            ours="MethodFlags",
            theirs="MethodFlags",
            same=low_seven_bits,
            reason="it keeps the low seven bits and shows the tier apart",
        )
        for provider in (RUNTIME, RUNDOWN)
    ),
    *left_out(TPL, (7,), "appDomain", why="it leaves this out, which the source writes (always 1)"),
    *left_out(RUNTIME, (151, 152, 153), "Reserved1", "ClrInstanceID", why="it leaves these out of module events"),
    *left_out(RUNDOWN, (151, 152, 153, 154), "Reserved1", "ClrInstanceID", why="it leaves these out of module events"),
    *added(RUNTIME, (151, 152, 153), "ModuleILFileName", why="the end of ModuleILPath"),
    *added(RUNDOWN, (151, 152, 153, 154), "ModuleILFileName", why="the end of ModuleILPath"),
    *added(RUNTIME, (4,), "Depth", why="always 0; no version of the event has it"),
    Difference(
        provider=RUNTIME,
        ids=(4,),
        ours=None,
        theirs="TotalHeapSize",
        reason="the sum of the generations",
        same=lambda _, row: sum(row[f"GenerationSize{n}"] for n in range(5) if f"GenerationSize{n}" in row),
    ),
    Difference(
        provider=RUNTIME,
        ids=(4,),
        ours=None,
        theirs="TotalPromoted",
        reason="the sum of the generations",
        same=lambda _, row: sum(row[f"TotalPromotedSize{n}"] for n in range(5) if f"TotalPromotedSize{n}" in row),
    ),
    *added(RUNTIME, (4,), "GenerationSize4", "TotalPromotedSize4", why="shown as 0 for version 1, which has none"),
    Difference(
        provider=RUNTIME,
        ids=(9,),
        ours="Count",
        theirs="Count",
        same=signed,
        reason="the manifest says UInt32, it shows Int32",
    ),
    *added(RUNTIME, (10,), "ObjectSize", why="shown as 0 for version 3, which has none"),
    *added(RUNTIME, (29,), "TypeName", why="made of the bulk type events; empty where there are none"),
    *added(
        RUNTIME,
        (81,),
        "LockID",
        "AssociatedObjectID",
        "LockOwnerThreadID",
        why="shown as 0 for version 1, which has none",
    ),
    Difference(
        provider=RUNTIME,
        ids=(80,),
        ours="ExceptionHRESULT",
        theirs="ExceptionHRESULT",
        same=signed,
        reason="the manifest says UInt32, it shows Int32",
    ),
    *left_out(
        RUNTIME, (200, 201), "BytesAllocated", "BytesFreed", "ClrInstanceID", why="it does not know these events"
    ),
    Difference(
        provider=RUNTIME,
        ids=(202,),
        ours="Bytes",
        theirs="Promoted",
        same=lambda value, _: value,
        reason="another name for the manifest's Bytes",
    ),
    *(
        Difference(
            provider=RUNTIME,
            ids=(204,),
            ours=field,
            theirs=field,
            reason="it decodes the bits: with bit 31 set, the number of the other bit; else 1024, its 'not specified'",
            same=lambda value, _: number_of_highest_bit(value) if value >> 31 else 1024,
        )
        for field in ("CompactMechanisms", "ExpandMechanisms")
    ),
    *added(
        RUNTIME, (204,), "ConcurrentCompactMechanisms", "MemoryPressure", why="null: version 3 of the event has neither"
    ),
    *added(RUNTIME, (205,), "CondemnReasons0", "CondemnReasons1", "Count", why="null where the version has none"),
    *left_out(RUNTIME, (39,), "ClrInstanceID", why="it shows what the event carries, and nothing of the carrier"),
    # Seen in traces of all keywords, recorded live on 3.1, 8, 9, 10 and NativeAOT 9.
    Difference(
        provider=RUNTIME,
        ids=(204,),
        ours="PinnedAllocatedAdvance",
        theirs="PinnedAllocatedAdvance",
        same=lambda value, _: value - (1 << 64) if value is not None and value >> 63 else value,
        reason="an unsigned pointer in the manifest; the runtime's difference may be negative, and it shows that",
    ),
    *left_out(PRIVATE, (310,), "Unused1", "Unused2", why="the manifest has them"),
    Difference(
        provider=TPL,
        ids=(12,),
        ours="ContinueWithTaskId",
        theirs="ContinuationId",
        same=lambda value, _: value,
        reason="another name; files say ContinueWithTaskId",
    ),
    Difference(
        provider=TPL,
        ids=(12,),
        ours="ContinuwWithTaskId",
        theirs="ContinuationId",
        same=lambda value, _: value,
        reason="another name; files of 3.1 say ContinuwWithTaskId",
    ),
    *(
        Difference(
            provider=provider,
            ids=(number,),
            ours="AppDomainID",
            theirs="AppDomainID",
            same=lambda value, _: value - (1 << 64) if value >> 63 else value,
            reason="unsigned in the manifest; NativeAOT writes all ones",
        )
        for provider, number in ((RUNTIME, 30), (PRIVATE, 194))
    ),
    *(
        Difference(
            provider=RUNTIME,
            ids=(72,),
            ours=field,
            theirs=field,
            same=lambda *_: ...,
            reason="it reads TypeParameterCount as wide as a pointer, and what follows in the wrong place",
        )
        for field in ("TypeParameterCount", "LoaderModuleID", "TypeParameters")
    ),
    *left_out(
        RUNTIME,
        (191,),
        "MethodBeingCompiledNamespace",
        "MethodBeingCompiledName",
        "MethodBeingCompiledNameSignature",
        "CallerNamespace",
        "CallerName",
        "CallerNameSignature",
        "CalleeNamespace",
        "CalleeName",
        "CalleeNameSignature",
        "TailPrefix",
        "FailReason",
        "ClrInstanceID",
        why="it does not know the event",
    ),
    *left_out(RUNTIME, (297, 298), "Data", why="reached by a method"),
    *(
        Difference(
            provider=RUNTIME,
            ids=(297, 298),
            ours=field,
            theirs=field,
            same=lambda *_: ...,
            reason="it reads these two bytes too early, or as signed",
        )
        for field in ("MethodFlags", "MethodToken", "MethodNamespace")
    ),
    *left_out(
        RUNTIME,
        (303,),
        "AllocationKind",
        "ClrInstanceID",
        "TypeID",
        "TypeName",
        "Address",
        "ObjectSize",
        "SampledByteOffset",
        why="it does not know the event",
    ),
    *(
        Difference(provider=SYSTEM, ids=(0, 1, 3, 4, 5), ours=field, theirs=field, reason=reason, same=lambda *_: ...)
        for field, reason in [
            (name, "the file declares a string as one code unit, and it believes that (nettrace.md §12)")
            for name in ("Name", "NamespaceName", "FileName", "MetadataId", "SymbolMetadata", "VersionMetadata")
        ]
    ),
    *left_out(
        SYSTEM, (3,), "SymbolMetadata", "VersionMetadata", why="in the payload, but not declared (nettrace.md §12)"
    ),
]
"""``same`` that gives ``...``: nothing of theirs can be right."""

NAMES: dict[tuple[str, int], tuple[str, str]] = {
    (RUNTIME, 191): ("EventID(191)", "it does not know the event"),
    (RUNTIME, 200): ("EventID(200)", "it does not know the event"),
    (RUNTIME, 201): ("EventID(201)", "it does not know the event"),
    (RUNTIME, 303): ("EventID(303)", "it does not know the event"),
}
OPCODES: dict[tuple[str, int], tuple[int, str]] = {
    (RUNTIME, 191): (0, "it does not know the event"),
    (RUNTIME, 200): (0, "it does not know the event"),
    (RUNTIME, 201): (0, "it does not know the event"),
    (RUNTIME, 303): (0, "it does not know the event"),
    (PRIVATE, 199): (45, "the manifest says 44"),
}
INVENTED_IDS = {65524: 39}

UNDECLARED = {("Workload-Manifest", "Bytes"), ("Workload-Manifest", "Blob"), ("Workload-SelfDescribing", "Nested")}
"""Events with a payload that their metadata does not describe; TraceEvent shows no fields (README of the
recordings).
"""
CUT = {"killed-10.nettrace": 81_066}
"""No end in the file: the reference throws, having delivered a part of these events."""
WRONG_RELATED = "NetPerf 3"
"""It reads ``related`` of this format at payload + 36 (README of the recordings)."""

BASELINE_LACKS = {
    f"{RUNDOWN}/Method/DCStopVerbose": "the baselines of PerfView leave out the rundown's events",
    f"{RUNDOWN}/Method/ILToNativeMapDCStop": "the baselines of PerfView leave out the rundown's events",
    f"{RUNTIME}/Method/ILToNativeMap": "the baselines of PerfView leave out what has no payload names",
}
BASELINE_NAMES = {
    f"{RUNTIME}/GC/IncreaseMemoryPressure": (f"{RUNTIME}/GC", "the baselines' TraceEvent took the task for the name"),
    f"{RUNTIME}/GC/DecreaseMemoryPressure": (f"{RUNTIME}/GC", "the baselines' TraceEvent took the task for the name"),
}

BY_EVENT: dict[tuple[str, int], list[Difference]] = defaultdict(list)
for _difference in FIELDS:
    for _id in _difference.ids:
        BY_EVENT[_difference.provider, _id].append(_difference)


def differences(key: tuple[str, int], ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """What is neither equal nor in the table, of the payloads of an event by provider and id."""
    left_ours, left_theirs = dict(ours), dict(theirs)
    for known in BY_EVENT.get(key, ()):
        has_ours, has_theirs = known.ours in left_ours, known.theirs in left_theirs
        if known.ours is None:
            if known.theirs is not None and has_theirs and known.theirs not in ours:
                if known.same is not None and known.same(None, ours) != theirs[known.theirs]:
                    continue
                del left_theirs[known.theirs]
        elif known.theirs is None:
            if known.ours not in theirs:
                left_ours.pop(known.ours, None)
        elif has_ours and has_theirs and known.same is not None:
            shown = known.same(ours[known.ours], ours)
            if shown is ... or shown == theirs[known.theirs]:
                del left_ours[known.ours], left_theirs[known.theirs]
    fields = [*left_ours, *(field for field in left_theirs if field not in left_ours)]
    missing = "(no such field)"
    return [
        f"{field}: ours {left_ours.get(field, missing)!r}, theirs {left_theirs.get(field, missing)!r}"
        for field in fields
        if left_ours.get(field, missing) != left_theirs.get(field, missing)
    ]


def line_differences(ours: dict[str, Any], theirs: dict[str, Any], *, related: bool = True) -> list[str]:
    """What is neither equal nor in the tables, of two lines in the form of ``trace events --format jsonl``."""
    key = ours["provider"], ours["id"]
    expected = dict(theirs)
    if key in OPCODES and theirs["opcode"] == OPCODES[key][0]:
        expected["opcode"] = ours["opcode"]
    if key in NAMES and theirs["event"] == NAMES[key][0]:
        expected["event"] = ours["event"]
    expected["id"] = INVENTED_IDS.get(theirs["id"], theirs["id"])
    if not related:
        expected["related"] = ours["related"]
    name = f"{ours['provider']}/{ours['event']}"
    wrong = [
        f"{name} {field}: ours {ours.get(field)!r}, theirs {expected[field]!r}"
        for field in expected
        if field != "payload" and (field not in ours or ours[field] != expected[field])
    ]
    if (ours["provider"], ours["event"]) in UNDECLARED and theirs["payload"] == {}:
        return wrong
    return wrong + [f"{name} {text}" for text in differences(key, ours["payload"], theirs["payload"])]
