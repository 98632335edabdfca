"""The protocol from before V1, where it is wanted."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.server.sources import Streamer

from dotnetdiag.ipc.constants import TraceFormat
from dotnetdiag.ipc.dump import GenerateCoreDump3
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.legacy import (
    CollectEventPipeTracing,
    LegacyAttachProfiler,
    LegacyGenerateCoreDump,
    LegacyReply,
    LegacyRequest,
    StartEventPipeTracing,
    StopEventPipeTracing,
)
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.process import ResumeRuntime
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.server.commands import Caller, Commands, Reply
from dotnetdiag.server.dialogue import Call, Dialogue
from dotnetdiag.server.dispatch import Answer, Dispatcher

A, B = Provider(name="A", arguments="x=y"), Provider(name="B")
COLLECT = CollectEventPipeTracing(client_pid=7, buffer_mb=3, output_path=None, providers=(A, B))
DUMP = LegacyGenerateCoreDump(client_pid=7, path="/d", dump_type=1, diagnostics=1)
ATTACH = LegacyAttachProfiler(client_pid=7, timeout_ms=1, clsid=UUID(int=1), path="/p", client_data=b"abc")
STOP = StopEventPipeTracing(client_pid=7, session_id=1)
START = StartEventPipeTracing(client_pid=7, buffer_mb=3, output_path="/t", providers=(A,))


def heard(data: bytes, commands: Commands, cut: int | None = None, dispatcher: Dispatcher | None = None) -> Answer:
    talk = Dialogue(dispatcher or Dispatcher(commands), Caller(), legacy=True)
    given = None
    for piece in (data,) if cut is None else (data[:cut], data[cut:]):
        assert given is None
        given = talk.feed(piece)
    assert given is not None, "it waits for more"
    return given.perform() if isinstance(given, Call) else given


@pytest.mark.parametrize("request_", [COLLECT, DUMP, ATTACH, STOP, START], ids=lambda one: one.TYPE.name)
def test_a_request_is_heard_whatever_its_cut_and_not_a_byte_more_is_wanted(request_: LegacyRequest) -> None:
    data = request_.pack()
    for cut in range(1, len(data)):
        assert len(heard(data, Commands(), cut).data) == 8
    talk, taken = Dialogue(Dispatcher(Commands()), Caller(), legacy=True), 0
    while wanted := talk.wanted:
        talk.feed((data + b"behind")[taken : taken + wanted])
        taken += wanted
    assert taken == len(data)


def test_collecting_gives_a_session_of_netperf() -> None:
    commands = Streamer()
    answer = heard(COLLECT.pack(), commands)
    assert answer.session is not None
    assert LegacyReply.parse(answer.data).value == answer.session.id
    (asked,) = commands.asked
    assert (asked.format, asked.buffer_mb, asked.providers) == (TraceFormat.NETPERF, 3, (A, B))


def test_stopping_is_answered_after_the_session() -> None:
    dispatcher = Dispatcher(Streamer())
    session = heard(COLLECT.pack(), Commands(), dispatcher=dispatcher).session
    assert session is not None
    answer = heard(STOP.pack(), Commands(), dispatcher=dispatcher)
    assert answer.after is session
    assert LegacyReply.parse(answer.data).value == session.id


def test_a_session_that_is_refused_has_the_id_0() -> None:
    assert LegacyReply.parse(heard(COLLECT.pack(), Commands()).data).value == 0
    assert LegacyReply.parse(heard(START.pack(), Streamer()).data).value == 0


def test_a_dump_and_a_profiler_are_answered_a_code() -> None:
    class Dumper(Commands):
        def dump(self, request: GenerateCoreDump3, caller: Caller) -> Reply:
            return ResultReply()

    assert LegacyReply.parse(heard(DUMP.pack(), Dumper()).data).hresult == 0
    assert LegacyReply.parse(heard(DUMP.pack(), Commands()).data).hresult == HResult.NOT_SUPPORTED
    assert LegacyReply.parse(heard(ATTACH.pack(), Commands()).data).hresult == HResult.NOT_SUPPORTED


def test_arguments_that_make_no_sense_are_refused() -> None:
    data = bytearray(COLLECT.pack())
    data[8:12] = bytes(4)  # 0 MB
    assert LegacyReply.parse(heard(bytes(data), Streamer()).data).value == 0


@pytest.mark.parametrize("at", [12, 16, 32])
def test_an_absurd_length_is_hung_up_on_at_once(at: int) -> None:
    data = bytearray(COLLECT.pack())
    data[at : at + 4] = b"\xff" * 4
    answer = heard(bytes(data[: at + 40]), Streamer())
    assert answer == Answer()


def test_today_s_protocol_is_spoken_beside_it() -> None:
    for cut in (1, 3, 4, 19, 20):
        answer = heard(ResumeRuntime().pack(), Commands(), cut if cut < 20 else None)
        assert answer.data == ResultReply().pack()


def test_without_the_option_it_is_no_message() -> None:
    talk = Dialogue(Dispatcher(Streamer()), Caller())
    given = talk.feed(COLLECT.pack()) or talk.end()
    assert isinstance(given, Answer)
    assert ErrorReply.parse(given.data).hresult == HResult.BAD_ENCODING


def test_an_end_in_the_middle_is_answered_with_nothing() -> None:
    talk = Dialogue(Dispatcher(Streamer()), Caller(), legacy=True)
    assert talk.feed(COLLECT.pack()[:-1]) is None
    assert talk.end() == Answer()
