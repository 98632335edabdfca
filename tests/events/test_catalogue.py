"""The catalogue: what it holds, and that it is what its tool makes."""

from __future__ import annotations

import gc
import importlib.util
import json
import re
import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from tests.events.help import decoded
from tests.nettrace.recordings import data_of, recordings
from tests.shared import CHECKOUT, shared_part, skip_without

from dotnetdiag.events import EventSchema, Source, catalogue, resolve, titles, well_known
from dotnetdiag.events.layout import Kind, SchemaField, fixed_size, from_metadata, parse_fields
from dotnetdiag.nettrace import Metadata, read

RUNTIME = "Microsoft-Windows-DotNETRuntime"


def schema_of(provider: str, event_id: int, version: int) -> EventSchema:
    """As of a file that describes the event by its id alone."""
    return resolve(Metadata(metadata_id=1, provider=provider, event_id=event_id, version=version))


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_catalogue", CHECKOUT / "tools" / "build_catalogue.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def description() -> Path:
    """What the runtimes' manifests and sources say about their events, as the tool reads it."""
    folder = shared_part("reference")
    if folder is None:
        skip_without("the description of the runtime's events")
    return folder / "clr-events.json"


def test_checked_in_catalogue_is_what_the_tool_makes(tmp_path: Path) -> None:
    source = description()
    builder = tool()
    assert builder.main([str(source), str(tmp_path / "made.json")]) == 0
    assert (tmp_path / "made.json").read_bytes() == Path(builder.OUTPUT).read_bytes()


def test_every_event_of_the_description_is_found_with_its_fields_in_order() -> None:
    source = description()
    for provider in json.loads(source.read_text(encoding="utf-8")):
        for event in provider["events"]:
            schema = schema_of(provider["name"], event["id"], event["version"])
            assert schema.source == Source.CATALOGUE
            assert schema.layout_version == event["version"]
            assert [field.name for field in schema.fields] == [field["name"] for field in event["fields"]]
            assert (schema.level, schema.keywords) == (event["level"], int(event["keywords"], 16))
            assert [field.map for field in schema.fields] == [field.get("map", "") for field in event["fields"]]


# what the description calls a type, in the grammar of layouts
TYPES = {
    "UInt8": "u1", "UInt16": "u2", "UInt32": "u4", "UInt64": "u8", "Int32": "i4", "Int64": "i8", "Double": "f8",
    "Boolean": "bool", "Pointer": "ptr", "GUID": "guid", "UnicodeString": "z16", "AnsiString": "z8",
}  # fmt: skip


def written(field: dict[str, Any]) -> str:
    """A field of the description in the grammar of layouts."""
    if field["type"] == "Struct":
        type_ = "{" + ",".join(map(written, field["fields"])) + "}"
    else:
        type_ = "bin" if field["type"] == "Binary" else TYPES[field["type"]]
    count = field.get("count_field") or field.get("length_field") or field.get("count")
    return f"{field['name']}:{type_}" + (f"*{count}" if count else "")


def shape(fields: tuple[SchemaField, ...]) -> list[Any]:
    """Names, types and counts, without how people read the numbers."""
    return [
        (field.name, shape(field.layout.fields), replace(field.layout, fields=(), element=None))
        + ((shape((SchemaField(name="", layout=field.layout.element),)),) if field.layout.element else ())
        for field in fields
    ]


def test_every_field_of_the_description_has_its_type_and_its_place() -> None:
    differ = []
    for provider in json.loads(description().read_text(encoding="utf-8")):
        for event in provider["events"]:
            fields = schema_of(provider["name"], event["id"], event["version"]).fields
            if shape(fields) != shape(parse_fields(",".join(map(written, event["fields"])))):
                differ.append((provider["name"], event["id"], event["version"]))
    assert differ == [(RUNTIME, 209, 0)], "and of FitBucket the test below"


