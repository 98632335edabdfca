"""A server at its sockets, in both shells."""

from __future__ import annotations

import os
import socket
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.server.shells import PATIENCE_S, Served, ask, dial, read_all, read_message, take
from tests.server.sources import REQUEST, FakeSource, Streamer

from dotnetdiag.errors import TimedOut, TransportError, UsageError
from dotnetdiag.ipc.advertise import SIZE, Advertise
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.process import ResumeRuntime
from dotnetdiag.ipc.process_info import ProcessInfo3, ProcessInfo3Reply
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.tracing import StopTracing
from dotnetdiag.server import connection, credentials, serving
from dotnetdiag.server.blocking import may_wait
from dotnetdiag.server.commands import Caller, Commands, Reply
from dotnetdiag.server.process import ProcessCommands
from dotnetdiag.server.server import DiagnosticServer
from dotnetdiag.transport.addresses import UnixAddress

Make = Callable[..., Served]
INFO, RESUME = ProcessInfo3().pack(), ResumeRuntime().pack()
BAD = ErrorReply(hresult=HResult.BAD_ENCODING).pack()
OK = ResultReply().pack()


def until(condition: Callable[[], bool]) -> None:
    """What another thread brings about."""
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.002)


# commands -------------------------------------------------------------------------------------------------------------


def test_a_command_is_answered_and_the_connection_closed(serve: Make, folder: Path) -> None:
    served = serve(ProcessCommands())
    address = served.listen(folder / "s")
    assert ProcessInfo3Reply.parse(ask(address, INFO)).pid == os.getpid()


def test_a_socket_is_the_users_alone_and_goes_with_the_server(serve: Make, folder: Path) -> None:
    served = serve()
    served.listen(folder / "s")
    assert stat.S_IMODE((folder / "s").stat().st_mode) == 0o600
    served.close()
    served.close()
    assert list(folder.iterdir()) == []
    assert not served.server.is_serving


