"""What a server bears: random, truncated and malformed messages, in process and at a socket, a good client beside them.

    python fuzz/server.py [--messages N] [--connections N] [--seconds N] [--seed N] [--no-record]

First ``--messages`` go to a Dialogue each, cut anywhere, half of them ended early: each must be answered with one whole message that says
what the rules say, or wait for more; every command behind it is performed. Then ``--connections`` are made at a socket, by clients that
send such messages, whole, in pieces or half of them, read or do not, and hang up when they like; a hundred are silent all the time. Last,
for ``--seconds``, two hundred connections at once, each of a client that is slow, half closes, says nothing or does not read.
A good client asks meanwhile and is answered within ``GOOD_S``. Descriptors and memory are where they were in the end.
What came of it is a row of ``RESULTS.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.record import append
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
CROWD = 200
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


class Good:
    """What the good client has seen, and how much more memory there is in the end than in the beginning."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.grown_bytes = 0

    def figures(self) -> dict[str, object]:
        waits = sorted(self.waits)
        assert waits, "the good client was never answered"
        return {
            "good client": len(waits),
            "its median ms": round(waits[len(waits) // 2] * 1e3, 2),
            "its worst ms": round(waits[-1] * 1e3, 2),
            "memory MB more": round(self.grown_bytes / 1e6, 1),
        }


@contextmanager
def served(source: random.Random, said: Counter[str]) -> Iterator[tuple[str, Good]]:
    """The address of a server, and a good client that asks meanwhile. Behind it descriptors and memory must be where they were."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as executor:
        problems, good, over = Problems(), Good(), threading.Event()
        with DiagnosticServer(Commands(), problem=problems.tell) as server:
            address = server.listen(f"{folder}/s")
            for _ in range(200):
                talk_once(random.Random(source.random()), address, said)  # what is loaded and grows with first use
            executor.submit(int).result()
            _settle(server)
            before = _descriptors(), _memory_bytes()
            asking = executor.submit(ask_well, address, over, good.waits)
            try:
                yield address, good
            finally:
                over.set()
            asking.result()
            _settle(server)
            after = _descriptors(), _memory_bytes()
            good.grown_bytes = after[1] - before[1]
            assert not problems, problems
            assert after[0] <= before[0], f"{after[0] - before[0]} descriptors are left"
            assert good.grown_bytes < MOST_GROWN_BYTES, f"{good.grown_bytes} bytes more"


def fuzz_socket(source: random.Random, count: int, workers: int = 4) -> dict[str, object]:
    """So many connections; what came of them."""
    said: Counter[str] = Counter()
    with served(source, said) as (address, good), ThreadPoolExecutor(workers + 1) as executor:
        over = threading.Event()
        silent = executor.submit(keep_silent, address, over)
        seeds = [source.randrange(1 << 60) for _ in range(workers)]
        talks = [executor.submit(talk_often, seed, count // workers, address, said) for seed in seeds]
        try:
            for talk in talks:
                talk.result()
        finally:
            over.set()
        silent.result()
    return {"connections": count, "answers": dict(said.most_common()), **good.figures()}


def fuzz_crowd(seed: int, duration_s: float) -> dict[str, object]:
    """So long, :data:`CROWD` connections at any time, of another process; what came of them."""
    command = [sys.executable, __file__, "--seed", str(seed), "--seconds", str(duration_s), "--crowd-at"]
    with served(random.Random(seed), Counter()) as (address, good):
        done = subprocess.run([*command, address], stdout=subprocess.PIPE, check=True, timeout=duration_s + 60)
    return {**json.loads(done.stdout), **good.figures()}


def dawdle(source: random.Random, address: str, duration_s: float) -> dict[str, object]:
    """What :func:`fuzz_crowd` has made by another process."""
    said: Counter[str] = Counter()
    ends, crowd, count = time.monotonic() + duration_s, list[Dawdler](), 0
    while time.monotonic() < ends:
        crowd = [one for one in crowd if one.go_on(said)]
        count += CROWD - len(crowd)
        crowd += [Dawdler(source, address) for _ in range(CROWD - len(crowd))]
        time.sleep(0.01)
    for one in crowd:
        one.talk.close()
    return {"connections": count, "answers": dict(said.most_common())}


class Dawdler:
    """A client that is slow, half closes, says nothing, does not read or does so late; after some turns it goes away."""

    def __init__(self, source: random.Random, address: str) -> None:
        self.data = message(source)
        manner = source.random()
        if manner < 0.2:
            self.data = b""
        elif manner < 0.5:
            self.data = self.data[: source.randrange(len(self.data) + 1)]  # and then half closes
        self.at_once = len(self.data) if manner < 0.7 else source.randrange(1, 4)
        self.half_closes = manner >= 0.2
        self.reads_at = source.choice((0, 0, 50, 1000))
        self.turns = source.randrange(1, 300)
        self.sent = 0
        self.answer = b""
        self.talk = dial(address)
        self.talk.setblocking(False)

    def go_on(self, said: Counter[str]) -> bool:
        """Some bytes more; False when it is over."""
        self.turns -= 1
        self.reads_at -= 1
        try:
            if self.sent < len(self.data):
                self.sent += self.talk.send(self.data[self.sent : self.sent + self.at_once])
            if self.sent == len(self.data) and self.half_closes:
                self.half_closes = False
                self.talk.shutdown(socket.SHUT_WR)
            if self.reads_at <= 0 and not self.read():
                said[check_answer(self.data, self.answer) if self.answer else "no answer"] += 1
                self.turns = 0
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            said["reset"] += 1
            self.turns = 0
        if self.turns <= 0:
            self.talk.close()
        return self.turns > 0

    def read(self) -> bool:
        """Whether there may be more."""
        more = self.talk.recv(1 << 16)
        self.answer += more
        return bool(more)


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
    parser.add_argument("--seconds", type=float, default=60.0, help="of two hundred connections at once")
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--no-record", action="store_true")
    parser.add_argument("--crowd-at", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.crowd_at:
        print(json.dumps(dawdle(random.Random(options.seed), options.crowd_at, options.seconds)))
        return 0
    print(f"seed {options.seed}", flush=True)
    began = begin = time.monotonic()
    memory = _memory_bytes()
    said = fuzz_dialogues(random.Random(options.seed), options.messages)
    grown = _memory_bytes() - memory
    cases = [f"messages to a server {options.messages} ({options.messages / (time.monotonic() - begin):.0f})"]
    print(f"{cases[-1]}: {dict(said)}, memory MB more {grown / 1e6:.1f}", flush=True)
    assert grown < MOST_GROWN_BYTES, f"{grown} bytes more"
    worst = 0.0
    acts: dict[str, Callable[[], dict[str, object]]] = {
        "connections": lambda: fuzz_socket(random.Random(options.seed), options.connections),
        f"{CROWD} at once": lambda: fuzz_crowd(options.seed, options.seconds),
    }
    for name, act in acts.items():
        begin = time.monotonic()
        found = act()
        took = time.monotonic() - begin
        print(f"{name} in {took:.0f} s: {found}", flush=True)
        count = int(str(found["connections"]))
        cases.append(
            f"{name} {count} ({count / took:.0f}; the good client's worst {found['its worst ms']} ms of {found['good client']}, "
            f"memory {found['memory MB more']} MB more, no descriptor)"
        )
        worst = max(worst, float(str(found["its worst ms"])))
    failures = [] if worst < GOOD_S * 1e3 else ["the good client waited"]
    if not options.no_record:
        append(f"{time.monotonic() - began:.0f}, seed {options.seed}", cases, ["none"], failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