def test_the_highest_version_not_above_the_one_asked_for_is_given() -> None:
    assert [schema_of(RUNTIME, 10, version).layout_version for version in (0, 2, 4, 9)] == [0, 2, 4, 4]
    for nothing in ((RUNTIME, 203, 1), (RUNTIME, 9999, 0), ("No-Such-Provider", 1, 0)):
        assert catalogue.describe(*nothing) is None
    assert schema_of(RUNTIME, 203, 1).source == Source.NONE
    assert schema_of(RUNTIME, 203, 1).name == "GC/Join", "known in version 2 only, which gives it its name"


@pytest.mark.parametrize(
    ("event_id", "version", "name", "manifest_name"),
    [
        (1, 2, "GC/Start", "GCStart_V2"),
        (2, 1, "GC/Stop", "GCEnd_V1"),
        (9, 1, "GC/SuspendEEStart", "GCSuspendEEBegin_V1"),
        (10, 4, "GC/AllocationTick", "GCAllocationTick_V4"),
        (31, 0, "GC/DestoryGCHandle", "DestroyGCHandle"),
        (80, 1, "Exception/Start", "ExceptionThrown_V1"),
        (143, 2, "Method/LoadVerbose", "MethodLoadVerbose_V2"),
        (145, 1, "Method/JittingStarted", "MethodJittingStarted_V1"),
        (190, 0, "Method/ILToNativeMap", "MethodILToNativeMap"),
        (303, 0, "AllocationSampling", "AllocationSampled"),
    ],
)
def test_events_have_both_names(event_id: int, version: int, name: str, manifest_name: str) -> None:
    schema = schema_of(RUNTIME, event_id, version)
    assert (schema.name, schema.manifest_name) == (name, manifest_name)
    assert schema.matches(name.lower())
    assert schema.matches(manifest_name)
    assert schema.matches(f"{RUNTIME}/{name}")


@pytest.mark.parametrize(
    ("level", "keywords", "wanted"), [(0, 0, (4, 1)), (0, 5, (0, 5)), (2, 0, (2, 0)), (2, 5, (2, 5))]
)
def test_level_and_keywords_are_those_of_the_file_if_it_states_either(
    level: int, keywords: int, wanted: tuple[int, int]
) -> None:
    schema = resolve(Metadata(metadata_id=1, provider=RUNTIME, event_id=1, version=2, level=level, keywords=keywords))
    assert (schema.level, schema.keywords) == wanted


def test_an_event_that_its_file_names_has_that_name() -> None:
    named = Metadata(metadata_id=1, provider=RUNTIME, event_id=1, version=2, name="OtherStart")
    assert (resolve(named).name, resolve(named).manifest_name) == ("Other/Start", "OtherStart")


def test_fit_bucket_elements_take_sixteen_bytes_as_the_runtime_writes_them() -> None:
    schema = schema_of(RUNTIME, 209, 0)
    element = schema.fields[-1].layout.element
    assert element is not None
    assert fixed_size(element, 8) == 16
    one = bytes.fromhex("0300eeee 05000000 0700000000000000")
    payload = bytes.fromhex("0900 0100 2800000000000000 0100") + one
    assert decoded(schema, [payload]).row(0)["Values"] == [{"Index": 3, "Count": 5, "Size": 7}]


def test_pointers_follow_the_traced_machine() -> None:
    schema = schema_of(RUNTIME, 22, 0)
    payload = bytes.fromhex("00000000 01000000 0000 01000000 02000000 0300000000000000")
    table = decoded(schema, [payload], pointer_size=4)
    assert table.row(0)["Values"] == [{"OldRangeBase": 1, "NewRangeBase": 2, "RangeLength": 3}]


