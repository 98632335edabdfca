"""The end of a process that serves, and its children: in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.server.shells import ask, dial, read_all, read_message, take
from tests.server.sources import REQUEST

from dotnetdiag.ipc.process import ResumeRuntime
from dotnetdiag.ipc.process_info import ProcessInfo3, ProcessInfo3Reply
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.server import kernels

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="signals and forks of POSIX")

START = """
import os, signal, sys, threading, time
sys.path[:0] = {path!r}
{before}
from dotnetdiag.server import AsyncDiagnosticServer, DiagnosticServer, ProcessCommands
def serve():
    server = DiagnosticServer(ProcessCommands())
    server.listen(sys.argv[1])
    return server
def say(word):
    os.write(1, (word + chr(10)).encode())
"""
BODIES = {
    "ends": "server = serve(); say('ready'); sys.stdin.readline()",
    "raises": "server = serve(); say('ready'); sys.stdin.readline(); sys.exit(3)",
    "sleeps": "server = serve(); say('ready'); signal.pause()",
}
ASYNC = """
import asyncio
async def main():
    server = AsyncDiagnosticServer(ProcessCommands())
    await server.listen(sys.argv[1])
    say('ready')
    await asyncio.to_thread(sys.stdin.readline)
asyncio.run(main())
"""


@contextmanager
def program(folder: Path, body: str, before: str = "") -> Iterator[subprocess.Popen[str]]:
    """A program that says ``ready`` when it serves. ``before``: what it does first."""
    source = START.format(path=[entry for entry in sys.path if entry], before=before) + body
    command = [sys.executable, "-X", "dev", "-W", "ignore::DeprecationWarning", "-c", source, str(folder / "s")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, start_new_session=True, **pipes)  # type: ignore[call-overload]
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # a child of it would keep the pipes open
        process.communicate()


def end(process: subprocess.Popen[str], line: str | None = "\n") -> tuple[int, str, str]:
    """Its code, and what it said."""
    out, error = process.communicate(line, timeout=30)
    return process.returncode, out, error


@pytest.mark.parametrize(("body", "code"), [(BODIES["ends"], 0), (BODIES["raises"], 3), (ASYNC, 0)])
def test_the_socket_goes_with_the_process_and_nothing_is_printed(folder: Path, body: str, code: int) -> None:
    with program(folder, body) as process:
        assert ProcessInfo3Reply.parse(ask(folder / "s", ProcessInfo3().pack())).pid == process.pid
        with dial(folder / "s"):
            assert end(process) == (code, "", "")
    assert list(folder.iterdir()) == []


def test_nothing_begins_while_the_loop_of_an_asyncio_server_ends(folder: Path) -> None:
    """Looking after its interval did, in what a cancelled connection leaves behind: asyncio said that a task was destroyed."""
    body = """
import asyncio
async def main():
    server = AsyncDiagnosticServer(ProcessCommands())
    await server.listen(sys.argv[1])
    say('ready')
    while not server.status.connections:
        await asyncio.sleep(0.01)
    say('met')
asyncio.run(main())
"""
    with program(folder, body) as process, dial(folder / "s"):
        assert end(process, None) == (0, "met\n", "")
    assert list(folder.iterdir()) == []


def test_sigterm_removes_the_socket_and_kills_as_before(folder: Path) -> None:
    with program(folder, BODIES["sleeps"]) as process:
        process.terminate()
        assert end(process, None) == (-signal.SIGTERM, "", "")
    assert list(folder.iterdir()) == []


def test_a_handler_of_the_program_is_left_alone(folder: Path) -> None:
    body = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); server = serve(); say('ready'); signal.pause()"
    with program(folder, body) as process:
        process.terminate()
        assert end(process, None) == (7, "", "")
    assert list(folder.iterdir()) == []


NO_COMPILER = "import dotnetdiag.server.kernels as kernels; kernels.KERNELS = None"
"""Before the server's modules are imported."""


@pytest.mark.parametrize("before", ["", NO_COMPILER], ids=["compiled", "python"])
def test_the_default_action_is_there_again_after_the_last_server(folder: Path, before: str) -> None:
    body = """
def caught():
    with open("/proc/self/status") as status:
        mask = next(line.split()[1] for line in status if line.startswith("SigCgt"))
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)
assert not caught()
first, second = serve(), DiagnosticServer(ProcessCommands())
second.listen(sys.argv[1] + "2")
first.close()
assert caught()
second.close()
assert not caught()
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
say('ready')
"""
    if not Path("/proc/self/status").exists():
        pytest.skip("which signals are handled is read in /proc")
    with program(folder, body, before) as process:
        assert end(process) == (0, "", "")


