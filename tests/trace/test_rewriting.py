"""Parts of traces, traces merged, texts redacted: what stays, and that the events that stay are what they were."""

from __future__ import annotations

import io
import json
import struct
from collections import Counter
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.nettrace import by_hand
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.test_parts import divided, lossy
from tests.nettrace.traces import PLAIN, SMALL, START_NS, SYNC, V6_ONLY

import dotnetdiag.trace.redact as redacting
from dotnetdiag.errors import NotUnderstood, UnknownName, UsageError
from dotnetdiag.nettrace import (
    Block,
    Contents,
    Field,
    FieldType,
    LabelList,
    Metadata,
    ThreadInfo,
    TypeCode,
    Writer,
    read,
    rewrite,
)
from dotnetdiag.trace.json_lines import JsonLines
from dotnetdiag.trace.merge import NEXT_PROCESS, merge
from dotnetdiag.trace.part import in_time_order, naming_types, part_of
from dotnetdiag.trace.redact import redact
from dotnetdiag.trace.trace import Trace

DATA = [*SMALL, *recordings()]
DEFINED = [name for name in DATA if "NetPerf" not in name or name not in SMALL]
"""Without the small NetPerf files, which have events of types that they do not define: no rewrite can say those."""


def opened(name: str) -> Trace:
    return Trace(SMALL[name] if name in SMALL else data_of(name))


def lines(trace: Trace, **selection: Any) -> list[dict[str, Any]]:
    maker = JsonLines(trace.raw)
    return [json.loads(line) for window in trace.events(**selection).windows() for line in maker.lines(window)]


def texts(trace: Trace, *, frames: bool = False) -> list[str]:
    maker = JsonLines(trace.raw, frames=frames)
    return [line for window in trace.events().windows() for line in maker.lines(window)]


def part(trace: Trace, keep: npt.NDArray[np.bool_]) -> Trace:
    contents, order = in_time_order(trace.raw.contents)
    assert contents.info is not None
    out = io.BytesIO()
    rewrite(contents, Writer.like(out, contents.info, version=6 if "6" in trace.format else 5), keep=keep[order])
    return Trace(out.getvalue())


# parts ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DEFINED)
def test_a_part_has_the_lines_of_the_whole_that_it_keeps(name: str) -> None:
    whole = opened(name)
    seconds = whole.raw.duration_ns / 1e9
    keep = part_of(whole, time=(seconds / 3, seconds * 2 / 3), naming=False)
    made = part(whole, keep)
    kept_in_order = keep[whole.raw.contents.order()].tolist()
    assert texts(made) == [line for line, kept in zip(texts(whole), kept_in_order, strict=True) if kept]
    assert made.complete
    if whole.lost.known and keep.any():
        assert made.lost.by_thread == whole.lost.by_thread


@pytest.mark.parametrize(
    "name", [name for name in recordings() if name.startswith(("web", "default", "v6", "gcverbose"))]
)
def test_stacks_of_a_part_have_their_names(name: str) -> None:
    whole = opened(name)
    seconds = whole.raw.duration_ns / 1e9
    made = part(whole, part_of(whole, time=(seconds / 4, seconds / 2)))
    first, last = whole.raw.ticks_between(seconds / 4, seconds / 2)
    naming = naming_types(whole)
    headers = whole.raw.contents.headers[whole.raw.contents.order()]
    inside = (headers.time >= first) & (headers.time < last)
    kept = inside | np.isin(headers.metadata_id, list(naming))
    assert not kept.all()
    whole_texts = texts(whole, frames=True)
    assert texts(made, frames=True) == [line for line, one in zip(whole_texts, kept.tolist(), strict=True) if one]


@pytest.mark.parametrize(
    ("name", "provider"),
    [("web-10.nettrace", "System.Net.Http"), ("events-10.nettrace", "Workload-Manifest")],
    ids=["web-10", "events-10"],
)
def test_a_part_by_types_keeps_what_names_methods(name: str, provider: str) -> None:
    whole = opened(name)
    made = part(whole, part_of(whole, metadata_ids=whole.raw.types.find_provider(provider)))
    assert set(made.counts()) == {
        provider,
        "Microsoft-Windows-DotNETRuntimeRundown",
        "Microsoft-DotNETCore-EventPipe",
    }
    assert made.counts()[provider] == whole.counts()[provider]
    assert made.raw.process == whole.raw.process
    strict = part(whole, part_of(whole, metadata_ids=whole.raw.types.find_provider(provider), naming=False))
    assert set(strict.counts()) == {provider}


