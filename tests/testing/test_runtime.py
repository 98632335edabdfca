"""The scripted runtime: as each release answers, and wrong where it is told to."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from tests.client.scripted import eventually
from tests.descriptors import open_files
from tests.nettrace.recordings import data_of
from tests.server.shells import ask, dial, read_all, read_message, take

import dotnetdiag as dd
from dotnetdiag.errors import ServerError, TimedOut, TransportError, UnknownName, UnsupportedCommand, UsageError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.legacy import CollectEventPipeTracing, LegacyAttachProfiler, StopEventPipeTracing
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.process import ResumeRuntime
from dotnetdiag.ipc.process_info import ProcessInfo, ProcessInfoReply
from dotnetdiag.ipc.profiler import AttachProfiler, StartupProfiler
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.tracing import CollectTracing2, StopTracing
from dotnetdiag.nettrace import read
from dotnetdiag.testing import RELEASES, Asked, Misbehaviour, Recording, Runtime

V1 = [name for name in RELEASES if name != "pre-V1"]
COLLECT = CollectTracing2(providers=(Provider(name="A"),)).pack()
RECORDING = Recording(data_of("cpu-only-10.nettrace"))


@pytest.fixture
def at() -> Iterator[str]:
    """An address; the test fails when a descriptor is left at its end."""
    before = open_files()
    with tempfile.TemporaryDirectory() as made:
        yield f"{made}/s"
    assert open_files() <= before


def client_of(runtime: Runtime, **options: float) -> dd.Client:
    return dd.Client.connect(f"{runtime.address},connect", **options)


def hresult_of(answer: bytes) -> int:
    return ErrorReply.parse(answer).hresult


# as each release ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("age", V1)
def test_a_command_that_the_release_does_not_have_is_unknown(age: str, at: str) -> None:
    with Runtime(age, listen=at) as runtime:
        for command in set(Command) - runtime.release.commands:
            answer = ask(at, Frame(command_set=command >> 8, command_id=command & 0xFF).pack())
            expected = {"3.1": HResult.BAD_ENCODING}.get(age) if command >> 8 == 3 else None
            assert hresult_of(answer) == (expected or HResult.UNKNOWN_COMMAND), command


@pytest.mark.parametrize("age", V1)
def test_our_client_takes_a_session_from_every_release(age: str, at: str, tmp_path: Path) -> None:
    with Runtime(age, listen=at, replay=RECORDING, waits=True) as runtime, client_of(runtime) as client:
        with client.trace("A", duration=0.01) as session:
            session.save(tmp_path / "a.nettrace")
        assert (tmp_path / "a.nettrace").read_bytes() == RECORDING.data
        assert [one.command for one in runtime.asked][-2:] == ["CollectTracing2", "StopTracing"]


def test_who_it_is_was_made_up(at: str) -> None:
    with Runtime("8", listen=at, name="shop", environment={"A": "b"}) as runtime, client_of(runtime) as client:
        info = client.process_info()
        assert (info.pid, info.cookie) == (os.getpid(), runtime.cookie)
        assert (info.entry_assembly, info.runtime_version) == ("shop", "8.0.33")
        assert client.environment() == {"A": "b"}
        client.set_environment_variable("C", "d")
        client.set_environment_variable("A", None)
        assert runtime.environment == {"C": "d"}
        assert "C" not in os.environ
        with pytest.raises(ServerError, match="ENVVAR_NOT_FOUND"):
            client.set_environment_variable("A", None)


def test_it_listens_where_tools_look_by_default(monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    monkeypatch.setenv("TMPDIR", str(Path(at).parent))
    with Runtime() as runtime:
        assert dd.Client(os.getpid()).process_info().cookie == runtime.cookie
    with Runtime("pre-V1") as runtime:
        assert Path(runtime.address).name.startswith(f"dotnetcore-diagnostic-{os.getpid()}-")
        assert Path(runtime.address).is_socket()
    assert os.listdir(Path(at).parent) == []


def test_nativeaot_refuses_what_it_lacks(at: str) -> None:
    with Runtime("NativeAOT", listen=at) as runtime, client_of(runtime) as client:
        with pytest.raises(ServerError, match="0x80004005"):
            client.write_dump("/tmp/x")
        with pytest.raises(ServerError, match="0x80131515"):
            client.disable_perf_map()
    with Runtime("9", listen=at) as runtime, client_of(runtime) as client:
        client.write_dump("/tmp/x")
        client.disable_perf_map()


def test_a_second_profiler_is_refused_and_one_for_the_start_comes_too_late(at: str) -> None:
    attach = AttachProfiler(timeout_ms=1, clsid=UUID(int=1), path="/p").pack()
    startup = StartupProfiler(clsid=UUID(int=1), path="/p").pack()
    with Runtime("8", listen=at):
        assert ask(at, attach) == ResultReply().pack()
        assert hresult_of(ask(at, attach)) == HResult.PROFILER_ALREADY_ACTIVE
        assert hresult_of(ask(at, startup)) == HResult.INVALID_ARGUMENT
    with Runtime("8", listen=at, suspended=True):
        assert hresult_of(ask(at, attach)) == HResult.PROFILER_NOT_YET_AVAILABLE
        assert ask(at, startup) == ResultReply().pack()


def test_3_1_takes_a_request_in_one_piece_only(at: str) -> None:
    with Runtime("3.1", listen=at), dial(at, COLLECT[:30]) as connection:
        assert hresult_of(read_message(connection)) == HResult.BAD_ENCODING
    with Runtime("8", listen=at), dial(at, COLLECT[:30]) as connection:
        connection.sendall(COLLECT[30:])
        assert SessionReply.parse(read_message(connection)).session_id


@pytest.mark.parametrize(("age", "closes"), [("8", True), ("9", False), ("10", False), ("NativeAOT", False)])
def test_a_session_that_is_refused_leaves_the_connection_open_from_9_on(age: str, closes: bool, at: str) -> None:
    bad = Frame(command_set=2, command_id=3, payload=bytes(40)).pack()
    with Runtime(age, listen=at) as runtime, dial(at, bad) as connection:
        assert hresult_of(read_message(connection)) == HResult.BAD_ENCODING
        if closes:
            assert connection.recv(1) == b""
        else:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
            assert runtime.connections == 1


@pytest.mark.parametrize("age", ["3.1", "8", "10"])
def test_an_empty_trace_is_streamed_where_there_is_no_recording(age: str, at: str) -> None:
    with Runtime(age, listen=at):
        connection = dial(at, COLLECT)
        session = SessionReply.parse(read_message(connection)).session_id
        assert ask(at, StopTracing(session_id=session).pack()) == SessionReply(session_id=session).pack()
        contents = read(read_all(connection))
        connection.close()
    assert (contents.complete, len(contents), contents.format) == (True, 0, "nettrace 4")


# before V1 ------------------------------------------------------------------------------------------------------------


def test_pre_v1_speaks_its_own_protocol_and_hangs_up_on_others(at: str) -> None:
    collect = CollectEventPipeTracing(client_pid=1, buffer_mb=1, output_path="", providers=(Provider(name="A"),))
    with Runtime("pre-V1", listen=at) as runtime:
        assert ask(at, ProcessInfo().pack()) == b""
        assert ask(at, COLLECT) == b""
        connection = dial(at, collect.pack())
        session = int.from_bytes(take(connection, 8), "little")
        assert session
        assert ask(at, StopEventPipeTracing(client_pid=1, session_id=session).pack()) == session.to_bytes(8, "little")
        assert read(read_all(connection)).format == "NetPerf 3"
        connection.close()
        attach = LegacyAttachProfiler(client_pid=1, timeout_ms=1, clsid=UUID(int=1), path="/p")
        assert ask(at, attach.pack()) == bytes(8)
        names = [one.command for one in runtime.asked]
        assert names[2:] == ["CollectEventPipeTracing", "StopEventPipeTracing", "AttachProfiler"]
        assert runtime.asked[2].request == collect
        runtime.misbehave("CollectEventPipeTracing", "close:20")
        assert len(ask(at, collect.pack())) == 20


# suspended, and dialling ----------------------------------------------------------------------------------------------


def test_a_session_of_a_suspended_runtime_begins_when_it_is_resumed(at: str) -> None:
    with Runtime("10", listen=at, suspended=True, replay=RECORDING) as runtime:
        assert runtime.is_suspended
        connection = dial(at, COLLECT)
        read_message(connection)
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
        connection.settimeout(20)
        assert ask(at, ResumeRuntime().pack()) == ResultReply().pack()
        runtime.wait_until_resumed()
        assert read_all(connection) == RECORDING.data
        connection.close()


def test_a_session_that_is_stopped_while_suspended_is_empty(at: str) -> None:
    with Runtime("10", listen=at, suspended=True, replay=RECORDING) as runtime:
        connection = dial(at, COLLECT)
        session = SessionReply.parse(read_message(connection)).session_id
        assert ask(at, StopTracing(session_id=session).pack()) == SessionReply(session_id=session).pack()
        assert read_all(connection) == b""
        connection.close()
        assert runtime.is_suspended


def test_it_dials_a_port_and_waits_there(at: str) -> None:
    with dd.listen(at) as port, Runtime("9", connect=at, suspended=True, name="dialler") as runtime:
        found = port.wait(timeout_s=20)
        assert (found.cookie, found.info.entry_assembly) == (runtime.cookie, "dialler")
        assert runtime.is_suspended
        found.resume()
        runtime.wait_until_resumed()


# wrong ----------------------------------------------------------------------------------------------------------------

INFO = ProcessInfo().pack()


def test_close_cuts_an_answer_at_the_byte(at: str) -> None:
    with Runtime("8", listen=at) as runtime:
        whole = ask(at, INFO)
        for size in (0, 1, 19, 20, len(whole) - 1):
            runtime.misbehave("ProcessInfo", f"close:{size}")
            assert ask(at, INFO) == whole[:size]
        runtime.misbehave("ProcessInfo", None)
        assert ask(at, INFO) == whole


@pytest.mark.parametrize("size", [5, 28, 29, 100_000])
def test_close_cuts_a_session_at_the_byte(size: int, at: str) -> None:
    with Runtime("8", listen=at, replay=RECORDING, misbehave={"CollectTracing2": f"close:{size}"}) as runtime:
        data = ask(at, COLLECT)
        assert len(data) == size
        assert data[28:] == RECORDING.data[: max(size - 28, 0)]
        eventually(lambda: runtime.sessions == 0, "the session goes on")


def test_garbage_magic_and_size_are_where_they_are_said_to_be(at: str) -> None:
    with Runtime("8", listen=at, replay=RECORDING) as runtime:
        whole = ask(at, INFO)
        runtime.misbehave("ProcessInfo", "garbage:20")
        spoiled = ask(at, INFO)
        assert (spoiled[:20], len(spoiled), spoiled != whole) == (whole[:20], len(whole), True)
        runtime.misbehave("ProcessInfo", "magic+size:9999")
        spoiled = ask(at, INFO)
        assert (spoiled[:14] != whole[:14], spoiled[14:16], spoiled[16:]) == (True, b"\x0f\x27", whole[16:])
        runtime.misbehave("CollectTracing2", "garbage:1028")
        data = ask(at, COLLECT)
        assert data[28:1028] == RECORDING.data[:1000]
        assert data[1028:] != RECORDING.data[1000:]


def test_silence_lasts_until_the_client_hangs_up(at: str) -> None:
    with Runtime("8", listen=at, misbehave={"*": "silent"}) as runtime:
        connection = dial(at, INFO)
        runtime.wait_for("ProcessInfo")
        assert runtime.connections == 1
        connection.close()
        eventually(lambda: runtime.connections == 0, "it holds on")
        with client_of(runtime, timeout_s=0.05) as client, pytest.raises(TimedOut):
            client.process_info()


def test_a_delay_is_waited_out_before_anything_is_done(at: str) -> None:
    with Runtime(
        "8", listen=at, misbehave={"SetEnvironmentVariable": "delay:1h", "ProcessInfo": "delay:1ms"}
    ) as runtime:
        with client_of(runtime, timeout_s=0.05) as client, pytest.raises(TimedOut):
            client.set_environment_variable("LATE", "1")
        assert "LATE" not in runtime.environment
        assert ProcessInfoReply.parse(ask(at, INFO)).pid == os.getpid()


def test_an_error_is_answered_and_nothing_is_done(at: str) -> None:
    with Runtime("8", listen=at, misbehave={"*": Misbehaviour(hresult=HResult.FAIL)}) as runtime:
        for request in (INFO, COLLECT, ResumeRuntime().pack()):
            assert hresult_of(ask(at, request)) == HResult.FAIL
        assert runtime.sessions == 0


def test_a_runtime_that_refuses_to_stop_says_ok_and_goes_on(at: str) -> None:
    with Runtime("8", listen=at, replay=RECORDING, waits=True, misbehave={"StopTracing": "ignore"}) as runtime:
        connection = dial(at, COLLECT)
        session = SessionReply.parse(read_message(connection)).session_id
        assert ask(at, StopTracing(session_id=session).pack()) == SessionReply(session_id=session).pack()
        assert runtime.sessions == 1
        runtime.misbehave("StopTracing", None)
        ask(at, StopTracing(session_id=session).pack())
        assert read_all(connection) == RECORDING.data
        connection.close()


def test_a_resume_that_is_ignored_resumes_nothing(at: str) -> None:
    with Runtime("8", listen=at, suspended=True, misbehave={"ResumeRuntime": "ignore"}) as runtime:
        assert ask(at, ResumeRuntime().pack()) == ResultReply().pack()
        assert runtime.is_suspended
        with pytest.raises(TimedOut):
            runtime.wait_until_resumed(timeout_s=0.01)


# what was asked, and what may not be asked for ------------------------------------------------------------------------


def test_every_message_is_remembered_also_those_that_are_none(at: str) -> None:
    told: list[Asked] = []
    with Runtime("8", listen=at, on_asked=told.append) as runtime:
        ask(at, INFO)
        ask(at, Frame(command_set=2, command_id=0x99, payload=b"x").pack())
        ask(at, b"GET / HTTP/1.1\x20\0" + bytes(16))
        with dial(at, INFO[:10]) as connection:
            connection.shutdown(socket.SHUT_WR)
            read_all(connection)
        with dial(at):
            pass
        assert [one.command for one in runtime.asked] == ["ProcessInfo", "0x0299", "", ""]
        assert runtime.asked == tuple(told)
        assert runtime.asked[0].request == ProcessInfo()
        assert runtime.asked[1].data.endswith(b"x")
        assert runtime.wait_for("ProcessInfo").data == INFO
        with pytest.raises(TimedOut, match="ProcessInfo was not asked 2 times"):
            runtime.wait_for("ProcessInfo", 2, timeout_s=0.01)


def test_wrong_arguments_are_said(at: str) -> None:
    for wrong in (
        {"listen": at, "connect": at},
        {"on_stop": "no"},
        {"speed": 0},
        {"misbehave": {"Nonsense": "silent"}},
    ):
        with pytest.raises(UsageError):
            Runtime("8", **wrong)  # each is wrong
    with pytest.raises(UnknownName):
        Runtime("12", listen=at)
    with Runtime("8", listen=at), pytest.raises(TransportError):
        Runtime("8", listen=at)


def test_closing_ends_a_session_and_may_be_done_again(at: str) -> None:
    runtime = Runtime("8", listen=at, replay=RECORDING, speed=0.001)
    connection = dial(at, COLLECT)
    read_message(connection)
    runtime.close()
    runtime.close()
    read_all(connection)
    connection.close()
    assert not Path(at).exists()


def test_3_1_says_nothing_of_itself(at: str) -> None:
    with Runtime("3.1", listen=at) as runtime, client_of(runtime) as client, pytest.raises(UnsupportedCommand):
        client.process_info()
