"""Scripts: what a function of a test makes of a connection, and what becomes of it."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.client.scripted import RUNTIME_DESCRIPTORS, RUNTIME_THREADS, eventually
from tests.descriptors import open_files
from tests.server.shells import PATIENCE_S, ask, dial, read_all, read_message, take

import dotnetdiag as dd
from dotnetdiag.errors import ProtocolError, TimedOut, UsageError
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.process_info import ProcessInfo, ProcessInfo2, ProcessInfoReply
from dotnetdiag.ipc.replies import SessionReply
from dotnetdiag.ipc.tracing import CollectTracing2, CollectTracing6, StopTracing
from dotnetdiag.testing import Runtime, Talk, TalkEnded
from dotnetdiag.testing import runtime as runtime_module

INFO = ProcessInfo().pack()
COLLECT = CollectTracing2(providers=(Provider(name="A"),)).pack()


@pytest.fixture
def at() -> Iterator[str]:
    """An address; the test fails when a descriptor is left at its end."""
    before = open_files()
    with tempfile.TemporaryDirectory() as made:
        yield f"{made}/s"
    assert open_files() <= before


def says(data: bytes) -> Callable[[Talk], None]:
    return lambda talk: talk.send(data)


def until_stopped(talk: Talk) -> None:
    talk.begin_session(b"head")
    talk.wait_for_stop(None)
    talk.send(b"tail")


# what a script is asked for -------------------------------------------------------------------------------------------


def test_a_script_answers_its_command_and_the_release_all_others(at: str) -> None:
    with Runtime("8", listen=at, scripts={"ProcessInfo2": says(b"mine")}) as runtime:
        assert ProcessInfoReply.parse(ask(at, INFO)).pid == os.getpid()
        assert ask(at, ProcessInfo2().pack()) == b"mine"
        runtime.play("ProcessInfo", says(b"this too"))
        assert ask(at, INFO) == b"this too"
        runtime.play("ProcessInfo", None)
        assert ProcessInfoReply.parse(ask(at, INFO)).pid == os.getpid()


def test_a_script_for_all_answers_also_what_the_release_does_not_have_and_what_is_no_message(at: str) -> None:
    asked: list[Any] = []

    def script(talk: Talk) -> None:
        asked.append(talk.asked)
        talk.send(b"yes")

    lacking = CollectTracing6(providers=(Provider(name="A"),)).pack()
    garbage = b"GET / HTTP/1.1\x20\0" + bytes(16)
    with Runtime("3.1", listen=at, scripts={"*": script}, misbehave={"ProcessInfo": "close:0"}):
        assert [ask(at, data) for data in (lacking, garbage, INFO)] == [b"yes", b"yes", b""]
    assert [one.command for one in asked] == ["CollectTracing6", ""]
    assert [one.data for one in asked] == [lacking, garbage]
    assert isinstance(asked[0].request, CollectTracing6)


def test_what_cannot_be_is_refused(at: str) -> None:
    wrong: list[dict[str, Any]] = [
        {"scripts": {"Nonsense": until_stopped}},
        {"scripts": {"StopTracing": until_stopped}, "misbehave": {"StopTracing": "silent"}},
        {"dials": 1},
        {"pid": -1},
        {"pid": 1 << 64},
    ]
    for options in wrong:
        with pytest.raises(UsageError):
            Runtime(listen=at, **options)
    with pytest.raises(UsageError):
        Runtime(connect=at, dials=-1)


# the connection -------------------------------------------------------------------------------------------------------


def test_the_connection_is_closed_when_the_script_returns(at: str) -> None:
    with Runtime(listen=at, scripts={"*": says(b"x")}), dial(at, INFO) as connection:
        assert read_all(connection) == b"x"
        with pytest.raises(BrokenPipeError):
            connection.sendall(b"more")


def test_a_connection_that_resets_is_no_end(at: str) -> None:
    with Runtime(listen=at, scripts={"*": says(b"x")}, resets=True), dial(at, COLLECT) as connection:
        assert take(connection, 1) == b"x"
        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_a_request_in_pieces_is_whole_also_where_its_last_byte_stays_unread(at: str) -> None:
    with Runtime(listen=at, resets=True) as runtime, dial(at) as connection:
        for byte in COLLECT:
            connection.sendall(bytes([byte]))
        assert runtime.wait_for("CollectTracing2").data == COLLECT
        assert SessionReply.parse(read_message(connection)).session_id


def test_what_the_client_says_behind_its_request_is_received_to_the_end_of_its_half(at: str) -> None:
    came: list[bytes] = []

    def script(talk: Talk) -> None:
        came.append(talk.receive(2))
        talk.wait_until_hung_up()
        assert not talk.has_hung_up  # it takes what is said
        talk.send(b"bye")

    with Runtime(listen=at, scripts={"*": script}), dial(at, INFO + b"ab") as connection:
        connection.sendall(b"and much more")
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection) == b"bye"
    assert came == [b"ab"]


def test_a_descriptor_is_received(at: str) -> None:
    def script(talk: Talk) -> None:
        descriptor = talk.receive_descriptor()
        talk.send(os.read(descriptor, 10))
        os.close(descriptor)

    ours, theirs = os.pipe()
    os.write(theirs, b"events")
    with Runtime(listen=at, scripts={"*": script}), dial(at, INFO) as connection:
        socket.send_fds(connection, [b"\0"], [ours])
        assert read_all(connection) == b"events"
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(("say", "error"), [(b"\0", ProtocolError), (b"", TimedOut)])
def test_a_descriptor_that_does_not_come_is_told(say: bytes, error: type[Exception], at: str) -> None:
    runtime = Runtime(listen=at, scripts={"*": lambda talk: talk.receive_descriptor(timeout_s=0.05)})
    with dial(at, INFO) as connection:
        connection.sendall(say)
        assert read_all(connection) == b""
    with pytest.raises(error):
        runtime.close()


def floods(talk: Talk) -> None:
    while True:
        talk.send(bytes(1 << 20))


def receives(talk: Talk) -> None:
    assert talk.receive() == b""
    talk.send(b"there is nobody")


WAITS: dict[str, Callable[[Talk], object]] = {
    "pause": lambda talk: talk.pause(3600),
    "stop": lambda talk: talk.wait_for_stop(None),
    "descriptor": lambda talk: talk.receive_descriptor(timeout_s=3600),
    "send": floods,
    "receive": receives,
}


@pytest.mark.parametrize("ends", ["the client", "the runtime"])
@pytest.mark.parametrize("what", WAITS)
def test_whatever_a_script_waits_for_ends_with_the_connection_and_with_the_runtime(
    what: str, ends: str, at: str
) -> None:
    seen: list[type[BaseException]] = []
    begun = threading.Event()

    def script(talk: Talk) -> None:
        begun.set()
        try:
            WAITS[what](talk)
        except BaseException as error:
            seen.append(type(error))
            raise

    with Runtime(listen=at, scripts={"*": script}) as runtime, dial(at, INFO) as connection:
        assert begun.wait(60)
        assert not runtime.is_idle
        if ends == "the client":
            connection.close()
            runtime.wait_until_idle()
        else:
            runtime.close()
    assert seen == [TalkEnded]


# what a script raises -------------------------------------------------------------------------------------------------


def fails(_: Talk) -> None:
    raise KeyError("mine")


def test_what_a_script_raises_is_raised_by_close_once(at: str) -> None:
    runtime = Runtime(listen=at, scripts={"*": fails})
    assert ask(at, INFO) == b""
    with pytest.raises(KeyError, match="mine"):
        runtime.close()
    runtime.close()


def test_what_a_script_raises_does_not_hide_what_went_wrong_in_the_block(at: str) -> None:
    with pytest.raises(ZeroDivisionError), Runtime(listen=at, scripts={"*": fails}):
        assert 1 / len(ask(at, INFO))


def test_a_script_that_does_not_end_is_told(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_module, "PATIENCE_S", 0.05)
    begun, go_on = threading.Event(), threading.Event()

    def script(_: Talk) -> None:
        begun.set()
        go_on.wait(PATIENCE_S)

    runtime = Runtime(listen=at, scripts={"*": script})
    with dial(at, INFO):
        assert begun.wait(PATIENCE_S)
        with pytest.raises(TimedOut, match="a script does not end"):
            runtime.close()
    go_on.set()


def test_a_script_may_close_its_runtime(at: str) -> None:
    closed = threading.Event()

    def script(talk: Talk) -> None:
        talk.send(b"half")
        runtime.close()
        closed.set()

    runtime = Runtime(listen=at, scripts={"*": script})
    assert ask(at, INFO) == b"half"
    assert closed.wait(PATIENCE_S)
    runtime.close()
    assert not os.path.exists(at)


# sessions -------------------------------------------------------------------------------------------------------------


def test_a_session_of_a_script_is_stopped_as_those_of_runtimes_are(at: str) -> None:
    with Runtime(listen=at, scripts={"CollectTracing2": until_stopped}) as runtime:
        connections = [dial(at, COLLECT) for _ in range(2)]
        first, second = (SessionReply.parse(read_message(one)).session_id for one in connections)
        assert first != second
        assert [take(one, 4) for one in connections] == [b"head"] * 2
        assert ask(at, StopTracing(session_id=first).pack()) == SessionReply(session_id=first).pack()
        assert read_all(connections[0]) == b"tail"  # it was there before the answer
        assert runtime.sessions == 1
        assert ask(at, StopTracing(session_id=second).pack()) == SessionReply(session_id=second).pack()
        assert read_all(connections[1]) == b"tail"
        assert runtime.sessions == 0
        for connection in connections:
            connection.close()


def test_our_client_records_what_a_script_sends(at: str, tmp_path: Any) -> None:
    with Runtime(listen=at, scripts={"CollectTracing2": until_stopped}):
        session = dd.Client.connect(f"{at},connect").trace("A", duration=0.01)
        session.save(tmp_path / "x")
        session.close()
    assert (tmp_path / "x").read_bytes() == b"headtail"


def test_a_script_for_a_stop_may_end_the_session_and_say_what_it_likes(at: str) -> None:
    def stop(talk: Talk) -> None:
        talk.stop_session()
        talk.send(b"no")

    with Runtime(listen=at, scripts={"CollectTracing2": until_stopped, "StopTracing": stop}), dial(at, COLLECT) as one:
        session = SessionReply.parse(read_message(one)).session_id
        assert ask(at, StopTracing(session_id=session + 1).pack()) == b"no"
        assert ask(at, StopTracing(session_id=session).pack()) == b"no"
        assert read_all(one) == b"headtail"


def test_a_session_that_does_not_end_when_it_is_told_to_is_told(at: str) -> None:
    def deaf(talk: Talk) -> None:
        talk.begin_session()
        talk.wait_until_hung_up()

    scripts = {"CollectTracing2": deaf, "StopTracing": lambda talk: talk.stop_session(timeout_s=0.05)}
    runtime = Runtime(listen=at, scripts=scripts)
    with dial(at, COLLECT) as one:
        session = SessionReply.parse(read_message(one)).session_id
        assert ask(at, StopTracing(session_id=session).pack()) == b""
    with pytest.raises(TimedOut, match="the session does not end"):
        runtime.close()


def test_more_sessions_than_runtimes_have_are_refused_to_scripts_too(at: str) -> None:
    with Runtime(listen=at, scripts={"CollectTracing2": until_stopped}) as runtime:
        connections = [dial(at, COLLECT) for _ in range(64)]
        for connection in connections:
            read_message(connection)
        assert ErrorReply.parse(ask(at, COLLECT)).hresult == HResult.FAIL
        assert runtime.sessions == 64
        for connection in connections:
            connection.close()
        runtime.wait_until_idle()
        assert runtime.sessions == 0


def test_a_stop_that_does_not_come_is_waited_for_so_long_as_it_is_said(at: str) -> None:
    came: list[bool] = []

    def script(talk: Talk) -> None:
        talk.begin_session()
        came.append(talk.wait_for_stop(0.05))

    with Runtime(listen=at, scripts={"*": script}):
        assert len(ask(at, COLLECT)) == 28
    assert came == [False]


# who is there ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [b"", INFO[:5]])
def test_a_connection_on_which_nothing_was_asked_is_left_open_too(said: bytes, at: str) -> None:
    with Runtime(listen=at) as runtime:
        assert runtime.is_idle
        with dial(at, said):
            eventually(lambda: not runtime.is_idle, "it is there")
            with pytest.raises(TimedOut, match="1 connections stay open within"):
                runtime.wait_until_idle(timeout_s=0.05)
        runtime.wait_until_idle()
        assert runtime.is_idle


def test_an_idle_runtime_has_so_many_descriptors_and_threads(at: str) -> None:
    """Which is what tests of clients take away from what they count."""
    descriptors, threads = open_files(), threading.enumerate()
    with Runtime(listen=at):
        assert len(open_files() - descriptors) == RUNTIME_DESCRIPTORS
        assert len(set(threading.enumerate()).difference(threads)) == RUNTIME_THREADS


# dialling -------------------------------------------------------------------------------------------------------------


def test_a_runtime_that_dials_says_who_it_was_told_to_be(at: str) -> None:
    with dd.listen(at) as port, Runtime(connect=at, pid=77, cookie=UUID(int=5), name="shop") as runtime:
        found = port.wait(timeout_s=PATIENCE_S)
        assert (found.cookie, found.namespace_pid) == (UUID(int=5), 77)
        assert (found.info.pid, found.info.cookie, found.info.entry_assembly) == (77, UUID(int=5), "shop")
        assert (runtime.pid, runtime.cookie) == (77, UUID(int=5))
        runtime.wait_until_idle()  # it waits at the port, which is its own


def test_a_script_has_the_connection_at_the_port_to_itself_until_it_begins_a_session(at: str) -> None:
    go_on = threading.Event()

    def script(talk: Talk) -> None:
        assert go_on.wait(PATIENCE_S)
        until_stopped(talk)

    with dd.listen(at) as port, Runtime(connect=at, scripts={"CollectTracing2": script}) as runtime:
        client = port.wait(timeout_s=PATIENCE_S).client
        client.timeout_s = 0.1
        with pytest.raises(TimedOut):
            client.trace("A")
        runtime.wait_for("CollectTracing2")
        with pytest.raises(TimedOut):
            client.process_info()
        go_on.set()
        client.timeout_s = PATIENCE_S
        with client.trace("A") as session:
            session.stop()
            assert b"".join(session) == b"headtail"
        assert client.process_info().pid == os.getpid()


def test_a_runtime_that_has_taken_its_commands_dials_no_more(at: str) -> None:
    with dd.listen(at) as port, Runtime(connect=at, dials=2) as runtime:
        client = port.wait(timeout_s=PATIENCE_S).client
        for _ in range(2):
            assert client.process_info().pid == os.getpid()
        client.timeout_s = 0.1
        with pytest.raises(ConnectionError):
            client.process_info()
        assert len(runtime.asked) == 2
