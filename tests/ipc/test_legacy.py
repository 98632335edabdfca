"""The protocol from before V1."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.errors import ProtocolError, RequestRefused, UsageError
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


CLSID = UUID("5f1a6c2e-3b7d-4a8e-9c10-d0e5a1b2c3d4")
KNOWN: list[tuple[LegacyRequest, str]] = [
    (
        LegacyGenerateCoreDump(client_pid=0x1234, path="/d", dump_type=4, diagnostics=1),
        "01000000 34120000 03000000 2f0064000000 04000000 01000000",
    ),
    (
        StartEventPipeTracing(
            client_pid=1, buffer_mb=256, output_path="o", providers=(Provider(name="A", keywords=1, level=4),)
        ),
        "00040000 01000000 00010000 02000000 6f000000 01000000 0100000000000000 04000000 02000000 41000000 00000000",
    ),
    (StopEventPipeTracing(client_pid=1, session_id=0x1122334455667788), "01040000 01000000 8877665544332211"),
    (
        CollectEventPipeTracing(
            client_pid=1, buffer_mb=1, output_path=None, providers=(Provider(name="A", keywords=1, level=4),)
        ),
        "02040000 01000000 01000000 00000000 01000000 0100000000000000 04000000 02000000 41000000 00000000",
    ),
    (
        LegacyAttachProfiler(client_pid=1, timeout_ms=10, clsid=CLSID, path="/p", client_data=b"\1\2"),
        "00080000 01000000 0a000000 2e6c1a5f 7d3b 8e4a 9c10 d0e5a1b2c3d4 03000000 2f0070000000 02000000 0102",
    ),
]


@pytest.mark.parametrize(
    ("request_", "known"), KNOWN, ids=lambda value: "" if isinstance(value, str) else type(value).__name__
)
def test_a_request_has_these_bytes_and_is_refused_when_it_is_cut(request_: LegacyRequest, known: str) -> None:
    whole = bytes.fromhex(known)
    assert request_.pack() == whole
    assert parse_legacy_request(whole) == request_
    assert type(request_).parse(whole) == request_
    for cut in range(len(whole)):
        with pytest.raises(ProtocolError):
            parse_legacy_request(whole[:cut])
        with pytest.raises(ProtocolError):
            type(request_).parse(whole[:cut])


def test_every_type_but_those_without_a_body_is_known() -> None:
    assert {type(request_) for request_, _ in KNOWN} == set(REQUESTS.values())
    assert [int(kind) for kind in REQUESTS] == [1, 1024, 1025, 1026, 2048]
    assert all(request.TYPE is kind for kind, request in REQUESTS.items())
    for number in (0, 2, 1023, 1027, 1028, 2047, 2049):
        assert not is_legacy(number.to_bytes(4, "little"))
        with pytest.raises(ProtocolError, match=f"request type {number} is not known") as caught:
            parse_legacy_request(number.to_bytes(4, "little") + bytes(40))
        assert (caught.value.where, caught.value.offset) == ("legacy request", 4)
    assert is_legacy(b"\1\0\0\0")
    assert is_legacy(b"\0\4\0\0rest")
    assert not is_legacy(b"\1\0\0")
    assert not is_legacy(b"\1\0\0\1")
    with pytest.raises(ProtocolError, match="request type is 2048, not 1025"):
        StopEventPipeTracing.parse(bytes.fromhex("00080000 34120000 5500000000000000"))
    with pytest.raises(ProtocolError, match="request type is 1, not 1025"):
        StopEventPipeTracing.parse(bytes.fromhex("01000000 34120000 5500000000000000"))


def test_a_reply_is_a_number_of_eight_bytes() -> None:
    reply = LegacyReply(value=0x1122334480004005, trailing=b"NetPerf")
    assert reply.pack() == bytes.fromhex("0540008044332211") + b"NetPerf"
    assert LegacyReply.parse(reply.pack()) == reply
    assert reply.hresult == 0x80004005
    for cut in range(8):
        with pytest.raises(ProtocolError, match="legacy reply"):
            LegacyReply.parse(reply.pack()[:cut])
    for value in (-1, 1 << 64):
        with pytest.raises(UsageError, match=r"LegacyReply: value .* does not fit 64 unsigned bits"):
            LegacyReply(value=value).pack()


def test_a_request_has_65535_bytes_at_most() -> None:
    spare = 65535 - len(LegacyAttachProfiler(client_pid=1, timeout_ms=1, clsid=CLSID, path="/p").pack())
    whole = LegacyAttachProfiler(client_pid=1, timeout_ms=1, clsid=CLSID, path="/p", client_data=bytes(spare))
    assert len(whole.pack()) == 65535
    larger = LegacyAttachProfiler(client_pid=1, timeout_ms=1, clsid=CLSID, path="/p", client_data=bytes(spare + 1))
    with pytest.raises(RequestRefused) as caught:
        larger.pack()
    assert caught.value.reason == "65536 bytes are more than 65535"


A = Provider(name="A")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (LegacyGenerateCoreDump(client_pid=-1, path="x", dump_type=1), "client_pid -1 does not fit 32 unsigned bits"),
        (LegacyGenerateCoreDump(client_pid=1, path="", dump_type=1), "the path must not be empty"),
        (
            LegacyGenerateCoreDump(client_pid=1, path="x", dump_type=0),
            "dump type 0 is none of 1 Mini, 2 Heap, 3 Triage, 4 Full",
        ),
        (
            LegacyGenerateCoreDump(client_pid=1, path="x", dump_type=5),
            "dump type 5 is none of 1 Mini, 2 Heap, 3 Triage, 4 Full",
        ),
        (LegacyGenerateCoreDump(client_pid=1, path="x", dump_type=1, diagnostics=2), "diagnostics is 0 or 1"),
        (
            StartEventPipeTracing(client_pid=1, buffer_mb=0, output_path="x", providers=(A,)),
            "give a buffer of at least 1 MB",
        ),
        (
            StartEventPipeTracing(client_pid=1, buffer_mb=1, output_path="x", providers=(A,) * 1001),
            "a session has 1 to 1000 providers",
        ),
        (
            CollectEventPipeTracing(client_pid=1, buffer_mb=1, output_path="x", providers=()),
            "providers must be at least one",
        ),
        (
            CollectEventPipeTracing(client_pid=1, buffer_mb=1, output_path="x", providers=(Provider(name=None),)),
            "providers of None: the name must not be empty",
        ),
        (
            StartEventPipeTracing(client_pid=1, buffer_mb=1, output_path="x", providers=(A, Provider(name="B\0"))),
            "a provider's name holds a NUL",
        ),
        (
            LegacyAttachProfiler(client_pid=1, timeout_ms=1, clsid=CLSID, path=None),
            "the profiler's path must not be missing",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_request_that_makes_no_sense_says_why(wrong: LegacyRequest, reason: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        wrong.pack()
    assert (caught.value.command, caught.value.reason) == (wrong.TYPE.name, reason)


def test_the_largest_that_makes_sense_is_packed() -> None:
    StartEventPipeTracing(client_pid=1, buffer_mb=1, output_path="x", providers=(A,) * 1000).pack()
    assert LegacyGenerateCoreDump(client_pid=1, path="x", dump_type=1).diagnostics == 0
    for dump_type in (1, 2, 3, 4):
        for diagnostics in (0, 1):
            LegacyGenerateCoreDump(client_pid=1, path="x", dump_type=dump_type, diagnostics=diagnostics).pack()


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
