"""The protocol from before V1."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.errors import ProtocolError, RequestRefused
from dotnetdiag.ipc.eventpipe import EventFilter, Provider
from dotnetdiag.ipc.frames import MAGIC
from dotnetdiag.ipc.legacy import (
    REQUESTS,
    CollectEventPipeTracing,
    LegacyAttachProfiler,
    LegacyGenerateCoreDump,
    LegacyReply,
    LegacyRequest,
    StartEventPipeTracing,
    StopEventPipeTracing,
    is_legacy,
    parse_legacy_request,
)

u32, u64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
texts = st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=20)
providers = st.lists(
    st.builds(
        Provider,
        name=texts,
        keywords=u64,
        level=st.integers(0, 5),
        arguments=st.none() | texts,
    ),
    min_size=1,
    max_size=3,
).map(tuple)
tracing = {
    "client_pid": u32,
    "buffer_mb": st.integers(1, 2**32 - 1),
    "output_path": st.none() | texts,
    "providers": providers,
}
requests: st.SearchStrategy[LegacyRequest] = st.one_of(
    st.builds(
        LegacyGenerateCoreDump, client_pid=u32, path=texts, dump_type=st.integers(1, 4), diagnostics=st.integers(0, 1)
    ),
    st.builds(StartEventPipeTracing, **tracing),
    st.builds(CollectEventPipeTracing, **tracing),
    st.builds(StopEventPipeTracing, client_pid=u32, session_id=u64),
    st.builds(
        LegacyAttachProfiler,
        client_pid=u32,
        timeout_ms=u32,
        clsid=st.uuids(),
        path=texts,
        client_data=st.binary(max_size=9),
    ),
)


def test_bytes_of_a_stop() -> None:
    packed = StopEventPipeTracing(client_pid=0x1234, session_id=0x55).pack()
    assert packed.hex() == "01040000" + "34120000" + "5500000000000000"
    assert LegacyReply.parse(bytes.fromhex("5500000000000000")).value == 0x55


def test_bytes_of_a_collect() -> None:
    request = CollectEventPipeTracing(
        client_pid=1, buffer_mb=256, output_path=None, providers=(Provider(name="A", keywords=1, level=4),)
    )
    assert request.pack().hex() == "02040000" + "01000000" + "00010000" + "00000000" + "01000000" + (
        "0100000000000000" + "04000000" + "02000000" + "41000000" + "00000000"
    )


@given(requests, st.binary(max_size=4))
def test_what_is_packed_is_parsed(request_: LegacyRequest, more: bytes) -> None:
    packed = request_.pack() + more
    parsed = parse_legacy_request(packed)
    assert parsed.trailing == more
    assert parsed.pack() == packed
    assert is_legacy(packed)


@given(st.sampled_from(list(REQUESTS)), st.binary(max_size=200))
def test_any_bytes_are_a_request_or_an_error_of_ours(kind: int, body: bytes) -> None:
    for data in (body, int(kind).to_bytes(4, "little") + body):
        try:
            parse_legacy_request(data)
        except ProtocolError:
            pass


def test_v1_is_not_taken_for_it() -> None:
    assert not is_legacy(MAGIC)
    assert not is_legacy(b"\x01\x00")
    with pytest.raises(ProtocolError, match="not known"):
        parse_legacy_request(MAGIC)


@pytest.mark.parametrize(
    "wrong",
    [
        LegacyGenerateCoreDump(client_pid=1, path=None, dump_type=1),
        LegacyGenerateCoreDump(client_pid=1, path="x", dump_type=9),
        LegacyGenerateCoreDump(client_pid=1 << 32, path="x", dump_type=1),
        StartEventPipeTracing(client_pid=1, buffer_mb=0, output_path="x", providers=(Provider(name="A"),)),
        StartEventPipeTracing(client_pid=1, buffer_mb=1, output_path="x", providers=()),
        StartEventPipeTracing(
            client_pid=1,
            buffer_mb=1,
            output_path="x",
            providers=(Provider(name="A", event_filter=EventFilter(enable=True, ids=(1,))),),
        ),
        StopEventPipeTracing(client_pid=1, session_id=-1),
        LegacyAttachProfiler(client_pid=1, timeout_ms=1, clsid=UUID(int=1), path=""),
        LegacyAttachProfiler(client_pid=1, timeout_ms=1, clsid=UUID(int=1), path="x", client_data=b"x" * 70_000),
    ],
    ids=lambda wrong: type(wrong).__name__,
)
def test_what_makes_no_sense_is_not_packed(wrong: LegacyRequest) -> None:
    with pytest.raises(RequestRefused):
        wrong.pack()
