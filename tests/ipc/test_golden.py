"""Every message has the bytes that the document says, comes back from them, and is refused when they are cut or lie."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.ipc.golden import COOKIE, INFO, NOBODY, PROBE, REPLIES, REQUESTS, bytes_of

from dotnetdiag.errors import ProtocolError, UsageError
from dotnetdiag.ipc import environment, process, process_info
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.commands import Command, command_name
from dotnetdiag.ipc.environment import EnvironmentBlock
from dotnetdiag.ipc.frames import HEADER_SIZE, Frame
from dotnetdiag.ipc.messages import ErrorReply, OkReply, Request
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.requests import ALL_REQUESTS, STREAMING, USER_EVENTS, UnknownRequest, parse_request


def name_of(value: object) -> str:
    return "" if isinstance(value, str) else type(value).__name__


def reframed(whole: bytes, payload: bytes) -> bytes:
    """The message with another payload, and a size that is right."""
    return Frame(command_set=whole[16], command_id=whole[17], payload=payload).pack()


# known bytes --------------------------------------------------------------------------------------------------------------


def test_every_kind_of_message_is_among_the_known_ones() -> None:
    assert {type(request) for request, _ in REQUESTS} == set(ALL_REQUESTS)
    replies = {kind.REPLY for kind in ALL_REQUESTS}
    assert {type(reply) for reply, _ in REPLIES} == {*replies, OkReply, ErrorReply}


@pytest.mark.parametrize(("request_", "tail"), REQUESTS, ids=name_of)
def test_a_request_has_the_bytes_of_the_document_and_comes_back(request_: Request[Any], tail: str) -> None:
    whole = bytes_of(tail)
    assert request_.pack() == whole
    assert type(request_).parse(whole) == request_
    parsed = parse_request(Frame.parse(whole))
    assert type(parsed) is type(request_)
    assert parsed == request_
    assert request_.invalid() == ""


@pytest.mark.parametrize(("reply", "tail"), REPLIES, ids=name_of)
def test_a_reply_has_the_bytes_of_the_document_and_comes_back(reply: OkReply | ErrorReply, tail: str) -> None:
    whole = bytes_of(tail)
    assert reply.pack() == whole
    assert type(reply).parse(whole) == reply


def test_the_probe_has_the_bytes_of_a_hook_without_a_path() -> None:
    assert process.StartupHookProbe().pack() == PROBE
    parsed = parse_request(Frame.parse(PROBE))
    assert parsed == process.ApplyStartupHook(path=None)
    assert process.StartupHookProbe.parse(PROBE) == process.StartupHookProbe()
    with pytest.raises(ProtocolError, match="startupHookPath is 1, not 0") as caught:
        process.StartupHookProbe.parse(reframed(PROBE, b"\1\0\0\0"))
    assert (caught.value.where, caught.value.offset) == ("ApplyStartupHook", 24)


def test_the_table_of_commands_is_whole() -> None:
    assert set(STREAMING) == set(Command)
    assert all(command.since.startswith(".NET") for command in Command)
    assert set(USER_EVENTS) == {Command.CollectTracing5, Command.CollectTracing6}
    assert all(kind.COMMAND is command for command, kind in (*STREAMING.items(), *USER_EVENTS.items()))
    assert command_name(0x0203) == "CollectTracing2"
    assert command_name(0x0299) == "0x0299"
    assert command_name(0x09) == "0x0009"


BLOCK = "02000000 04000000 41003d0031000000 0a000000 50004100540048003d002f00620069006e000000"


def test_an_environment_has_the_bytes_of_the_document() -> None:
    block = EnvironmentBlock(entries=("A=1", "PATH=/bin"))
    assert block.pack().hex() == BLOCK.replace(" ", "")
    assert EnvironmentBlock.parse(bytes.fromhex(BLOCK)) == block
    assert EnvironmentBlock.parse(bytes.fromhex(BLOCK) + b"!").trailing == b"!"
    assert block.variables() == {"A": "1", "PATH": "/bin"}
    assert EnvironmentBlock().pack() == bytes(4)
    odd = EnvironmentBlock(entries=(None, ""), trailing=b"?")
    assert odd.pack().hex() == "02000000" + "00000000" + "010000000000" + "3f"
    assert EnvironmentBlock.parse(odd.pack()) == odd


def test_variables_are_split_at_the_first_equals_sign_behind_the_first_character() -> None:
    entries = ("=C:=C:\\dir", "A=b=c", "EMPTY=", "NAKED", "=", "==", "X", None, "")
    assert EnvironmentBlock(entries=entries).variables() == {
        "=C:": "C:\\dir",
        "A": "b=c",
        "EMPTY": "",
        "NAKED": "",
        "=": "",
        "X": "",
    }


def test_an_advertise_has_the_bytes_of_the_document() -> None:
    said = Advertise(cookie=COOKIE, pid=12345)
    data = bytes.fromhex("414456525f563100 67453e129be8d312a456426614174000 3930000000000000 0000")
    assert said.pack() == data
    assert Advertise.parse(data) == said
    more = Advertise(cookie=COOKIE, pid=(1 << 64) - 1, future=0x1234, trailing=b"DOT")
    assert more.pack() == data[:24] + b"\xff" * 8 + b"\x34\x12DOT"
    assert Advertise.parse(more.pack()) == more
    for cut in range(len(data)):
        with pytest.raises(ProtocolError, match="advertise"):
            Advertise.parse(data[:cut])
    with pytest.raises(ProtocolError, match=r"advertise at 0x0: magic is b'ADVR_V2\\x00', not ADVR_V1"):
        Advertise.parse(data.replace(b"V1", b"V2"))
    with pytest.raises(ProtocolError, match="not ADVR_V1"):
        Advertise.parse(data.replace(b"V1", b"V0"))


# cut and lying ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("message", "tail"), [*REQUESTS, *REPLIES], ids=name_of)
def test_a_message_that_is_cut_is_a_protocol_error_wherever_it_is_cut(message: Any, tail: str) -> None:
    whole = bytes_of(tail)
    for cut in range(len(whole)):
        with pytest.raises(ProtocolError):
            type(message).parse(whole[:cut])
    with pytest.raises(ProtocolError, match=f"header says {len(whole)} bytes, there are {len(whole) + 1}"):
        type(message).parse(whole + b"\0")


@pytest.mark.parametrize(
    ("message", "tail"), [pair for pair in (*REQUESTS, *REPLIES) if not pair[0].trailing], ids=name_of
)
def test_a_payload_that_is_cut_is_a_protocol_error_wherever_it_is_cut(message: Any, tail: str) -> None:
    """But where less means something: a bare OK, an error without its text."""
    whole = bytes_of(tail)
    payload = whole[HEADER_SIZE:]
    for cut in range(len(payload)):
        data = reframed(whole, payload[:cut])
        if isinstance(message, ResultReply) and cut == 0:
            assert ResultReply.parse(data) == ResultReply(hresult=0)
        elif isinstance(message, ErrorReply) and cut >= 4:
            assert ErrorReply.parse(data) == ErrorReply(hresult=message.hresult, trailing=payload[4:cut])
        else:
            with pytest.raises(ProtocolError) as caught:
                type(message).parse(data)
            assert caught.value.offset is not None
            assert HEADER_SIZE <= caught.value.offset <= HEADER_SIZE + cut
            assert caught.value.where


@pytest.mark.parametrize(
    ("message", "tail"), [pair for pair in (*REQUESTS, *REPLIES) if not pair[0].trailing], ids=name_of
)
def test_bytes_behind_the_last_field_are_kept(message: Any, tail: str) -> None:
    whole = bytes_of(tail)
    parsed = type(message).parse(reframed(whole, whole[HEADER_SIZE:] + b"\xde\xad"))
    assert parsed == replace(message, trailing=b"\xde\xad")


@pytest.mark.parametrize(("message", "tail"), [*REQUESTS, *REPLIES], ids=name_of)
@pytest.mark.parametrize("lie", [b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff\xff\xff\x1f"])
def test_a_lie_at_any_offset_costs_no_memory(message: Any, tail: str, lie: bytes) -> None:
    whole = bytes_of(tail)
    tracemalloc.start()
    try:
        for at in range(HEADER_SIZE, len(whole)):
            data = (whole[:at] + lie + whole[at + 4 :])[: len(whole)]
            try:
                type(message).parse(data)
            except ProtocolError:
                pass
        assert tracemalloc.get_traced_memory()[1] < 300_000
    finally:
        tracemalloc.stop()


# the index of a known request or reply, where a count stands in it, what is said of it
ABSURD: list[tuple[tuple[Any, str], int, str]] = [
    (REQUESTS[0], 20, "dumpName needs 8589934590 bytes, 22 left"),
    (REQUESTS[5], 28, "provider count 4294967295 needs at least 85899345900 bytes, 48 left"),
    (REQUESTS[5], 44, "provider name needs 8589934590 bytes, 32 left"),
    (REQUESTS[15], 94, "event id count 4294967295 needs at least 17179869180 bytes, 8 left"),
    (REQUESTS[18], 93, "tracepoint set count 4294967295 needs at least 34359738360 bytes, 36 left"),
    (REPLIES[11], 20, "nIncomingBytes 4294967295 is above the limit of 16777216"),
]


@pytest.mark.parametrize(("known", "at", "problem"), ABSURD, ids=lambda value: value if isinstance(value, str) else "")
def test_an_absurd_count_is_refused_for_what_it_is(known: tuple[Any, str], at: int, problem: str) -> None:
    message, tail = known
    whole = bytes_of(tail)
    with pytest.raises(ProtocolError) as caught:
        type(message).parse(whole[:at] + b"\xff\xff\xff\xff" + whole[at + 4 :])
    assert (caught.value.problem, caught.value.offset) == (problem, at + 4)


def test_a_count_is_checked_against_the_smallest_that_so_many_could_be() -> None:
    whole = bytes_of(REQUESTS[5][1])
    with pytest.raises(ProtocolError, match="provider count 3 needs at least 60 bytes, 48 left"):
        parse_request(Frame.parse(whole[:28] + b"\3\0\0\0" + whole[32:]))
    with pytest.raises(ProtocolError, match="keywords needs 8 bytes, 0 left"):
        parse_request(Frame.parse(whole[:28] + b"\2\0\0\0" + whole[32:]))


def test_an_error_with_an_absurd_text_is_an_error_without_text() -> None:
    whole = bytes_of(REPLIES[14][1])
    parsed = ErrorReply.parse(whole[:24] + b"\xff\xff\xff\xff" + whole[28:])
    assert (parsed.hresult, parsed.text) == (0x80004005, None)
    assert parsed.trailing == b"\xff\xff\xff\xff" + whole[28:]


def test_an_absurd_number_of_variables_is_refused() -> None:
    with pytest.raises(ProtocolError, match="entry count 4294967295 needs at least 17179869180 bytes, 3 left"):
        EnvironmentBlock.parse(b"\xff\xff\xff\xff123")


def test_an_environment_may_have_16_mebibytes_and_no_more() -> None:
    limit = 16 << 20
    whole = environment.EnvironmentReply(size_bytes=limit).pack()
    assert environment.EnvironmentReply.parse(whole).size_bytes == limit
    with pytest.raises(ProtocolError, match="above the limit"):
        environment.EnvironmentReply.parse(environment.EnvironmentReply(size_bytes=limit + 1).pack())


def test_a_text_that_does_not_end_with_nul_is_refused() -> None:
    for unit in (b"b\0", b"\0b"):
        payload = b"\2\0\0\0A\0" + unit + b"\0\0\0\0"
        frame = Frame(command_set=4, command_id=3, payload=payload)
        with pytest.raises(ProtocolError, match="name does not end with NUL") as caught:
            parse_request(frame)
        assert (caught.value.where, caught.value.offset) == ("SetEnvironmentVariable", 28)


def test_lone_surrogates_and_nuls_inside_of_a_text_are_kept() -> None:
    reply = process_info.ProcessInfoReply(**{**INFO, "command_line": "a\ud800\0b"})
    assert reply.pack().hex()[88:].startswith("05000000" + "6100" + "00d8" + "0000" + "6200" + "0000")
    assert process_info.ProcessInfoReply.parse(reply.pack()) == reply


def test_any_byte_but_0_is_true() -> None:
    whole = bytearray(bytes_of(REQUESTS[6][1]))
    for value in (1, 2, 0xFF):
        whole[28] = value
        assert parse_request(Frame.parse(bytes(whole))) == REQUESTS[6][0]


# what a message is taken for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"), [(0xFFFF, OkReply), (0xFE00, OkReply), (0xFF01, OkReply), (0x0400, SessionReply)]
)
def test_another_code_is_no_ok_reply(code: int, kind: type[OkReply]) -> None:
    frame = Frame(command_set=code >> 8, command_id=code & 0xFF, payload=bytes(8))
    with pytest.raises(ProtocolError) as caught:
        kind.from_frame(frame)
    assert str(caught.value) == f"{kind.__name__} at 0x10: 0x{code:04X} is not an OK reply"


@pytest.mark.parametrize("code", [0xFF00, 0xFEFF, 0xFFFE, 0x04FF])
def test_another_code_is_no_error_reply(code: int) -> None:
    frame = Frame(command_set=code >> 8, command_id=code & 0xFF, payload=bytes(8))
    with pytest.raises(ProtocolError) as caught:
        ErrorReply.from_frame(frame)
    assert str(caught.value) == f"ErrorReply at 0x10: 0x{code:04X} is not an error reply"


def test_a_request_of_another_command_is_refused() -> None:
    for other, code in ((process_info.ProcessInfo(), "0x0400"), (process_info.ProcessInfo2(), "0x0404")):
        with pytest.raises(ProtocolError) as caught:
            process.ResumeRuntime.parse(other.pack())
        assert str(caught.value) == f"ResumeRuntime: command is {code}, not 0x0401"


def test_a_command_without_a_name_is_kept_as_it_came() -> None:
    frame = Frame(command_set=4, command_id=9, payload=b"abc", reserved=7)
    parsed = parse_request(frame)
    assert parsed == UnknownRequest(frame=frame)
    assert parsed.pack() == frame.pack()


def test_the_session_type_decides_what_a_collect_5_or_6_is() -> None:
    for command_id in (6, 7):
        for there in range(4):
            with pytest.raises(ProtocolError) as caught:
                parse_request(Frame(command_set=2, command_id=command_id, payload=bytes(there)))
            assert str(caught.value) == f"CollectTracing{command_id - 1} at 0x14: session type is missing"
        with pytest.raises(ProtocolError, match="session type is 2, not 0"):
            parse_request(Frame(command_set=2, command_id=command_id, payload=b"\2\0\0\0" + bytes(99)))
        with pytest.raises(ProtocolError, match="session type is 16777217, not 0"):
            parse_request(Frame(command_set=2, command_id=command_id, payload=b"\1\0\0\1" + bytes(99)))
        # the type alone, and then nothing
        with pytest.raises(ProtocolError, match="rundownKeyword needs 8 bytes, 0 left"):
            parse_request(Frame(command_set=2, command_id=command_id, payload=b"\1\0\0\0"))
        with pytest.raises(ProtocolError, match="session type is 0, not 1"):
            USER_EVENTS[Command(0x0200 | command_id)].from_frame(
                Frame(command_set=2, command_id=command_id, payload=bytes(99))
            )


# values that do not fit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        Advertise(cookie=COOKIE, pid=1 << 64),
        Advertise(cookie=COOKIE, pid=-1),
        Advertise(cookie=COOKIE, pid=1, future=1 << 16),
        Advertise(cookie="no cookie", pid=1),  # type: ignore[arg-type]
        ResultReply(hresult=-1),
        ResultReply(hresult=1 << 32),
        SessionReply(session_id=1 << 64),
        SessionReply(session_id=-1),
        SessionReply(session_id=1.0),  # type: ignore[arg-type]
        environment.EnvironmentReply(size_bytes=1 << 32),
        environment.EnvironmentReply(size_bytes=1, future=1 << 16),
        EnvironmentBlock(entries=(1,)),  # type: ignore[arg-type]
        process_info.ProcessInfoReply(pid=-1, cookie=COOKIE, **NOBODY),
        process_info.ProcessInfoReply(pid=1, cookie=None, **NOBODY),  # type: ignore[arg-type]
        process_info.ProcessInfoReply(pid=1, cookie=COOKIE, **{**NOBODY, "os": b"Linux"}),
        process_info.ProcessInfo3Reply(
            pid=1, cookie=COOKIE, entry_assembly="", runtime_version="", version=1 << 32, **NOBODY
        ),
    ],
    ids=name_of,
)
def test_a_value_that_does_not_fit_its_field_is_a_usage_error(message: Any) -> None:
    with pytest.raises(UsageError) as caught:
        message.pack()
    assert str(caught.value).startswith(type(message).__name__ + ": ")


def test_an_error_code_may_be_signed() -> None:
    assert ErrorReply(hresult=-1).pack()[20:] == b"\xff\xff\xff\xff"
    assert ErrorReply(hresult=0x80004005 - (1 << 32)).pack() == ErrorReply(hresult=0x80004005).pack()


def test_guids_stand_in_the_order_of_dotnet() -> None:
    cookie = UUID(bytes=bytes(range(16)))
    assert Advertise(cookie=cookie, pid=0).pack()[8:24].hex() == "03020100" + "0504" + "0706" + "08090a0b0c0d0e0f"


def test_an_environment_of_more_variables_than_anybody_has_is_refused() -> None:
    def of(count: int) -> bytes:
        return count.to_bytes(4, "little") + bytes(4 * count)

    assert EnvironmentBlock.parse(of(65_536)).entries == (None,) * 65_536
    assert EnvironmentBlock.parse(of(65_535)).entries == (None,) * 65_535
    with pytest.raises(ProtocolError, match="65537 variables are more than the limit of 65536"):
        EnvironmentBlock.parse(of(65_537))
