"""A tap between clients of ours and a runtime that tests play: what is told is what was said, and nobody is held up."""

from __future__ import annotations

import os
import resource
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.dialling import DiallingRuntime
from tests.client.scripted import INFO, PATIENCE_S, SESSION, ScriptedRuntime, obeys, pattern, says, streams

import dotnetdiag as dd
from dotnetdiag.errors import NoDiagnostics, OutputError, OutputExists, TargetError, TransportError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.recipes import tap as tap_module
from dotnetdiag.recipes.backlog import Backlog
from dotnetdiag.recipes.decoding import decode
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.tap import Heard, RouterEvent, TapOptions, tap
from dotnetdiag.recipes.target import Target
from dotnetdiag.router.router import Router
from dotnetdiag.testing import Script

ANSWERS: dict[Command, Script] = {Command.ProcessInfo3: says(INFO.pack())}


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dd-") as path:
        yield Path(path)


class Tapping:
    """A tap in a thread of its own, and what it has told."""

    def __init__(self, options: TapOptions, on_heard: Callable[[Heard], None] = lambda _: None) -> None:
        self.stop, self.heard, self.events = Stop(), list[Heard](), list[RouterEvent]()
        self.warnings: list[str] = []
        self.error: BaseException | None = None
        self.address = ""
        self._options, self._also = options, on_heard
        self._came = threading.Condition()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            tap(
                self._options,
                stop=self.stop,
                listening=self._listening,
                on_heard=self._hear,
                on_event=self._see,
                on_warning=self._warn,
            )
        except BaseException as error:
            self.error = error
        finally:
            self._ready.set()

    def _listening(self, router: Router) -> None:
        self.address = router.tools_address
        self._ready.set()

    def _hear(self, heard: Heard) -> None:
        with self._came:
            self.heard.append(heard)
            self._came.notify_all()
        self._also(heard)

    def _see(self, event: RouterEvent) -> None:
        with self._came:
            self.events.append(event)
            self._came.notify_all()

    def _warn(self, text: str) -> None:
        with self._came:
            self.warnings.append(text)
            self._came.notify_all()

    def wait_for_warning(self) -> None:
        with self._came:
            assert self._came.wait_for(lambda: bool(self.warnings), PATIENCE_S)

    def wait_for(self, kind: str, times: int = 1) -> list[Heard]:
        def found() -> list[Heard]:
            return [one for one in self.heard if one.message.kind == kind]

        with self._came:
            assert self._came.wait_for(lambda: len(found()) >= times, PATIENCE_S), (kind, self.heard)
        return found()

    def end(self) -> None:
        self.stop.stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def __enter__(self) -> Tapping:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *problem: object) -> None:
        self.end()


@contextmanager
def tapped(
    folder: Path, scripts: Mapping[Command, Script] | Script = ANSWERS, **options: Any
) -> Iterator[tuple[Tapping, ScriptedRuntime]]:
    runtime = ScriptedRuntime(folder / "runtime", scripts)
    target = Target(port=f"{folder}/runtime,connect")
    try:
        with Tapping(TapOptions(target=target, listen=f"{folder}/tap", **options)) as tapping:
            yield tapping, runtime
    finally:
        runtime.close()


def client(tapping: Tapping) -> dd.Client:
    return dd.Client.connect(f"{tapping.address},connect", timeout_s=PATIENCE_S)


def kinds(heard: list[Heard]) -> list[tuple[int, str, str]]:
    return [(one.connection, one.message.kind, one.message.name) for one in heard]


def test_what_both_say_is_told_in_order(folder: Path) -> None:
    with tapped(folder) as (tapping, _):
        assert client(tapping).process_info().pid == INFO.pid
        tapping.wait_for("ok")
    assert kinds(tapping.heard) == [(1, "request", "ProcessInfo3"), (1, "ok", "ProcessInfo3")]
    fields = {field.name: field.value for field in tapping.heard[1].message.fields}
    assert fields["clrProductVersion"] == INFO.runtime_version
    assert fields["runtimeCookie"] == str(INFO.cookie)
    times = [one.time_s for one in tapping.heard]
    assert all(time is not None for time in times)
    assert [event.what for event in tapping.events] == ["began", "ended"]


