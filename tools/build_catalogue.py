"""Make the event catalogue of the package from the description of the CLR's events.

    python tools/build_catalogue.py CLR_EVENTS_JSON [OUTPUT]

The input lists providers with keywords, tasks, opcodes, maps and, for every event and version, the fields as the
runtime's manifest has them. The output (``src/dotnetdiag/events/catalogue.txt``) is the same in few bytes, in lines of
cells with tabs between them: what a line tells of, its name or number, and what that is::

    provider  name  guid            behind which come its own
    keywords  name of the provider  name  bits  …
    opcodes, tasks                  number  name  …
    map       name                  "value" or "bits"  number  name  …
    others    name of the map       number  other name  …
    event     id                    TraceEvent's name  manifest symbol without version  opcode  version  level  keywords  fields  …

It is no JSON, of which the whole has to be read to find one event, by a module that takes as long to load.

``fields`` is a text that ``dotnetdiag.events.layout.parse_fields`` reads. The same input gives the same bytes.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).resolve().parents[1] / "src" / "dotnetdiag" / "events" / "catalogue.txt"

TYPES = {
    "UInt8": "u1",
    "UInt16": "u2",
    "UInt32": "u4",
    "UInt64": "u8",
    "Int32": "i4",
    "Int64": "i8",
    "Double": "f8",
    "Boolean": "bool",
    "Pointer": "ptr",
    "GUID": "guid",
    "UnicodeString": "z16",
    "AnsiString": "z8",
    "Binary": "bin",
}
HEX_OUT_TYPES = {15, 17, 18, 19, 20}

RUNTIME, RUNDOWN, STRESS, PRIVATE, MONO = (
    "Microsoft-Windows-DotNETRuntime",
    "Microsoft-Windows-DotNETRuntimeRundown",
    "Microsoft-Windows-DotNETRuntimeStress",
    "Microsoft-Windows-DotNETRuntimePrivate",
    "Microsoft-DotNETRuntimeMonoProfiler",
)

# As TraceEvent calls them: values that the manifest does not name, or by another word, which is kept to be asked for.
WORDS = {
    "GCReasonMap": {
        "5": "OutOfSpaceSOH",
        "6": "OutOfSpaceLOH",
        "7": "InducedNotForced",
        "8": "Internal",
        "10": "InducedCompacting",
        "11": "LowMemoryHost",
        "12": "PMFullGC",
        "13": "LowMemoryHostBlocking",
        "14": "BgcTuningSOH",
        "15": "BgcTuningLOH",
        "16": "BgcStepping",
        "17": "InducedAggressive",
    },
    "ThreadAdjustmentReasonMap": {"8": "CooperativeBlocking"},
}

# Manifest symbols that do not follow from task and opcode (seen as tracepoint names in the runtimes 3.1 to 10).
SYMBOLS = {
    RUNTIME: {
        1: "GCStart",
        2: "GCEnd",
        20: "GCSampledObjectAllocationHigh",
        32: "GCSampledObjectAllocationLow",
        35: "GCTriggered",
        40: "WorkerThreadCreate",
        41: "WorkerThreadTerminate",
        42: "WorkerThreadRetire",
        43: "WorkerThreadUnretire",
        44: "IOThreadCreate",
        45: "IOThreadTerminate",
        46: "IOThreadRetire",
        47: "IOThreadUnretire",
        48: "ThreadpoolSuspensionSuspendThread",
        49: "ThreadpoolSuspensionResumeThread",
        54: "ThreadPoolWorkerThreadAdjustmentSample",
        55: "ThreadPoolWorkerThreadAdjustmentAdjustment",
        56: "ThreadPoolWorkerThreadAdjustmentStats",
        57: "ThreadPoolWorkerThreadWait",
        60: "ThreadPoolWorkingThreadCount",
        61: "ThreadPoolEnqueue",
        62: "ThreadPoolDequeue",
        63: "ThreadPoolIOEnqueue",
        64: "ThreadPoolIODequeue",
        65: "ThreadPoolIOPack",
        70: "ThreadCreating",
        71: "ThreadRunning",
        80: "ExceptionThrown",
        90: "ContentionLockCreated",
        135: "DCStartCompleteV2",
        136: "DCEndCompleteV2",
        137: "MethodDCStartV2",
        138: "MethodDCEndV2",
        139: "MethodDCStartVerboseV2",
        140: "MethodDCEndVerboseV2",
        146: "MethodJitMemoryAllocatedForCode",
        149: "ModuleDCStartV2",
        150: "ModuleDCEndV2",
        159: "R2RGetEntryPoint",
        160: "R2RGetEntryPointStart",
        185: "MethodJitInliningSucceeded",
        186: "MethodJitInliningFailedAnsi",
        188: "MethodJitTailCallSucceeded",
        189: "MethodJitTailCallFailedAnsi",
        191: "MethodJitTailCallFailed",
        192: "MethodJitInliningFailed",
        241: "DebugIPCEventEnd",
        243: "DebugExceptionProcessingEnd",
        256: "ExceptionThrownStop",
        260: "CodeSymbols",
        270: "EventSource",
        280: "TieredCompilationSettings",
        281: "TieredCompilationPause",
        282: "TieredCompilationResume",
        283: "TieredCompilationBackgroundJitStart",
        284: "TieredCompilationBackgroundJitStop",
        290: "AssemblyLoadStart",
        291: "AssemblyLoadStop",
        297: "JitInstrumentationData",
        298: "JitInstrumentationDataVerbose",
        299: "ProfilerMessage",
        303: "AllocationSampled",
    },
    RUNDOWN: {0: "CLRStackWalkDCStart", 187: "RuntimeInformationDCStart", 280: "TieredCompilationSettingsDCStart"},
    STRESS: {0: "StressLogEvent", 1: "CLRStackWalkStress"},
    PRIVATE: {
        84: "LdSysBases",
        85: "LdSysBasesEnd",
        151: "CLRStackWalkPrivate",
        188: "NgenBindEvent",
        193: "CCWRefCountChangeAnsi",
        194: "PrvSetGCHandle",
        195: "PrvDestroyGCHandle",
        196: "FusionMessageEvent",
        197: "FusionErrorCodeEvent",
        201: "MulticoreJit",
        202: "MulticoreJitMethodCodeReturned",
    },
}

# What TraceEvent calls the tasks …
TASKS = {
    "GarbageCollection": "GC",
    "GarbageCollectionPrivate": "GC",
    "CLRGCRundown": "GC",
    "CLRMethod": "Method",
    "CLRMethodRundown": "Method",
    "CLRMethodPrivate": "Method",
    "CLRLoader": "Loader",
    "CLRLoaderRundown": "Loader",
    "CLRStack": "ClrStack",
    "CLRStackRundown": "ClrStack",
    "CLRStackStress": "ClrStack",
    "CLRStackPrivate": "ClrStack",
    "CLRILStub": "ILStub",
    "CLRStrongNameVerification": "StrongNameVerification",
    "CLRAuthenticodeVerification": "AuthenticodeVerification",
    "CLRRuntimeInformation": "Runtime",
    "CLRRuntimeInformationRundown": "Runtime",
    "CLRPerfTrack": "ClrPerfTrack",
    "CLRPerfTrackRundown": "ClrPerfTrack",
    "CLRPerfTrackPrivate": "ClrPerfTrack",
    "StressLogTask": "StressLog",
    "EvidenceGeneratedTask": "EvidenceGeneration",
    "TransparencyComputation": "Transparency",
    "CLRNgenBinder": "NgenBinder",
    "LoaderHeapAllocation": "LoaderHeap",
    "CLRMulticoreJit": "ClrMulticoreJit",
    "DynamicTypeUsage": "ClrDynamicTypeUsage",
    "CLRFailFast": "FailFast",
}
# … which words in front of an opcode it leaves out, by its name of the task …
PREFIXES = {
    "GC": ("Prv", "GC"),
    "Method": ("Method", "Jit"),
    "ClrStack": ("CLRStack",),
    "AppDomainResourceManagement": ("AppDomain",),
    "ILStub": ("IL",),
    "Binding": ("Binding",),
}
# … and which names (its own slips included) follow from no rule. "" = the task alone.
NAMES = {
    RUNTIME: {
        28: "GC/MarkCards",
        31: "GC/DestoryGCHandle",
        72: "Method/MethodDetails",
        87: "AppDomainResourceManagement/DomainEnter",
        135: "Method/DCStartCompleteV2",
        136: "Method/DCStopCompleteV2",
        137: "Method/DCStartV2",
        138: "Method/DCStopV2",
        139: "Method/DCStartVerboseV2",
        140: "Method/DCStopVerboseV2",
        149: "Loader/ModuleDCStartV2",
        150: "Loader/ModuleDCStopV2",
        159: "Method/R2RGetEntryPoint",
        160: "Method/R2RGetEntryPointStart",
        186: "Method/InliningFailedAnsi",
        189: "Method/TailCallFailed",
        191: "Method/TailCallFailedV2",
        206: "GC/GenAwareBegin",
        207: "GC/GenAwareEnd",
        270: "EventSourceEvent",
        283: "TieredCompilation/BackgroundJitStart",
        284: "TieredCompilation/BackgroundJitStop",
        298: "JitInstrumentationDataVerbose/InstrumentationData",
        303: "AllocationSampling",
    },
    RUNDOWN: {
        149: "Method/ILToNativeMapDCStart",
        150: "Method/ILToNativeMapDCStop",
        159: "Loader/ThreadDCStop",
        300: "ExecutionCheckpointRundown/ExecutionCheckpointDCEnd",
    },
    PRIVATE: {
        12: "GC/BGC1stNonCondStop",
        82: "Startup/EEConfigSetupStart",
        84: "Startup/LoadSystemBasesStart",
        86: "Startup/ExecExeStart",
        88: "Startup/MainStart",
        92: "Startup/LdLibShFolderStart",
        94: "Startup/PrestubWorkerStart",
        98: "Startup/OpenHModuleStart",
        102: "Startup/ParseXmlStart",
        104: "Startup/InitDefaultDomainStart",
        106: "Startup/InitSecurityStart",
        108: "Startup/AllowBindingRedirsStart",
        110: "Startup/EEConfigSyncStart",
        112: "Startup/BindingStart",
        113: "Startup/BindingStop",
        114: "Startup/LoaderCatchCallStart",
        116: "Startup/FusionInitStart",
        118: "Startup/FusionAppCtxStart",
        120: "Startup/Fusion2EEStart",
        122: "Startup/SecurityCatchCallStart",
        158: "ClrPerfTrack/ModuleRangeLoad",
        163: "Binding/LoopupAndProbingPhaseStart",
        175: "Binding/LoaderDeliverEventPhaseStart",
        191: "FailFast",
        192: "GC/FinalizeObject",
        193: "GC/CCWRefCountChangeAnsi",
    },
}


def symbol_of(provider: str, event: dict[str, Any]) -> str:
    """The manifest's symbol without its version suffix."""
    special = SYMBOLS.get(provider, {}).get(event["id"])
    if special:
        return special
    task, opcode = event["task_name"] or "", event["opcode_name"] or ""
    if provider == MONO:
        return f"MonoProfiler{opcode}"
    name = task + opcode if opcode in ("Start", "Stop") else task if opcode in ("", "Info") else opcode
    return re.sub("^CLR(?!Stack)", "", name)