@pytest.mark.parametrize("name", DEFINED)
def test_two_parts_that_meet_have_every_event_once(name: str) -> None:
    whole = opened(name)
    assert part_of(whole, time=(None, None), naming=False).all()
    times = whole.raw.contents.headers.time
    for share in (0.0, 0.3, 1.0):
        elapsed = np.quantile(whole.raw.meaning.info.elapsed_ns(times), share, method="nearest")
        seconds = float(elapsed) / 1e9
        before, after = (part_of(whole, time=time, naming=False) for time in ((None, seconds), (seconds, None)))
        assert (before ^ after).all()
    first, last = part_of(whole, time=(-1, seconds)), part_of(whole, time=(seconds, seconds + 1), naming=False)
    assert first[~after].all()
    assert (last == after).all()


# merging ----------------------------------------------------------------------------------------------------------------


def merged(*traces: Trace) -> Trace:
    out = io.BytesIO()
    merge([trace.raw.contents for trace in traces], out)
    return Trace(out.getvalue())


def told(line: dict[str, Any]) -> str:
    """A line without its time."""
    return json.dumps({**line, "ms": 0, "utc": ""})


PAIRS = [
    ("events-10.nettrace", "http-10.nettrace"),
    ("lossy-10.nettrace", "web-10.nettrace"),
    ("killed-10.nettrace", "lossy-10.nettrace"),
    ("v6-oncpu-10.nettrace", "events-10.nettrace"),
    ("events-3.1.nettrace", "counters-10.nettrace"),
    ("events-3.1.nettrace", "gccollect-10.nettrace"),
]


@pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
def test_merged_recordings_have_the_events_of_both_in_time_order(names: tuple[str, str]) -> None:
    traces = [opened(name) for name in names]
    made = merged(*traces)
    found = lines(made)
    times = [line["utc"] for line in found]
    assert times == sorted(times)
    for trace in traces:
        own, theirs = lines(trace), [line for line in found if line["pid"] == trace.raw.process.pid]
        assert list(map(told, theirs)) == list(map(told, own))
        shifts = [there["ms"] - here["ms"] for there, here in zip(theirs, own, strict=True)]
        assert max(shifts) - min(shifts) < 1e-3
        seconds = [float(some[0]["utc"][17:27]) for some in (theirs, own)]
        assert abs(seconds[0] - seconds[1]) < 0.01  # dates are cut to ms; the clock they share is not
    assert made.complete
    assert made.format == "nettrace 6.0"
    assert made.lost.total == sum(trace.lost.total for trace in traces)
    assert sorted(made.lost.by_thread.values()) == sorted(n for trace in traces for n in trace.lost.by_thread.values())
    assert {process.pid for process in made.processes} == {
        process.pid for trace in traces for process in trace.processes
    }
    for trace in traces:
        (process,) = [one for one in made.processes if one.pid == trace.raw.process.pid]
        assert replace(process, processors=None) == replace(trace.raw.process, processors=None)


@pytest.mark.parametrize(
    "names",
    [("gcverbose-10.nettrace", "web-10.nettrace"), ("cpu-only-10.nettrace", "events-10.nettrace")],
    ids=" and ".join,
)
def test_stacks_of_merged_recordings_are_named_by_their_own_process(names: tuple[str, str]) -> None:
    traces = [opened(name) for name in names]
    found = list(map(json.loads, texts(merged(*traces), frames=True)))
    for trace in traces:
        theirs = [line["frames"] for line in found if line["pid"] == trace.raw.process.pid]
        assert theirs == [line["frames"] for line in map(json.loads, texts(trace, frames=True))]


def small(
    pid: int, start_ns: int, sync: int, events: list[tuple[int, int]], frequency: int = 1_000_000_000
) -> Contents:
    """(time, number) events of one thread."""
    out = io.BytesIO()
    with Writer(out, start_ns=start_ns, sync_ticks=sync, frequency=frequency, process_id=pid) as writer:
        writer.add_metadata(PLAIN)
        for time, number in events:
            writer.write_event(1, time, number.to_bytes(4, "little") + b"\0\0", thread=1)
    return Trace(out.getvalue()).raw.contents


def numbers(*files: Contents) -> list[tuple[int | None, int, float]]:
    out = io.BytesIO()
    merge(files, out)
    return [(event.pid, event.number, event.ms) for event in Trace(out.getvalue()).events()]


