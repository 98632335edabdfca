"""Whom StopTracing is sent to: a runtime that is suspended at startup would be poisoned by it (ipc-protocol.md §21.1), everybody else
has a rundown to give.
"""

from __future__ import annotations

import os
import select
import socket
import threading

import pytest
from tests.client.scripted import (
    HEAD_BYTES,
    PATIENCE_S,
    SESSION,
    obeys,
    pattern,
    says,
    says_and_waits,
    says_pid,
    streams,
)
from tests.client.shells import Stage, within_limits

from dotnetdiag.client import limits
from dotnetdiag.errors import TimedOut
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.session_life import State
from dotnetdiag.testing import Script, Talk
from dotnetdiag.transport import processes
from dotnetdiag.transport.sockets import SocketStream

STOP = Command.StopTracing


def scripts(head: int) -> dict[Command, Script]:
    return {Command.CollectTracing2: streams(None, head=head), STOP: obeys}


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer is a process of another namespace."""
    monkeypatch.setattr(SocketStream, "peer_pid", lambda _: 0)
    monkeypatch.setattr(limits, "SILENCE_S", 0.2)
    monkeypatch.delattr(select, "select")  # which takes no descriptor above 1,023


@pytest.fixture
def two_threaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer has two threads of one name, the first of which sleeps: as a suspended NativeAOT, and as many a proxy."""
    monkeypatch.setattr(processes, "thread_names", lambda *_: ("peer", "peer"))
    monkeypatch.setattr(processes, "read", lambda *_: b"State:\tS (sleeping)\nvoluntary_ctxt_switches:\t5\n")


@pytest.mark.usefixtures("unseen")
def test_a_silent_peer_of_an_unknown_process_is_not_sent_a_stop(stage: Stage) -> None:
    runtime = stage.runtime(scripts(head=0))
    session = stage.client(runtime).trace("A")
    within_limits(session.close)
    assert STOP not in runtime.asked
    assert (session.state, session.problem, session.was_stopped) == (State.ENDED, None, True)


@pytest.mark.usefixtures("unseen")
@pytest.mark.parametrize("is_read", [True, False])
def test_a_peer_of_an_unknown_process_that_has_sent_its_head_is_sent_a_stop(stage: Stage, is_read: bool) -> None:
    """Whether it was read or still waits to be."""
    runtime = stage.runtime(scripts(HEAD_BYTES))
    session = stage.client(runtime).trace("A")
    if is_read:
        assert session.read()
    within_limits(session.close)
    assert runtime.asked.count(STOP) == 1
    assert session.state is State.ENDED


@pytest.mark.usefixtures("unseen")
def test_a_silent_peer_that_answers_nothing_is_told_as_one_that_did_not_end(stage: Stage) -> None:
    """A slow line, a busy machine: it may be running, and its bytes on their way."""
    silent = says_and_waits()
    runtime = stage.runtime({**scripts(head=0), Command.ProcessInfo3: silent})
    session = stage.client(runtime, timeout_s=0.3).trace("A", drain_timeout_s=0.6)
    with pytest.raises(TimedOut):
        within_limits(lambda: (session.stop(), session.read()))
    assert STOP not in runtime.asked
    assert (session.state, type(session.problem)) == (State.BROKEN, TimedOut)
    session.close()


@pytest.mark.usefixtures("two_threaded")
def test_a_relay_that_looks_suspended_says_nothing_of_the_runtime_behind_it(stage: Stage) -> None:
    """A router has few threads, too. Who sends its head, however late, runs, and gives its rundown when it is asked to stop."""
    on_its_way = threading.Event()

    def late(talk: Talk) -> None:
        talk.begin_session()
        assert on_its_way.wait(PATIENCE_S)
        talk.send(pattern(HEAD_BYTES))
        assert talk.wait_for_stop(PATIENCE_S)

    def who(talk: Talk) -> None:
        on_its_way.set()
        says_pid(os.getpid() + 1)(talk)

    runtime = stage.runtime({Command.CollectTracing2: late, Command.ProcessInfo3: who, STOP: obeys})
    session = stage.client(runtime).trace("A")
    within_limits(session.close)
    assert STOP in runtime.asked


def test_a_relay_of_which_the_threads_run_is_not_the_runtime(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """dsrouter is a .NET program itself."""
    monkeypatch.setattr(processes, "thread_names", lambda *_: ("relay", ".NET EventPipe", ".NET Finalizer"))
    monkeypatch.setattr(limits, "SILENCE_S", 0.2)
    runtime = stage.runtime(scripts(head=0))
    session = stage.client(runtime).trace("A")
    within_limits(session.close)
    assert STOP not in runtime.asked
    assert (session.state, session.problem) == (State.ENDED, None)


@pytest.mark.parametrize("is_relayed", [False, True])
def test_the_process_at_an_address_is_the_one_that_the_runtime_says_it_is(is_relayed: bool, stage: Stage) -> None:
    runtime = stage.runtime({Command.ProcessInfo3: says_pid(os.getpid() + is_relayed)})
    assert stage.client(runtime).target_pid() == (None if is_relayed else os.getpid())


def test_a_runtime_that_cannot_say_who_it_is_or_says_nothing_is_taken_for_its_peer(stage: Stage) -> None:
    assert stage.client(stage.runtime({})).target_pid() == os.getpid()
    assert stage.client(stage.runtime(says_and_waits())).target_pid() == os.getpid()
    assert stage.client(stage.runtime({Command.ProcessInfo3: says(SESSION)})).target_pid() == os.getpid()


@pytest.mark.usefixtures("two_threaded")
def test_a_silent_peer_that_looks_suspended_is_not_sent_a_stop(stage: Stage) -> None:
    runtime = stage.runtime({**scripts(head=0), Command.ProcessInfo3: says_pid(os.getpid())})
    within_limits(stage.client(runtime).trace("A").close)
    assert STOP not in runtime.asked


@pytest.mark.usefixtures("two_threaded")
def test_a_peer_that_looks_suspended_and_has_sent_bytes_is_sent_a_stop(stage: Stage) -> None:
    runtime = stage.runtime(scripts(HEAD_BYTES))
    session = stage.client(runtime).trace("A")
    assert len(session.read()) == HEAD_BYTES
    within_limits(session.close)
    assert runtime.asked.count(STOP) == 1
    assert session.received_bytes > HEAD_BYTES, "the rundown is lost"


def test_a_session_that_is_over_is_not_sent_a_stop(stage: Stage) -> None:
    """Its number is an address in the runtime, which the next session may have."""
    runtime = stage.runtime({Command.CollectTracing2: says(SESSION, b"Nettrace"), STOP: obeys})
    session = stage.client(runtime).trace("A")
    assert b"".join(session) == b"Nettrace"
    session.stop()
    within_limits(session.close)
    assert STOP not in runtime.asked
    assert not session.was_stopped


def test_a_silent_stream_that_is_closed_meanwhile_is_waited_for_no_longer() -> None:
    one, two = socket.socketpair()
    with two, SocketStream(one) as stream:
        looks = []

        def has_received() -> bool:
            looks.append(1)
            if len(looks) == 2:
                stream.close()
            return False

        assert limits.stays_silent(stream, has_received)
        assert len(looks) == 2
