"""Layouts that neither the files nor the runtime's manifest give: managed providers, and the universal ones of V6.

Written in the grammar of ``layout.parse_fields``. Nothing is kept that a file names.
"""

from __future__ import annotations

from dotnetdiag.events.names import Description

SAMPLE_PROFILER = "Microsoft-DotNETCore-SampleProfiler"
EVENT_PIPE = "Microsoft-DotNETCore-EventPipe"
DIAGNOSTIC_SOURCE = "Microsoft-Diagnostics-DiagnosticSource"
TPL = "System.Threading.Tasks.TplEventSource"
UNIVERSAL_SYSTEM = "Universal.System"
UNIVERSAL_EVENTS = "Universal.Events"
SAMPLERS = frozenset({SAMPLE_PROFILER, UNIVERSAL_EVENTS})
"""Whose threads were stopped where their stacks begin. Others' stacks begin where a call returns to: the code has called the runtime."""
_RUNTIME = "Microsoft-Windows-DotNETRuntime"
_GC_DYNAMIC_EVENT = 39

_PROCESS = "NamespaceId:vu,Name:s8,NamespaceName:s8"
# Files of one-collect declare these strings as single code units: the layout counts, not the declaration
# (nettrace.md §12).
_OVERRIDES = {
    "ExistingProcess": _PROCESS,
    "ProcessCreate": _PROCESS,
    "ProcessExit": "",
    "ProcessMapping": "Id:vu,StartAddress:vu#,EndAddress:vu#,FileOffset:vu#,FileName:s8,MetadataId:vu,"
    "SymbolMetadata:s8,VersionMetadata:s8",
    "ProcessSymbol": "Id:vu,MappingId:vu,StartAddress:vu#,EndAddress:vu#,Name:s8",
    "ProcessMappingMetadata": "Id:vu,SymbolMetadata:s8,VersionMetadata:s8",
}

# Bridged DiagnosticSource events have no usable metadata before V5 (nettrace.md §9).
_BRIDGED = "SourceName:z16,EventName:z16,Arguments:{Key:z16,Value:z16}*u16"

_TASK = "OriginatingTaskSchedulerID:i4,OriginatingTaskID:i4"
# (provider, event name) → fields, for files that declare none.
_FIELDS: dict[str, dict[str, str]] = {
    DIAGNOSTIC_SOURCE: dict.fromkeys(
        (
            "Event",
            "ActivityStart",
            "ActivityStop",
            "Activity1Start",
            "Activity1Stop",
            "Activity2Start",
            "Activity2Stop",
            "RecursiveActivity1Start",
            "RecursiveActivity1Stop",
        ),
        _BRIDGED,
    )
    | {"Message": "Message:z16", "NewDiagnosticListener": "SourceName:z16", "Version": "Major:i4,Minor:i4,Patch:i4"},
    TPL: {
        "TaskScheduled": _TASK + ",TaskID:i4,CreatingTaskID:i4,TaskCreationOptions:i4,appDomain:i4",
        "TaskStarted": _TASK + ",TaskID:i4",
        "TaskCompleted": _TASK + ",TaskID:i4,IsExceptional:bool",
        "TaskWaitBegin": _TASK + ",TaskID:i4,Behavior:i4,ContinueWithTaskID:i4",
        "TaskWaitEnd": _TASK + ",TaskID:i4",
        "TaskWaitContinuationComplete": "TaskID:i4",
        "TaskWaitContinuationStarted": "TaskID:i4",
        "AwaitTaskContinuationScheduled": _TASK + ",ContinuwWithTaskId:i4",
        "TraceOperationBegin": "TaskID:i4,OperationName:z16,RelatedContext:i8",
        "TraceOperationRelation": "TaskID:i4,Relation:i4",
        "TraceOperationEnd": "TaskID:i4,Status:i4",
        "TraceSynchronousWorkBegin": "TaskID:i4,Work:i4",
        "TraceSynchronousWorkEnd": "Work:i4",
        "RunningContinuation": "TaskID:i4,Object:i8",
        "RunningContinuationList": "TaskID:i4,Index:i4,Object:i8",
        "SetActivityId": "NewId:guid",
        "NewID": "TaskID:i4",
        "IncompleteAsyncMethod": "stateMachineDescription:z16",
    },
    "System.Net.Http": {
        "RequestStart": "scheme:z16,host:z16,port:i4,pathAndQuery:z16,versionMajor:u1,versionMinor:u1,versionPolicy:i4",
        "RequestStop": "statusCode:i4",
        "RequestFailed": "exceptionMessage:z16",
        "ConnectionEstablished": "versionMajor:u1,versionMinor:u1,connectionId:i8,scheme:z16,host:z16,port:i4,"
        "remoteAddress:z16",
        "ConnectionClosed": "versionMajor:u1,versionMinor:u1,connectionId:i8",
        "RequestLeftQueue": "timeOnQueueMilliseconds:f8,versionMajor:u1,versionMinor:u1",
        "RequestHeadersStart": "connectionId:i8",
        "ResponseHeadersStop": "statusCode:i4",
        "RequestContentStop": "contentLength:i8",
        "RequestFailedDetailed": "exception:z16",
        "Redirect": "redirectUri:z16",
    },
    "System.Net.NameResolution": {"ResolutionStart": "hostNameOrAddress:z16"},
    "System.Net.Sockets": {
        "ConnectStart": "address:z16",
        "ConnectFailed": "error:i4,exceptionMessage:z16",
        "AcceptStart": "address:z16",
        "AcceptFailed": "error:i4,exceptionMessage:z16",
    },
    "System.Net.Security": {
        "HandshakeStart": "isServer:bool,targetHost:z16",
        "HandshakeStop": "protocol:i4",
        "HandshakeFailed": "isServer:bool,elapsedMilliseconds:f8,exceptionMessage:z16",
    },
}