def test_one_clock_is_taken_as_it_is_though_dates_are_cut_to_milliseconds() -> None:
    one = small(1, START_NS, 1000, [(2_000_000, 1), (6_000_000, 3)])
    other = small(2, START_NS + 3_000_000, 3_400_000, [(4_000_000, 2)])
    assert [row[:2] for row in numbers(one, other)] == [(1, 1), (2, 2), (1, 3)]
    assert numbers(other, one) == numbers(one, other)
    assert numbers(one, other)[1][2] == pytest.approx(3.999)


def test_different_clocks_are_aligned_by_their_dates() -> None:
    one = small(1, START_NS, 1000, [(1000 + 2_000_000, 1), (1000 + 6_000_000, 3)])
    other = small(2, START_NS + 3_000_000, 7_000_000_000, [(7_000_010_000, 2)], frequency=10_000_000)
    assert numbers(one, other) == [(1, 1, 2.0), (2, 2, 4.0), (1, 3, 6.0)]
    far = small(3, START_NS + 3_000_000, 1 << 60, [((1 << 60) + 1_000_000, 2)])
    assert numbers(one, far) == [(1, 1, 2.0), (3, 2, 4.0), (1, 3, 6.0)]


def test_traces_of_years_beyond_64_bits_are_merged() -> None:
    start = 250_000_000_000 * 10**9
    files = [small(pid, start + pid * 10**9, 0, [(7, pid)]) for pid in (2, 1)]
    assert numbers(*files) == [(1, 1, 7e-6), (2, 2, 1000.000007)]


def test_threads_of_one_id_are_kept_apart_by_process() -> None:
    out = io.BytesIO()
    merge([small(1, START_NS, 0, [(5, 1)]), small(2, START_NS, 0, [(6, 2)])], out)
    assert {(thread.tid, thread.pid) for thread in Trace(out.getvalue()).threads} == {(1, 1), (1, 2)}


def test_losses_before_first_events_behind_last_ones_and_of_reused_ids_survive() -> None:
    out = io.BytesIO()
    with Writer(out, start_ns=START_NS, process_id=1) as writer:
        writer.add_metadata(PLAIN)
        writer.write_event(1, 10, thread=1, sequence=5)
        writer.write_event(1, 20, thread=1, sequence=8)
        writer.write_event(1, 30, thread=1, sequence=3)  # the id was given to a new thread, which lost two
        writer.add_dropped(1, 7)
        writer.write_event(1, 40, thread=2, sequence=1)
        writer.write_sequence_point(50, {1: 10, 2: 1, 9: 4})  # 9 never got an event through
    one = Trace(out.getvalue())
    assert one.lost.total == 4 + 2 + 2 + 7 + 4
    made = merged(one, opened("nettrace 5"))
    assert made.lost.total == one.lost.total + 3


def test_the_last_number_of_a_thread_is_not_lowered_by_an_older_sequence_point() -> None:
    """The points stand in the order of the file; what they say of a thread may be older than what is known."""
    for points in ((9, 5), (5, 9), (9, 5, 7), (9, 0xFFFFFFF0)):
        out = io.BytesIO()
        with Writer(out, start_ns=START_NS, process_id=1) as writer:
            writer.add_metadata(PLAIN)
            for number in (1, 2):
                writer.write_event(1, 10 * number, thread=1, sequence=number)
            for time, number in enumerate(points, 30):
                writer.write_sequence_point(time, {1: number})
        file = Trace(out.getvalue()).raw.contents
        made = io.BytesIO()
        merge([file, small(2, START_NS, 0, [(5, 1)])], made)
        assert Trace(made.getvalue()).lost.total == 9 - 2


@pytest.mark.parametrize(
    ("blocks", "lost"),
    [
        ([by_hand.sequence_point((1, 50))], 0),
        ([by_hand.threads(by_hand.thread(1)), by_hand.sequence_point((1, 50))], 0),
        ([by_hand.threads(by_hand.thread(1)), by_hand.sequence_point((1, 50)), by_hand.events(by_hand.event(1, sequence=59))], 9),
    ],
    ids=["nothing", "a row", "an event"],
)  # fmt: skip
def test_what_is_said_of_a_forgotten_thread_is_not_of_the_one_before(blocks: list[bytes], lost: int) -> None:
    first = [by_hand.threads(by_hand.thread(1)), by_hand.events(by_hand.event(1))]
    forgets = by_hand.sequence_point(forgets=by_hand.FORGET_THREADS)
    trace = Trace(by_hand.trace(by_hand.metadata(by_hand.event_type(1)), *first, forgets, *blocks))
    assert trace.lost.total == lost
    assert merged(trace, trace).lost.total == 2 * lost


