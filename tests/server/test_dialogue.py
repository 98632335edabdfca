"""The rules of one connection (ipc-protocol.md §7), at every cut."""

from __future__ import annotations

import random
import struct
from uuid import UUID

import pytest
from tests.server.sources import REQUEST, Streamer

from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.environment import SetEnvironmentVariable
from dotnetdiag.ipc.frames import MAGIC, Frame
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.process import ResumeRuntime
from dotnetdiag.ipc.process_info import ProcessInfo, ProcessInfo3
from dotnetdiag.ipc.profiler import AttachProfiler
from dotnetdiag.server.ages import Age
from dotnetdiag.server.commands import Caller, Commands
from dotnetdiag.server.dialogue import Call, Dialogue
from dotnetdiag.server.dispatch import Answer, Dispatcher


def dialogue(age: Age = Age.NET_11, commands: Commands | None = None) -> Dialogue:
    return Dialogue(Dispatcher(commands or Commands(), age=age), Caller())


def answer_to(data: bytes, *, age: Age = Age.NET_11, ends: bool = False, commands: Commands | None = None) -> Answer:
    """What is said to these bytes, with an end behind them or not."""
    talk = dialogue(age, commands)
    given = talk.feed(data)
    if given is None and ends:
        given = talk.end()
    assert given is not None, "it waits for more"
    return given.perform() if isinstance(given, Call) else given


def code_of(answer: Answer) -> int:
    return ErrorReply.parse(answer.data).hresult


def message(
    code: int, payload: bytes = b"", *, size: int | None = None, magic: bytes = MAGIC, reserved: int = 0
) -> bytes:
    whole = 20 + len(payload) if size is None else size
    return magic + struct.pack("<HBBH", whole, code >> 8, code & 0xFF, reserved) + payload


SET_A = SetEnvironmentVariable(name="A", value="b").pack()
ATTACH = AttachProfiler(timeout_ms=1, clsid=UUID(int=7), path="/p.so", client_data=b"xyz").pack()


@pytest.mark.parametrize("data", [SET_A, ATTACH, REQUEST.pack(), ProcessInfo3().pack()])
def test_a_message_is_heard_whatever_its_cut(data: bytes) -> None:
    expected = answer_to(data).data
    for cut in range(1, len(data)):
        talk = dialogue()
        assert talk.feed(data[:cut]) is None
        call = talk.feed(data[cut:])
        assert isinstance(call, Call)
        assert call.perform().data == expected
    talk = dialogue()
    assert [talk.feed(data[at : at + 1]) for at in range(len(data) - 1)] == [None] * (len(data) - 1)
    assert isinstance(talk.feed(data[-1:]), Call)


def test_no_byte_behind_the_message_is_wanted() -> None:
    talk, taken = dialogue(), b""
    data = SET_A + b"behind it"
    while wanted := talk.wanted:
        piece = data[len(taken) : len(taken) + wanted]
        taken += piece
        talk.feed(piece)
    assert taken == SET_A
    assert talk.is_over


def test_bytes_behind_the_message_are_not_looked_at() -> None:
    talk = dialogue()
    assert isinstance(talk.feed(SET_A + ATTACH), Call)
    assert talk.feed(ATTACH) is None
    assert talk.end() is None


@pytest.mark.parametrize("size", range(20))
def test_a_size_below_the_header_is_bad_encoding_before_the_magic_is_looked_at(size: int) -> None:
    for magic in (MAGIC, b"X" * 14):
        assert code_of(answer_to(message(0x0400, size=size, magic=magic))) == HResult.BAD_ENCODING


def test_another_magic_is_told_when_the_whole_message_is_there() -> None:
    data = message(0x0400, b"12345", magic=b"DOTNET_IPC_V2\0")
    talk = dialogue()
    assert talk.feed(data[:-1]) is None
    answer = talk.feed(data[-1:])
    assert isinstance(answer, Answer)
    assert code_of(answer) == HResult.UNKNOWN_MAGIC


@pytest.mark.parametrize("length", range(len(SET_A)))
def test_an_end_in_the_middle_is_bad_encoding(length: int) -> None:
    assert code_of(answer_to(SET_A[:length], ends=True)) == HResult.BAD_ENCODING


def test_an_end_after_the_message_changes_nothing() -> None:
    talk = dialogue()
    assert isinstance(talk.feed(SET_A), Call)
    assert talk.end() is None


@pytest.mark.parametrize(
    "code", [0x0000, 0x0100, 0x0104, 0x0200, 0x0208, 0x0300, 0x0303, 0x0409, 0x0500, 0xFF00, 0xFFFF]
)
def test_a_command_that_nobody_knows_is_unknown_whatever_follows(code: int) -> None:
    assert code_of(answer_to(message(code))) == HResult.UNKNOWN_COMMAND
    assert code_of(answer_to(message(code, b"\xff" * 9))) == HResult.UNKNOWN_COMMAND


