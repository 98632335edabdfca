"""pprof files, decoded by the protobuf library with the published schema."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from tests.analysis.reference import opened
from tests.export.made import DEEP, HOSTILE_NAMES, SMALL, hostile, profile_of, sample, written
from tests.nettrace.recordings import data_of, recordings

import dotnetdiag.export
from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.diff import diff
from dotnetdiag.analysis.filters import between
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.origin import Origin
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacks import stacks
from dotnetdiag.errors import MissingDependency, UsageError
from dotnetdiag.export.pprof import message_class
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.trace import Trace

SCHEMA = Path(dotnetdiag.export.__file__).with_name("assets") / "pprof" / "profile.proto"


def made(profile: StackProfile, style: Style | None = None) -> Any:
    message = message_class().FromString(gzip.decompress(written(profile, "pprof", style)))
    check(message)
    return message


def check(message: Any) -> None:
    """What pprof's own CheckValid demands."""
    assert message.string_table[0] == ""
    assert len(set(message.string_table)) == len(message.string_table)
    ids = {kind: [one.id for one in getattr(message, kind)] for kind in ("mapping", "location", "function")}
    for some in ids.values():
        assert 0 not in some
        assert len(set(some)) == len(some)
    locations, functions, mappings = (set(ids[kind]) for kind in ("location", "function", "mapping"))
    for one in message.sample:
        assert len(one.value) == len(message.sample_type)
        assert set(one.location_id) <= locations
    for one in message.location:
        assert one.mapping_id in mappings | {0}
        assert {line.function_id for line in one.line} <= functions
        assert one.line
    strings = range(len(message.string_table))
    texts = [one.name for one in message.function] + [one.filename for one in message.mapping] + list(message.comment)
    assert all(number in strings for number in texts)


def stacks_of(message: Any) -> dict[tuple[str, ...], list[int]]:
    """(thread, state, outermost, ..., leaf) of each sample."""
    names = {one.id: message.string_table[one.name] for one in message.function}
    place = {one.id: names[one.line[0].function_id] for one in message.location}
    found: dict[tuple[str, ...], list[int]] = {}
    for one in message.sample:
        labels = {message.string_table[label.key]: message.string_table[label.str] for label in one.label}
        key = (labels["thread"], labels.get("state", ""), *(place[number] for number in reversed(one.location_id)))
        assert key not in found
        found[key] = list(one.value)
    return found


def test_samples_have_count_processor_time_and_time() -> None:
    message = made(profile_of(*SMALL, names={2: "loop"}), Style.SHORT)
    text = message.string_table
    assert [(text[one.type], text[one.unit]) for one in message.sample_type] == [
        ("samples", "count"),
        ("cpu", "nanoseconds"),
        ("wall", "nanoseconds"),
    ]
    assert text[message.default_sample_type] == "wall"
    assert stacks_of(message) == {
        ("Thread (1)", "cpu", "App.Main", "App.Work", "App.Inner"): [2, 20_000_000, 20_000_000],
        ("Thread (1)", "cpu", "App.Main", "App.Work"): [1, 5_000_000, 5_000_000],
        ("Thread (1)", "unmanaged", "App.Main", "App.Wait"): [1, 0, 5_000_000],
        ("Thread (2) (loop)", "cpu", "App.Loop", "App.Work", "App.Inner"): [1, 20_000_000, 20_000_000],
        ("Thread (2) (loop)", "cpu", "App.Loop", "App.Loop", "App.Work"): [1, 20_000_000, 20_000_000],
    }
    assert {text[one.filename] for one in message.function} == {"app"}
    assert message.period == 10_000_000
    assert (text[message.period_type.type], text[message.period_type.unit]) == ("wall", "nanoseconds")


@pytest.mark.parametrize(
    ("command_line", "first"),
    [("dotnet /x/app.dll run", "/x/app.dll"), ("/x/app -v", "/x/app"), ("", "/x/app.dll")],
)
def test_locations_have_their_file_and_address_and_the_first_file_is_the_program(command_line: str, first: str) -> None:
    frames = [
        Frame(kind=FrameKind.METHOD, module="app", module_path="/x/app.dll", type_name="T", method="M"),
        Frame(kind=FrameKind.UNRESOLVED, module="libc.so", module_path="/lib/libc.so", address=0x7F10),
        Frame(kind=FrameKind.METHOD, module="Other", type_name="T", method="N"),
        Frame(kind=FrameKind.UNRESOLVED, address=0x99),
    ]
    origin = Origin(name="made.nettrace", command_line=command_line, events=1, lost=None)
    profile = profile_of(sample(1, 0, 1, *"dcba"), origin=origin)
    message = made(replace(profile, frames=Frames(extra=frames)))
    text = message.string_table
    files = {one.id: text[one.filename] for one in message.mapping}
    names = {one.id: text[one.system_name] for one in message.function}
    assert files[1] == first
    assert {names[one.id]: (files.get(one.mapping_id, ""), one.address) for one in message.location} == {
        "app!T.M": ("/x/app.dll", 0),
        "libc.so!0x7f10": ("/lib/libc.so", 0x7F10),
        "Other!T.N": ("Other", 0),
        "!0x99": ("", 0x99),
    }
    assert "events lost: not known" in text