def test_only_its_owner_may_connect_and_nothing_is_left(folder: Path) -> None:
    with tapped(folder) as (tapping, _):
        assert stat.S_IMODE(os.stat(tapping.address).st_mode) == 0o600
    assert os.listdir(folder) == []


def test_by_itself_it_listens_at_a_path_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    runtime = ScriptedRuntime(folder / "runtime", ANSWERS)
    try:
        with Tapping(TapOptions(target=Target(port=f"{folder}/runtime,connect"))) as tapping:
            assert tapping.address == f"{folder}/dotnetdiag-tap-{os.getpid()}"
            assert client(tapping).process_info().pid == INFO.pid
    finally:
        runtime.close()


def test_a_session_is_forwarded_whole_and_counted(folder: Path) -> None:
    scripts = {Command.CollectTracing2: streams(0.001), Command.StopTracing: obeys}
    with tapped(folder, scripts, pcap=folder / "x.pcap") as (tapping, _):
        session = client(tapping).trace("A", duration=0.2)
        with session:
            session.save(folder / "x.nettrace")
        (ends,) = tapping.wait_for("stream end")
    data = (folder / "x.nettrace").read_bytes()
    assert data == pattern(len(data))
    assert ends.message.size == len(data)
    again = list(decode(folder / "x.pcap"))
    assert sorted(again, key=order) == sorted(tapping.heard, key=order)  # the times too
    assert stat.S_IMODE((folder / "x.pcap").stat().st_mode) == 0o600


def order(heard: Heard) -> tuple[int, str, int]:
    return heard.connection, heard.message.kind, heard.message.offset


def test_a_tool_that_takes_nothing_holds_up_nobody(folder: Path) -> None:
    def flood(talk: Any) -> None:
        talk.send(SESSION)
        while True:
            talk.send(pattern(1 << 16))

    scripts: dict[Command, Script] = {**ANSWERS, Command.CollectTracing2: flood}
    request = bytes.fromhex("444f544e45545f4950435f563100") + bytes.fromhex("1400 02 03 0000")
    with tapped(folder, scripts) as (tapping, _), socket.socket(socket.AF_UNIX) as slow:
        slow.connect(tapping.address)
        slow.sendall(request)
        tapping.wait_for("stream")
        for _ in range(20):
            assert client(tapping).process_info().pid == INFO.pid
        tapping.wait_for("ok", 21)


def test_who_is_slow_to_take_what_is_told_holds_up_nobody(folder: Path) -> None:
    free = threading.Event()
    runtime = ScriptedRuntime(folder / "runtime", ANSWERS)
    options = TapOptions(target=Target(port=f"{folder}/runtime,connect"), listen=f"{folder}/tap")
    try:

        def slow(_: Heard) -> None:
            free.wait(PATIENCE_S)

        with Tapping(options, on_heard=slow) as tapping:
            try:
                for _ in range(5):
                    assert client(tapping).process_info().pid == INFO.pid
            finally:
                free.set()
            tapping.wait_for("ok", 5)
    finally:
        runtime.close()


def test_what_is_too_far_behind_is_lost_and_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backlog: Backlog[str] = Backlog(10)
    for thing in "abcd":
        backlog.put(thing, 4)
    assert backlog.take() == (["a", "b"], 2)
    backlog.put("e", 4)
    assert backlog.take(0.001) == (["e"], 0)
    assert backlog.take(0.001) == ([], 0)
    monkeypatch.setattr(tap_module, "BACKLOG_BYTES", 0)
    with tapped(folder) as (tapping, _):
        assert client(tapping).process_info().pid == INFO.pid
    assert tapping.heard == []
    assert {event.what for event in tapping.events} == {"lost"}