@pytest.mark.parametrize("command", Command)
def test_a_command_that_is_younger_than_the_age_is_unknown(command: Command) -> None:
    for age in Age:
        reply = Frame.parse(answer_to(message(command), age=age).data)
        is_known = reply != Frame.parse(ErrorReply(hresult=HResult.UNKNOWN_COMMAND).pack())
        assert is_known is (command in age.commands)


NEEDS_PAYLOAD = [
    command
    for command in Command
    if command not in (Command.ProcessInfo, Command.ProcessInfo2, Command.ProcessInfo3, Command.ResumeRuntime)
    and command not in (Command.ProcessEnvironment, Command.DisablePerfMap)
]


@pytest.mark.parametrize("command", NEEDS_PAYLOAD, ids=lambda command: command.name)
def test_a_payload_that_is_missing_is_bad_encoding(command: Command) -> None:
    for payload in (b"", b"\1", b"\1\0\0", b"\xff\xff\xff\x7f", b"\xff" * 4):
        if command is Command.EnablePerfMap and len(payload) == 4:
            continue  # that is a number
        assert code_of(answer_to(message(command, payload))) == HResult.BAD_ENCODING


@pytest.mark.parametrize("data", [SET_A, ATTACH, REQUEST.pack()])
def test_a_payload_that_is_cut_is_bad_encoding(data: bytes) -> None:
    code, payload = int.from_bytes(data[16:18], "big"), data[20:]
    for length in range(len(payload)):
        assert code_of(answer_to(message(code, payload[:length]))) == HResult.BAD_ENCODING


@pytest.mark.parametrize(
    "payload",
    [
        struct.pack("<III", 1, 1, 0),  # no provider
        struct.pack("<III", 1, 1, 0xFFFFFFFF),
        struct.pack("<IIIQIII", 1, 1, 1, 0, 6, 2, 0),  # level 6
        struct.pack("<III", 0, 1, 1) + struct.pack("<QIIHHI", 0, 5, 2, 65, 0, 0),  # 0 MB
        struct.pack("<III", 1, 2, 1) + struct.pack("<QIIHHI", 0, 5, 2, 65, 0, 0),  # format 2
        struct.pack("<III", 1, 1, 1) + struct.pack("<QIIHHI", 0, 5, 2, 65, 66, 0),  # no NUL
        struct.pack("<III", 1, 1, 1) + struct.pack("<QIII", 0, 5, 0, 0),  # no name
        struct.pack("<III", 1, 1, 1001) + struct.pack("<QIIHHI", 0, 5, 2, 65, 0, 0) * 1001,
    ],
)
def test_what_kills_runtimes_is_bad_encoding(payload: bytes) -> None:
    assert code_of(answer_to(message(Command.CollectTracing, payload), commands=Streamer())) == HResult.BAD_ENCODING


def test_a_thousand_providers_are_a_session() -> None:
    one = struct.pack("<QIIHHI", 0, 5, 2, 65, 0, 0)
    commands = Streamer()
    answer = answer_to(message(Command.CollectTracing, struct.pack("<III", 1, 1, 1000) + one * 1000), commands=commands)
    assert answer.session is not None
    assert len(commands.asked[0].providers) == 1000


def test_reserved_bytes_are_ignored() -> None:
    assert answer_to(message(Command.ResumeRuntime, reserved=0xFFFF)).data == answer_to(ResumeRuntime().pack()).data


def test_a_payload_where_none_is_needed_is_ignored() -> None:
    expected = answer_to(ResumeRuntime().pack()).data
    assert answer_to(message(Command.ResumeRuntime, b"\xff" * 100)).data == expected
    assert code_of(answer_to(message(Command.ProcessInfo, b"\xff" * 100))) == code_of(answer_to(ProcessInfo().pack()))


def test_bytes_behind_a_valid_payload_are_ignored_but_for_a_profiler() -> None:
    assert code_of(answer_to(message(Command.SetEnvironmentVariable, SET_A[20:] + b"more"))) == HResult.NOT_SUPPORTED
    assert code_of(answer_to(message(Command.AttachProfiler, ATTACH[20:]))) == HResult.NOT_SUPPORTED
    assert code_of(answer_to(message(Command.AttachProfiler, ATTACH[20:] + b"m"))) == HResult.BAD_ENCODING


def test_every_error_of_24_bytes_is_whole() -> None:
    assert answer_to(message(0x0299)).data.hex() == "444f544e45545f4950435f5631001800ffff000085131380"


def test_the_largest_message_is_taken() -> None:
    data = message(Command.ResumeRuntime, b"x" * (65535 - 20))
    assert len(data) == 65535
    assert answer_to(data).data == answer_to(ResumeRuntime().pack()).data


def test_random_bytes_are_answered_and_never_raise() -> None:
    source, commands = random.Random(14), Streamer()
    seeds = [SET_A, ATTACH, REQUEST.pack(), ProcessInfo3().pack()]
    for _ in range(3000):
        data = bytearray(source.choice(seeds))
        for _ in range(source.randrange(1, 5)):
            data[source.randrange(len(data))] = source.randrange(256)
        answer = answer_to(bytes(data), ends=True, commands=commands)
        Frame.parse(answer.data)
        if answer.session is not None:
            commands.sources[-1].finish()
