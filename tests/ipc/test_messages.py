"""Golden bytes of the reference (ipc-protocol.md §19), refusals, and the promise that any bytes parse or fail cleanly."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.errors import DangerousRequest, ProtocolError, RequestRefused
from dotnetdiag.ipc import dump, environment, eventpipe, process, process_info, profiler, tracing
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.eventpipe import EventFilter, Provider, Tracepoints
from dotnetdiag.ipc.frames import MAGIC, Frame, FrameReader
from dotnetdiag.ipc.messages import ErrorReply, Request
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.ipc.requests import ALL_REQUESTS, UnknownRequest, parse_request

P = Provider(name="MyEventSource", keywords=100, level=2)
P_BYTES = "6400000000000000020000000e0000004d0079004500760065006e00740053006f00750072006300650000 0000000000".replace(
    " ", ""
)
TRACEPOINT = Provider(name="MyEventSource", keywords=100, level=2, tracepoints=Tracepoints(default="tp0"))
FILTERED = Provider(name="MyEventSource", keywords=100, level=2, event_filter=EventFilter(enable=True, ids=(1, 2)))

GOLDEN: list[tuple[Request[Any], str]] = [
    (process_info.ProcessInfo(), "1400 04 00 0000"),
    (process_info.ProcessInfo3(), "1400 04 08 0000"),
    (process.ResumeRuntime(), "1400 04 01 0000"),
    (tracing.StopTracing(session_id=0x1122334455667788), "1c00 02 01 0000 8877665544332211"),
    (process.EnablePerfMap(perf_map_type=1), "1800 04 05 0000 01000000"),
    (process.DisablePerfMap(), "1400 04 06 0000"),
    (
        environment.SetEnvironmentVariable(name="A", value="b"),
        "2400 04 03 0000 02000000 41000000 02000000 62000000",
    ),
    (environment.SetEnvironmentVariable(name="A", value=None), "2000 04 03 0000 02000000 41000000 00000000"),
    (
        dump.GenerateCoreDump(path="/tmp/d", dump_type=4, flags=0),
        "2e00 01 01 0000 07000000 2f0074006d0070002f0064000000 04000000 00000000",
    ),
    (tracing.CollectTracing(providers=(P,), buffer_mb=250), "5000 02 02 0000 fa000000 01000000 01000000" + P_BYTES),
    (tracing.CollectTracing3(providers=(P,)), "5200 02 04 0000 00010000 01000000 01 01 01000000" + P_BYTES),
    (
        tracing.CollectTracing4(providers=(P,)),
        "5900 02 05 0000 00010000 01000000 3901028000000000 01 01000000" + P_BYTES,
    ),
    (
        tracing.CollectTracing5(providers=(FILTERED,)),
        "6a00 02 06 0000 00000000 00010000 01000000 3901028000000000 01 01000000"
        + P_BYTES
        + "01 02000000 01000000 02000000",
    ),
    (
        tracing.CollectTracing5UserEvents(providers=(TRACEPOINT,)),
        "6900 02 06 0000 01000000 0000000000000000 01000000"
        + P_BYTES
        + "00 00000000 04000000 7400700030000000 00000000",
    ),
    (
        tracing.CollectTracing6(providers=(P,), buffering_mode=1),
        "6600 02 07 0000 00000000 00010000 01000000 3901028000000000 01 01000000" + P_BYTES + "00 00000000 01000000",
    ),
]


@pytest.mark.parametrize(("request_", "tail"), GOLDEN, ids=lambda value: type(value).__name__)
def test_request_has_the_bytes_of_the_document_and_comes_back(request_: Request[Any], tail: str) -> None:
    packed = request_.pack()
    assert packed == MAGIC + bytes.fromhex(tail)
    assert type(request_).parse(packed) == request_
    assert parse_request(Frame.parse(packed)) == request_


def test_replies_have_the_bytes_of_the_document() -> None:
    assert ResultReply().pack() == MAGIC + bytes.fromhex("1800 ff 00 0000 00000000")
    assert ErrorReply(hresult=0x80131384).pack() == MAGIC + bytes.fromhex("1800 ff ff 0000 84131380")
    block = bytes.fromhex("02000000 04000000 41003d0031000000 0a000000 50004100540048003d002f00620069006e000000")
    assert environment.EnvironmentBlock.parse(block).variables() == {"A": "1", "PATH": "/bin"}
    assert environment.EnvironmentReply(size_bytes=40).pack() == MAGIC + bytes.fromhex("1a00 ff 00 0000 28000000 0000")


def test_advertise_has_the_bytes_of_the_document() -> None:
    said = Advertise(cookie=UUID("123e4567-e89b-12d3-a456-426614174000"), pid=12345)
    data = bytes.fromhex("414456525f563100 67453e129be8d312a456426614174000 3930000000000000 0000")
    assert said.pack() == data
    assert Advertise.parse(data) == said


GUID = UUID("5f1a6c2e-3b7d-4a8e-9c10-d0e5a1b2c3d4")
MANY = tuple(Provider(name=f"P{n}") for n in range(1001))


@pytest.mark.parametrize(
    "request_",
    [
        process_info.ProcessInfo(trailing=b"x"),
        environment.ProcessEnvironment(trailing=b"x"),
        tracing.CollectTracing2(providers=(P,), buffer_mb=0),
        tracing.CollectTracing2(providers=(P,), format=2),
        tracing.CollectTracing2(providers=MANY),
        dump.GenerateCoreDump3(path=None),
        process.ApplyStartupHook(path="hook.dll"),
        process.ApplyStartupHook(path="/a/x.dll:/b/y.dll"),
        tracing.CollectTracing5UserEvents(
            providers=(
                Provider(
                    name="A",
                    tracepoints=Tracepoints(sets=(eventpipe.TracepointSet(name="t", ids=(1, 1)),)),
                ),
            )
        ),
    ],
    ids=lambda request: type(request).__name__,
)
def test_request_that_kills_a_target_never_becomes_bytes(request_: Request[Any]) -> None:
    with pytest.raises(DangerousRequest):
        request_.pack()


@pytest.mark.parametrize(
    "request_",
    [
        tracing.CollectTracing2(providers=()),
        tracing.CollectTracing2(providers=(Provider(name=""),)),
        tracing.CollectTracing2(providers=(Provider(name="A", level=6),)),
        tracing.CollectTracing2(providers=(FILTERED,)),
        environment.SetEnvironmentVariable(name="", value="x"),
        environment.SetEnvironmentVariable(name="A=B", value="x"),
        process.EnablePerfMap(perf_map_type=0),
        dump.GenerateCoreDump(path="/tmp/x", flags=4),
        dump.GenerateCoreDump3(path="/tmp/x", dump_type=5),
        profiler.AttachProfiler(timeout_ms=1, clsid=GUID, path="/p", client_data=b"x" * 65536),
        profiler.StartupProfiler(clsid=GUID, path=""),
    ],
    ids=lambda request: type(request).__name__,
)
def test_request_that_makes_no_sense_is_refused(request_: Request[Any]) -> None:
    with pytest.raises(RequestRefused):
        request_.pack()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_protocol_error(data: bytes) -> None:
    try:
        parse_request(Frame.parse(data))
    except ProtocolError:
        return
    assert data.startswith(MAGIC)


@given(st.sampled_from(ALL_REQUESTS), st.binary(max_size=300))
def test_any_payload_is_a_request_or_a_protocol_error(kind: type[Request[Any]], payload: bytes) -> None:
    frame = Frame(command_set=kind.COMMAND >> 8, command_id=kind.COMMAND & 0xFF, payload=payload)
    try:
        parsed = parse_request(frame)
    except ProtocolError:
        return
    assert not isinstance(parsed, UnknownRequest)


@pytest.mark.parametrize("cut", range(1, 24))
def test_frame_fed_in_pieces_is_the_same(cut: int) -> None:
    whole = ResultReply(hresult=7).pack()
    reader = FrameReader()
    assert reader.feed(whole[:cut]) is None
    assert reader.feed(whole[cut:]) == Frame.parse(whole)
