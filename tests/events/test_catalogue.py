"""The catalogue: what it holds, and that it is what its tool makes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from uuid import UUID

import pytest
from tests.events.help import decoded
from tests.shared import CHECKOUT, shared_part, skip_without

from dotnetdiag.events import catalogue, known
from dotnetdiag.events.layout import Kind, fixed_size, parse_fields

RUNTIME = "Microsoft-Windows-DotNETRuntime"


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
            schema = catalogue.lookup(provider["name"], event["id"], event["version"])
            assert schema is not None
            assert schema.layout_version == event["version"]
            assert [field.name for field in schema.fields] == [field["name"] for field in event["fields"]]
            assert (schema.level, schema.keywords) == (event["level"], int(event["keywords"], 16))
            assert [field.map for field in schema.fields] == [field.get("map", "") for field in event["fields"]]


def test_the_highest_version_not_above_the_one_asked_for_is_given() -> None:
    assert [catalogue.lookup(RUNTIME, 10, version).layout_version for version in (0, 2, 4, 9)] == [0, 2, 4, 4]  # type: ignore[union-attr]
    assert catalogue.lookup(RUNTIME, 203, 1) is None, "GCJoin is known in version 2 only"
    assert catalogue.lookup(RUNTIME, 9999, 0) is None
    assert catalogue.lookup("No-Such-Provider", 1, 0) is None


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
    schema = catalogue.lookup(RUNTIME, event_id, version)
    assert schema is not None
    assert (schema.name, schema.manifest_name) == (name, manifest_name)
    assert schema.matches(name.lower())
    assert schema.matches(manifest_name)
    assert schema.matches(f"{RUNTIME}/{name}")


def test_fit_bucket_elements_take_sixteen_bytes_as_the_runtime_writes_them() -> None:
    schema = catalogue.lookup(RUNTIME, 209, 0)
    assert schema is not None
    element = schema.fields[-1].layout.element
    assert element is not None
    assert fixed_size(element, 8) == 16
    one = bytes.fromhex("0300eeee 05000000 0700000000000000")
    payload = bytes.fromhex("0900 0100 2800000000000000 0100") + one
    assert decoded(schema, [payload]).row(0)["Values"] == [{"Index": 3, "Count": 5, "Size": 7}]


def test_pointers_follow_the_traced_machine() -> None:
    schema = catalogue.lookup(RUNTIME, 22, 0)
    assert schema is not None
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
    assert 303 in provider.event_ids
    assert catalogue.provider("No-Such-Provider") is None
    assert len(catalogue.events(RUNTIME)) == len(provider.event_ids)


def test_a_provider_that_a_file_names_by_id_only_is_found() -> None:
    assert catalogue.provider_name("", UUID("e13c0d23-ccbc-4e12-931b-d9cc2eee27e4")) == RUNTIME
    assert catalogue.provider_name("{e13c0d23-ccbc-4e12-931b-d9cc2eee27e4}", None) == RUNTIME
    assert catalogue.provider_name("3c530d44-97ae-513a-1e6d-783e8f8e03a9", None) == known.SAMPLE_PROFILER
    assert catalogue.provider_name("Some-Provider", None) == "Some-Provider"
    assert catalogue.provider_name("x" * 36, None) == "x" * 36
    assert catalogue.provider_name("", None) == ""


def test_every_known_layout_parses() -> None:
    for names in known._FIELDS.values():
        for text in names.values():
            assert parse_fields(text)
    for text in known._OVERRIDES.values():
        assert all(field.layout.kind in (Kind.VARUINT, Kind.TEXT8) for field in parse_fields(text))