def test_providers_have_keywords_maps_and_ids() -> None:
    provider = catalogue.provider(RUNTIME)
    assert provider is not None
    assert provider.guid == UUID("e13c0d23-ccbc-4e12-931b-d9cc2eee27e4")
    assert provider.keywords["GCKeyword"] == 1
    assert provider.maps["GCReasonMap"].text(1) == "Induced"
    assert provider.maps["MethodFlagsMap"].text(9) == "Dynamic|Jitted"
    assert provider.maps["MethodFlagsMap"].text(0x108) == "Jitted|0x100"
    assert provider.maps["GCReasonMap"].text(77) == "77"
    for value in (0, 9, 0x108, 0x100):
        assert provider.maps["MethodFlagsMap"].number(provider.maps["MethodFlagsMap"].text(value)) == value
    assert provider.maps["GCReasonMap"].number("77") == 77
    assert provider.maps["GCReasonMap"].number("-1") is provider.maps["GCReasonMap"].number("0x") is None
    assert 303 in provider.event_ids
    assert catalogue.provider("No-Such-Provider") is None


def test_values_of_a_field_have_the_names_of_its_map() -> None:
    fields = {field.name: field for field in schema_of(RUNTIME, 1, 2).fields}
    reasons = catalogue.enumeration(RUNTIME, fields["Reason"])
    assert reasons is not None
    assert (reasons.text(1), reasons.text(77)) == ("Induced", "77")
    assert [reasons.number(text) for text in ("Induced", " induced ", "Induced|Induced", "no")] == [1, 1, None, None]
    assert catalogue.enumeration(RUNTIME, fields["Count"]) is None
    assert catalogue.enumeration(RUNTIME, None) is None
    assert catalogue.enumeration("No-Such-Provider", fields["Reason"]) is None


def test_reasons_are_called_as_traceevent_does_and_found_by_the_words_of_the_manifest() -> None:
    reasons = catalogue.enumeration(
        RUNTIME, next(one for one in schema_of(RUNTIME, 1, 2).fields if one.name == "Reason")
    )
    assert reasons is not None
    assert [reasons.text(value) for value in range(18)] == [
        *("AllocSmall", "Induced", "LowMemory", "Empty", "AllocLarge", "OutOfSpaceSOH", "OutOfSpaceLOH", "InducedNotForced", "Internal"),
        *("InducedLowMemory", "InducedCompacting", "LowMemoryHost", "PMFullGC", "LowMemoryHostBlocking", "BgcTuningSOH", "BgcTuningLOH"),
        *("BgcStepping", "InducedAggressive"),
    ]  # fmt: skip
    words = ("InducedNotForced", "inducednoforce", "OutOfSpaceSmallObjectHeap", "OutOfSpaceLargeObjectHeap", "Stress")
    assert [reasons.number(word) for word in words] == [7, 7, 5, 6, 8]


def test_bits_have_names_that_are_put_together() -> None:
    bits = catalogue.ValueMap(name="M", bits=True, values={0: "None", 1: "A", 2: "B", 4: "C"})
    assert [bits.text(value) for value in (0, 1, 3, 6, 9, 8)] == ["None", "A", "A|B", "B|C", "A|0x8", "0x8"]
    assert [bits.number(text) for text in ("a", "A | b", "b|B", "A|x", "None")] == [1, 3, 2, None, 0]
    assert catalogue.ValueMap(name="M", bits=True, values={1: "A"}).text(0) == "0"


def test_a_provider_that_a_file_names_by_id_only_is_found() -> None:
    assert titles.provider_name("", UUID("e13c0d23-ccbc-4e12-931b-d9cc2eee27e4")) == RUNTIME
    assert titles.provider_name("{e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}", None) == RUNTIME
    assert titles.provider_name("3c530d44-97ae-513a-1e6d-783e8f8e03a9", None) == well_known.SAMPLE_PROFILER
    assert titles.provider_name("Some-Provider", None) == "Some-Provider"
    assert titles.provider_name("x" * 36, None) == "x" * 36
    assert titles.provider_name("", None) == ""


