"""What a server bears: random, truncated and malformed messages, in process and at a socket, a good client beside them.

    python fuzz/server.py [--messages N] [--connections N] [--seed N]

First ``--messages`` go to a Dialogue each, cut anywhere, half of them ended early: each must be answered with one whole message that says
what the rules say, or wait for more; every command behind it is performed. Then ``--connections`` are made at a socket, by clients that
send such messages, whole, in pieces or half of them, read or do not, and hang up when they like; two hundred are silent all the time.
A good client asks meanwhile and is answered within ``GOOD_S``. Descriptors and memory are where they were in the end.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import socket
import struct
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.server.shells import ask, dial, read_all
from tests.server.sources import FakeSource

from dotnetdiag.ipc import legacy
from dotnetdiag.ipc.commands import OK_ID, SERVER_SET, Command
from dotnetdiag.ipc.dump import GenerateCoreDump3
from dotnetdiag.ipc.environment import ProcessEnvironment, SetEnvironmentVariable
from dotnetdiag.ipc.eventpipe import EventFilter, Provider, Tracepoints, TracepointSet
from dotnetdiag.ipc.frames import HEADER_SIZE, MAGIC, Frame, FrameReader
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.process import ApplyStartupHook, EnablePerfMap, ResumeRuntime
from dotnetdiag.ipc.process_info import ProcessInfo3, ProcessInfo3Reply
from dotnetdiag.ipc.profiler import AttachProfiler, StartupProfiler
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.ipc.tracing import (
    CollectTracing,
    CollectTracing2,
    CollectTracing4,
    CollectTracing5UserEvents,
    CollectTracing6,
    StopTracing,
)
from dotnetdiag.server.ages import Age
from dotnetdiag.server.commands import Caller, Reply, Streaming
from dotnetdiag.server.dialogue import Call, Dialogue
from dotnetdiag.server.dispatch import Answer, Dispatcher
from dotnetdiag.server.process import ProcessCommands
from dotnetdiag.server.server import DiagnosticServer

GOOD_S = 0.1
SILENT = 100
MOST_GROWN_BYTES = 32 << 20
_A = Provider(name="A", keywords=3, level=4, arguments="x=y")
_FILTERED = Provider(name="B", event_filter=EventFilter(enable=True, ids=(1, 2)))
_TRACEPOINTS = Provider(name="C", tracepoints=Tracepoints(default="t", sets=(TracepointSet(name="s", ids=(5,)),)))
SEEDS: tuple[bytes, ...] = (
    ProcessInfo3().pack(),
    ProcessEnvironment().pack(),
    ResumeRuntime().pack(),
    SetEnvironmentVariable(name="DD_FUZZ", value="b").pack(),
    GenerateCoreDump3(path="/d").pack(),
    EnablePerfMap().pack(),
    ApplyStartupHook(path="/hook.dll").pack(),
    AttachProfiler(timeout_ms=1, clsid=UUID(int=1), path="/p", client_data=b"abc").pack(),
    StartupProfiler(clsid=UUID(int=1), path="/p").pack(),
    StopTracing(session_id=1).pack(),
    CollectTracing(providers=(_A,)).pack(),
    CollectTracing2(providers=(_A, _A)).pack(),
    CollectTracing4(providers=(_A,)).pack(),
    CollectTracing6(providers=(_A, _FILTERED)).pack(),
    CollectTracing5UserEvents(providers=(_TRACEPOINTS,)).pack(),
)
LEGACY_SEEDS: tuple[bytes, ...] = (
    legacy.CollectEventPipeTracing(client_pid=1, buffer_mb=1, output_path=None, providers=(_A,)).pack(),
    legacy.StopEventPipeTracing(client_pid=1, session_id=1).pack(),
    legacy.LegacyGenerateCoreDump(client_pid=1, path="/d", dump_type=1).pack(),
)
LIES = (0, 1, 2, 19, 20, 21, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


class Commands(ProcessCommands):
    """Sessions, and all that a process says of itself, but its environment is not changed."""

    def collect(self, request: CollectTracing6, caller: Caller) -> Streaming:  # noqa: ARG002 - all are the same
        """A session that a reader may take longer for than he has patience."""
        return Streaming(source=FakeSource(b"Nettrace" * 1000))

    def set_environment_variable(self, request: SetEnvironmentVariable, caller: Caller) -> Reply:  # noqa: ARG002
        """Nothing is set."""
        return ResultReply()


class Problems(list[str]):
    """What was told."""

    def tell(self, line: str, error: BaseException | None) -> None:
        """A ``Problem``."""
        self.append(f"{line}: {error!r}")


def message(source: random.Random, seeds: tuple[bytes, ...] = SEEDS) -> bytes:
    """Some bytes that somebody sends."""
    return source.choice(_MAKERS)(source, bytearray(source.choice(seeds)))


def _as_it_is(source: random.Random, data: bytearray) -> bytes:  # noqa: ARG001 - as the others
    return bytes(data)


def _with_wrong_bytes(source: random.Random, data: bytearray) -> bytes:
    for _ in range(source.randrange(1, 6)):
        data[source.randrange(len(data))] = source.randrange(256)
    return bytes(data)


def _with_wrong_payload_bytes(source: random.Random, data: bytearray) -> bytes:
    for _ in range(source.randrange(1, 6) if len(data) > HEADER_SIZE else 0):
        data[source.randrange(HEADER_SIZE, len(data))] = source.randrange(256)
    return bytes(data)


def _with_a_lie(source: random.Random, data: bytearray) -> bytes:
    """A number of four bytes that says something else."""
    at = source.randrange(max(len(data) - 4, 1))
    data[at : at + 4] = struct.pack("<I", source.choice(LIES))
    return bytes(data)


def _cut(source: random.Random, data: bytearray) -> bytes:
    return bytes(data[: source.randrange(len(data))])


def _cut_to_fit(source: random.Random, data: bytearray) -> bytes:
    """Less payload, in a message that is whole."""
    return _whole(data[: source.randrange(min(HEADER_SIZE, len(data)), len(data) + 1)])


def _with_more(source: random.Random, data: bytearray) -> bytes:
    return _whole(data + source.randbytes(source.randrange(200)))


def _of_another_command(source: random.Random, data: bytearray) -> bytes:
    code = source.choice((*Command, source.randrange(0x10000)))
    data[16:18] = code.to_bytes(2, "big")
    return bytes(data)


def _random(source: random.Random, data: bytearray) -> bytes:  # noqa: ARG001
    return source.randbytes(source.randrange(200))


def _random_payload(source: random.Random, data: bytearray) -> bytes:
    return _whole(data[:HEADER_SIZE] + source.randbytes(source.randrange(200)))


def _large(source: random.Random, data: bytearray) -> bytes:
    return _whole((data * (1 + 0xFFFF // len(data)))[:0xFFFF]) if source.random() < 0.02 else bytes(data)


def _whole(data: bytearray) -> bytes:
    if len(data) >= HEADER_SIZE:
        data[14:16] = len(data).to_bytes(2, "little")
    return bytes(data)


_MAKERS: tuple[Callable[[random.Random, bytearray], bytes], ...] = (
    _as_it_is,
    _with_wrong_bytes,
    _with_wrong_payload_bytes,
    _with_a_lie,
    _cut,
    _cut_to_fit,
    _with_more,
    _of_another_command,
    _random,
    _random_payload,
    _large,
)


def expected_code(data: bytes) -> int | None:
    """What the frame alone decides (ipc-protocol.md §7); None: the command does."""
    size = int.from_bytes(data[14:16], "little")
    if len(data) < HEADER_SIZE or size < HEADER_SIZE or len(data) < size:
        return HResult.BAD_ENCODING
    if not data.startswith(MAGIC):
        return HResult.UNKNOWN_MAGIC
    try:
        Command(int.from_bytes(data[16:18], "big"))
    except ValueError:
        return HResult.UNKNOWN_COMMAND
    return None


def check_answer(data: bytes, answer: bytes) -> str:
    """What was answered, in a word. Raises AssertionError, ProtocolError for what is no answer."""
    reader = FrameReader()
    frame = reader.feed(answer)
    assert frame is not None, "half an answer"
    assert frame.command_set == SERVER_SET, frame
    code = expected_code(data)
    if frame.command_id == OK_ID:
        assert code is None, f"OK to what is {code:08X}"
        return "OK"
    error = ErrorReply.from_frame(frame)
    assert code in (None, error.hresult), f"{error.hresult:08X} instead of {code:08X}"
    return HResult(error.hresult).name


# in process -----------------------------------------------------------------------------------------------------------


def fuzz_dialogues(source: random.Random, count: int) -> Counter[str]:
    """So many messages; how often what was said."""
    said: Counter[str] = Counter()
    problems = Problems()
    dispatchers = [Dispatcher(Commands(), age=age, problem=problems.tell) for age in Age]
    for number in range(count):
        is_legacy = number % 8 == 0
        data = message(source, LEGACY_SEEDS if is_legacy else SEEDS)
        dispatcher = dispatchers[-1] if source.random() < 0.9 else source.choice(dispatchers)
        talk = Dialogue(dispatcher, Caller(), legacy=is_legacy)
        given = _fed(source, talk, data)
        if given is None:
            given = talk.end()
        assert given is not None
        answer = given.perform() if isinstance(given, Call) else given
        assert not problems, problems
        said["pre-V1" if is_legacy else check_answer(data, answer.data)] += 1
        if answer.session is not None:
            dispatcher.sessions.ended(answer.session)
    return said


def _fed(source: random.Random, talk: Dialogue, data: bytes) -> Call | Answer | None:
    pieces = [data]
    if data and source.random() < 0.3:
        cut = source.randrange(len(data))
        pieces = [data[:cut], data[cut:]] if source.random() < 0.9 else [bytes([byte]) for byte in data[:300]]
    for piece in pieces:
        if (given := talk.feed(piece)) is not None:
            return given
    return None


# at a socket ----------------------------------------------------------------------------------------------------------


def fuzz_socket(source: random.Random, count: int, workers: int = 4) -> dict[str, object]:
    """So many connections; what came of them."""
    said: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        problems = Problems()
        server = DiagnosticServer(Commands(), problem=problems.tell)
        with server:
            address = server.listen(f"{folder}/s")
            for _ in range(200):
                talk_once(random.Random(source.random()), address, said)  # what is loaded and grows with first use
            _settle(server)
            before = _descriptors(), _memory_bytes()
            over, waits = threading.Event(), list[float]()
            with ThreadPoolExecutor(workers + 2) as executor:
                beside = [executor.submit(ask_well, address, over, waits), executor.submit(keep_silent, address, over)]
                seeds = [source.randrange(1 << 60) for _ in range(workers)]
                talks = [executor.submit(talk_often, seed, count // workers, address, said) for seed in seeds]
                try:
                    for talk in talks:
                        talk.result()
                finally:
                    over.set()
                for one in beside:
                    one.result()
            _settle(server)
            after = _descriptors(), _memory_bytes()
            assert not problems, problems
            assert after[0] <= before[0], f"{after[0] - before[0]} descriptors are left"
            assert after[1] - before[1] < MOST_GROWN_BYTES, f"{after[1] - before[1]} bytes more"
    waits.sort()
    assert waits, "the good client was never answered"
    return {
        "answers": dict(said.most_common()),
        "good client": len(waits),
        "its median ms": round(waits[len(waits) // 2] * 1e3, 2),
        "its worst ms": round(waits[-1] * 1e3, 2),
        "memory MB more": round((after[1] - before[1]) / 1e6, 1),
    }


def talk_often(seed: int, count: int, address: str, said: Counter[str]) -> None:
    """One client after the other."""
    for number in range(count):
        talk_once(random.Random(seed + number), address, said)


def talk_once(source: random.Random, address: str, said: Counter[str]) -> None:
    """One client of whatever manners."""
    data = message(source)
    manner = source.random()
    try:
        with dial(address) as talk:
            if manner < 0.1:
                return  # without a word
            cut = source.randrange(len(data) + 1) if manner < 0.4 else 0
            for piece in (data[:cut], data[cut:]):
                if piece:
                    talk.sendall(piece)
            if manner > 0.9:
                return  # without listening
            talk.shutdown(socket.SHUT_WR)
            if manner > 0.8:
                talk.recv(10)
                return
            head = talk.recv(HEADER_SIZE)
            if head[16:18] == b"\xff\x00" and data[16:17] == b"\x02" and data[17:18] != b"\x01":
                said["a session"] += 1
                return  # which is hung up on
            answer = head + read_all(talk)
        said[check_answer(data, answer)] += 1
    except (BrokenPipeError, ConnectionResetError):
        said["reset"] += 1


def ask_well(address: str, over: threading.Event, waits: list[float]) -> None:
    """A client as it should be; how long it waits."""
    request = ProcessInfo3().pack()
    while not over.is_set():
        begin = time.perf_counter()
        reply = ask(address, request)
        waits.append(time.perf_counter() - begin)
        assert ProcessInfo3Reply.from_frame(Frame.parse(reply)).pid == os.getpid()
        over.wait(0.005)


def keep_silent(address: str, over: threading.Event) -> None:
    """Clients that say nothing, or half of something, made anew when they are hung up on."""
    talks: list[socket.socket] = []
    while not over.wait(0.05):
        for talk in list(talks):
            with suppress(BlockingIOError, ConnectionResetError):
                if talk.recv(1):
                    continue
                talk.close()
                talks.remove(talk)
        while len(talks) < SILENT:
            talk = dial(address, SEEDS[0][: len(talks) % 20])
            talk.setblocking(False)
            talks.append(talk)
    for talk in talks:
        talk.close()


def _settle(server: DiagnosticServer) -> None:
    ends = time.monotonic() + 20
    while (status := server.status).connections or status.sessions:
        assert time.monotonic() < ends, f"not idle: {status}"
        time.sleep(0.01)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _memory_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize()


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--connections", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=14)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    begin, memory = time.monotonic(), _memory_bytes()
    said = fuzz_dialogues(random.Random(options.seed), options.messages)
    took = time.monotonic() - begin
    grown = _memory_bytes() - memory
    print(
        f"{options.messages} messages in {took:.0f} s ({options.messages / took:.0f} per second): {dict(said)}",
        flush=True,
    )
    assert grown < MOST_GROWN_BYTES, f"{grown} bytes more"
    begin = time.monotonic()
    found = fuzz_socket(random.Random(options.seed), options.connections)
    took = time.monotonic() - begin
    print(f"{options.connections} connections in {took:.0f} s ({options.connections / took:.0f} per second): {found}")
    worst = found["its worst ms"]
    assert isinstance(worst, float)
    return 0 if worst < GOOD_S * 1e3 else 1


if __name__ == "__main__":
    sys.exit(main())
