"""Every operation against every age of runtime, without one: what is sent, in which order, what comes of it, what stays open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from tests.ipc.ages import AGES, COOKIE, MEASURED, NS, SESSION_ID, UC, Age, drive

from dotnetdiag import errors
from dotnetdiag.ipc import tracing
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD, DumpFlags
from dotnetdiag.ipc.eventpipe import EventFilter, Provider, Tracepoints, TracepointSet
from dotnetdiag.ipc.exchange import Operation
from dotnetdiag.ipc.operations import dumps, environments, information, perf_map, profilers, sessions, startup
from dotnetdiag.ipc.operations.information import ProcessInformation
from dotnetdiag.ipc.operations.sessions import SessionConfiguration, StartedSession
from dotnetdiag.ipc.replies import SessionReply

CLSID = UUID("5f1a6c2e-3b7d-4a8e-9c10-d0e5a1b2c3d4")
A = Provider(name="A", keywords=1, level=4)
INFO = "ProcessInfo3", "ProcessInfo2", "ProcessInfo"
CUTS = [(1 << 20,), (1,), (3, 17, 1), (20,), (19, 2)]

# the whole table --------------------------------------------------------------------------------------------------------

Error = type[errors.DiagnosticsError]
U, N, S = errors.UnsupportedCommand, errors.NotSupported, errors.ServerError
R, D, B = errors.RuntimeTooOld, errors.DangerousRequest, errors.BadEncoding


@dataclass(frozen=True, slots=True)
class Row:
    """An operation, and for each age what is sent and the error that comes (None: it works)."""

    operation: Callable[[], Operation[Any]]
    expected: dict[str, tuple[tuple[str, ...], Error | None]]


def row(operation: Callable[[], Operation[Any]], **expected: tuple[tuple[str, ...], Error | None]) -> Row:
    """``other`` is for the ages that are not named; ``v3_1`` is 3.1, ``v8`` is 8, ``aot`` is NativeAOT."""
    names = {"v3_1": "3.1", "v5": "5", "v8": "8", "v9": "9", "v10": "10", "aot": "NativeAOT"}
    other = expected.pop("other")
    return Row(operation, {**dict.fromkeys(MEASURED, other), **{names[key]: value for key, value in expected.items()}})


def one(command: str, error: Error | None = None) -> tuple[tuple[str, ...], Error | None]:
    return (command,), error


DUMP3, DUMP1 = ("GenerateCoreDump3",), ("GenerateCoreDump3", "GenerateCoreDump2", "GenerateCoreDump")
PERF, HOOK, SET = "EnablePerfMap", "ApplyStartupHook", "SetEnvironmentVariable"
MAY_DIE = row(
    lambda: perf_map.enable_perf_map(1, True),
    v3_1=((*INFO, PERF), U),
    v5=((*INFO, "probe"), D),  # it does not know the command, and does not say how old it is
    v8=(("ProcessInfo3", "probe"), D),
    v9=(("ProcessInfo3", "probe"), D),
    v10=(("ProcessInfo3", PERF), None),
    aot=(("ProcessInfo3", "probe", PERF), N),
    other=one("never"),
).expected

TABLE: dict[str, Row] = {
    "process info": row(information.process_info, v3_1=(INFO, U), v5=(INFO, None), other=one("ProcessInfo3")),
    "environment": row(
        environments.environment, v3_1=one("ProcessEnvironment", U), other=one("ProcessEnvironment")
    ),
    "set a variable": row(
        lambda: environments.set_environment_variable("A", "b"), v3_1=one(SET, U), v5=one(SET, U), other=one(SET)
    ),
    "set a variable to an empty text": row(
        lambda: environments.set_environment_variable("A", ""), v3_1=one(SET, U), v5=one(SET, U), other=one(SET)
    ),
    "remove a variable": row(
        lambda: environments.set_environment_variable("A", None),
        v3_1=(("probe", SET), U),
        v5=(("probe", SET), U),
        aot=(("probe",), D),
        other=(("probe", SET), None),
    ),
    "resume": row(startup.resume, v3_1=one("ResumeRuntime", U), other=one("ResumeRuntime")),
    "dump": row(
        lambda: dumps.write_dump("/tmp/d", 4, 0),
        v3_1=(DUMP1, None),
        v5=(DUMP1, None),
        aot=(DUMP3, S),
        other=(DUMP3, None),
    ),
    "dump with a log": row(
        lambda: dumps.write_dump("/tmp/d", 1, DumpFlags.LOGGING),
        v3_1=(DUMP1, None),
        v5=(DUMP1, None),
        aot=(DUMP3, S),
        other=(DUMP3, None),
    ),
    "dump with a crash report": row(
        lambda: dumps.write_dump("/tmp/d", 4, DumpFlags.LOGGING | DumpFlags.CRASH_REPORT),
        v3_1=(DUMP1[:2], R),
        v5=(DUMP1[:2], R),
        aot=(DUMP3, S),
        other=(DUMP3, None),
    ),
    "attach a profiler": row(
        lambda: profilers.attach_profiler(CLSID, "/p", b"x", 1000),
        aot=one("AttachProfiler", N),
        other=one("AttachProfiler"),
    ),
    "profiler at startup": row(
        lambda: profilers.startup_profiler(CLSID, "/p"),
        v3_1=one("StartupProfiler", B),
        v5=one("StartupProfiler", U),
        aot=one("StartupProfiler", N),
        other=one("StartupProfiler"),
    ),
    "startup hook": row(
        lambda: startup.apply_startup_hook("/h.dll"),
        v3_1=one(HOOK, U),
        v5=one(HOOK, U),
        aot=one(HOOK, N),
        other=one(HOOK),
    ),
    "perf map of one that runs": row(
        lambda: perf_map.enable_perf_map(1, False), v3_1=one(PERF, U), v5=one(PERF, U), aot=one(PERF, N), other=one(PERF)
    ),
    "perf map of one that is suspended": Row(lambda: perf_map.enable_perf_map(1, True), MAY_DIE),
    "perf map of one that may be suspended": Row(lambda: perf_map.enable_perf_map(1, None), MAY_DIE),
    "perf map off": row(
        perf_map.disable_perf_map,
        v3_1=one("DisablePerfMap", U),
        v5=one("DisablePerfMap", U),
        aot=one("DisablePerfMap", N),
        other=one("DisablePerfMap"),
    ),
    "stop": row(lambda: sessions.stop(SESSION_ID), other=one("StopTracing")),
    "session": row(
        lambda: sessions.collect(SessionConfiguration(providers=(A,))), other=one("CollectTracing2")
    ),
    "session without stacks": row(
        lambda: sessions.collect(SessionConfiguration(providers=(A,), stackwalk=False)),
        v3_1=(("CollectTracing3", *INFO), R),
        v5=(("CollectTracing3", *INFO), R),
        v8=(("CollectTracing3", "ProcessInfo3"), R),
        other=one("CollectTracing3"),
    ),
    "session with a rundown keyword": row(
        lambda: sessions.collect(SessionConfiguration(providers=(A,), rundown_keyword=1)),
        v3_1=(("CollectTracing4", *INFO), R),
        v5=(("CollectTracing4", *INFO), R),
        v8=(("CollectTracing4", "ProcessInfo3"), R),
        other=one("CollectTracing4"),
    ),
    "session with a rundown keyword that it can do without": row(
        lambda: sessions.collect(SessionConfiguration(providers=(A,), rundown_keyword=1, rundown_fallback=0)),
        v3_1=(("CollectTracing4", "CollectTracing2"), None),
        v5=(("CollectTracing4", "CollectTracing2"), None),
        v8=(("CollectTracing4", "CollectTracing2"), None),
        other=one("CollectTracing4"),
    ),
    "session with an event filter": row(
        lambda: sessions.collect(
            SessionConfiguration(providers=(replace(A, event_filter=EventFilter(enable=True, ids=(1,))),))
        ),
        v3_1=(("CollectTracing5", *INFO), R),
        v5=(("CollectTracing5", *INFO), R),
        v10=one("CollectTracing5"),
        other=(("CollectTracing5", "ProcessInfo3"), R),
    ),
    "session that blocks": row(
        lambda: sessions.collect(SessionConfiguration(providers=(A,), buffering_mode=1)),
        v3_1=(("CollectTracing6", *INFO), R),
        v5=(("CollectTracing6", *INFO), R),
        other=(("CollectTracing6", "ProcessInfo3"), R),
    ),
    "session into user_events": row(
        lambda: sessions.collect_user_events((replace(A, tracepoints=Tracepoints(default="t")),), 0, 77),
        v3_1=(("CollectTracing5", *INFO), R),
        v5=(("CollectTracing5", *INFO), R),
        v10=one("CollectTracing5"),
        other=(("CollectTracing5", "ProcessInfo3"), R),
    ),
}  # fmt: skip
SLOW = {*DUMP1, "StopTracing", "AttachProfiler", "ApplyStartupHook"}
"""What takes long by its nature: the runtime answers when it has done it."""


@pytest.mark.parametrize("age", MEASURED)
@pytest.mark.parametrize("name", TABLE)
def test_an_operation_sends_what_the_table_says_and_leaves_nothing_open(name: str, age: str) -> None:
    commands, kind = TABLE[name].expected[age]
    for cuts in CUTS:
        done = drive(TABLE[name].operation(), age, cuts)
        assert tuple(done.commands) == commands
        assert type(done.error) is (type(None) if kind is None else kind), done.error
        assert done.open_at_error == 0
        assert done.peer.slow == SLOW & set(commands) - {"probe"}
        assert done.run is not None
        if isinstance(done.result, StartedSession):
            assert done.run.open == [done.result.connection]
            assert done.result.connection is done.peer.connections[-1]
            assert done.peer.connections[-1].to_receive == b"Nettrace"  # not a byte of the stream was taken
            assert (done.result.session_id, done.result.command) == (SESSION_ID, commands[-1])
        else:
            assert done.run.open == []
        assert len(done.peer.connections) == len(commands)


@pytest.mark.parametrize("age", MEASURED)
@pytest.mark.parametrize("name", TABLE)
def test_a_refusal_names_the_command_that_was_refused_and_says_what_it_needs(name: str, age: str) -> None:
    commands, kind = TABLE[name].expected[age]
    if kind in (None, D, R):
        return
    error = drive(TABLE[name].operation(), age).error
    assert isinstance(error, errors.ServerError)
    assert error.command == commands[-1].replace("probe", "ApplyStartupHook")
    if kind is not U:
        assert "needs" not in error.advice
    if kind is U:
        assert error.hresult == UC
        assert error.advice.startswith(f"{commands[-1]} needs .NET ")
        assert error.advice.endswith(" or newer")
    if kind is N:
        assert error.hresult == NS


def test_what_goes_wrong_with_the_newest_dump_comes_with_its_text() -> None:
    error = drive(dumps.write_dump("/x/d", 4, 0), "NativeAOT").error
    assert isinstance(error, errors.ServerError)
    assert (error.command, error.hresult, error.text) == ("GenerateCoreDump3", 0x80004005, "no such folder")


# who a runtime is -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("age", ["8", "9", "10", "NativeAOT"])
def test_a_runtime_says_all_about_itself(age: str) -> None:
    assert drive(information.process_info(), age).result == ProcessInformation(
        pid=4711,
        cookie=COOKIE,
        command_line="/app --x",
        os="Linux",
        arch="x64",
        entry_assembly="app",
        runtime_version=AGES[age].version or "",
        runtime_identifier="linux-x64",
    )


def test_what_an_older_command_does_not_tell_is_an_empty_text() -> None:
    first = drive(information.process_info(), "5").result
    assert first == ProcessInformation(pid=4711, cookie=COOKIE, command_line="/app --x", os="Linux", arch="x64")
    six = Age(name="6", version="6.0.1", answers={**AGES["8"].answers, Command.ProcessInfo3: UC})
    second = drive(information.process_info(), six)
    assert second.commands == ["ProcessInfo3", "ProcessInfo2"]
    assert second.result == replace(first, entry_assembly="app", runtime_version="6.0.1")


@pytest.mark.parametrize(
    ("version", "runtime", "of_dotnet"),
    [
        ("9.0.22", ".NET 9.0.22", "9.0.22"),
        ("11.0.0-preview.1+abc", ".NET 11.0.0-preview.1+abc", "11.0.0-preview.1+abc"),
        ("3.11.7+python", "Python 3.11.7", ""),
        ("", ".NET", ""),
    ],
)
def test_a_runtime_has_the_name_of_its_kind(version: str, runtime: str, of_dotnet: str) -> None:
    age = Age(name="any", version=version, answers=AGES["8"].answers)
    said = drive(information.process_info(), age).result
    assert said is not None
    assert said.runtime == runtime
    assert drive(information.runtime_version(), age).result == of_dotnet


PYTHON = Age(name="Python", version="3.11.7+python", answers={**AGES["8"].answers, Command.EnablePerfMap: NS})


@pytest.mark.parametrize("suspended", [True, None])
def test_a_python_process_is_asked_for_a_perf_map_and_refuses_for_itself(suspended: bool | None) -> None:
    done = drive(perf_map.enable_perf_map(1, suspended), PYTHON)
    assert done.commands == ["ProcessInfo3", "EnablePerfMap"]
    assert isinstance(done.error, errors.NotSupported)


def test_a_python_process_that_lacks_a_command_is_not_called_an_old_dotnet() -> None:
    error = drive(sessions.collect(SessionConfiguration(providers=(A,), rundown_keyword=1)), PYTHON).error
    assert isinstance(error, errors.RuntimeTooOld)
    assert error.has == "Python 3.11.7"


def test_texts_that_are_null_are_empty_ones() -> None:
    from dotnetdiag.ipc.process_info import ProcessInfo3Reply

    nobody: dict[str, Any] = dict.fromkeys(("command_line", "os", "arch", "entry_assembly", "runtime_version"))
    null = ProcessInfo3Reply(pid=1, cookie=COOKIE, **nobody).pack()
    done = drive(information.process_info(), "8", replaced={Command.ProcessInfo3: null})
    assert done.result == ProcessInformation(pid=1, cookie=COOKIE, command_line="", os="", arch="")


def test_another_refusal_than_of_an_unknown_command_is_no_reason_to_ask_an_older_one() -> None:
    for hresult in (0x80131384, 0x80131515, 0x80004005):
        odd = Age(name="odd", version="8", answers={**AGES["8"].answers, Command.ProcessInfo3: hresult})
        done = drive(information.process_info(), odd)
        assert done.commands == ["ProcessInfo3"]
        assert isinstance(done.error, errors.ServerError)
        assert done.error.hresult == hresult
        odd = Age(name="odd", version="8", answers={**AGES["8"].answers, Command.GenerateCoreDump3: hresult})
        assert drive(dumps.write_dump("/d", 4, 0), odd).commands == ["GenerateCoreDump3"]
        odd = Age(name="odd", version="8", answers={**AGES["8"].answers, Command.CollectTracing4: hresult})
        wanted = SessionConfiguration(providers=(A,), rundown_keyword=1, rundown_fallback=0)
        assert drive(sessions.collect(wanted), odd).commands == ["CollectTracing4"]


# environment ----------------------------------------------------------------------------------------------------------------


def test_an_environment_is_read_whole() -> None:
    for cuts in CUTS:
        assert drive(environments.environment(), "8", cuts).result == {"A": "1", "EMPTY": "", "=C:": "C:\\dir"}


def test_an_environment_that_ends_too_early_says_how_much_is_missing() -> None:
    from dotnetdiag.ipc.environment import EnvironmentReply

    short = EnvironmentReply(size_bytes=40).pack() + bytes(11)
    done = drive(environments.environment(), "8", (5,), {Command.ProcessEnvironment: short})
    assert isinstance(done.error, errors.ConnectionEnded)
    assert str(done.error) == "the runtime closed the connection 29 bytes before the end of its answer"
    assert done.open_at_error == 1  # which the shell closes


def test_what_is_set_is_what_was_given() -> None:
    for value in ("b", "", None):
        request = drive(environments.set_environment_variable("A", value), "8").peer.requests[-1]
        assert (request.name, request.value) == ("A", value)


def test_removing_a_variable_of_native_aot_is_refused_after_the_probe_alone() -> None:
    done = drive(environments.set_environment_variable("A", None), "NativeAOT")
    assert done.commands == ["probe"]
    assert isinstance(done.error, errors.DangerousRequest)
    assert done.error.command == "SetEnvironmentVariable"
    assert done.error.reason == "removing a variable kills a NativeAOT runtime; set it to an empty text instead"
    assert done.error.__cause__ is None


# dumps and profilers --------------------------------------------------------------------------------------------------------


def test_a_dump_of_an_old_runtime_is_asked_for_with_all_that_was_wanted() -> None:
    for flags in (0, 1):
        requests = drive(dumps.write_dump("/tmp/d", 2, flags), "3.1").peer.requests
        assert [(one.path, one.dump_type, one.flags) for one in requests] == [("/tmp/d", 2, flags)] * 3


@pytest.mark.parametrize("flags", [0x02, 0x04, 0x08, 0x03, 0x0F])
def test_flags_that_the_oldest_dump_cannot_say_need_a_newer_runtime(flags: int) -> None:
    error = drive(dumps.write_dump("/d", 4, flags), "3.1").error
    assert isinstance(error, errors.RuntimeTooOld)
    assert (error.command, error.needs, error.has) == ("GenerateCoreDump", ".NET 6", None)
    assert error.feature == "a crash report or verbose log"


def test_a_profiler_is_asked_for_with_all_that_was_given() -> None:
    (attach,) = drive(profilers.attach_profiler(CLSID, "/p", b"data", 1234), "8").peer.requests
    assert (attach.clsid, attach.path, attach.client_data, attach.timeout_ms) == (CLSID, "/p", b"data", 1234)
    (registering,) = drive(profilers.startup_profiler(CLSID, "/q"), "8").peer.requests
    assert (registering.clsid, registering.path) == (CLSID, "/q")
    (hook,) = drive(startup.apply_startup_hook("/h.dll"), "8").peer.requests
    assert hook.path == "/h.dll"
    (stop,) = drive(sessions.stop(77), "8").peer.requests
    assert stop.session_id == 77
    (enabling,) = drive(perf_map.enable_perf_map(3, False), "8").peer.requests
    assert enabling.perf_map_type == 3


# perf maps ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("age", ["8", "9"])
def test_a_perf_map_of_a_suspended_runtime_that_would_die_is_refused(age: str) -> None:
    version = AGES[age].version
    sure = drive(perf_map.enable_perf_map(1, True), age).error
    assert isinstance(sure, errors.DangerousRequest)
    assert sure.command == "EnablePerfMap"
    assert sure.reason == f"it kills .NET {version} while suspended at startup; resume it first"
    unsure = drive(perf_map.enable_perf_map(1, None), age).error
    assert isinstance(unsure, errors.DangerousRequest)
    assert unsure.reason == sure.reason + (
        "; whether it is suspended cannot be told from here: ask on its own machine, by its process id"
    )


@pytest.mark.parametrize("version", ["", None, "²", "x.y", "v10", "9", "8.0.0-rc.1", "-10.0", " 10"])
def test_a_perf_map_of_a_runtime_of_unknown_version_is_refused(version: str | None) -> None:
    silent = replace(AGES["8"], version=version)
    for suspended in (True, None):
        done = drive(perf_map.enable_perf_map(1, suspended), silent)
        assert done.commands == ["ProcessInfo3", "probe"]
        assert isinstance(done.error, errors.DangerousRequest)
        assert f"it kills .NET {version or '8 and 9'} while" in done.error.reason
    assert drive(perf_map.enable_perf_map(1, False), silent).commands == ["EnablePerfMap"]


@pytest.mark.parametrize("version", ["10", "10.0.0-rc.2", "11.0.1", "100.0"])
def test_a_perf_map_of_a_suspended_runtime_that_is_new_enough_is_written(version: str) -> None:
    done = drive(perf_map.enable_perf_map(2, True), replace(AGES["10"], version=version))
    assert done.commands == ["ProcessInfo3", "EnablePerfMap"]
    assert done.error is None


def test_a_perf_map_type_that_makes_no_sense_is_refused_before_anything_is_asked() -> None:
    for suspended in (True, False, None):
        done = drive(perf_map.enable_perf_map(0, suspended), "8")
        assert done.peer.steps == []
        assert isinstance(done.error, errors.RequestRefused)


# sessions -------------------------------------------------------------------------------------------------------------------

FILTERED = replace(A, event_filter=EventFilter(enable=True, ids=(1,)))
BLOCK, FILTER = "the Block buffering mode", "an event filter"
KEYWORD, STACKS = "a rundown keyword of one's own", "a session without stacks"
NEEDS = {
    "CollectTracing6": (BLOCK, ".NET 11", {"11"}),
    "CollectTracing5": (FILTER, ".NET 10", {"10", "11"}),
    "CollectTracing4": (KEYWORD, ".NET 9", {"9", "10", "11", "NativeAOT"}),
    "CollectTracing3": (STACKS, ".NET 9", {"9", "10", "11", "NativeAOT"}),
    "CollectTracing2": ("a session", ".NET Core 3.0", set(AGES)),
}


def lowest(wanted: SessionConfiguration) -> str:
    """The table of ipc-protocol.md §14."""
    if wanted.buffering_mode:
        return "CollectTracing6"
    if any(one.event_filter for one in wanted.providers):
        return "CollectTracing5"
    if wanted.rundown_keyword not in (0, 0x80020139):
        return "CollectTracing4"
    return "CollectTracing2" if wanted.stackwalk else "CollectTracing3"


COMBINATIONS = [
    SessionConfiguration(
        providers=(A, provider),
        rundown_keyword=keyword,
        stackwalk=stackwalk,
        buffering_mode=mode,
        rundown_fallback=fallback,
        buffer_mb=17,
        format=0,
    )
    for provider, keyword, stackwalk, mode, fallback in product(
        (replace(A, name="B"), replace(FILTERED, name="B")),
        (0, DEFAULT_RUNDOWN_KEYWORD, 1, 0x80020138),
        (True, False),
        (0, 1),
        (None, 0, 1, DEFAULT_RUNDOWN_KEYWORD),
    )
]


def assert_says_all_that_was_wanted(request: Any, wanted: SessionConfiguration, keyword: int) -> None:
    assert request.providers == wanted.providers
    assert (request.buffer_mb, request.format) == (17, 0)
    assert getattr(request, "stackwalk", True) == wanted.stackwalk
    assert getattr(request, "buffering_mode", 0) == wanted.buffering_mode
    if hasattr(request, "rundown_keyword"):
        assert request.rundown_keyword == keyword
    else:
        assert request.rundown == (keyword != 0)


@pytest.mark.parametrize("age", AGES)
def test_a_session_is_asked_for_with_the_lowest_command_that_says_all_and_nothing_is_dropped(age: str) -> None:
    for wanted in COMBINATIONS:
        done = drive(sessions.collect(wanted), age)
        command = lowest(wanted)
        feature, needs, having = NEEDS[command]
        collects = [one for one in done.peer.requests if isinstance(one, tracing.CollectTracing)]
        assert_says_all_that_was_wanted(collects[0], wanted, wanted.rundown_keyword)
        assert done.commands[0] == command
        if age in having:
            assert done.commands == [command]
            assert isinstance(done.result, StartedSession)
        elif command == "CollectTracing4" and wanted.stackwalk and wanted.rundown_fallback is not None:
            assert done.commands == [command, "CollectTracing2"]
            assert_says_all_that_was_wanted(collects[1], wanted, wanted.rundown_fallback)
            assert isinstance(done.result, StartedSession)
            assert done.result.command == "CollectTracing2"
        else:
            # and so stackwalk=False is never dropped with the keyword
            assert [name for name in done.commands if name.startswith("Collect")] == [command]
            error = done.error
            assert isinstance(error, errors.RuntimeTooOld)
            assert (error.command, error.feature, error.needs) == (command, feature, needs)
            assert error.has == AGES[age].version
            assert error.__cause__ is None
            assert error.__suppress_context__


def test_a_session_that_falls_back_has_the_rundown_of_the_fall_back() -> None:
    for fallback, rundown in ((0, False), (1, True), (DEFAULT_RUNDOWN_KEYWORD, True)):
        wanted = SessionConfiguration(providers=(A,), rundown_keyword=1, rundown_fallback=fallback)
        done = drive(sessions.collect(wanted), "8")
        assert [type(one) for one in done.peer.requests] == [tracing.CollectTracing4, tracing.CollectTracing2]
        assert done.peer.requests[1].rundown is rundown
    # what asks for no rundown at all has nothing to fall back from
    wanted = SessionConfiguration(providers=(A,), rundown_keyword=0, rundown_fallback=DEFAULT_RUNDOWN_KEYWORD)
    (only,) = drive(sessions.collect(wanted), "3.1").peer.requests
    assert only.rundown is False


@pytest.mark.parametrize("trouble", [b"", b"x" * 40, SessionReply(session_id=1).pack()])
def test_a_refusal_is_told_whatever_becomes_of_the_question_for_the_version(trouble: bytes) -> None:
    wanted = SessionConfiguration(providers=(A,), stackwalk=False)
    error = drive(sessions.collect(wanted), "8", replaced={Command.ProcessInfo3: trouble}).error
    assert isinstance(error, errors.RuntimeTooOld)
    assert (error.feature, error.has) == ("a session without stacks", None)


def test_a_runtime_that_refuses_even_the_fall_back_says_what_was_refused() -> None:
    """No released one does."""
    none = Age(name="none", version="8.0.1", answers=dict.fromkeys(Command, UC) | {Command.ProcessInfo3: 0})
    wanted = SessionConfiguration(providers=(A,), rundown_keyword=1, rundown_fallback=0)
    done = drive(sessions.collect(wanted), none)
    assert done.commands == ["CollectTracing4", "CollectTracing2", "ProcessInfo3"]
    assert isinstance(done.error, errors.RuntimeTooOld)
    assert (done.error.feature, done.error.has) == ("a session", "8.0.1")


def test_repeated_providers_are_merged_before_they_are_sent() -> None:
    twice = (A, replace(A, keywords=2, level=5))
    for wanted in (
        SessionConfiguration(providers=twice),
        SessionConfiguration(providers=twice, rundown_keyword=1, rundown_fallback=0),
    ):
        for request in drive(sessions.collect(wanted), "8").peer.requests:
            assert request.providers == (Provider(name="A", keywords=3, level=5),)
    placed = tuple(replace(one, tracepoints=Tracepoints(default="t")) for one in twice)
    (request,) = drive(sessions.collect_user_events(placed, 5, 3), "10").peer.requests
    assert [(one.name, one.keywords) for one in request.providers] == [("A", 3)]
    assert request.rundown_keyword == 5


def test_a_session_is_nettrace_of_256_mb_with_the_default_rundown_unless_told() -> None:
    (request,) = drive(sessions.collect(SessionConfiguration(providers=(A,))), "8").peer.requests
    assert request == tracing.CollectTracing2(providers=(A,), buffer_mb=256, format=1, rundown=True)


# user_events ------------------------------------------------------------------------------------------------------------------

PLACED = (replace(A, tracepoints=Tracepoints(sets=(TracepointSet(name="t", ids=(1, 2)),))),)


def test_the_descriptor_follows_the_request_and_comes_before_the_answer() -> None:
    done = drive(sessions.collect_user_events(PLACED, 0, 77), "10", (1 << 20,))
    assert done.peer.steps == ["Dial", "Send", "SendDescriptor", "Receive", "Receive"]
    assert done.peer.connections[0].descriptor == 77
    assert isinstance(done.result, StartedSession)
    assert done.run is not None
    assert done.run.open == [done.result.connection]
    assert done.result.command == "CollectTracing5"


@pytest.mark.parametrize("age", ["3.1", "5", "8", "9", "NativeAOT"])
def test_a_user_events_session_of_an_older_runtime_says_so(age: str) -> None:
    """It refuses the command and closes: before the descriptor is sent, or after."""
    for is_quick in (False, True):
        done = drive(sessions.collect_user_events(PLACED, 0, 77), age, is_quick=is_quick)
        error = done.error
        assert isinstance(error, errors.RuntimeTooOld)
        assert (error.feature, error.needs, error.has) == ("a user_events session", ".NET 10", AGES[age].version)
        assert done.open_at_error == 0
        assert done.peer.still_open == []


# nothing is dialled ---------------------------------------------------------------------------------------------------------

MANY = tuple(Provider(name=f"P{number}") for number in range(1001))
TWICE = Tracepoints(sets=(TracepointSet(name="t", ids=(1,)), TracepointSet(name="u", ids=(1,))))


@pytest.mark.parametrize(
    "operation",
    [
        lambda: sessions.collect(SessionConfiguration(providers=(A,), buffer_mb=0)),
        lambda: sessions.collect(SessionConfiguration(providers=(A,), format=2)),
        lambda: sessions.collect(SessionConfiguration(providers=MANY)),
        lambda: sessions.collect(SessionConfiguration(providers=(A,), buffer_mb=0, stackwalk=False)),
        lambda: sessions.collect(SessionConfiguration(providers=(A,), format=7, rundown_keyword=1)),
        lambda: sessions.collect(SessionConfiguration(providers=(*MANY[1:], FILTERED))),
        lambda: sessions.collect(SessionConfiguration(providers=(A,), buffer_mb=0, buffering_mode=1)),
        lambda: sessions.collect_user_events((replace(A, tracepoints=TWICE),), 0, 3),
        lambda: dumps.write_dump(None, 4, 0),  # type: ignore[arg-type]
        lambda: startup.apply_startup_hook("hook.dll"),
        lambda: startup.apply_startup_hook("/a.dll:/b.dll"),
    ],
)
def test_what_kills_is_refused_before_anything_is_dialled(operation: Callable[[], Operation[Any]]) -> None:
    for age in MEASURED:
        done = drive(operation(), age)
        assert type(done.error) is errors.DangerousRequest
        assert done.peer.steps == []


@pytest.mark.parametrize(
    "operation",
    [
        lambda: environments.set_environment_variable("", None),
        lambda: environments.set_environment_variable("A=", None),
        lambda: environments.set_environment_variable("A", "\0"),
        lambda: sessions.collect(SessionConfiguration(providers=())),
        lambda: sessions.collect(SessionConfiguration(providers=(A,), buffering_mode=2)),
        lambda: sessions.collect(SessionConfiguration(providers=(A,), buffering_mode=-1)),
        lambda: sessions.collect(SessionConfiguration(providers=(A,), rundown_keyword=-1)),
        lambda: sessions.collect_user_events((A,), 0, 3),
        lambda: dumps.write_dump("/d", 5, 0),
        lambda: dumps.write_dump("/d", 4, 16),
        lambda: startup.apply_startup_hook(""),
        lambda: profilers.startup_profiler(CLSID, ""),
        lambda: profilers.attach_profiler(CLSID, "/p", b"x" * 65536, 1),
        lambda: sessions.stop(-1),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_dialled(operation: Callable[[], Operation[Any]]) -> None:
    done = drive(operation(), "8")
    assert type(done.error) is errors.RequestRefused
    assert done.peer.steps == []


# what a runtime should not answer -------------------------------------------------------------------------------------------


def test_an_answer_that_is_no_message_closes_the_connection() -> None:
    for answer in (b"HTTP/1.1 400 Bad Request\r\n", b"\x10\0" * 40, b"", b"DOTNET_IPC_V1\0\x18\0\xff"):
        done = drive(startup.resume(), "8", (7,), {Command.ResumeRuntime: answer})
        assert isinstance(done.error, errors.ProtocolError | errors.ConnectionEnded)
        assert done.open_at_error == 0
        assert done.peer.still_open == []


def test_an_answer_of_another_kind_closes_the_connection() -> None:
    """A request in place of a reply; a reply that is too short for what was asked."""
    for answer in (drive_stop(), SessionReply(session_id=1).pack()):
        done = drive(information.process_info(), "8", replaced={Command.ProcessInfo3: answer})
        assert isinstance(done.error, errors.ProtocolError)
        assert done.commands == ["ProcessInfo3"]
        assert done.peer.still_open == []


def drive_stop() -> bytes:
    return tracing.StopTracing(session_id=1).pack()


def test_the_version_of_a_runtime_that_tells_none_is_empty() -> None:
    assert drive(information.runtime_version(), "3.1").result == ""
    assert drive(information.runtime_version(), "5").result == ""
    version = drive(information.runtime_version(), "8").result
    assert version is not None
    assert version.startswith("8.")


def test_operations_are_loaded_when_they_are_named() -> None:
    from dotnetdiag.ipc import operations

    assert operations.startup is startup
    for name in ("__path_of_nothing__", "nothing_such"):
        assert not hasattr(operations, name)