def test_every_known_layout_parses() -> None:
    for names in well_known._FIELDS.values():
        for text in names.values():
            assert parse_fields(text)
    for text in well_known._OVERRIDES.values():
        assert all(field.layout.kind in (Kind.VARUINT, Kind.TEXT8) for field in parse_fields(text))


# what EventSources of .NET write, as their methods are declared (dotnet/runtime: TplEventSource.cs, Telemetry.cs)
DECLARED = {
    "System.Threading.Tasks.TplEventSource": """
        TaskScheduled(int OriginatingTaskSchedulerID, int OriginatingTaskID, int TaskID, int CreatingTaskID,
            int TaskCreationOptions, int appDomain)
        TaskStarted(int OriginatingTaskSchedulerID, int OriginatingTaskID, int TaskID)
        TaskCompleted(int OriginatingTaskSchedulerID, int OriginatingTaskID, int TaskID, bool IsExceptional)
        TaskWaitBegin(int OriginatingTaskSchedulerID, int OriginatingTaskID, int TaskID, TaskWaitBehavior Behavior,
            int ContinueWithTaskID)
        TaskWaitEnd(int OriginatingTaskSchedulerID, int OriginatingTaskID, int TaskID)
        TaskWaitContinuationComplete(int TaskID)
        TaskWaitContinuationStarted(int TaskID)
        AwaitTaskContinuationScheduled(int OriginatingTaskSchedulerID, int OriginatingTaskID, int ContinuwWithTaskId)
        TraceOperationBegin(int TaskID, string OperationName, long RelatedContext)
        TraceOperationRelation(int TaskID, CausalityRelation Relation)
        TraceOperationEnd(int TaskID, AsyncCausalityStatus Status)
        TraceSynchronousWorkBegin(int TaskID, CausalitySynchronousWork Work)
        TraceSynchronousWorkEnd(CausalitySynchronousWork Work)
        RunningContinuation(int TaskID, long Object)
        RunningContinuationList(int TaskID, int Index, long Object)
        SetActivityId(Guid NewId)
        NewID(int TaskID)
        IncompleteAsyncMethod(string stateMachineDescription)
    """,
    "System.Net.Http": """
        RequestStart(string scheme, string host, int port, string pathAndQuery, byte versionMajor, byte versionMinor,
            HttpVersionPolicy versionPolicy)
        RequestStop(int statusCode)
        RequestFailed(string exceptionMessage)
        ConnectionEstablished(byte versionMajor, byte versionMinor, long connectionId, string scheme, string host,
            int port, string remoteAddress)
        ConnectionClosed(byte versionMajor, byte versionMinor, long connectionId)
        RequestLeftQueue(double timeOnQueueMilliseconds, byte versionMajor, byte versionMinor)
        RequestHeadersStart(long connectionId)
        ResponseHeadersStop(int statusCode)
        RequestContentStop(long contentLength)
        RequestFailedDetailed(string exception)
        Redirect(string redirectUri)
    """,
    "System.Net.NameResolution": "ResolutionStart(string hostNameOrAddress)",
    "System.Net.Sockets": """
        ConnectStart(string address)
        ConnectFailed(SocketError error, string exceptionMessage)
        AcceptStart(string address)
        AcceptFailed(SocketError error, string exceptionMessage)
    """,
    "System.Net.Security": """
        HandshakeStart(bool isServer, string targetHost)
        HandshakeStop(SslProtocols protocol)
        HandshakeFailed(bool isServer, double elapsedMilliseconds, string exceptionMessage)
    """,
    "Microsoft-Diagnostics-DiagnosticSource": "Message(string Message) NewDiagnosticListener(string SourceName) "
    "Version(int Major, int Minor, int Patch)",
}
C_SHARP = {"bool": "bool", "byte": "u1", "int": "i4", "long": "i8", "double": "f8", "string": "z16", "Guid": "guid"}