@pytest.mark.parametrize("other", ["nettrace 5", "nettrace 6"])
def test_small_traces_of_all_formats_merge(other: str) -> None:
    for name in ("nettrace 4", "nettrace 6", "nettrace 6, uncompressed"):
        made = merged(opened(name), opened(other))
        others = [{**line, "pid": line["pid"] + NEXT_PROCESS} for line in lines(opened(other))]  # the pid is one
        assert Counter(map(told, lines(made))) == Counter(map(told, [*lines(opened(name)), *others]))
        assert made.lost.total == 6


def test_threads_of_merged_files_have_numbers_of_their_own() -> None:
    out = io.BytesIO()
    merge([small(pid, START_NS, 0, [(pid, pid)]) for pid in (1, 2, 3)], out)
    assert [thread.index for thread in Trace(out.getvalue()).raw.contents.threads.values()] == [1, 2, 3]


def test_stacks_begin_anew_in_a_long_merged_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.trace.merge.CHUNK_ROWS", 4)
    files = [small(pid, START_NS, 0, [(10 * at + pid, at) for at in range(5)]) for pid in (1, 2)]
    out = io.BytesIO()
    merge(files, out)
    made = Trace(out.getvalue())
    assert len(made.raw.contents.sequence_points) == 3, "between rows 4 and 5, 8 and 9, and at the end"
    assert [event.number for event in made.events()] == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert made.lost.total == 0


def test_processes_of_one_pid_stay_apart_in_a_merged_file() -> None:
    files = [small(pid, START_NS, 0, [(time, time)]) for time, pid in enumerate((1, 1, 2, 1 + NEXT_PROCESS, 1))]
    out = io.BytesIO()
    given = [1, 1 + NEXT_PROCESS, 2, 1 + 2 * NEXT_PROCESS, 1 + 3 * NEXT_PROCESS]
    assert [list(own.values()) for own in merge(files, out)] == [[number] for number in given]
    made = Trace(out.getvalue())
    assert [event.pid for event in made.events()] == given
    assert [process.pid for process in made.processes] == given


def test_the_stacks_of_two_processes_of_one_pid_have_their_own_names() -> None:
    data = data_of("cpu-only-10.nettrace")
    traces = [Trace(data), Trace(data.replace("Workload".encode("utf-16-le"), "Neighbor".encode("utf-16-le")))]
    found = list(map(json.loads, texts(merged(*traces), frames=True)))
    own = traces[0].raw.process.pid
    assert own
    for trace, pid in zip(traces, (own, own + NEXT_PROCESS), strict=True):
        theirs = [line["frames"] for line in found if line["pid"] == pid]
        assert theirs == [line["frames"] for line in map(json.loads, texts(trace, frames=True))]
    both = merged(*traces)
    for pid, name, other in ((own, "Workload.", "Neighbor."), (own + NEXT_PROCESS, "Neighbor.", "Workload.")):
        stacks = {event.stack_id for event in both.events() if event.pid == pid}
        asked = [frame for stack in stacks for frame in both.raw.frames(stack, None, pid)]
        assert any(name in frame for frame in asked)
        assert not any(other in frame for frame in asked)


def without_events(version: int) -> Trace:
    out = io.BytesIO()
    with Writer(out, version=version, start_ns=START_NS, process_id=7) as writer:
        writer.add_metadata(PLAIN)
        writer.write_sequence_point(50, {9: 4} if version == 4 else {})
    return Trace(out.getvalue())


@pytest.mark.parametrize("version", [4, 5, 6])
def test_a_trace_without_events_is_merged(version: int) -> None:
    empty, whole = without_events(version), opened("nettrace 5")
    for traces, events in (((empty, whole), len(whole)), ((whole, empty), len(whole)), ((empty, empty), 0)):
        made = merged(*traces)
        assert made.complete
        assert len(made) == events
        assert made.lost.total == sum(trace.lost.total for trace in traces)


def test_a_trace_with_events_of_unknown_types_is_not_merged_and_nothing_is_written() -> None:
    out = io.BytesIO()
    odd = Trace(by_hand.trace(by_hand.metadata(by_hand.event_type(1)), by_hand.events(by_hand.event(7)))).raw.contents
    with pytest.raises(UsageError, match="does not define"):
        merge([odd, odd], out)
    assert not out.getvalue()