def test_a_runtime_that_dials_is_heard_from_its_advertise_on(folder: Path) -> None:
    target = Target(port=f"{folder}/port")
    with (
        Tapping(TapOptions(target=target, listen=f"{folder}/tap")) as tapping,
        DiallingRuntime(folder / "port", number=7),
    ):
        assert client(tapping).process_info().pid == 7
        tapping.wait_for("ok")
    assert [one.message.kind for one in tapping.heard[:3]] == ["advertise", "request", "ok"]


def test_bytes_that_are_no_message_are_forwarded_and_told(folder: Path) -> None:
    came = bytearray()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/runtime")
        listener.listen()
        listener.settimeout(PATIENCE_S)
        options = TapOptions(target=Target(port=f"{folder}/runtime,connect"), listen=f"{folder}/tap")
        with Tapping(options) as tapping, socket.socket(socket.AF_UNIX) as tool:
            tool.connect(tapping.address)
            tool.sendall(b"GET / HTTP/1.1\r\n\r\nmore of it")
            tool.shutdown(socket.SHUT_WR)
            with listener.accept()[0] as runtime:
                while part := runtime.recv(100):
                    came += part
            tapping.wait_for("bytes", 2)
    assert bytes(came) == b"GET / HTTP/1.1\r\n\r\nmore of it"
    assert sum(one.message.size for one in tapping.heard) == len(came)


def test_a_capture_that_is_there_is_overwritten_only_by_force(folder: Path) -> None:
    (folder / "x.pcap").write_bytes(b"old")
    options = TapOptions(
        target=Target(port=f"{folder}/runtime,connect"), listen=f"{folder}/tap", pcap=folder / "x.pcap"
    )
    with pytest.raises(OutputExists):
        tap(options, stop=Stop())
    with tapped(folder, pcap=folder / "x.pcap", force=True) as (tapping, _):
        client(tapping).process_info()
        tapping.wait_for("ok")
    assert [one.message.kind for one in decode(folder / "x.pcap")] == ["request", "ok"]


def test_a_capture_that_cannot_go_on_does_not_end_the_forwarding(folder: Path) -> None:
    def use() -> None:
        with tapped(folder, pcap=Path("/dev/full")) as (tapping, _):
            taps.append(tapping)
            assert client(tapping).process_info().pid == INFO.pid
            tapping.wait_for_warning()
            for _ in range(2):
                assert client(tapping).process_info().pid == INFO.pid
            tapping.wait_for("ok", 3)

    taps: list[Tapping] = []
    with pytest.raises(OutputError, match="No space left on device"):
        use()
    assert taps[0].warnings == ["/dev/full: No space left on device; the tap goes on without a capture"]


def test_nothing_is_begun_where_nothing_is_to_be_heard(folder: Path) -> None:
    with pytest.raises(TargetError):
        tap(TapOptions(target=Target(pid=2**30), listen=f"{folder}/tap"), stop=Stop())
    with pytest.raises(NoDiagnostics):
        tap(TapOptions(target=Target(pid=os.getpid()), listen=f"{folder}/tap"), stop=Stop())
    stop = Stop()
    stop.stop()
    runtime = ScriptedRuntime(folder / "runtime", ANSWERS)
    try:
        with pytest.raises(TransportError, match="listens there already"):
            tap(TapOptions(target=Target(port=f"{folder}/x,connect"), listen=f"{folder}/runtime"), stop=stop)
    finally:
        runtime.close()


def test_a_flood_is_forwarded_in_little_memory(folder: Path) -> None:
    size, piece = 300 << 20, bytes(1 << 20)

    def flood(talk: Any) -> None:
        talk.send(SESSION + b"Nettrace")
        for _ in range(size >> 20):
            talk.send(piece)

    request = bytes.fromhex("444f544e45545f4950435f563100 1400 02 03 0000")
    with tapped(folder, {Command.CollectTracing2: flood}) as (tapping, _), socket.socket(socket.AF_UNIX) as tool:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tool.connect(tapping.address)
        tool.sendall(request)
        came, buffer = 0, bytearray(1 << 20)
        while count := tool.recv_into(buffer):
            came += count
        (ends,) = tapping.wait_for("stream end")
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert came == size + 8 + len(SESSION)
    assert ends.message.size == size + 8
    assert grown_kb < 20_000