@pytest.mark.parametrize("provider", DECLARED)
def test_well_known_layouts_are_those_that_the_sources_declare(provider: str) -> None:
    declared = {}
    for name, parameters in re.findall(r"(\w+)\(([^)]*)\)", DECLARED[provider]):
        pairs = [parameter.split() for parameter in parameters.split(",")]
        declared[name] = ",".join(f"{field}:{C_SHARP.get(type_, 'i4')}" for type_, field in pairs)  # or an enum
    written = {name: text for name, text in well_known._FIELDS[provider].items() if text != well_known._BRIDGED}
    assert written == declared


@pytest.mark.parametrize("name", recordings())
def test_well_known_layouts_are_those_that_recordings_declare(name: str) -> None:
    for metadata in read(data_of(name)).metadata.values():
        text = well_known._FIELDS.get(metadata.provider, {}).get(metadata.name)
        if text is not None and metadata.fields:
            assert from_metadata(metadata.fields, self_describing=metadata.self_describing) == parse_fields(text)


@pytest.mark.parametrize("name", well_known._TITLES[well_known.TPL])
def test_events_of_tasks_have_the_opcode_that_their_name_says_and_pairs_have_one_name(name: str) -> None:
    """As TplEventSource.cs declares them; Send is 9."""
    schema = resolve(Metadata(metadata_id=1, provider=well_known.TPL, event_id=99, name=name))
    task, _, word = schema.name.partition("/")
    assert schema.opcode == {"Start": 1, "Stop": 2, "Send": 9}[word]
    ends = {"Begin": "Start", "Started": "Start", "Fork": "Start", "End": "Stop", "Completed": "Stop", "Join": "Stop"}
    wanted = next((ends[end] for end in ends if name.endswith(end)), "Send")
    assert word == ("Send" if name == "TaskWaitBegin" else wanted)
    pairs = {"Begin": "End", "Started": "Completed", "Fork": "Join"}
    for first, second in pairs.items():
        if name.endswith(first):
            other = Metadata(metadata_id=1, provider=well_known.TPL, event_id=98, name=name[: -len(first)] + second)
            assert resolve(other).name == f"{task}/Stop"


def test_what_is_known_by_id_has_its_names_and_the_fields_of_its_version() -> None:
    sample = schema_of(well_known.SAMPLE_PROFILER, 0, 0)
    facts = [(one.name, one.manifest_name, one.opcode, one.level, one.keywords) for one in (sample,)]
    assert facts == [("Thread/Sample", "ThreadSample", 1, 4, 0)]
    versions = [schema_of(well_known.EVENT_PIPE, 1, version) for version in (-1, 0, 1, 7)]
    assert [(one.name, one.opcode, one.level, one.keywords) for one in versions] == [("ProcessInfo", 0, 4, 0)] * 4
    assert [(one.layout_version, len(one.fields)) for one in versions] == [(0, 1), (0, 1), (1, 3), (1, 3)]
    named = resolve(Metadata(metadata_id=1, provider=well_known.TPL, event_id=1, name="NewID", version=3))
    assert (named.level, named.keywords, named.layout_version, named.source) == (4, 0, 3, Source.WELL_KNOWN)


def test_names_that_files_have_are_not_kept() -> None:
    def use(front: str) -> None:
        for number in range(3000):
            name = f"{front}{number}"
            for provider, event in ((name, "E"), (well_known.TPL, name), (well_known.UNIVERSAL_EVENTS, name)):
                metadata = Metadata(metadata_id=1, provider=provider, event_id=1, name=event, version=number)
                resolve(metadata).matches("x")
            resolve(Metadata(metadata_id=1, provider=well_known.TPL, event_id=1, name="NewID", version=number))
            resolve(Metadata(metadata_id=1, provider=well_known.EVENT_PIPE, event_id=number, version=number))
            resolve(Metadata(metadata_id=1, provider=RUNTIME, event_id=1, version=number))
            catalogue.provider(name)
            titles.provider_name(name, UUID(int=number))

    use("first")
    tracemalloc.start()
    try:
        use("second")
        gc.collect()
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 100_000