def changed(contents: Contents, **attributes: Any) -> Contents:
    """The same file, of which something else is known."""
    state = copy(contents.state)
    for name, value in attributes.items():
        setattr(state, name, value)
    return replace(contents, state=state)


def test_what_cannot_be_merged_is_refused_and_nothing_is_written() -> None:
    out = io.BytesIO()
    whole = opened("nettrace 5").raw.contents
    narrow = opened("nettrace 5, uncompressed, 32 bits").raw.contents
    undated = small(1, START_NS, 0, [])
    assert undated.info is not None
    undated = changed(undated, info=replace(undated.info, start_ns=None))
    mapped = Metadata(metadata_id=9, provider="Universal.System", event_id=3, name="ProcessMapping")
    types = copy(whole.state.metadata)
    types.records = {**types.records, 9: mapped}
    native = changed(whole, metadata=types)
    for files, problem in [
        ([whole], "two files"),
        ([whole, narrow], "32-bit"),
        ([whole, undated], "date"),
        ([small(1, -60_000_000_000 * 10**9, 0, []), small(2, START_NS, 0, [])], "centuries apart"),
        ([whole, changed(whole, info=None)], "clock"),
        ([native, native], "Universal.System"),
    ]:
        with pytest.raises(UsageError, match=problem):
            merge(files, out)
    assert out.getvalue() == b""


# redaction --------------------------------------------------------------------------------------------------------------


def stars(text: str) -> str:
    return ("redacted" + "*" * len(text))[: len(text)]


@pytest.mark.parametrize("name", [name for name in recordings() if not name.endswith(".xz")])
def test_redacted_recordings_differ_in_command_lines_only(name: str) -> None:
    trace = opened(name)
    done = redact(trace)
    again, expected = Trace(done.data), bytearray(trace.raw.buffer)
    headers = trace.raw.contents.headers[trace.raw.contents.order()]
    changed = 0
    for row, (before, after) in enumerate(zip(lines(trace), lines(again), strict=True)):
        if secret := before["payload"].get("CommandLine"):
            before["payload"]["CommandLine"] = stars(secret)
            raw, first = secret.encode("utf-16-le"), int(headers.payload_offset[row])
            at = expected.index(raw, first, first + int(headers.payload_length[row]))
            expected[at : at + len(raw)] = stars(secret).encode("utf-16-le")
            changed += 1
        assert before == after
    assert changed == sum(done.replaced.values())
    assert (again.complete, again.damage, again.lost.by_thread) == (trace.complete, trace.damage, trace.lost.by_thread)
    assert bytes(done.data) == bytes(expected)


@pytest.mark.parametrize(
    ("name", "event", "field", "chosen", "count"),
    [
        ("web-10", "System.Net.Http/Request/Start", "pathAndQuery", "System.Net.Http/RequestStart.PATHANDQUERY", 40),
        ("events-10", "Microsoft-Windows-DotNETRuntime/Exception/Start", "ExceptionType",
         "Microsoft-Windows-DotNETRuntime/ExceptionStart.EXCEPTIONTYPE", 80),
    ],
    ids=["web-10", "events-10"],
)  # fmt: skip
def test_chosen_fields_are_redacted_and_nothing_else(
    name: str, event: str, field: str, chosen: str, count: int
) -> None:
    trace = opened(f"{name}.nettrace")
    done = redact(trace, [chosen, "Event.Arguments.Value"] if "Event" in trace else [chosen])
    assert done.replaced[f"{event}.{field}"] == count
    short = event.partition("/")[2]
    before, after = lines(trace, names=short), lines(Trace(done.data), names=short)
    for one, other in zip(before, after, strict=True):
        if field in one["payload"]:
            one["payload"][field] = stars(one["payload"][field])
        assert one == other


def test_texts_in_lists_of_structures_are_redacted() -> None:
    trace = opened("http-10.nettrace")
    name = next(
        f"{one.provider}/{one.name}.Arguments.Value"
        for one in map(trace.raw.schema, trace.raw.source.counts())
        if any(field.name == "Arguments" for field in one.fields)
    )
    done = redact(trace, [name])
    event = name.removesuffix(".Arguments.Value")
    before, after = lines(trace, names=event), lines(Trace(done.data), names=event)
    for one, other in zip(before, after, strict=True):
        for argument in one["payload"]["Arguments"]:
            argument["Value"] = stars(argument["Value"])
        assert one == other
    assert done.replaced[name] > 0


