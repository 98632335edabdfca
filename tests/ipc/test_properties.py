"""What is packed is parsed, for all values; and no bytes make anything but a message or a ProtocolError."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.errors import ProtocolError
from dotnetdiag.ipc import dump, environment, process, process_info, profiler, tracing
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.eventpipe import EventFilter, Provider, Tracepoints, TracepointSet
from dotnetdiag.ipc.frames import MAGIC, Frame
from dotnetdiag.ipc.messages import ErrorReply, OkReply, Request
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.requests import ALL_REQUESTS, UnknownRequest, parse_request

u16, u32, u64 = st.integers(0, 2**16 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
units = st.characters(exclude_characters="\0", exclude_categories=())
full = st.text(units, min_size=1, max_size=12)
texts = st.text(units, max_size=12)
maybe = st.none() | texts
NO_FILTER: st.SearchStrategy[EventFilter | None] = st.none()
NO_TRACEPOINTS: st.SearchStrategy[Tracepoints | None] = st.none()
ids = st.lists(u32, max_size=4).map(tuple)
filters = st.none() | st.builds(EventFilter, enable=st.booleans(), ids=ids).filter(lambda one: one.enable or one.ids)


@st.composite
def places(draw: st.DrawFn) -> Tracepoints:
    numbers = draw(st.lists(st.integers(1, 2**32 - 1), unique=True, max_size=6))
    groups = [numbers[start : start + 2] for start in range(0, len(numbers), 2)]
    sets = tuple(TracepointSet(name=draw(full), ids=tuple(group)) for group in groups)
    default = draw(full) if not sets else draw(st.none() | full)
    return Tracepoints(default=default, sets=sets)


def providers(
    filters: st.SearchStrategy[EventFilter | None] = NO_FILTER,
    tracepoints: st.SearchStrategy[Tracepoints | None] = NO_TRACEPOINTS,
) -> st.SearchStrategy[tuple[Provider, ...]]:
    one = st.builds(
        Provider,
        name=full,
        keywords=u64,
        level=st.integers(0, 5),
        arguments=maybe,
        event_filter=filters,
        tracepoints=tracepoints,
    )
    return st.lists(one, min_size=1, max_size=3).map(tuple)


BASE: dict[str, Any] = {"buffer_mb": st.integers(1, 2**32 - 1), "format": st.integers(0, 1)}
FLAGS: dict[str, Any] = {"stackwalk": st.booleans(), "rundown_keyword": u64}
REQUESTS: st.SearchStrategy[Request[Any]] = st.one_of(
    st.builds(dump.GenerateCoreDump, path=texts, dump_type=st.integers(1, 4), flags=st.integers(0, 1)),
    st.builds(dump.GenerateCoreDump2, path=texts, dump_type=st.integers(1, 4), flags=st.integers(0, 15)),
    st.builds(dump.GenerateCoreDump3, path=texts, dump_type=st.integers(1, 4), flags=st.integers(0, 15)),
    st.builds(tracing.StopTracing, session_id=u64),
    st.builds(tracing.CollectTracing, providers=providers(), **BASE),
    st.builds(tracing.CollectTracing2, providers=providers(), rundown=st.booleans(), **BASE),
    st.builds(tracing.CollectTracing3, providers=providers(), rundown=st.booleans(), stackwalk=st.booleans(), **BASE),
    st.builds(tracing.CollectTracing4, providers=providers(), **BASE, **FLAGS),
    st.builds(tracing.CollectTracing5, providers=providers(filters), **BASE, **FLAGS),
    st.builds(tracing.CollectTracing6, providers=providers(filters), buffering_mode=st.integers(0, 1), **BASE, **FLAGS),
    st.builds(tracing.CollectTracing5UserEvents, providers=providers(filters, places()), rundown_keyword=u64),
    st.builds(tracing.CollectTracing6UserEvents, providers=providers(filters, places()), rundown_keyword=u64),
    st.builds(profiler.AttachProfiler, timeout_ms=u32, clsid=st.uuids(), path=full, client_data=st.binary(max_size=20)),
    st.builds(profiler.StartupProfiler, clsid=st.uuids(), path=full),
    st.just(process_info.ProcessInfo()),
    st.just(process_info.ProcessInfo2()),
    st.just(process_info.ProcessInfo3()),
    st.just(process.ResumeRuntime()),
    st.just(process.DisablePerfMap()),
    st.just(environment.ProcessEnvironment()),
    st.builds(
        environment.SetEnvironmentVariable,
        name=full.filter(lambda name: "=" not in name),
        value=maybe,
    ),
    st.builds(process.EnablePerfMap, perf_map_type=st.integers(1, 3)),
    st.builds(process.ApplyStartupHook, path=texts.map(lambda name: "/" + name.replace(":", ""))),
)
# texts of replies may hold anything, NULs too
anything = st.none() | st.text(st.characters(exclude_categories=()), max_size=12)
WHO: dict[str, Any] = {
    "pid": u64,
    "cookie": st.uuids(),
    "command_line": anything,
    "os": anything,
    "arch": anything,
    "trailing": st.binary(max_size=9),
}
RUNS: dict[str, Any] = {**WHO, "entry_assembly": anything, "runtime_version": anything}
REPLIES: st.SearchStrategy[Any] = st.one_of(
    st.builds(OkReply, trailing=st.binary(max_size=9)),
    st.builds(ResultReply, hresult=u32, trailing=st.binary(max_size=9)),
    st.builds(SessionReply, session_id=u64, trailing=st.binary(max_size=9)),
    st.builds(process_info.ProcessInfoReply, **WHO),
    st.builds(process_info.ProcessInfo2Reply, **RUNS),
    st.builds(process_info.ProcessInfo3Reply, version=st.just(0), **RUNS),
    st.builds(process_info.ProcessInfo3Reply, version=st.integers(1, 2**32 - 1), runtime_identifier=anything, **RUNS),
    st.builds(environment.EnvironmentReply, size_bytes=st.integers(0, 16 << 20), future=u16),
    st.builds(ErrorReply, hresult=u32, text=st.text(max_size=12), trailing=st.binary(max_size=9)),
    st.builds(ErrorReply, hresult=u32, text=st.none()),
    st.builds(environment.EnvironmentBlock, entries=st.lists(anything, max_size=4).map(tuple), trailing=st.binary()),
    st.builds(Advertise, cookie=st.uuids(), pid=u64, future=u16, trailing=st.binary(max_size=9)),
)


@given(REQUESTS, st.binary(max_size=4))
def test_a_request_comes_back_and_null_is_not_empty(request_: Request[Any], more: bytes) -> None:
    parsed = parse_request(Frame.parse(request_.pack()))
    assert type(parsed) is type(request_)
    assert parsed == request_
    assert parsed.pack() == request_.pack()
    longer = replace(request_, trailing=more)
    frame = Frame.parse(request_.pack())
    with_more = parse_request(replace(frame, payload=frame.payload + more))
    assert with_more == longer


@given(REPLIES)
def test_a_reply_comes_back_and_null_is_not_empty(reply: Any) -> None:
    parsed = type(reply).parse(reply.pack())
    assert parsed == reply
    assert parsed.pack() == reply.pack()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_protocol_error(data: bytes) -> None:
    try:
        parse_request(Frame.parse(data))
    except ProtocolError:
        return
    assert data.startswith(MAGIC)


# what makes it likely that some fields are read before something is wrong
small = st.integers(0, 3).map(lambda number: number.to_bytes(4, "little"))
payloads = st.lists(st.one_of(small, st.just(b"\2\0\0\0A\0\0\0"), st.binary(max_size=20)), max_size=12).map(b"".join)


@given(st.sampled_from(ALL_REQUESTS), payloads, u16)
def test_any_payload_is_a_request_or_a_protocol_error(kind: type[Request[Any]], payload: bytes, reserved: int) -> None:
    command = kind.COMMAND
    frame = Frame(command_set=command >> 8, command_id=command & 0xFF, payload=payload, reserved=reserved)
    try:
        parsed = parse_request(frame)
    except ProtocolError:
        return
    assert not isinstance(parsed, UnknownRequest)
    parsed.invalid()  # says why, and raises nothing
    parsed.refusal()


OK_REPLIES: set[type[OkReply]] = {OkReply, *(kind.REPLY for kind in ALL_REQUESTS)}


@pytest.mark.parametrize("kind", sorted(OK_REPLIES, key=str))
@given(payload=payloads)
def test_any_payload_is_a_reply_or_a_protocol_error(kind: type[OkReply], payload: bytes) -> None:
    try:
        parsed = kind.from_frame(Frame(command_set=0xFF, command_id=0, payload=payload))
    except ProtocolError:
        return
    assert kind.parse(parsed.pack()) == parsed


@given(payloads)
def test_any_payload_of_4_bytes_is_an_error_reply(payload: bytes) -> None:
    frame = Frame(command_set=0xFF, command_id=0xFF, payload=payload)
    if len(payload) < 4:
        with pytest.raises(ProtocolError):
            ErrorReply.from_frame(frame)
        return
    parsed = ErrorReply.from_frame(frame)
    assert parsed.hresult == int.from_bytes(payload[:4], "little")
    assert parsed.pack() == frame.pack()  # not a byte of it is lost


@given(payloads)
def test_any_bytes_are_an_environment_or_a_protocol_error(data: bytes) -> None:
    try:
        block = environment.EnvironmentBlock.parse(data)
    except ProtocolError:
        return
    assert block.pack() == data
    block.variables()
    with pytest.raises(ProtocolError):
        Advertise.parse(data)
