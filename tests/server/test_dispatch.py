"""Requests to answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from tests.server.sources import REQUEST, FakeSource, Streamer

from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD, BufferingMode
from dotnetdiag.ipc.dump import GenerateCoreDump, GenerateCoreDump2, GenerateCoreDump3
from dotnetdiag.ipc.environment import EnvironmentBlock, EnvironmentReply, ProcessEnvironment, SetEnvironmentVariable
from dotnetdiag.ipc.eventpipe import Provider, Tracepoints
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply, Request
from dotnetdiag.ipc.process import ApplyStartupHook, EnablePerfMap, ResumeRuntime, StartupHookProbe
from dotnetdiag.ipc.process_info import (
    ProcessInfo,
    ProcessInfo2,
    ProcessInfo2Reply,
    ProcessInfo3,
    ProcessInfo3Reply,
    ProcessInfoReply,
)
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.tracing import (
    CollectTracing,
    CollectTracing2,
    CollectTracing3,
    CollectTracing4,
    CollectTracing5UserEvents,
    CollectTracing6,
    StopTracing,
)
from dotnetdiag.server.commands import METHODS, Caller, Commands, Handler, Refused, Reply, Streaming
from dotnetdiag.server.dispatch import Answer, Dispatcher, require_valid
from dotnetdiag.server.suspension import Suspension

FACTS = ProcessInfo3Reply(
    pid=5, cookie=UUID(int=9), command_line="a b", os="Linux", arch="x64", entry_assembly=None, runtime_version="3"
)
A = (Provider(name="A"),)


def ask(
    request: Request[Any],
    handler: Handler | None = None,
    *,
    dispatcher: Dispatcher | None = None,
    port: str = "",
) -> Answer:
    overrides = {} if handler is None else {request.COMMAND: handler}
    return (dispatcher or Dispatcher(Commands(overrides))).answer(request, Caller(port=port))


def error_of(answer: Answer) -> ErrorReply:
    return ErrorReply.parse(answer.data)


def test_every_command_has_a_method() -> None:
    assert set(METHODS) == set(Command)
    assert METHODS[Command.CollectTracing2] == "collect_tracing2"
    assert METHODS[Command.SetEnvironmentVariable] == "set_environment_variable"
    assert all(callable(getattr(Commands, name)) for name in METHODS.values())


def test_facts_of_a_process_are_cut_to_the_version_that_was_asked_for() -> None:
    def facts(request: object, caller: Caller) -> Reply:
        return FACTS

    assert ProcessInfoReply.parse(ask(ProcessInfo(), facts).data).command_line == "a b"
    second = ProcessInfo2Reply.parse(ask(ProcessInfo2(), facts).data)
    assert (second.runtime_version, second.trailing) == ("3", b"")
    third = ProcessInfo3Reply.parse(ask(ProcessInfo3(), facts).data)
    assert (third.version, third.cookie) == (1, UUID(int=9))


def test_empty_texts_are_sent_instead_of_null_ones() -> None:
    """The reference client dies of null (ipc-protocol.md §3)."""
    third = ProcessInfo3Reply.parse(ask(ProcessInfo3(), lambda request, caller: FACTS).data)
    assert (third.entry_assembly, third.runtime_identifier) == ("", "")


def test_one_version_of_a_command_can_be_overridden_alone() -> None:
    class Old(Commands):
        def process_info(self, request: object, caller: Caller) -> Reply:
            return FACTS

    old = Old({Command.ProcessInfo3: lambda request, caller: ErrorReply(hresult=HResult.UNKNOWN_COMMAND)})
    dispatcher = Dispatcher(old)
    assert error_of(ask(ProcessInfo3(), dispatcher=dispatcher)).hresult == HResult.UNKNOWN_COMMAND
    assert ProcessInfo2Reply.parse(ask(ProcessInfo2(), dispatcher=dispatcher).data).pid == 5


@pytest.mark.parametrize(
    ("request_", "keyword", "stackwalk", "mode"),
    [
        (CollectTracing(providers=A), DEFAULT_RUNDOWN_KEYWORD, True, 0),
        (CollectTracing2(providers=A, rundown=True), DEFAULT_RUNDOWN_KEYWORD, True, 0),
        (CollectTracing2(providers=A, rundown=False), 0, True, 0),
        (CollectTracing3(providers=A, rundown=False, stackwalk=False), 0, False, 0),
        (CollectTracing4(providers=A, rundown_keyword=7, stackwalk=False), 7, False, 0),
        (CollectTracing6(providers=A, rundown_keyword=0, buffering_mode=BufferingMode.BLOCK), 0, True, 1),
    ],
)
def test_every_form_of_collecting_is_one_command(
    request_: CollectTracing, keyword: int, stackwalk: bool, mode: int
) -> None:
    commands = Streamer()
    answer = Dispatcher(commands).answer(request_, Caller())
    assert answer.session is not None
    (asked,) = commands.asked
    assert (asked.rundown_keyword, asked.stackwalk, asked.buffering_mode) == (keyword, stackwalk, mode)
    assert asked.providers == A
    assert SessionReply.parse(answer.data).session_id == answer.session.id


def test_the_flags_of_the_first_dump_are_a_boolean() -> None:
    seen: list[GenerateCoreDump3] = []

    class Dumper(Commands):
        def dump(self, request: GenerateCoreDump3, caller: Caller) -> Reply:
            seen.append(request)
            return ResultReply()

    for request in (
        GenerateCoreDump(path="/d", dump_type=1, flags=6),
        GenerateCoreDump2(path="/d", dump_type=1, flags=6),
    ):
        assert not ResultReply.parse(Dispatcher(Dumper()).answer(request, Caller()).data).hresult
    assert [one.flags for one in seen] == [1, 6]


def test_a_text_goes_with_the_error_of_the_third_dump_alone() -> None:
    def refuse(request: object, caller: Caller) -> Reply:
        raise Refused(HResult.FAIL, "no space")

    assert error_of(ask(GenerateCoreDump3(path="/d"), refuse)).text == "no space"
    assert len(ask(GenerateCoreDump2(path="/d"), refuse).data) == 24


def test_what_a_command_raises_is_told_and_answered_fail() -> None:
    told: list[tuple[str, BaseException | None]] = []

    def fail(request: object, caller: Caller) -> Reply:
        raise ZeroDivisionError("by nought")

    overrides: Mapping[Command, Handler] = {Command.ResumeRuntime: fail}
    dispatcher = Dispatcher(Commands(overrides), problem=lambda line, error: told.append((line, error)))
    assert error_of(ask(ResumeRuntime(), dispatcher=dispatcher)).hresult == HResult.FAIL
    ((line, error),) = told
    assert line == "ResumeRuntime failed: ZeroDivisionError: by nought"
    assert isinstance(error, ZeroDivisionError)


def test_a_reply_that_does_not_fit_a_message_is_answered_fail() -> None:
    large = ProcessInfo3Reply(**{**vars(FACTS), "command_line": "x" * 40000})
    assert error_of(ask(ProcessInfo3(), lambda request, caller: large)).hresult == HResult.FAIL


def test_an_environment_is_announced_and_follows() -> None:
    block = EnvironmentBlock(entries=("A=1", "PATH=/bin"))
    data = Dispatcher(Commands({Command.ProcessEnvironment: lambda request, caller: block})).answer(
        ProcessEnvironment(), Caller()
    )
    assert EnvironmentReply.parse(data.data[:26]).size_bytes == len(data.data) - 26 == 40
    assert EnvironmentBlock.parse(data.data[26:]) == block


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (GenerateCoreDump3(path=None), HResult.FAIL),
        (GenerateCoreDump3(path="/d", dump_type=0), HResult.FAIL),
        (GenerateCoreDump3(path="/d", dump_type=5), HResult.FAIL),
        (SetEnvironmentVariable(name=None, value="x"), HResult.INVALID_ARGUMENT),
        (EnablePerfMap(perf_map_type=0), HResult.INVALID_ARGUMENT),
        (EnablePerfMap(perf_map_type=4), HResult.INVALID_ARGUMENT),
        (ApplyStartupHook(path=None), HResult.INVALID_ARGUMENT),
    ],
)
def test_arguments_that_make_no_sense_get_the_code_of_runtimes(request_: Request[ResultReply], code: int) -> None:
    with pytest.raises(Refused) as raised:
        require_valid(request_)
    assert raised.value.hresult == code


def test_a_startup_hook_probe_is_an_invalid_argument() -> None:
    """As CoreCLR says."""
    from dotnetdiag.ipc.frames import Frame

    with pytest.raises(Refused) as raised:
        Dispatcher(Commands()).request(Frame.parse(StartupHookProbe().pack()))
    assert raised.value.hresult == HResult.INVALID_ARGUMENT


def test_user_events_are_not_supported_unless_somebody_does() -> None:
    request = CollectTracing5UserEvents(providers=(Provider(name="A", tracepoints=Tracepoints(default="t")),))
    assert error_of(ask(request)).hresult == HResult.NOT_SUPPORTED
    answer = ask(request, lambda request, caller: Streaming(source=FakeSource()))
    assert answer.session is not None


# sessions -------------------------------------------------------------------------------------------------------------


def test_stopping_a_session_stops_its_source_and_is_answered_after_its_end() -> None:
    commands = Streamer()
    dispatcher = Dispatcher(commands)
    started = ask(REQUEST, dispatcher=dispatcher)
    assert started.session is not None
    stopped = ask(StopTracing(session_id=started.session.id), dispatcher=dispatcher)
    assert stopped.after is started.session
    assert SessionReply.parse(stopped.data).session_id == started.session.id
    assert commands.sources[0].said == ["on_ready", "stop"]
    ask(StopTracing(session_id=started.session.id), dispatcher=dispatcher)
    assert commands.sources[0].said == ["on_ready", "stop"]


@pytest.mark.parametrize("session_id", [0, 77, 2**64 - 1])
def test_stopping_a_session_that_is_not_there_is_ok(session_id: int) -> None:
    answer = ask(StopTracing(session_id=session_id))
    assert answer.after is None
    assert SessionReply.parse(answer.data).session_id == session_id


def test_a_stop_that_is_refused_stops_nothing() -> None:
    def refuse(request: object, caller: Caller) -> Reply:
        raise Refused(HResult.FAIL)

    commands = Streamer()
    commands._overrides[Command.StopTracing] = refuse
    dispatcher = Dispatcher(commands)
    started = ask(REQUEST, dispatcher=dispatcher)
    assert started.session is not None
    assert error_of(ask(StopTracing(session_id=started.session.id), dispatcher=dispatcher)).hresult == HResult.FAIL
    assert commands.sources[0].said == ["on_ready"]


def test_the_65th_session_fails_and_asks_nobody() -> None:
    commands = Streamer()
    dispatcher = Dispatcher(commands)
    sessions = [ask(REQUEST, dispatcher=dispatcher).session for _ in range(64)]
    assert len({session.id for session in sessions if session is not None}) == 64
    assert error_of(ask(REQUEST, dispatcher=dispatcher)).hresult == HResult.FAIL
    assert len(commands.sources) == 64
    assert sessions[0] is not None
    dispatcher.hang_up(sessions[0])
    assert ask(REQUEST, dispatcher=dispatcher).session is not None


def test_an_id_that_the_embedder_chose_twice_fails_and_its_source_is_hung_up() -> None:
    sources = [FakeSource(), FakeSource()]
    left = list(sources)
    dispatcher = Dispatcher(
        Commands({Command.CollectTracing2: lambda request, caller: Streaming(source=left.pop(0), session_id=0x7F00)})
    )
    first = ask(REQUEST, dispatcher=dispatcher)
    assert SessionReply.parse(first.data).session_id == 0x7F00
    assert error_of(ask(REQUEST, dispatcher=dispatcher)).hresult == HResult.FAIL
    assert [source.said for source in sources] == [["on_ready"], ["hang_up"]]


def test_a_source_that_raises_is_told_and_its_session_is_over() -> None:
    class Broken(FakeSource):
        def hang_up(self) -> None:
            raise ValueError("broken")

    told: list[str] = []
    dispatcher = Dispatcher(Streamer(Broken), problem=lambda line, error: told.append(line))
    session = ask(REQUEST, dispatcher=dispatcher).session
    assert session is not None
    dispatcher.hang_up(session)
    assert session.is_over
    assert told == ["the source of session 1 cannot be hung up: broken"]


def test_a_source_that_cannot_start_is_hung_up_and_answered_fail() -> None:
    class Broken(FakeSource):
        def on_ready(self, wake: object) -> None:
            raise ValueError("broken")

    commands = Streamer(Broken)
    dispatcher = Dispatcher(commands)
    assert error_of(ask(REQUEST, dispatcher=dispatcher)).hresult == HResult.FAIL
    assert commands.sources[0].said == ["hang_up"]
    assert len(dispatcher.sessions) == 0


# resuming -------------------------------------------------------------------------------------------------------------


def test_resuming_resumes_the_port_it_came_through() -> None:
    suspension = Suspension()
    suspension.add("/a")
    suspension.add("/b")
    dispatcher = Dispatcher(Commands(), suspension=suspension)
    assert not ResultReply.parse(ask(ResumeRuntime(), dispatcher=dispatcher, port="/c").data).hresult
    assert list(suspension.ports) == ["/a", "/b"]
    ask(ResumeRuntime(), dispatcher=dispatcher, port="/b")
    assert list(suspension.ports) == ["/a"]


def test_resuming_that_is_refused_resumes_nothing() -> None:
    suspension = Suspension()
    suspension.add("/a")
    refusing = Commands({Command.ResumeRuntime: lambda request, caller: ResultReply(hresult=HResult.FAIL)})
    ask(ResumeRuntime(), dispatcher=Dispatcher(refusing, suspension=suspension), port="/a")
    assert suspension.is_suspended