_INT, _TEXT = (FieldType(code=code) for code in (TypeCode.INT32, TypeCode.STRING))
_OBJECT = FieldType(code=TypeCode.OBJECT, fields=(Field(name="CommandLine", type=_TEXT),))


@pytest.mark.parametrize(
    "fields",
    [
        (Field(name="process", type=_INT), Field(name="process.command_line", type=_TEXT)),
        (Field(name="a", type=_OBJECT), Field(name="a.CommandLine", type=_TEXT)),
        (Field(name="a.CommandLine", type=_TEXT), Field(name="a", type=_OBJECT)),
        (Field(name="", type=_INT), Field(name=".CommandLine", type=_TEXT)),
        (Field(name="CommandLine.", type=_TEXT), Field(name="CommandLine", type=_TEXT)),
    ],
)
def test_all_that_a_name_with_dots_may_mean_is_redacted(fields: tuple[Field, ...]) -> None:
    payload = b"".join(struct.pack("<i", 7) if one.type is _INT else "hidden\0".encode("utf-16-le") for one in fields)
    file = io.BytesIO()
    with Writer(file) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="Mine", event_id=1, name="Started", fields=fields))
        writer.write_event(1, 10, payload, thread=1)
    done = redact(Trace(file.getvalue()))
    assert "hidden".encode("utf-16-le") in file.getvalue()
    assert "hidden".encode("utf-16-le") not in bytes(done.data)
    assert len(done.data) == len(file.getvalue())


def test_pairs_of_version_6_are_redacted_where_they_stand() -> None:
    out = io.BytesIO()
    pairs = (("CommandLine", "app --password=zażółć"), ("Other", "stays"))
    with Writer(out, version=6, start_ns=START_NS, key_values=pairs) as writer:
        writer.add_metadata(PLAIN)
        writer.add_thread(ThreadInfo(index=1, key_values=(("environment", "SECRET=1"),)))
        labels = writer.add_labels(LabelList(values=(("cmd line", "x" * 200), ("n", 5))))
        writer.write_event(1, 5, b"\1\0\0\0\0\0", thread=1, labels=labels)
    trace = Trace(out.getvalue())
    done = redact(trace)
    again = Trace(done.data)
    assert again.complete
    assert again.raw.info is not None
    assert dict(again.raw.info.key_values)["CommandLine"].startswith("redacted*")
    assert dict(again.raw.info.key_values)["Other"] == "stays"
    assert again.raw.contents.threads[1].key_values == (("environment", "redacted"),)
    assert again.raw.labels[1].values == (("cmd line", stars("x" * 200)), ("n", 5))
    assert len(done.replaced) == 3


SECRET = b"--password=hunter2"
KEY = by_hand.text("CommandLine")


def secret_trace(*blocks: bytes, tail: bytes = b"", fields: bytes = b"\0\0") -> bytes:
    return by_hand.trace(by_hand.metadata(by_hand.event_type(1, fields=fields)), *blocks) + tail


def thread_row(*items: bytes) -> bytes:
    content = b"\1" + b"".join(items)
    return struct.pack("<H", len(content)) + content


def packed(*fields: bytes) -> bytes:
    return struct.pack("<H", len(fields)) + b"".join(struct.pack("<H", len(one)) + one for one in fields)


def payload_event(payload: bytes) -> bytes:
    return by_hand.event(1)[:-1] + by_hand.varuint(len(payload)) + payload


PAIR = b"\4" + KEY + by_hand.varuint(len(SECRET)) + SECRET
TRACE_BLOCK = struct.pack("<8hqqii", 2024, 1, 1, 1, 0, 0, 0, 0, 0, 10**9, 8, 1) + PAIR[1:]
UNENDED = SECRET.decode().encode("utf-16-le")