def name_of(provider: str, event: dict[str, Any]) -> str:
    """What TraceEvent prints for the event."""
    special = NAMES.get(provider, {}).get(event["id"])
    if special:
        return special
    task, opcode = TASKS.get(event["task_name"], event["task_name"] or ""), event["opcode_name"] or ""
    if opcode in ("", "Info"):
        return task
    for prefix in PREFIXES.get(task, ()):
        if opcode.startswith(prefix) and opcode[len(prefix) : len(prefix) + 1].isupper():
            opcode = opcode.removeprefix(prefix)
    if task not in ("ILStub",) and opcode not in ("Start", "Stop"):
        opcode = re.sub("Begin$", "Start", opcode)
        opcode = re.sub("End$", "Stop", opcode)
        opcode = opcode.replace("DCEnd", "DCStop")
    return f"{task}/{opcode}"


def fields_text(fields: list[dict[str, Any]], provider: str, event_id: int) -> str:
    """The fields in the grammar of ``layout.parse_fields``."""
    parts = []
    for field in fields:
        if field["type"] == "Struct":
            text = "{" + fields_text(field["fields"], provider, event_id) + "}"
        else:
            text = TYPES[field["type"]]
        if "length_field" in field:
            text += "*" + field["length_field"]
        elif "count_field" in field:
            text += "*" + field["count_field"]
        elif "count" in field:
            text += "*" + str(field["count"])
        if field.get("out") in HEX_OUT_TYPES and field["type"] != "Binary":
            text += "#"
        if "map" in field:
            text += "=" + field["map"]
        parts.append(field["name"] + ":" + text)
    made = ",".join(parts)
    if provider == RUNTIME and event_id == 209:  # a C structure with its padding, nettrace.md §10.5
        made = made.replace("{Index:u2,Count:", "{Index:u2,:pad2,Count:")
    return made