# (provider, event id) → (name of TraceEvent, manifest's name, opcode, {version: fields}).
_BY_ID: dict[str, dict[int, tuple[str, str, int, dict[int, str]]]] = {
    SAMPLE_PROFILER: {0: ("Thread/Sample", "ThreadSample", 1, {0: "Type:u4"})},
    EVENT_PIPE: {
        1: (
            "ProcessInfo",
            "ProcessInfo",
            0,
            {0: "CommandLine:z16", 1: "CommandLine:z16,OSInformation:z16,ArchInformation:z16"},
        )
    },
}

# What TraceEvent calls events whose own names say something else.
_TITLES: dict[str, dict[str, tuple[str, int]]] = {
    TPL: {
        "ParallelLoopBegin": ("Loop/Start", 1),
        "ParallelLoopEnd": ("Loop/Stop", 2),
        "ParallelInvokeBegin": ("Invoke/Start", 1),
        "ParallelInvokeEnd": ("Invoke/Stop", 2),
        "ParallelFork": ("ForkJoin/Start", 1),
        "ParallelJoin": ("ForkJoin/Stop", 2),
        "TaskScheduled": ("TaskScheduled/Send", 9),
        "TaskStarted": ("TaskExecute/Start", 1),
        "TaskCompleted": ("TaskExecute/Stop", 2),
        "TaskWaitBegin": ("TaskWait/Send", 9),
        "TaskWaitEnd": ("TaskWait/Stop", 2),
        "AwaitTaskContinuationScheduled": ("AwaitTaskContinuationScheduled/Send", 9),
        "TraceOperationBegin": ("TraceOperation/Start", 1),
        "TraceOperationEnd": ("TraceOperation/Stop", 2),
        "TraceSynchronousWorkBegin": ("TraceSynchronousWork/Start", 1),
        "TraceSynchronousWorkEnd": ("TraceSynchronousWork/Stop", 2),
    }
}