@pytest.mark.parametrize(
    ("blocks", "fields"),
    [
        ([by_hand.threads(thread_row(PAIR[:-1] + b"\xff"))], b"\0\0"),
        ([by_hand.threads(thread_row(b"\4" + KEY + bytes([len(SECRET) | 0x80, 0]) + SECRET))], b"\0\0"),
        ([by_hand.threads(thread_row(), thread_row(PAIR))], b"\0\0"),
        ([by_hand.labels(1, b"\x85" + PAIR[1:], b"\x85" + PAIR[1:])], b"\0\0"),
        ([by_hand.block(1, TRACE_BLOCK)], b"\0\0"),
        ([by_hand.events(payload_event(UNENDED))], packed(KEY + b"\x12")),
        ([by_hand.events(payload_event(UNENDED[:2] + b"\0\0" + UNENDED))], packed(KEY + b"\x12")),
        ([by_hand.events(payload_event(UNENDED))], packed(*[by_hand.text("x") + b"\x18\x18\6"], KEY + b"\x12")),
    ],
    ids=["no UTF-8", "long length", "second row", "lists given twice", "second Trace block", "text without its end",
         "behind the fields", "fields that are not followed"],
)  # fmt: skip
def test_a_secret_is_redacted_in_whatever_form_a_whole_file_has_it(blocks: list[bytes], fields: bytes) -> None:
    trace = Trace(secret_trace(*blocks, by_hand.events(by_hand.event(1)), fields=fields))
    assert trace.complete
    done = redact(trace)
    assert len(done.data) == len(trace.raw.buffer)
    for part in (SECRET[:-1], UNENDED[2:]):
        assert part not in done.data
    assert Trace(done.data).complete
    assert len(Trace(done.data)) == len(trace)


STARS = stars(SECRET.decode()).encode()


@pytest.mark.parametrize(
    ("block", "count"),
    [
        (by_hand.threads(thread_row(PAIR, PAIR), thread_row(PAIR)), 3),
        (by_hand.labels(1, b"\5" + PAIR[1:] + b"\x85" + PAIR[1:], b"\x85" + PAIR[1:]), 3),
        (by_hand.block(1, struct.pack("<8hqqii", 2024, 1, 1, 1, 0, 0, 0, 0, 0, 10**9, 8, 2) + PAIR[1:] * 2), 2),
        (by_hand.events(*[payload_event(UNENDED + b"\0\0")] * 3), 3),
    ],
    ids=["threads", "lists", "Trace block", "events"],
)
def test_of_equal_secrets_in_one_block_all_are_redacted_and_no_other_byte_changes(block: bytes, count: int) -> None:
    data = secret_trace(block, by_hand.events(by_hand.event(1)), fields=packed(KEY + b"\x12"))
    done = redact(Trace(data))
    expected = data.replace(SECRET, STARS).replace(UNENDED, STARS.decode().encode("utf-16-le"))
    assert data.count(SECRET) + data.count(UNENDED) == count == sum(done.replaced.values())
    assert bytes(done.data) == expected


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (secret_trace(by_hand.threads(thread_row(b"\x09" + PAIR))), "unknown kind 9"),
        (secret_trace(by_hand.threads(thread_row(PAIR[: len(KEY) + 1] + b"\x7f" + SECRET))), "127 bytes needed"),
        (secret_trace(by_hand.block(99, SECRET)), "unknown kind"),
        (secret_trace(by_hand.events(by_hand.event(1)), by_hand.block(1, TRACE_BLOCK[:-9])), "bytes"),
        (secret_trace(by_hand.events(by_hand.event(1)), by_hand.labels(1, b"\x20" + SECRET)), "kind 32"),
        (secret_trace(tail=SECRET), "end marker"),
        (secret_trace(by_hand.events(by_hand.event(1), payload_event(SECRET)[:-2])), "first damage"),
        (secret_trace(by_hand.events(by_hand.event(1), b"\xdf\xff\xff\xff\xff\xff" + SECRET)), "first damage"),
        (secret_trace(by_hand.events(payload_event(SECRET).replace(b"\xdf\1", b"\xdf\7"))), "unknown type"),
        (secret_trace(by_hand.labels(1, b"\x85" + by_hand.text("a") * 2 + PAIR[1:])), "behind the contents"),
        (secret_trace(by_hand.events(payload_event(SECRET + SECRET)))[: -len(SECRET)], "first damage"),
    ],
    ids=["unknown item", "value beyond its row", "unknown block", "cut Trace block", "unknown label", "behind the end", "cut event", "broken event",
         "unknown type", "behind the lists", "cut file"],
)  # fmt: skip
def test_what_is_not_understood_is_refused_or_blanked(data: bytes, what: str) -> None:
    trace = Trace(data)
    with pytest.raises(NotUnderstood, match=what) as caught:
        redact(trace)
    done = redact(trace, force_partial=True)
    assert b"hunter2" not in done.data
    first = caught.value.offset
    assert first is not None
    assert done.data[:first] == data[:first]
    assert 0 < done.data[first:].count(redacting.BLANK) <= sum(done.blanked.values())
    assert all(after in (before, *redacting.BLANK) for before, after in zip(data, done.data, strict=True))
    assert len(Trace(done.data)) <= len(trace)


