"""All modes, with the fake runtime of the client's tests; who comes, goes, says nothing, or too much."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from tests.client.dialling import DiallingRuntime
from tests.client.scripted import DONE, INFO, PATIENCE_S, SESSION, ScriptedRuntime, eventually, pattern, says
from tests.router.conftest import StartRouter
from tests.transport.certificates import TOKEN, Goodbye, dialled_with_tls, say, security

import dotnetdiag as dd
from dotnetdiag.errors import ConnectionEnded, MissingDependency, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.process_info import ProcessInfo3, ProcessInfoReply
from dotnetdiag.router import link, request, router, side, tools
from dotnetdiag.router.places import MOST_STRANGERS
from dotnetdiag.router.runtimes import LOCAL_ADVERTISE_S
from dotnetdiag.router.status import RouterEvent
from dotnetdiag.testing import Script, Talk
from dotnetdiag.transport import security as transport_security
from dotnetdiag.transport.security import Security

QUESTION = ProcessInfo3().pack()
PIECE = pattern(1 << 20)
ANSWERS = {
    Command.ProcessInfo: says(
        ProcessInfoReply(pid=7, cookie=UUID(int=1), command_line="x", os="Linux", arch="x64").pack()
    ),
    Command.ProcessInfo3: says(INFO.pack()),
}


def asked(address: object, timeout_s: float = PATIENCE_S) -> int:
    """Which runtime answers there."""
    return dd.Client.connect(f"{address},connect", timeout_s=timeout_s).process_info().pid


def dialled(path: Path, data: bytes = b"") -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE_S)
    connection.connect(str(path))
    if data:
        connection.sendall(data)
    return connection


def said(number: int) -> bytes:
    return Advertise(cookie=UUID(int=number << 96), pid=number).pack()


def apart(folder: Path, number: int) -> DiallingRuntime:
    """A runtime whose cookie is another from the first digits on."""
    return DiallingRuntime(folder / "runtimes", number=number, cookie=UUID(int=number << 96))


def flood(size: int) -> bytes:
    """What ``floods`` sends."""
    return SESSION + (PIECE * (size // len(PIECE) + 1))[:size]


def place(address: str) -> tuple[str, int]:
    host, _, port = address.removeprefix("tcp://").partition(":")
    return host, int(port)


def floods(size: int) -> Script:
    """A session of so many bytes."""

    def script(talk: Talk) -> None:
        talk.send(SESSION)
        for begin in range(0, size, len(PIECE)):
            talk.send(PIECE[: size - begin])

    return script


# modes ----------------------------------------------------------------------------------------------------------------


def test_tools_dial_and_runtimes_dial(folder: Path, start: StartRouter) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    assert (
        heard.router.description == f"listening on {folder / 'tools'} for tools and {folder / 'runtimes'} for runtimes"
    )
    with DiallingRuntime(folder / "runtimes", number=5) as runtime:
        assert [asked(folder / "tools") for _ in range(5)] == [5] * 5
        assert runtime.asked == [Command.ProcessInfo3] * 5
    ended = heard.wait_for("ended", 5)
    assert {one.command for one in ended} == {"ProcessInfo3"}
    assert ended[0].tool_pid == os.getpid()
    assert ended[0].bytes_to_runtime == len(QUESTION)


def test_tools_dial_and_the_runtime_listens(folder: Path, start: StartRouter) -> None:
    with closing(ScriptedRuntime(folder / "runtime", ANSWERS)):
        heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtime'},connect")
        assert heard.router.description.endswith(f", dialling {folder / 'runtime'} for runtimes")
        assert [asked(folder / "tools") for _ in range(3)] == [7] * 3
    assert {one.why for one in heard.wait_for("ended", 3)} <= {"both have ended", "the tool is gone"}


def test_the_tool_listens_and_runtimes_dial(folder: Path, start: StartRouter) -> None:
    start(tools=f"{folder / 'port'},connect", runtimes=f"{folder / 'runtimes'}")
    with (
        DiallingRuntime(folder / "runtimes", number=5),
        DiallingRuntime(folder / "runtimes", number=6),
        dd.listen(str(folder / "port")) as server,
    ):
        found = {server.wait(timeout_s=PATIENCE_S).cookie}
        while len(found) < 2:
            found = {one.cookie for one in server.runtimes}
        for _ in range(3):  # they dial again
            assert {one.client.process_info().pid for one in server.runtimes} == {5, 6}


def test_the_tool_listens_and_the_runtime_too(folder: Path, start: StartRouter) -> None:
    with closing(ScriptedRuntime(folder / "runtime", ANSWERS)):
        heard = start(tools=f"{folder / 'port'},connect", runtimes=f"{folder / 'runtime'},connect")
        assert heard.router.description.startswith("listening on nothing, dialling ")
        with dd.listen(str(folder / "port")) as server:
            found = server.wait(timeout_s=PATIENCE_S)
            assert found.cookie == UUID(int=1)  # which the runtime says when it is asked
            assert [found.client.process_info().pid for _ in range(3)] == [7] * 3
            assert found.is_connected


def test_two_routers_in_a_row_carry_runtimes_across_tcp(folder: Path, start: StartRouter) -> None:
    near_tools = start(tools=f"{folder / 'tools'}", runtimes="127.0.0.1:0", each=True)
    start(tools=f"{near_tools.router.runtimes_address},connect", runtimes=f"{folder / 'runtimes'}")
    with apart(folder, 5), apart(folder, 6):
        near_tools.wait_for("connected", 2)
        there = near_tools.router.status().connected
        assert {one.cookie for one in there} == {str(UUID(int=5 << 96)), str(UUID(int=6 << 96))}
        for one in there:
            information = dd.Client.connect(f"{one.address},connect").process_info()
            assert str(information.cookie) == one.cookie


def test_a_tcp_runtime_that_listens_is_reached_over_two_routers(folder: Path, start: StartRouter) -> None:
    with closing(ScriptedRuntime(folder / "runtime", ANSWERS)):
        far = start(tools="127.0.0.1:0", runtimes=f"{folder / 'runtime'},connect")
        start(tools=f"{folder / 'tools'}", runtimes=f"{far.router.tools_address},connect")
        assert [asked(folder / "tools") for _ in range(3)] == [7] * 3


def test_a_tool_that_hangs_up_is_dialled_again_and_the_runtime_is_not_made_to(folder: Path, start: StartRouter) -> None:
    start(tools=f"{folder / 'port'},connect", runtimes=f"{folder / 'runtimes'}")
    with socket.socket(socket.AF_UNIX) as port, dialled(folder / "runtimes", said(5)) as runtime:
        port.bind(str(folder / "port"))
        port.listen()
        for _ in range(5):
            with port.accept()[0] as tool:
                assert tool.recv(34, socket.MSG_WAITALL) == said(5)
        with port.accept()[0] as tool:
            assert tool.recv(34, socket.MSG_WAITALL) == said(5)
            tool.sendall(QUESTION)
            assert runtime.recv(100) == QUESTION
            runtime.sendall(DONE)
            assert tool.recv(100) == DONE


# bytes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, link.PIECE_BYTES - 1, link.PIECE_BYTES, 20_000_000])
def test_a_stream_arrives_whole_and_ends(size: int, folder: Path, start: StartRouter) -> None:
    scripts = {Command.ProcessInfo3: floods(size)}
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with DiallingRuntime(folder / "runtimes", scripts, number=5), dialled(folder / "tools", QUESTION) as tool:
        received = b"".join(iter(lambda: tool.recv(1 << 20), b""))
    assert received == flood(size)
    assert heard.wait_for("ended")[0].bytes_to_tool == len(received)


def test_a_request_in_pieces_reaches_the_runtime_in_one(folder: Path, start: StartRouter) -> None:
    came: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "runtime"))
        listener.listen()
        start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtime'},connect")
        with dialled(folder / "tools") as tool:
            for byte in QUESTION:
                tool.sendall(bytes([byte]))
            with listener.accept()[0] as runtime:
                came.append(runtime.recv(100))
                runtime.sendall(DONE)
            assert tool.recv(100) == DONE
    assert came == [QUESTION]


def test_a_reader_that_takes_nothing_makes_the_runtime_wait(folder: Path, start: StartRouter) -> None:
    size, sent = 64 << 20, threading.Event()

    def script(talk: Talk) -> None:
        floods(size)(talk)
        sent.set()

    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with DiallingRuntime(folder / "runtimes", {Command.ProcessInfo3: script}, number=5):
        with dialled(folder / "tools", QUESTION) as tool:
            heard.wait_for("began")
            assert not sent.wait(0.5)
            taken = heard.router.status().commands[0].bytes_to_tool
            assert taken <= 4 << 20  # what sockets hold, and one piece here
            assert sum(len(part) for part in iter(lambda: tool.recv(1 << 20), b"")) == size + len(SESSION)
        assert sent.wait(PATIENCE_S)


# who is there ---------------------------------------------------------------------------------------------------------


def test_tools_that_come_first_wait_and_are_served_in_order(folder: Path, start: StartRouter) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with ExitStack() as stack:
        tools = []
        for number in range(5):
            tools.append(stack.enter_context(dialled(folder / "tools", QUESTION)))
            while heard.router.status().waiting_tools <= number:
                pass
        stack.enter_context(DiallingRuntime(folder / "runtimes", number=5))
        for tool in tools:
            assert tool.recv(1000)
        assert [one.number for one in heard.wait_for("began", 5)] == [1, 2, 3, 4, 5]


def test_a_tool_waits_no_longer_than_it_is_told(folder: Path, start: StartRouter) -> None:
    start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", runtime_timeout_s=0.2)
    begin = time.monotonic()
    with pytest.raises(ConnectionEnded):
        asked(folder / "tools")
    assert 0.2 <= time.monotonic() - begin < 5


def test_a_tool_that_goes_while_it_waits_is_forgotten(folder: Path, start: StartRouter) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with dialled(folder / "tools", QUESTION):
        while not heard.router.status().waiting_tools:
            pass
    while heard.router.status().waiting_tools:
        pass
    with DiallingRuntime(folder / "runtimes", number=5) as runtime:
        assert asked(folder / "tools") == 5
        assert len(runtime.asked) == 1


def test_all_tools_reach_the_first_runtime_and_others_are_resumed(folder: Path, start: StartRouter) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with DiallingRuntime(folder / "runtimes", number=5):
        heard.wait_for("connected")
        with DiallingRuntime(folder / "runtimes", number=6) as other:
            heard.wait_for("connected", 2)
            assert other.asked == []  # nobody was chosen yet
            assert [asked(folder / "tools") for _ in range(5)] == [5] * 5
            other.wait_for(Command.ResumeRuntime)
            with DiallingRuntime(folder / "runtimes", number=7) as child:
                child.wait_for(Command.ResumeRuntime)
    states = [one.is_chosen for one in heard.router.status().connected]
    assert states.count(True) <= 1


def test_when_the_chosen_runtime_is_gone_the_next_one_is_chosen_and_not_resumed(
    folder: Path, start: StartRouter
) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with DiallingRuntime(folder / "runtimes", number=5):
        assert asked(folder / "tools") == 5
    with DiallingRuntime(
        folder / "runtimes", number=6
    ) as second:  # at once, before anybody knows that the first is gone
        assert asked(folder / "tools") == 6
        assert second.asked == [Command.ProcessInfo3]
    heard.wait_for("gone", 1, cookie=str(UUID(int=5)))


def test_each_runtime_has_a_socket_of_its_own_and_none_is_resumed(folder: Path, start: StartRouter) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", each=True)
    with (
        apart(folder, 5) as first,
        apart(folder, 6) as second,
    ):
        heard.wait_for("connected", 2)
        paths = {one.cookie: one.address for one in heard.router.status().connected}
        for runtime in (first, second):
            asked(path := paths[str(runtime.cookie)])
            assert runtime.asked == [Command.ProcessInfo3]
            assert os.stat(path).st_mode & 0o777 == 0o600
        asked(folder / "tools")  # the common one: nobody is chosen by that, and others resumed
        for runtime in (first, second):
            asked(paths[str(runtime.cookie)])
            assert Command.ResumeRuntime not in runtime.asked
    heard.wait_for("gone", 2)
    assert sorted(os.listdir(folder)) == ["runtimes", "tools"]


def test_a_runtime_that_is_gone_is_told(folder: Path, start: StartRouter) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with dialled(folder / "runtimes", said(5)):
        heard.wait_for("connected", namespace_pid=5)
    heard.wait_for("gone", namespace_pid=5)
    assert heard.router.status().connected == ()


def test_who_says_nothing_is_hung_up_on(folder: Path, start: StartRouter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "SILENT_TOOL_S", 0.1)
    monkeypatch.setattr(request, "REQUEST_S", 0.2)
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with (
        dialled(folder / "tools") as silent,
        dialled(folder / "tools", QUESTION[:10]) as half,
        dialled(folder / "runtimes") as runtime,
        dialled(folder / "runtimes", said(1)[:33]) as cut,
    ):
        for one in (silent, half, runtime, cut):
            assert one.recv(1) == b""
    assert len(heard.wait_for("refused", 2)) == 2  # runtimes; a tool that asks nothing is no event
    assert LOCAL_ADVERTISE_S < 1


def test_many_runtimes_are_served_beside_as_many_silent_ones(folder: Path, start: StartRouter) -> None:
    with socket.socket(socket.AF_UNIX) as port, ExitStack() as stack:
        port.bind(str(folder / "port"))
        port.listen(300)
        port.settimeout(PATIENCE_S)
        start(tools=f"{folder / 'port'},connect", runtimes=f"{folder / 'runtimes'}")
        for number in range(1, 101):
            stack.enter_context(dialled(folder / "runtimes"))
            stack.enter_context(dialled(folder / "runtimes", said(number)))
        came = set()
        for _ in range(100):
            tool = stack.enter_context(port.accept()[0])
            came.add(Advertise.parse(tool.recv(34, socket.MSG_WAITALL)).pid)
        assert came == set(range(1, 101))


def test_no_more_connections_than_allowed_are_taken_at_a_time(folder: Path, start: StartRouter) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", most_connections=4)
    with ExitStack() as stack:
        for number in range(1, 9):
            stack.enter_context(dialled(folder / "runtimes", said(number)))
        heard.wait_for("connected", 4)
        assert len(heard.router.status().connected) == 4
    with DiallingRuntime(folder / "runtimes", number=100):
        heard.wait_for("connected", 1, cookie=str(UUID(int=100)))


def test_who_crowds_one_side_shuts_out_neither_the_other_nor_who_asks_for_the_status(
    folder: Path, start: StartRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side, "AUTHENTICATION_S", 10 * PATIENCE_S)
    ours = security(folder)
    heard = start(
        tools=f"{folder / 'tools'}",
        runtimes="127.0.0.1:0",
        runtimes_security=ours,
        status_address=f"{folder / 'status'}",
        most_connections=4,
    )
    there = place(heard.router.runtimes_address)
    with ExitStack() as stack:
        runtime = stack.enter_context(dialled_with_tls(there, ours, said(5)))
        heard.wait_for("connected", cookie=str(UUID(int=5 << 96)))
        for _ in range(8):
            stack.enter_context(socket.create_connection(there))
        for _ in range(8):
            with dialled(folder / "status") as connection:
                assert connection.recv(1)
        tool = stack.enter_context(dialled(folder / "tools", QUESTION))
        assert runtime.recv(100) == QUESTION
        runtime.sendall(DONE)
        assert tool.recv(100) == DONE


@pytest.mark.parametrize("where", ["router", "server"])
def test_who_shows_who_it_is_gets_in_however_many_say_nothing(
    where: str, folder: Path, start: StartRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (side, transport_security):
        monkeypatch.setattr(room, "AUTHENTICATION_S", 10 * PATIENCE_S)
    ours = security(folder)
    there: Callable[[], int]
    with ExitStack() as stack:
        if where == "router":
            router = start(tools=f"{folder / 'tools'}", runtimes="127.0.0.1:0", runtimes_security=ours).router
            address, there = router.runtimes_address, lambda: len(router.status().connected)
        else:
            server = stack.enter_context(dd.listen("127.0.0.1:0", security=ours))
            address, there = server.address, lambda: len(server.runtimes)
        for _ in range(MOST_STRANGERS + 100):
            stack.enter_context(socket.create_connection(place(address)))
        stack.enter_context(dialled_with_tls(place(address), ours, said(5)))
        eventually(lambda: there() == 1, "it is there")


# ends -----------------------------------------------------------------------------------------------------------------


def test_a_tool_that_is_gone_ends_the_runtimes_connection(folder: Path, start: StartRouter) -> None:
    over = threading.Event()

    def script(talk: Talk) -> None:
        talk.send(SESSION)
        talk.wait_until_hung_up()
        over.set()

    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with DiallingRuntime(folder / "runtimes", {Command.ProcessInfo3: script}, number=5):
        with dialled(folder / "tools", QUESTION) as tool:
            assert tool.recv(100) == SESSION
        assert over.wait(PATIENCE_S)
    assert heard.wait_for("ended")[0].why == "the tool is gone"


def test_a_tool_that_has_ended_its_half_gets_the_answer(folder: Path, start: StartRouter) -> None:
    start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")

    def script(talk: Talk) -> None:
        talk.wait_until_hung_up()
        talk.send(DONE)

    with (
        DiallingRuntime(folder / "runtimes", {Command.ProcessInfo3: script}, number=5),
        dialled(folder / "tools", QUESTION) as tool,
    ):
        tool.shutdown(socket.SHUT_WR)
        assert tool.recv(100) == DONE
        assert tool.recv(100) == b""


def test_half_of_a_connection_does_not_stay_for_ever(
    folder: Path, start: StartRouter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "HALF_OPEN_S", 0.1)
    monkeypatch.setattr(link, "LINGER_S", 0.1)
    scripts = {Command.ProcessInfo3: says(DONE), Command.ProcessInfo2: lambda talk: talk.pause(PATIENCE_S)}
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with DiallingRuntime(folder / "runtimes", scripts, number=5):
        with dialled(folder / "tools", QUESTION):  # it never hangs up
            assert heard.wait_for("ended")[0].why == "the runtime has ended"
        with dialled(folder / "tools", dd_request(Command.ProcessInfo2)) as tool:
            tool.shutdown(socket.SHUT_WR)
            assert heard.wait_for("ended", 2)[1].why == "the tool has ended, and the runtime says nothing"


def dd_request(command: Command) -> bytes:
    data = bytearray(QUESTION)
    data[16], data[17] = command >> 8, command & 0xFF
    return bytes(data)


def test_closing_ends_all(folder: Path, start: StartRouter) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", each=True)
    with dialled(folder / "runtimes", said(5)) as runtime, dialled(folder / "tools", QUESTION) as tool:
        heard.wait_for("connected")
        heard.router.close()
        heard.router.close()
        for peer in (runtime, tool):
            with suppress(ConnectionResetError):  # its question was not read
                assert peer.recv(100) in (b"", QUESTION)
    assert os.listdir(folder) == []
    assert heard.router.wait(0)
    with pytest.raises(TransportError, match="the router is closed"):
        heard.router.status()


def test_closing_at_whatever_moment_a_tool_gets_its_runtime_leaves_no_descriptor(
    folder: Path, start: StartRouter
) -> None:
    for number in range(100):  # which moment it is differs
        heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", each=bool(number % 2))
        with dialled(folder / "runtimes", said(5)), dialled(folder / "tools", QUESTION):
            heard.wait_for("connected")
            heard.router.close()


def test_hundreds_of_rounds_leave_nothing(folder: Path, start: StartRouter) -> None:
    start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with DiallingRuntime(folder / "runtimes", number=5):
        for number in range(500):
            if number % 3:
                assert asked(folder / "tools") == 5
            else:
                with suppress(OSError):
                    dialled(folder / "tools", QUESTION[: number % 21]).close()


# on_event -------------------------------------------------------------------------------------------------------------


class ClosedPipe(BrokenPipeError):
    """What a callback raises here."""


@pytest.mark.parametrize("error", [ClosedPipe("the log"), SystemExit(3)])
def test_what_on_event_raises_stops_nothing_and_is_raised_by_wait_once(error: BaseException, folder: Path) -> None:
    told: list[str] = []

    def on_event(event: RouterEvent) -> None:
        told.append(event.what)
        raise error

    with router.Router(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", on_event=on_event) as made:
        for number in (5, 6):
            with DiallingRuntime(folder / "runtimes", number=number):
                assert asked(folder / "tools") == number
            while made.status().connected:  # whoever has gone is still noticed
                pass
            with pytest.raises(type(error)) as raised:
                made.wait(PATIENCE_S)
            assert raised.value is error
            assert made.wait(0) is False
        assert told.count("gone") == 2


def test_what_on_event_raises_is_raised_at_the_end_of_the_block_unless_that_raises(folder: Path) -> None:
    came = threading.Event()

    def on_event(_: RouterEvent) -> None:
        came.set()
        raise ClosedPipe

    how = {"tools": f"{folder / 'tools'}", "runtimes": f"{folder / 'runtimes'}", "on_event": on_event}

    def block(error: type[Exception] | None) -> None:
        came.clear()
        with router.Router(**how), dialled(folder / "runtimes", said(5)):  # type: ignore[arg-type]
            assert came.wait(PATIENCE_S)
            if error is not None:
                raise error

    with pytest.raises(ClosedPipe):
        block(None)
    with pytest.raises(ZeroDivisionError):
        block(ZeroDivisionError)
    assert os.listdir(folder) == []


def test_of_several_that_wait_one_gets_the_error_and_the_others_wait_on(folder: Path) -> None:
    def on_event(event: RouterEvent) -> None:
        raise ClosedPipe(event.what)

    ended: list[object] = []

    def wait() -> None:
        try:
            ended.append(made.wait())
        except ClosedPipe:
            ended.append(ClosedPipe)

    made = router.Router(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", on_event=on_event)
    threads = [threading.Thread(target=wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    with dialled(folder / "runtimes", said(5)):
        while not ended:
            pass
    with suppress(ClosedPipe):
        made.close()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(ended) == 5
    assert False not in ended


@pytest.mark.skipif(not hasattr(os, "fork"), reason="makes no copy of a process")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_in_a_forked_child_a_router_is_closed(folder: Path) -> None:
    with router.Router(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}") as made:
        child = os.fork()
        if not child:
            try:
                assert made.wait() is True
                with pytest.raises(TransportError, match="the router is closed"):
                    made.status()
                made.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert made.status().connected == ()
        assert (folder / "tools").exists()


def test_in_on_event_the_status_is_told_and_waiting_is_refused(folder: Path) -> None:
    said_there: list[object] = []
    came = threading.Event()

    def on_event(event: RouterEvent) -> None:
        if event.what == "connected":
            said_there.extend([len(made.status().connected), made.wait(0), repr(made)])
            for timeout_s in (None, 1.0):
                with pytest.raises(UsageError, match="call wait in another thread"):
                    made.wait(timeout_s)
            came.set()

    with (
        router.Router(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", on_event=on_event) as made,
        dialled(folder / "runtimes", said(5)),
    ):
        assert came.wait(PATIENCE_S)
    assert said_there[:2] == [1, False]


def test_a_router_is_closed_in_its_on_event(folder: Path) -> None:
    made = router.Router(
        tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", on_event=lambda _: made.close()
    )
    with dialled(folder / "runtimes", said(5)):
        assert made.wait(PATIENCE_S)
    assert os.listdir(folder) == []


def test_a_status_that_on_event_holds_up_is_not_that_of_a_closed_router(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    came, go_on = threading.Event(), threading.Event()

    def on_event(_: RouterEvent) -> None:
        came.set()
        go_on.wait(PATIENCE_S)

    with (
        router.Router(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", on_event=on_event) as made,
        dialled(folder / "runtimes", said(5)),
    ):
        assert came.wait(PATIENCE_S)
        with monkeypatch.context() as patched:
            patched.setattr(router, "CLOSE_S", 0.05)
            with pytest.raises(TimedOut, match="on_event takes too long"):
                made.status()
        go_on.set()
        assert len(made.status().connected) == 1


# what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "problem"),
    [
        ({"tools": "/x,listen", "runtimes": "192.0.2.1:9000"}, "beyond loopback: only with TLS"),
        ({"tools": "/x,listen", "runtimes": "192.0.2.1:9000,connect"}, "beyond loopback: only with TLS"),
        ({"tools": "/x,listen", "runtimes": "*:9000"}, "beyond loopback: only with TLS"),
        ({"tools": "/x,listen", "runtimes": "ws://192.0.2.1:9000/x"}, "beyond loopback: only with TLS"),
        ({"tools": "/x,listen", "runtimes": "wss://127.0.0.1:9000/x"}, "needs a certificate"),
        ({"tools": "/x,connect", "runtimes": "/y", "each": True}, "sockets for each runtime"),
        ({"tools": "/x", "runtimes": "*:1,connect", "insecure": True}, "name the host"),
        ({"tools": "/x", "runtimes": "/y", "runtime_timeout_s": -1}, "must be 0 or more"),
        ({"tools": "/x", "runtimes": "ws://127.0.0.1:8/?a"}, "write ws://host:port/path"),
    ],
)
def test_what_makes_no_sense_is_refused(how: dict[str, object], problem: str) -> None:
    with pytest.raises((UsageError, TransportError), match=problem):
        router.Router(**how)  # type: ignore[arg-type]


def test_an_address_that_is_taken_is_named(folder: Path, start: StartRouter) -> None:
    start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}")
    with pytest.raises(TransportError, match=rf"process {os.getpid()} .* listens there already"):
        start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'others'}")
    assert not (folder / "others").exists()


def test_without_the_library_a_websocket_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "websockets.client", None)
    with pytest.raises(MissingDependency, match=r"pip install 'dotnetdiag\[websocket\]'"):
        router.Router(tools="/x", runtimes="ws://127.0.0.1:0/x")


def test_the_status_socket_tells_who_is_there(folder: Path, start: StartRouter) -> None:
    heard = start(tools=f"{folder / 'tools'}", runtimes=f"{folder / 'runtimes'}", status_address=f"{folder / 'status'}")
    with DiallingRuntime(folder / "runtimes", number=5):
        heard.wait_for("connected")
        with dialled(folder / "status") as connection:
            told = json.loads(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
    assert told == json.loads(json.dumps(told))
    assert [one["cookie"] for one in told["connected"]] == [str(UUID(int=5))]
    assert (folder / "status").exists()
    assert os.stat(folder / "status").st_mode & 0o777 == 0o600


# websockets -----------------------------------------------------------------------------------------------------------


def test_runtimes_dial_over_a_websocket(folder: Path, start: StartRouter) -> None:
    pytest.importorskip("websockets")
    near_tools = start(tools=f"{folder / 'tools'}", runtimes="ws://127.0.0.1:0/diagnostics")
    url = near_tools.router.runtimes_address
    assert url.startswith("ws://127.0.0.1:")
    assert url.endswith("/diagnostics")
    start(tools=f"{url},connect", runtimes=f"{folder / 'runtimes'}")
    scripts = {Command.ProcessInfo2: floods(5_000_000)}
    with DiallingRuntime(folder / "runtimes", scripts, number=5):
        assert [asked(folder / "tools") for _ in range(3)] == [5] * 3
        with dialled(folder / "tools", dd_request(Command.ProcessInfo2)) as tool:
            assert b"".join(iter(lambda: tool.recv(1 << 20), b"")) == flood(5_000_000)


# security -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["127.0.0.1:0", "wss://127.0.0.1:0/x"])
def test_two_routers_talk_over_tls_with_a_token(way: str, folder: Path, start: StartRouter) -> None:
    ours = security(folder)
    near_tools = start(tools=f"{folder / 'tools'}", runtimes=way, runtimes_security=ours)
    there = f"{near_tools.router.runtimes_address},connect"
    far = start(tools=there, runtimes=f"{folder / 'runtimes'}", tools_security=ours)
    scripts = {Command.ProcessInfo2: floods(5_000_000)}
    with DiallingRuntime(folder / "runtimes", scripts, number=5):
        assert [asked(folder / "tools") for _ in range(3)] == [5] * 3
        with dialled(folder / "tools", dd_request(Command.ProcessInfo2)) as tool:
            assert b"".join(iter(lambda: tool.recv(1 << 20), b"")) == flood(5_000_000)
    far.router.close()
    wrong = start(tools=there, runtimes=f"{folder / 'runtimes'}", tools_security=replace(ours, token="x" * 16))
    with DiallingRuntime(folder / "runtimes", number=6):
        if way.startswith("wss"):
            wrong.wait_for_why("unreachable", "401")
        else:
            near_tools.wait_for_why("refused", "has not sent our token")
            wrong.wait_for_why("unreachable", "hangs up without a word")


@pytest.mark.parametrize("goodbye", Goodbye)
@pytest.mark.parametrize("where", ["router", "server"])
def test_a_runtime_that_has_ended_its_tls_is_gone_however_it_ends(
    where: str, goodbye: Goodbye, folder: Path, start: StartRouter
) -> None:
    ours = security(folder)
    there: Callable[[], int]
    with ExitStack() as stack:
        if where == "router":
            router = start(tools=f"{folder / 'tools'}", runtimes="127.0.0.1:0", runtimes_security=ours).router
            address, there = router.runtimes_address, lambda: len(router.status().connected)
        else:
            server = stack.enter_context(dd.listen("127.0.0.1:0", security=ours))
            address, there = server.address, lambda: len(server.runtimes)
        ends = [stack.enter_context(dialled_with_tls(place(address), ours, said(number))) for number in (5, 6)]
        eventually(lambda: there() == 2, "both are there")
        for one in ends:
            say(goodbye, one)
        eventually(lambda: there() == 0, "both are gone")


def test_a_server_of_ours_has_runtimes_over_tls_with_a_token(folder: Path, start: StartRouter) -> None:
    ours = security(folder)
    with (
        dd.listen("127.0.0.1:0", security=ours) as server,
        socket.create_connection(place(server.address)) as plain,
    ):
        start(tools=f"{server.address},connect", runtimes=f"{folder / 'runtimes'}", tools_security=ours)
        plain.sendall(said(9))  # no TLS
        with DiallingRuntime(folder / "runtimes", number=5):
            runtime = server.wait(timeout_s=PATIENCE_S)
            assert [runtime.client.process_info().pid for _ in range(3)] == [5] * 3
            assert [one.cookie for one in server.runtimes] == [UUID(int=5)]
        assert plain.recv(100)[:1] in (b"", b"\x15")  # an alert, or nothing


def test_a_server_of_ours_for_asyncio_has_too(folder: Path, start: StartRouter) -> None:
    ours = Security(token=TOKEN)

    async def first() -> int:
        async with dd.AsyncRuntimeServer("127.0.0.1:0", security=ours) as server:
            there = f"{server.address},connect"
            started.append(await asyncio.to_thread(start, tools=there, runtimes=where, tools_security=ours))
            with DiallingRuntime(folder / "runtimes", number=5):
                runtime = await server.wait(timeout_s=PATIENCE_S)
                return (await runtime.client.process_info()).pid

    started: list[object] = []
    where = str(folder / "runtimes")
    assert asyncio.run(first()) == 5


def test_a_server_of_ours_is_beyond_loopback_only_with_tls_and_a_token(folder: Path) -> None:
    ours = security(folder)
    with dd.listen("*:0", security=ours):
        pass
    for half in (None, replace(ours, token=""), Security(token=TOKEN)):
        with pytest.raises(UsageError, match="beyond loopback"):
            dd.listen("*:0", security=half)
    with pytest.raises(UsageError, match="TLS and tokens are for TCP"):
        dd.listen(str(folder / "port"), security=ours)


def test_beyond_loopback_listens_only_with_tls_and_a_token(folder: Path, start: StartRouter) -> None:
    ours = security(folder)
    start(tools=f"{folder / 'tools'}", runtimes="*:0", runtimes_security=ours)
    start(tools=f"{folder / 'others'}", runtimes="*:0", insecure=True)