# What GCDynamicEvent carries, by its name there: TraceEvent's names for fields where it has some. 8.0 has the HeapCount
# events, later runtimes those of SizeAdaptation. Times in microseconds, sizes in bytes.
_CARRIED = {
    "CommittedUsage": "Version:u2,TotalCommittedInUse:u8,TotalCommittedInGlobalDecommit:u8,TotalCommittedInFree:u8,"
    "TotalCommittedInGlobalFree:u8,TotalBookkeepingCommitted:u8",
    "HeapCountTuning": "Version:u2,NewHeapCount:u2,GCIndex:u8,MedianThroughputCostPercent:f4,"
    "SmoothedMedianThroughputCostPercent:f4,ThroughputCostPercentReductionPerStepUp:f4,"
    "ThroughputCostPercentIncreasePerStepDown:f4,SpaceCostPercentIncreasePerStepUp:f4,SpaceCostPercentDecreasePerStepDown:f4",
    "HeapCountSample": "Version:u2,GCIndex:u8,ElapsedTimeBetweenGCs:u8,GCPauseTime:u8,MslWaitTime:u8",
    "SizeAdaptationSample": "Version:u2,GCIndex:u8,ElapsedTimeBetweenGCs:u4,GCPauseTime:u4,SOHMslWaitTime:u4,"
    "UOHMslWaitTime:u4,TotalSOHStableSize:u8,Gen0BudgetPerHeap:u4",
    "SizeAdaptationTuning": "Version:u2,NewHeapCount:u2,MaxHeapCount:u2,MinHeapCount:u2,GCIndex:u8,"
    "TotalSOHStableSize:u8,MedianThroughputCostPercent:f4,ThroughputCostPercentToConsider:f4,"
    "CurrentAroundTargetAccumulation:f4,RecordedThroughputCostPercentCount:u2,RecordedThroughputCostPercentSlope:f4,"
    "GCsSinceLastChange:u4,AggressiveFactor:u1,ChangeDecision:u2,AdjustmentReason:u2,HeapCountChangeFrequencyFactor:u2,"
    "HeapCountFrequencyReason:u2,AdjustmentMetric:u1",
    "SizeAdaptationFullGCTuning": "Version:u2,NewHeapCount:u2,GCIndex:u8,MedianGen2ThroughputCostPercent:f4,"
    "Gen2GCsSinceLastChange:u4,Sample0GCIndexDistance:u4,Sample0GCPercent:f4,Sample1GCIndexDistance:u4,"
    "Sample1GCPercent:f4,Sample2GCIndexDistance:u4,Sample2GCPercent:f4",
}
_CARRIED_TASK = "GC/"
_CARRIED_OPCODE = 41

PROVIDERS = (*_FIELDS, *_BY_ID, UNIVERSAL_SYSTEM, UNIVERSAL_EVENTS)
"""Providers of which something is known here."""
_LEVEL = 4


def override(provider: str, name: str) -> str | None:
    """The fields that count whatever a file declares, or None."""
    if provider == UNIVERSAL_SYSTEM:
        return _OVERRIDES.get(name)
    return "Value:vu" if provider == UNIVERSAL_EVENTS and name else None


def describe(provider: str, name: str, event_id: int, version: int) -> Description | None:
    """The event by provider and id (native ones) or provider and name, or None."""
    entry = _BY_ID.get(provider, {}).get(event_id)
    if entry is not None:
        title, manifest_name, opcode, by_version = entry
        fitting = max((number for number in by_version if number <= version), default=min(by_version))
        return Description(title, manifest_name, opcode, _LEVEL, 0, fitting, by_version[fitting])
    fields = _FIELDS.get(provider, {}).get(name)
    return None if fields is None else Description(name, name, 0, _LEVEL, 0, version, fields)


def title(provider: str, name: str, event_id: int) -> tuple[str, int] | None:
    """TraceEvent's name and opcode, where neither file nor rule gives them."""
    if is_carrier(provider, event_id) and is_carried(name):
        return name, _CARRIED_OPCODE
    entry = _BY_ID.get(provider, {}).get(event_id)
    if entry is not None:
        return entry[0], entry[2]
    return _TITLES.get(provider, {}).get(name)


def is_carrier(provider: str, event_id: int) -> bool:
    """Whether events of this type carry others."""
    return event_id == _GC_DYNAMIC_EVENT and provider == _RUNTIME


def is_carried(name: str) -> bool:
    """Whether a carrier's record of this name is that of something it carries."""
    return name.startswith(_CARRIED_TASK)


def carried_name(name: str) -> str:
    """The event's name of what is carried under a name."""
    return _CARRIED_TASK + name


def carried_names() -> tuple[str, ...]:
    """The names under which a carrier is known to hold something."""
    return tuple(_CARRIED)


def carried_size(name: str) -> int:
    """The bytes of what is carried under a name, -1 when its layout is not known."""
    fields = _CARRIED.get(name)
    return -1 if fields is None else sum(int(field.rpartition(":")[2][1:]) for field in fields.split(","))


def carried_fields(event_name: str) -> str:
    """The whole payload of a carrier with something known in it: behind the name and the size."""
    name = event_name.removeprefix(_CARRIED_TASK)
    return f":pad{2 * len(name) + 6},{_CARRIED[name]},ClrInstanceID:u2"


def describe_carried(provider: str) -> tuple[Description, ...]:
    """What events of a provider are known to carry."""
    if provider != _RUNTIME:
        return ()
    names = [(name, carried_name(name)) for name in _CARRIED]
    return tuple(
        Description(event, name, _CARRIED_OPCODE, _LEVEL, 0, 0, carried_fields(event)) for name, event in names
    )