def test_sigterm_without_a_compiler_removes_the_socket_and_kills_as_before(folder: Path) -> None:
    with program(folder, BODIES["sleeps"], NO_COMPILER) as process:
        process.terminate()
        assert end(process, None) == (-signal.SIGTERM, "", "")
    assert list(folder.iterdir()) == []


COMPILED = pytest.mark.skipif(not kernels.COMPILED, reason="there is no compiler: the handler is one of Python's")


@COMPILED
@pytest.mark.parametrize(
    "serving",
    [
        "server = serve()",
        "made = []; thread = threading.Thread(target=lambda: made.append(serve())); thread.start(); thread.join()",
    ],
    ids=["main thread", "other thread"],
)
def test_sigterm_does_not_wait_for_the_end_of_a_long_call(folder: Path, serving: str) -> None:
    body = f"{serving}; assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL; say('ready'); sum(range(10**12))"
    with program(folder, body) as process:
        process.terminate()
        assert end(process, None) == (-signal.SIGTERM, "", "")
    assert list(folder.iterdir()) == []


@COMPILED
def test_what_stands_in_the_place_of_the_socket_is_left_at_sigterm(folder: Path) -> None:
    body = "server = serve(); os.unlink(sys.argv[1]); open(sys.argv[1], 'w').close(); os.chdir('/'); say('ready'); signal.pause()"
    with program(folder, body) as process:
        process.terminate()
        assert end(process, None) == (-signal.SIGTERM, "", "")
    assert [file.name for file in folder.iterdir()] == ["s"]


@COMPILED
def test_a_child_that_is_killed_leaves_the_socket_of_its_parent(folder: Path) -> None:
    body = """
server = serve()
child = os.fork()
if not child:
    signal.pause()
os.kill(child, signal.SIGTERM)
assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
assert os.path.exists(sys.argv[1])
say('ready'); sys.stdin.readline()
"""
    with program(folder, body) as process:
        assert ProcessInfo3Reply.parse(ask(folder / "s", ProcessInfo3().pack())).pid == process.pid
        assert end(process) == (0, "", "")
    assert list(folder.iterdir()) == []


FORKS = """
server = serve()
def spin():
    while True:
        server.status
busy = [threading.Thread(target=spin, daemon=True) for _ in range(2)]
for thread in busy: thread.start()
child = os.fork()
if not child:
    assert not server.is_serving
    try:
        server.listen(sys.argv[1] + "2")
    except ValueError as error:
        assert "made before this process was forked" in str(error), error
    server.close()
    other = DiagnosticServer(ProcessCommands())
    other.listen(sys.argv[1] + "2")
    say('ready')
    sys.stdin.readline()
    sys.exit(0)
os.waitpid(child, 0)
say('child gone')
{rest}
"""


def test_a_child_serves_at_its_own_socket_and_leaves_its_parents_alone(folder: Path) -> None:
    with program(folder, FORKS.format(rest="signal.pause()")) as process:
        info = ProcessInfo3().pack()
        ours, childs = (ProcessInfo3Reply.parse(ask(folder / name, info)) for name in ("s", "s2"))
        assert ours.pid == process.pid != childs.pid
        assert ours.cookie != childs.cookie
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "child gone\n"
        assert [path.name for path in folder.iterdir()] == ["s"]
        assert ask(folder / "s", ResumeRuntime().pack()) == ResultReply().pack()
        process.terminate()
        assert end(process, None)[0] == -signal.SIGTERM
    assert list(folder.iterdir()) == []


def test_a_child_does_not_end_the_sessions_of_its_parent(folder: Path) -> None:
    body = """
from tests.server.sources import Streamer
commands = Streamer()
server = DiagnosticServer(commands)
server.listen(sys.argv[1])
say('ready'); sys.stdin.readline()
child = os.fork()
if not child:
    sys.exit(0 if commands.sources[0].said == ['on_ready'] and not server.is_serving else 5)
assert os.waitpid(child, 0)[1] == 0
commands.sources[0].give(b'after the fork')
sys.stdin.readline()
"""
    with program(folder, body) as process, dial(folder / "s", REQUEST.pack()) as reader:
        read_message(reader)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert take(reader, 14) == b"after the fork"
        process.stdin.write("\n")
        process.stdin.flush()
        assert read_all(reader) == b"the end"
        assert end(process, None) == (0, "", "")