def test_the_default_address_is_where_tools_look(serve: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dotnetdiag.transport import candidates

    monkeypatch.setenv("TMPDIR", str(folder))
    served = serve(ProcessCommands())
    address = served.listen(None)
    assert UnixAddress(address) in [one.address for one in candidates(os.getpid(), tmpdir=str(folder))]


def test_a_server_listens_at_tcp_of_this_machine(serve: Make) -> None:
    served = serve()
    assert ask(served.listen("127.0.0.1:0"), RESUME) == OK


def test_over_tcp_with_security_who_has_certificate_and_token_is_answered_and_nobody_else(
    serve: Make, tmp_path: Path
) -> None:
    from tests.transport.certificates import security

    from dotnetdiag.transport import Deadline, connect, parse_address
    from dotnetdiag.transport.security import Security, introducing
    from dotnetdiag.transport.sockets import SocketStream
    from dotnetdiag.transport.waiting import run

    ours = security(tmp_path)
    served = serve()
    address = served.listen("*:0", security=ours)
    port = address.rpartition(":")[2]
    for shown in (ours, Security(token=ours.token), security(tmp_path, name="theirs"), Security()):
        deadline = Deadline(PATIENCE_S)
        stream = connect(parse_address(f"127.0.0.1:{port}"), deadline)
        assert isinstance(stream, SocketStream)
        answer = b""
        try:
            stream = run(introducing(stream, shown, "127.0.0.1"), deadline)
            stream.send(RESUME, deadline)
            while part := stream.receive(100, deadline):
                answer += part
        except TransportError:
            pass
        stream.close()
        assert answer == (OK if shown is ours else b"")


def test_tcp_beyond_loopback_is_refused_without_certificates_and_a_token(serve: Make) -> None:
    served = serve()
    with pytest.raises(UsageError, match="beyond loopback"):
        served.listen("*:0")


def test_listening_where_somebody_does_is_an_error(serve: Make, folder: Path) -> None:
    served = serve()
    served.listen(folder / "s")
    with pytest.raises(TransportError, match="listens there already"):
        served.listen(folder / "s")


def test_a_closed_server_says_that_another_is_to_be_made(serve: Make, folder: Path) -> None:
    served = serve()
    served.close()
    with pytest.raises(UsageError, match="is closed: make another one"):
        served.listen(folder / "s")


@pytest.mark.parametrize("data", [b"", b"D", INFO[:19], INFO[:14] + b"\xff\xff" + INFO[16:]])
def test_who_ends_his_half_too_early_gets_bad_encoding(serve: Make, folder: Path, data: bytes) -> None:
    served = serve()
    with dial(served.listen(folder / "s"), data) as talk:
        talk.shutdown(socket.SHUT_WR)
        assert read_all(talk) == BAD


def test_who_ends_his_half_after_his_request_is_answered(serve: Make, folder: Path) -> None:
    served = serve()
    with dial(served.listen(folder / "s"), RESUME) as talk:
        talk.shutdown(socket.SHUT_WR)
        assert read_all(talk) == OK


def test_a_request_may_come_byte_by_byte(serve: Make, folder: Path) -> None:
    served = serve()
    with dial(served.listen(folder / "s")) as talk:
        for byte in RESUME:
            talk.sendall(bytes([byte]))
        assert read_all(talk) == OK


@pytest.mark.parametrize("address", ["unix", "tcp"])
def test_bytes_behind_a_request_do_not_take_its_answer_away(serve: Make, folder: Path, address: str) -> None:
    served = serve()
    where = served.listen(folder / "s" if address == "unix" else "127.0.0.1:0")
    for _ in range(20):
        with dial(where, b"\xff" * 20 + b"x" * 100_000) as talk:
            talk.shutdown(socket.SHUT_WR)
            assert read_all(talk) in (BAD, ErrorReply(hresult=HResult.UNKNOWN_MAGIC).pack())


def test_who_says_too_little_is_hung_up_on(serve: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REQUEST_S", 0.05)
    served = serve()
    address = served.listen(folder / "s")
    for data in (b"", INFO[:10]):
        with dial(address, data) as talk:
            assert read_all(talk) == b""
    until(lambda: served.status.connections == 0)
    assert ask(address, RESUME) == OK


def test_who_does_not_take_his_reply_is_hung_up_on(serve: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dotnetdiag.ipc.environment import EnvironmentBlock, ProcessEnvironment

    monkeypatch.setattr(connection, "REPLY_S", 0.05)
    large = EnvironmentBlock(entries=tuple(f"{number}={'x' * 1000}" for number in range(2000)))
    served = serve(Commands({Command.ProcessEnvironment: lambda request, caller: large}))
    address = served.listen(folder / "s")
    with dial(address, ProcessEnvironment().pack()) as talk:
        until(lambda: served.status.connections == 1)
        until(lambda: served.status.connections == 0)
        assert len(read_all(talk)) < 4_000_000
    assert ask(address, RESUME) == OK


def test_a_command_that_takes_long_holds_nobody_up(serve: Make, folder: Path) -> None:
    go_on = threading.Event()

    class Slow(Commands):
        def process_info(self, request: object, caller: Caller) -> Reply:
            assert go_on.wait(PATIENCE_S)
            return ErrorReply(hresult=HResult.FAIL)

    served = serve(Slow())
    address = served.listen(folder / "s")
    slow = [dial(address, INFO) for _ in range(20)]
    assert ask(address, RESUME) == OK
    go_on.set()
    for talk in slow:
        with talk:
            assert read_all(talk) == ErrorReply(hresult=HResult.FAIL).pack()


def test_a_caller_is_known_by_process_and_user(serve: Make, folder: Path) -> None:
    callers: list[Caller] = []

    class Asking(Commands):
        def process_info(self, request: object, caller: Caller) -> Reply:
            callers.append(caller)
            return ErrorReply(hresult=HResult.FAIL)

    served = serve(Asking())
    address = served.listen(folder / "s")
    ask(address, INFO)
    assert callers == [Caller(address=address, port=address, pid=os.getpid(), uid=os.geteuid())]


def test_other_users_get_not_a_byte_and_are_counted(serve: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials, "ROOT", 0xFFFF)
    monkeypatch.setattr(os, "geteuid", lambda: 0xFFFE)
    served = serve()
    address = served.listen(folder / "s")
    with dial(address) as talk:
        assert talk.recv(1) == b""
    assert served.status.strangers == 1


# crowds ---------------------------------------------------------------------------------------------------------------


def test_two_hundred_connections_half_of_them_silent_are_served_without_a_thread_each(
    serve: Make, folder: Path
) -> None:
    served = serve(ProcessCommands())
    address = served.listen(folder / "s")
    ask(address, INFO)
    threads = threading.active_count()
    silent = [dial(address, INFO[: number % 20]) for number in range(100)]
    asking = [dial(address, INFO) for _ in range(100)]
    for talk in asking:
        with talk:
            assert ProcessInfo3Reply.parse(read_all(talk)).pid == os.getpid()
    until(lambda: threading.active_count() <= threads)
    assert served.status.connections >= 100
    for talk in silent:
        talk.close()
    until(lambda: served.status.connections == 0)


def test_the_one_that_is_silent_for_longest_makes_room(
    serve: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 3)
    served = serve()
    address = served.listen(folder / "s")
    silent = [dial(address) for _ in range(3)]
    until(lambda: served.status.connections == 3)
    assert ask(address, RESUME) == OK
    assert silent[0].recv(1) == b""
    assert served.status.crowded_out == 1
    for talk in silent:
        talk.close()


def test_nobody_makes_room_when_all_are_being_answered(
    serve: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MOST_CONNECTIONS", 2)
    served = serve(Streamer())
    address = served.listen(folder / "s")
    readers = [dial(address, REQUEST.pack()) for _ in range(2)]
    for reader in readers:
        SessionReply.parse(read_message(reader))
    with dial(address) as talk:
        assert talk.recv(1) == b""
    for reader in readers:
        reader.close()
    until(lambda: served.status.connections == 0)


# sessions -------------------------------------------------------------------------------------------------------------


def session_of(address: str) -> tuple[socket.socket, int]:
    """A session: its reader, and its id."""
    reader = dial(address, REQUEST.pack())
    return reader, SessionReply.parse(read_message(reader)).session_id


def test_neither_who_serves_nor_a_command_waits_for_a_reader_whatever_they_write(serve: Make, folder: Path) -> None:
    waits: dict[str, bool] = {}

    class Source(FakeSource):
        def take(self, limit: int) -> bytes | None:
            waits["the server"] = may_wait()
            return super().take(limit)

    class Asked(Streamer):
        def process_info(self, request: object, caller: Caller) -> Reply:
            waits["a command"] = may_wait()
            return ResultReply()

    address = serve(Asked(Source)).listen(folder / "s")
    ask(address, INFO)
    with dial(address, REQUEST.pack()) as reader:
        read_message(reader)
        until(lambda: len(waits) == 2)
    assert waits == {"the server": False, "a command": False}


def test_a_session_streams_what_its_source_gives_until_it_is_stopped(serve: Make, folder: Path) -> None:
    commands = Streamer(lambda: FakeSource(b"Nettrace"))
    served = serve(commands)
    address = served.listen(folder / "s")
    reader, session_id = session_of(address)
    with reader:
        assert take(reader, 8) == b"Nettrace"
        commands.sources[0].give(b"more")
        assert take(reader, 4) == b"more"
        reply = ask(address, StopTracing(session_id=session_id).pack())
        assert SessionReply.parse(reply).session_id == session_id
        assert read_all(reader) == b"the end"
    assert commands.sources[0].said == ["on_ready", "stop", "None"]
    until(lambda: served.status.sessions == served.status.connections == 0)
    assert served.problems == []


def test_the_reply_to_a_stop_comes_after_the_stream_has_been_taken(serve: Make, folder: Path) -> None:
    size = 4_000_000
    commands = Streamer(lambda: FakeSource(rundown=b"x" * size))
    served = serve(commands)
    address = served.listen(folder / "s")
    reader, session_id = session_of(address)
    with reader, dial(address, StopTracing(session_id=session_id).pack()) as stopper:
        commands.sources[0].until("stop")
        stopper.setblocking(False)
        with pytest.raises(BlockingIOError):
            stopper.recv(1)
        assert len(read_all(reader)) == size
        stopper.setblocking(True)
        assert SessionReply.parse(read_all(stopper)).session_id == session_id


def test_a_slow_reader_slows_his_own_session_alone(serve: Make, folder: Path) -> None:
    sources = iter([FakeSource(b"x" * 4_000_000), FakeSource(b"y" * 4_000_000)])
    served = serve(Streamer(lambda: next(sources)))
    address = served.listen(folder / "s")
    slow, _ = session_of(address)
    quick, _ = session_of(address)
    with slow, quick:
        assert take(quick, 4_000_000) == b"y" * 4_000_000
        assert ask(address, RESUME) == OK
        assert take(slow, 4_000_000) == b"x" * 4_000_000


def test_a_source_that_always_has_more_holds_nobody_up(serve: Make, folder: Path) -> None:
    class Endless(FakeSource):
        def take(self, limit: int) -> bytes | None:
            return b"x" * limit

    served = serve(Streamer(Endless))
    address = served.listen(folder / "s")
    reader, _ = session_of(address)
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            reader.recv(1 << 20)

    reading = threading.Thread(target=read)
    reading.start()
    try:
        assert ask(address, RESUME) == OK
    finally:
        done.set()
        reading.join(PATIENCE_S)
        reader.close()


def test_a_source_whose_reader_has_gone_is_hung_up_though_it_is_silent(serve: Make, folder: Path) -> None:
    commands = Streamer()
    served = serve(commands)
    address = served.listen(folder / "s")
    reader, session_id = session_of(address)
    reader.close()
    commands.sources[0].until("hang_up")
    until(lambda: served.status.sessions == served.status.connections == 0)
    assert SessionReply.parse(ask(address, StopTracing(session_id=session_id).pack())).session_id == session_id
    assert commands.sources[0].said == ["on_ready", "hang_up"]


def test_a_reader_that_has_ended_his_half_still_reads(serve: Make, folder: Path) -> None:
    commands = Streamer()
    served = serve(commands)
    reader, _ = session_of(served.listen(folder / "s"))
    with reader:
        reader.sendall(StopTracing(session_id=1).pack())  # is not looked at
        reader.shutdown(socket.SHUT_WR)
        commands.sources[0].give(b"more")
        assert take(reader, 4) == b"more"
        commands.sources[0].finish()
        assert read_all(reader) == b""


def test_a_source_that_ends_by_itself_ends_the_session(serve: Make, folder: Path) -> None:
    commands = Streamer()
    served = serve(commands)
    reader, _ = session_of(served.listen(folder / "s"))
    with reader:
        commands.sources[0].give(b"bye")
        commands.sources[0].finish()
        assert read_all(reader) == b"bye"
    until(lambda: served.status.sessions == 0)


def test_a_reader_that_takes_nothing_after_the_stop_is_hung_up_on(
    serve: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STALL_S", 0.05)
    monkeypatch.setattr(connection, "LOOK_S", 0.01)
    commands = Streamer(lambda: FakeSource(b"x" * 4_000_000))
    served = serve(commands)
    address = served.listen(folder / "s")
    reader, session_id = session_of(address)
    with reader:
        reply = ask(address, StopTracing(session_id=session_id).pack())
        assert SessionReply.parse(reply).session_id == session_id
    commands.sources[0].until("hang_up")


def test_a_source_that_raises_ends_its_session_and_is_told(serve: Make, folder: Path) -> None:
    class Broken(FakeSource):
        def take(self, limit: int) -> bytes | None:
            raise ValueError("broken")

    commands = Streamer(Broken)
    served = serve(commands)
    reader, _ = session_of(served.listen(folder / "s"))
    with reader:
        assert read_all(reader) == b""
    commands.sources[0].until("hang_up")
    assert served.problems == ["the source of session 1 fails: broken"]


def test_a_session_whose_reader_has_gone_before_it_began_is_hung_up(serve: Make, folder: Path) -> None:
    go_on = threading.Event()

    def make() -> FakeSource:
        assert go_on.wait(PATIENCE_S)
        return FakeSource()

    commands = Streamer(make)
    served = serve(commands)
    dial(served.listen(folder / "s"), REQUEST.pack()).close()
    until(lambda: bool(commands.asked))
    go_on.set()
    until(lambda: bool(commands.sources))
    commands.sources[0].until("hang_up")
    until(lambda: served.status.sessions == 0)


def test_closing_the_server_brings_sessions_to_their_ends(serve: Make, folder: Path) -> None:
    commands = Streamer()
    served = serve(commands)
    reader, _ = session_of(served.listen(folder / "s"))
    with reader:
        closing = threading.Thread(target=served.close)
        closing.start()
        assert read_all(reader) == b"the end"
        closing.join(PATIENCE_S)
    assert not closing.is_alive()
    assert commands.sources[0].said == ["on_ready", "stop", "None"]


def test_closing_the_server_does_not_wait_for_a_reader_that_takes_nothing(serve: Make, folder: Path) -> None:
    commands = Streamer(lambda: FakeSource(b"x" * 4_000_000))
    served = serve(commands)
    reader, _ = session_of(served.listen(folder / "s"))
    with reader:
        served.close(drain_s=0.05)
        assert len(read_all(reader)) < 4_000_000
    commands.sources[0].until("hang_up")


# ports that are dialled -----------------------------------------------------------------------------------------------


def monitor(path: Path) -> socket.socket:
    """Somebody who waits for runtimes to dial."""
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(PATIENCE_S)
    made.bind(str(path))
    made.listen(64)
    return made


def advertised(listener: socket.socket) -> tuple[socket.socket, Advertise]:
    """The next connection, and who says to be there."""
    talk, _ = listener.accept()
    talk.settimeout(PATIENCE_S)
    return talk, Advertise.parse(take(talk, SIZE))


def test_a_port_is_dialled_for_each_command(serve: Make, folder: Path) -> None:
    served = serve(ProcessCommands())
    with monitor(folder / "m") as listener:
        served.connect(folder / "m")
        cookies = set()
        for _ in range(3):
            talk, advertise = advertised(listener)
            with talk:
                assert advertise.pid == os.getpid()
                talk.sendall(INFO)
                info = ProcessInfo3Reply.parse(read_all(talk))
            cookies |= {advertise.cookie, info.cookie}
        assert len(cookies) == 1
        served.close()


def test_a_port_is_dialled_again_while_a_session_streams(serve: Make, folder: Path) -> None:
    commands = Streamer()
    served = serve(commands)
    with monitor(folder / "m") as listener:
        served.connect(folder / "m")
        reader, _ = advertised(listener)
        reader.sendall(REQUEST.pack())
        session_id = SessionReply.parse(read_message(reader)).session_id
        stopper, _ = advertised(listener)
        with reader, stopper:
            stopper.sendall(StopTracing(session_id=session_id).pack())
            assert read_all(reader) == b"the end"
            assert SessionReply.parse(read_all(stopper)).session_id == session_id
        served.close()


def test_a_monitor_may_come_and_go(serve: Make, folder: Path) -> None:
    served = serve(ProcessCommands())
    served.connect(folder / "m")
    for _ in range(2):
        with monitor(folder / "m") as listener:
            talk, _ = advertised(listener)
            talk.close()
            talk, _ = advertised(listener)
            with talk:
                talk.sendall(RESUME)
                assert read_all(talk) == OK
        (folder / "m").unlink()
    assert served.problems == []


def test_a_connection_to_a_port_may_be_kept_longer_than_a_request_takes(
    serve: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_S", 0.05)
    served = serve()
    with monitor(folder / "m") as listener:
        served.connect(folder / "m")
        talk, _ = advertised(listener)
        with talk:
            talk.settimeout(0.3)
            with pytest.raises(TimeoutError):
                talk.recv(1)
            talk.settimeout(PATIENCE_S)
            talk.sendall(RESUME)
            assert read_all(talk) == OK
        served.close()


def test_a_port_of_another_user_is_not_answered_and_told_once(
    serve: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "ROOT", 0xFFFF)
    monkeypatch.setattr(os, "geteuid", lambda: 0xFFFE)
    served = serve()
    with monitor(folder / "m") as listener:
        served.connect(folder / "m")
        for _ in range(3):
            talk, _ = listener.accept()
            with talk:
                assert talk.recv(1) == b""
        served.close()
    assert served.problems == [f"the diagnostic port {str(folder / 'm')!r} belongs to another user"]


def test_every_usable_port_of_a_text_is_opened_and_the_others_are_told(serve: Make, folder: Path) -> None:
    served = serve()
    (folder / "file").touch()
    text = f"{folder}/m,nosuspend;{folder}/l,listen;;{folder}/file,listen;*:1,connect;1.2.3.4:5,listen"
    assert served.open_ports(text) == 2
    assert [line.partition(" is left out")[0] for line in served.problems] == [
        f"the diagnostic port {f'{folder}/file'!r}",
        "the diagnostic port '*:1'",
        "the diagnostic port '1.2.3.4:5'",
    ]
    assert ask(folder / "l", RESUME) == OK
    assert served.status.suspended == ()  # it was resumed just now; those that are left out hold nobody up


def test_an_environment_opens_the_default_address_and_its_ports(serve: Make, folder: Path) -> None:
    served = serve()
    ports = f"{folder}/l,listen,nosuspend"
    environment = {"TMPDIR": str(folder), "DOTNET_DiagnosticPorts": ports, "DOTNET_DefaultDiagnosticPortSuspend": "1"}
    assert served.open_environment(environment)
    first, second = served.status.addresses
    assert served.status.suspended == (first,)
    assert (ask(second, RESUME), ask(first, RESUME)) == (OK, OK)
    assert not served.server.is_suspended


def test_an_environment_may_say_that_nobody_serves(serve: Make, folder: Path) -> None:
    served = serve()
    assert not served.open_environment({"TMPDIR": str(folder), "DOTNET_EnableDiagnostics": "0"})
    assert list(folder.iterdir()) == []


def test_a_default_address_that_cannot_be_is_told_and_does_not_suspend(serve: Make, folder: Path) -> None:
    served = serve()
    assert served.open_environment({"TMPDIR": f"{folder}/nowhere", "DOTNET_DefaultDiagnosticPortSuspend": "1"})
    assert not served.server.is_suspended
    assert "there is no such folder" in served.problems[0]


# suspending -----------------------------------------------------------------------------------------------------------


def test_a_suspended_start_waits_for_each_port_that_suspends(serve: Make, folder: Path) -> None:
    told: list[str] = []
    served = serve(resumed=lambda: told.append("resumed"))
    first, second = served.listen(folder / "a", suspend=True), served.listen(folder / "b")
    with monitor(folder / "m") as listener:
        served.connect(folder / "m", suspend=True)
        with pytest.raises(TimedOut):
            served.wait_until_resumed(0.01)
        assert ask(second, RESUME) == OK
        assert list(served.status.suspended) == [str(folder / "a"), str(folder / "m")]
        assert ask(first, RESUME) == OK
        assert (served.server.is_suspended, told) == (True, [])
        talk, _ = advertised(listener)
        with talk:
            talk.sendall(RESUME)
            assert read_all(talk) == OK
        served.wait_until_resumed()
        assert told == ["resumed"]
        served.close()


def test_closing_the_server_resumes(serve: Make, folder: Path) -> None:
    served = serve()
    served.listen(folder / "a", suspend=True)
    served.close()
    assert not served.server.is_suspended


# one shell ------------------------------------------------------------------------------------------------------------


def test_a_server_may_be_closed_by_a_command_of_its_own(folder: Path) -> None:
    class Closing(Commands):
        def process_info(self, request: object, caller: Caller) -> Reply:
            server.close()
            return ErrorReply(hresult=HResult.FAIL)

    server = DiagnosticServer(Closing())
    assert ask(server.listen(str(folder / "s")), INFO) == b""
    until(lambda: not server.is_serving)