def test_other_units_have_their_name() -> None:
    profile = profile_of(sample(1, 0, 0, "A.B", weight=99.6), sample(1, 1, 0, "A.B", weight=1), unit="bytes")
    message = made(profile)
    text = message.string_table
    assert [(text[one.type], text[one.unit]) for one in message.sample_type] == [
        ("samples", "count"),
        ("Thread time", "bytes"),
    ]
    assert [list(one.value) for one in message.sample] == [[2, 101]]


@pytest.mark.parametrize("name", recordings())
def test_every_recording_gives_a_valid_file(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    timed = cpu(trace)
    message = made(timed)
    assert sum(one.value[2] for one in message.sample) / 1e6 == pytest.approx(timed.total, abs=1e-3)
    everything = made(stacks(trace))
    assert sum(one.value[0] for one in everything.sample) == len(trace)


def test_times_of_methods_are_those_of_the_profile() -> None:
    profile = cpu(opened("default-10"))
    found: defaultdict[str, float] = defaultdict(float)
    for stack, value in stacks_of(made(profile)).items():
        for name in set(stack[2:]):
            found[name] += value[2] / 1e6
    expected = {row.name(): row.inclusive for row in profile.top(10_000)}
    assert found == pytest.approx(expected, abs=1e-3)
    message = made(profile)
    assert message.time_nanos == profile.origin.start.timestamp() * 1e9  # type: ignore[union-attr]
    assert message.string_table[message.mapping[0].filename].endswith("workload.dll")
    assert "0 of 24196 events lost" in [message.string_table[number] for number in message.comment]


def test_a_part_of_the_time_begins_and_ends_where_it_was_cut() -> None:
    start = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
    profile = profile_of(*SMALL, origin=Origin(name="made.nettrace", process_id=77, start=start, events=6, lost=0))
    for cut, first, last in (
        (profile, 0, 45),
        (between(profile, 0.012), 12, 45),
        (between(profile, None, 0.03), 0, 30),
        (between(between(profile, 0.012, 0.03), 0.013), 13, 30),
    ):
        message = made(cut)
        assert message.time_nanos == 1_767_323_045_600_000_000 + first * 1_000_000
        assert message.duration_nanos == (last - first) * 1_000_000


def test_hostile_names_and_deep_stacks_give_a_valid_file() -> None:
    message = made(hostile())
    assert max(len(one.location_id) for one in message.sample) == DEEP
    assert any(len(text) > 10_000 for text in message.string_table)
    assert len(message.function) >= len(HOSTILE_NAMES)
    assert "3 of 100 events lost" in message.string_table


def test_nothing_gives_a_valid_file() -> None:
    assert not made(profile_of()).sample


def test_the_same_profile_gives_the_same_bytes() -> None:
    assert written(profile_of(*SMALL), "pprof") == written(profile_of(*SMALL), "pprof")


def test_the_descriptor_is_that_of_the_published_schema() -> None:
    """Read from the text of the schema, so that nothing has to be compiled."""
    text = re.sub(r"//[^\n]*", "", SCHEMA.read_text(encoding="utf-8"))
    file = message_class().DESCRIPTOR.file
    published = re.findall(r"message (\w+) \{(.*?)\}", text, re.DOTALL)
    assert {name for name, _ in published} == set(file.message_types_by_name)
    types = {name: getattr(FieldDescriptor, f"TYPE_{name.upper()}") for name in ("int64", "uint64", "bool", "string")}
    for name, body in published:
        found = {}
        for repeated, kind, field, number in re.findall(r"(repeated )?(\w+) (\w+) = (\d+);", body):
            found[field] = (int(number), types.get(kind, FieldDescriptor.TYPE_MESSAGE), bool(repeated))
        fields = file.message_types_by_name[name].fields
        assert found == {one.name: (one.number, one.type, one.is_repeated) for one in fields}


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(MissingDependency, match=r"needs protobuf: pip install 'dotnetdiag\[pprof\]'"):
        written(profile_of(*SMALL), "pprof")


def test_a_difference_is_refused() -> None:
    profile = profile_of(*SMALL)
    with pytest.raises(UsageError, match="cannot show a difference"):
        written(diff(profile, profile), "pprof")


@pytest.mark.skipif(shutil.which("go") is None, reason="go is not installed: pprof itself is not asked")
def test_pprof_itself_reads_it(tmp_path: Path) -> None:
    for name, profile in (("small", profile_of(*SMALL)), ("hostile", hostile())):
        path = tmp_path / f"{name}.pb.gz"
        path.write_bytes(written(profile, "pprof", Style.SHORT))
        done = subprocess.run(
            ["go", "tool", "pprof", "-top", "-unit=ms", str(path)],
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=True,
        )
        if name == "small":
            rows = [line.split() for line in done.stdout.splitlines()]
            assert ["40ms", "57.14%", "57.14%", "40ms", "57.14%", "App.Inner"] in rows