def build(source: list[dict[str, Any]]) -> dict[str, Any]:
    """The catalogue as it is written."""
    catalogue: dict[str, Any] = {}
    for provider in source:
        name = provider["name"]
        events: dict[str, Any] = {}
        for event in provider["events"]:
            entry = events.setdefault(str(event["id"]), ["", "", 0, {}])
            entry[0], entry[1], entry[2] = name_of(name, event), symbol_of(name, event), event["opcode"]
            entry[3][str(event["version"])] = [
                event["level"],
                int(event["keywords"], 16),
                fields_text(event["fields"], name, event["id"]),
            ]
        catalogue[name] = {
            "guid": provider["guid"],
            "keywords": {key: int(bits, 16) for key, bits in provider["keywords"].items()},
            "opcodes": provider["opcodes"],
            "tasks": provider["tasks"],
            "maps": {
                key: words_of(value["kind"], value["values"], WORDS.get(key, {}))
                for key, value in provider["maps"].items()
            },
            "events": events,
        }
    return catalogue


def words_of(kind: str, values: dict[str, str], words: dict[str, str]) -> list[Any]:
    """A map, and what else of it is accepted."""
    others = {number: word for number, word in values.items() if words.get(number, word) != word}
    return [kind, values | words, *([others] if others else [])]