def test_all_that_stands_behind_the_end_is_blanked_however_much_it_is() -> None:
    whole = secret_trace()
    for size in (1, len(whole), 3 * len(whole) + 5):
        tail = (SECRET * len(whole))[:size]
        done = redact(Trace(whole + tail), force_partial=True)
        assert list(done.blanked.values()) == [size]
        assert bytes(done.data) == whole + redacting.BLANK * size


def test_the_first_place_that_is_not_understood_is_named_and_the_others_are_counted() -> None:
    for count in (1, 2, 4):
        data = secret_trace(*[by_hand.block(99, SECRET)] * count)
        with pytest.raises(NotUnderstood) as caught:
            redact(Trace(data))
        assert caught.value.offset == data.index(SECRET)
        said = f", and {count - 1} places more" if count > 1 else ""
        assert (
            caught.value.problem
            == f"not understood, so it cannot be redacted: a block of unknown kind 'block of kind 99'{said}"
        )


def test_pairs_are_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []

    def counted(cursor: Any, block: Block, copy: Any) -> None:
        steps.append(block.name)
        walked(cursor, block, copy)

    walked = redacting._pair
    monkeypatch.setattr(redacting, "_pair", counted)
    rows = [thread_row(*[b"\4" + KEY + by_hand.text(f"{row} {n}") for n in range(50)]) for row in range(40)]
    done = redact(Trace(secret_trace(by_hand.threads(*rows))))
    assert len(steps) == 40 * 50 == done.replaced["ThreadBlock CommandLine"]


def test_wrong_fields_are_refused() -> None:
    trace = opened("events-10.nettrace")
    refused: list[tuple[str, type[Exception], str]] = [
        ("Exception/Start.ExceptionTpye", UnknownName, "ExceptionType"),
        ("Exception/Strat.ExceptionType", UnknownName, "Exception/Start"),
        ("Exception/Start.ExceptionFlags", UsageError, "no text"),
        ("Exception/Start", UsageError, "Provider/Event.Field"),
        ("nothing", UnknownName, "nothing"),
    ]
    for field, error, text in refused:
        with pytest.raises(error, match=text):
            redact(trace, [field])


def test_located_and_counted_texts_keep_their_places() -> None:
    out = io.BytesIO()
    with Writer(out, version=6, start_ns=START_NS) as writer:
        writer.add_metadata(replace(V6_ONLY, provider_guid=None))
        payload = b"\5" + bytes(6) + (3 << 16 | 11).to_bytes(4, "little") + b"abc"
        writer.add_thread(ThreadInfo(index=1))
        writer.write_event(5, SYNC, payload, thread=1)
    trace = Trace(out.getvalue())
    assert [event["where"] for event in trace.events()] == ["abc"]
    done = redact(trace, ["Everything/Start.where"] if "Everything/Start" in trace else ["Everything.where"])
    assert [event["where"] for event in Trace(done.data).events()] == ["red"]


def test_what_a_removed_thread_has_lost_is_lost_in_a_merged_file() -> None:
    out = io.BytesIO()
    with Writer(out, version=6, start_ns=START_NS, process_id=1) as writer:
        writer.add_metadata(PLAIN)
        writer.add_thread(ThreadInfo(index=1, os_thread_id=7))
        for number in (1, 2):
            writer.write_event(1, number, bytes(6), thread=1, sequence=number)
        writer.remove_thread(1, 5)
    made = io.BytesIO()
    file = Trace(out.getvalue()).raw.contents
    assert file.lost.total == 3
    merge([file, file], made)
    assert Trace(made.getvalue()).lost.total == 6


def test_parts_of_a_session_that_are_merged_lose_what_they_lost_and_nothing_twice() -> None:
    parts = [read(file.getvalue()) for file in divided(lossy(4)).files]
    assert [part.lost.total for part in parts] == [2, 3, 0, 1]
    for some in ([0, 1], [1, 2], [1, 2, 3], [0, 3]):
        out = io.BytesIO()
        merge([parts[number] for number in some], out)
        merged = read(out.getvalue())
        assert merged.lost.total == sum(parts[number].lost.total for number in some)
        assert len(merged) == sum(len(parts[number]) for number in some)