def test_sigterm_for_a_child_kills_the_child_alone(folder: Path) -> None:
    body = """
server = serve()
child = os.fork()
if not child:
    say('ready'); signal.pause()
sys.stdin.readline()
os.kill(child, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
assert os.path.exists(sys.argv[1])
"""
    with program(folder, body) as process:
        assert end(process) == (0, "", "")
    assert list(folder.iterdir()) == []


def test_a_child_does_not_keep_the_connections_of_its_parent_open(folder: Path) -> None:
    body = """
server = serve()
sys.stdin.readline()
child = os.fork()
if not child:
    say('ready')
    signal.pause()
server.close()
say('closed')
sys.stdin.readline()
os.kill(child, signal.SIGKILL)
"""
    source = body.replace("sys.stdin.readline()\nchild", "say('ready')\nsys.stdin.readline()\nchild", 1)
    with program(folder, source) as process, dial(folder / "s") as silent:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert sorted(process.stdout.readline() for _ in range(2)) == ["closed\n", "ready\n"]
        with suppress(ConnectionResetError):  # where it was not accepted yet
            assert silent.recv(1) == b""
        assert end(process) == (0, "", "")


def test_a_session_is_brought_to_its_end_when_the_process_ends(folder: Path) -> None:
    body = """
from tests.server.sources import Streamer
server = DiagnosticServer(Streamer())
server.listen(sys.argv[1])
say('ready'); sys.stdin.readline()
"""
    with program(folder, body) as process, dial(folder / "s", REQUEST.pack()) as reader:
        read_message(reader)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert read_all(reader) == b"the end"
        assert end(process, None) == (0, "", "")


# children that end without a word --------------------------------------------------------------------------------------

FORK = """
from dotnetdiag.server import children
children.LOOK_S = 0
os.environ["TMPDIR"] = os.path.dirname(sys.argv[1])
DiagnosticServer(ProcessCommands()).listen()
def fork(then=lambda: None):
    pid = os.fork()
    if not pid:
        DiagnosticServer(ProcessCommands()).listen()
        then()
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid
def sockets():
    return len(os.listdir(os.environ["TMPDIR"]))
"""


@pytest.mark.parametrize("collected", [True, False])
@pytest.mark.parametrize("code", [0, -signal.SIGTERM])
def test_sockets_of_children_that_have_ended_go_with_their_parent(folder: Path, code: int, collected: bool) -> None:
    body = f"""
{FORK}
pids = [fork() for _ in range(2)]
if {collected}:
    for pid in pids: os.waitpid(pid, 0)
say('ready'); sys.stdin.readline()
"""
    with program(folder, body) as process:
        assert len(list(folder.iterdir())) >= 2
        if code:
            process.terminate()
        assert end(process, None if code else "\n") == (code, "", "")
    assert list(folder.iterdir()) == []


def test_sockets_of_children_that_have_ended_go_at_the_next_fork(folder: Path) -> None:
    body = f"""
{FORK}
for _ in range(5):
    os.waitpid(fork(), 0)
    assert sockets() == 2, sockets()
say('ready'); sys.stdin.readline()
"""
    with program(folder, body) as process:
        assert end(process) == (0, "", "")
    assert list(folder.iterdir()) == []


def test_the_socket_of_a_living_child_stays_when_its_parent_forks_again_and_ends(folder: Path) -> None:
    body = f"""
{FORK}
pid = os.fork()
if not pid:
    DiagnosticServer(ProcessCommands()).listen()
    say('ready')
    signal.pause()
fork(); sys.stdin.readline(); fork()
say(str(pid))
"""
    with program(folder, body) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        child = int(process.stdout.readline())
        process.wait(30)
        (path,) = folder.iterdir()
        assert path.name.startswith(f"dotnet-diagnostic-{child}-")
        assert ProcessInfo3Reply.parse(ask(path, ProcessInfo3().pack())).pid == child