def render(catalogue: dict[str, Any]) -> str:
    """A line for each event and map, so that a change shows where it is."""
    lines = list[tuple[Any, ...]]()
    for name, provider in catalogue.items():
        lines.append(("provider", name, provider["guid"]))
        lines += [(kind, name, *cells(provider[kind])) for kind in ("keywords", "opcodes", "tasks")]
        for key, (kind, words, *others) in provider["maps"].items():
            lines.append(("map", key, kind, *cells(words)))
            lines += [("others", key, *cells(one)) for one in others]
        for number, (title, symbol, opcode, versions) in provider["events"].items():
            told = [cell for version, facts in versions.items() for cell in (version, *facts)]
            lines.append(("event", number, title, symbol, opcode, *told))
    text = "".join("\t".join(map(str, line)) + "\n" for line in lines)
    assert len(text.splitlines()) == len(lines), "a cell has an end of a line"
    assert text.count("\t") == sum(len(line) - 1 for line in lines), "a cell has a tab"
    return text


def cells(pairs: dict[str, Any]) -> list[Any]:
    """Keys and values, one after the other."""
    return [cell for pair in pairs.items() for cell in pair]


def main(arguments: list[str]) -> int:
    """Read the description, write the catalogue."""
    if not 1 <= len(arguments) <= 2:
        print(__doc__, file=sys.stderr)
        return 2
    source = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    output = Path(arguments[1]) if len(arguments) == 2 else OUTPUT
    output.write_text(render(build(source)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
