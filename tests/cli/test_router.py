"""``router``: its words, what it says, and how it ends."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.cli.test_commands import run
from tests.client.dialling import DiallingRuntime
from tests.live.test_trace_collect import PYTHON

import dotnetdiag as dd


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dd-") as path:
        yield Path(path)


@contextmanager
def started(*words: object, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A router, and the line that it says when it is ready."""
    router = subprocess.Popen(
        [*PYTHON, "router", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert router.stderr is not None
        yield router, router.stderr.readline().rstrip()
    finally:
        router.kill()
        router.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_0_and_leaves_nothing(number: signal.Signals, folder: Path) -> None:
    with started("server-client", "--ipc-server", folder / "tools", "--tcp-client", "127.0.0.1:9") as (router, line):
        assert line == f"listening on {folder / 'tools'} for tools, dialling tcp://127.0.0.1:9 for runtimes"
        router.send_signal(number)
        out, err = router.communicate(timeout=20)
    assert (router.returncode, out, err) == (0, "", "")
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("server-server -ipcs T", r"listening on T for tools and tcp://127\.0\.0\.1:\d+ for runtimes"),
        (
            "server-server --ipc-server=T --tcp-server=127.0.0.1:0",
            r"listening on T for tools and tcp://127\.0\.0\.1:\d+ for .*",
        ),
        ("server-server --tools T --runtimes R --each", "listening on T for tools and R for runtimes"),
        (
            "server-server --tools 127.0.0.1:0 --runtimes R",
            r"listening on tcp://127\.0\.0\.1:\d+ for tools and R for runtimes",
        ),
        (
            "server-client -ipcs T -tcpc 127.0.0.1:9",
            "listening on T for tools, dialling tcp://127.0.0.1:9 for runtimes",
        ),
        (
            "server-client --tcp-server 127.0.0.1:0 --ipc-client R",
            r"listening on tcp://.* for tools, dialling R for runtimes",
        ),
        (
            "client-server -ipcc T -tcps 127.0.0.1:0",
            r"listening on tcp://127\.0\.0\.1:\d+ for runtimes, dialling T for tools",
        ),
        (
            "client-server --tcp-client 127.0.0.1:9 --ipc-server R",
            "listening on R for runtimes, dialling tcp://127.0.0.1:9 .*",
        ),
        (
            "client-client -ipcc T -tcpc 127.0.0.1:9",
            "listening on nothing, dialling T for tools and tcp://127.0.0.1:9 for .*",
        ),
        (
            "server-websocket -ipcs T -ws ws://127.0.0.1:0/d",
            r"listening on T for tools and ws://127\.0\.0\.1:\d+/d for runtimes",
        ),
        (
            "client-websocket -ipcc T -ws ws://127.0.0.1:0/d",
            r"listening on ws://.*/d for runtimes, dialling T for tools",
        ),
        ("ios-sim -ipcs T", "listening on T for tools, dialling tcp://127.0.0.1:9000 for runtimes"),
        ("ios --tools T", "listening on T for tools, dialling tcp://127.0.0.1:9000 for runtimes"),
    ],
)
def test_each_mode_says_who_dials_whom(words: str, said: str, folder: Path) -> None:
    def there(text: str) -> str:
        return re.sub(r"\b[TR]\b", lambda found: str(folder / found[0]), text)

    if "websocket" in words:
        pytest.importorskip("websockets")
    with started(*there(words).split()) as (router, line):
        assert re.fullmatch(there(said), line), line
        router.terminate()
        assert router.wait(20) == 0


@pytest.mark.parametrize(("preset", "port"), [("android-emu", 9000), ("android", 9001)])
def test_presets_for_android_listen_at_their_ports(preset: str, port: int, folder: Path) -> None:
    with started(preset, "--ipc-server", folder / "tools") as (_, line):
        taken = "cannot listen" in line  # another program of this machine has it
        assert taken or line == f"listening on {folder / 'tools'} for tools and tcp://127.0.0.1:{port} for runtimes"


def test_what_happens_is_said_as_lines_of_json(folder: Path) -> None:
    with started("server-server", "--tools", folder / "t", "--runtimes", folder / "r", "--json") as (router, _):
        with DiallingRuntime(folder / "r", number=5):
            assert dd.Client.connect(f"{folder / 't'},connect").process_info().pid == 5
            assert router.stdout is not None
            said = [json.loads(router.stdout.readline()) for _ in range(3)]
        router.terminate()
        assert router.stderr is not None
        assert router.stderr.read() == ""
    assert [one["what"] for one in said] == ["connected", "began", "ended"]
    assert said[1]["command"] == "ProcessInfo3"
    assert said[2]["why"] in ("both have ended", "the tool is gone")


@pytest.mark.parametrize(
    ("level", "said"), [("none", set[str]()), ("warning", {"refused"}), ("info", {"refused", "connected"})]
)
def test_how_much_is_said_on_stderr_is_chosen(level: str, said: set[str], folder: Path) -> None:
    with started("server-server", "--tools", folder / "t", "--runtimes", folder / "r", "-v", level) as (router, _):
        with DiallingRuntime(folder / "r", number=5) as runtime:
            assert dd.Client.connect(f"{folder / 't'},connect").process_info().pid == 5
            runtime.stop()
        with DiallingRuntime(folder / "r", number=6), socket.socket(socket.AF_UNIX) as silent:
            silent.connect(str(folder / "r"))
            assert silent.recv(1) == b""
        router.terminate()
        _, err = router.communicate(timeout=20)
    words = {line.partition(":")[0] for line in err.splitlines()}
    assert said <= words
    assert words <= said | ({"gone", "resumed"} if level == "info" else set())


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="Linux")
def test_without_free_descriptors_it_waits_for_some(folder: Path) -> None:
    with started("server-server", "--tools", folder / "t", "--runtimes", folder / "r", "-v", "none") as (router, _):
        with DiallingRuntime(folder / "r", number=5), ExitStack() as stack:
            client = dd.Client.connect(f"{folder / 't'},connect")
            assert client.process_info().pid == 5
            there = len(os.listdir(f"/proc/{router.pid}/fd"))
            resource.prlimit(router.pid, resource.RLIMIT_NOFILE, (there + 3, there + 3))
            for _ in range(10):
                stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(folder / "t"))
            stack.close()
            assert client.process_info().pid == 5
        router.terminate()
        assert router.wait(20) == 0


def test_who_is_connected_can_be_asked(folder: Path) -> None:
    place = folder / "status"
    with (
        started("server-server", "--tools", folder / "t", "--runtimes", folder / "r", "--status", place),
        DiallingRuntime(folder / "r", number=5),
    ):
        dd.Client.connect(f"{folder / 't'},connect").process_info()
        done = run("router", "status", str(place))
        assert re.match(rf"tools at {folder}/t, runtimes at {folder}/r, 0 tools wait\nruntime +\d+  0000", done.stdout)
        assert len(json.loads(run("router", "status", str(place), "--json").stdout)["connected"]) == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("server-client --ipc-server /t", "say where the runtime listens"),
        ("client-server", "say where the tool listens"),
        (
            "server-client --ipc-server /t --tcp-client 1.2.3.4:5 --runtimes /x",
            "--runtimes and --tcp-client name the same side",
        ),
        ("server-server --tcp-server 0.0.0.0:9000", "only with TLS"),
        (
            "server-client --ipc-server ./t --tcp-client localhost",
            "HOST:PORT, not 'localhost'; --runtimes takes either",
        ),
        ("server-server --ipc-server ./t --tcp-server 9000", r"takes HOST:PORT \(127.0.0.1:9000\), not '9000'"),
        ("server-server --tcp-server uds:9000", "--tcp-server takes HOST:PORT"),
        ("client-server --ipc-client ./t --tcp-server ws://127.0.0.1:1/x", "--tcp-server takes HOST:PORT"),
        ("server-server --tcp-server :9000", r"a host is missing; \* stands for any"),
        (
            "server-client --ipc-server 127.0.0.1:29871 --tcp-client 127.0.0.1:1",
            "--ipc-server takes the PATH of a socket, not '127.0.0.1:29871'; --tools takes either",
        ),
        ("client-client -ipcc tcp://h:1 -tcpc 127.0.0.1:1", "--ipc-client takes the PATH"),
        ("server-websocket -ipcs ./t -ws 127.0.0.1:9000", "--web-socket takes ws://HOST:PORT/PATH"),
        ("server-server --tcp-server *:9000", "only with TLS"),
        ("server-server --tcp-server tcp://0.0.0.0:9000", "only with TLS"),
        ("server-server --token-file /absent", "no token can be read"),
        ("server-server --tls-cert x", "needs the CA"),
        ("server-server -rt soon", "runtime timeout|time"),
        ("status", "Missing argument"),
    ],
)
def test_what_makes_no_sense_is_one_line_and_3(words: str, problem: str) -> None:
    done = run("router", *words.split())
    assert done.returncode == 3
    assert re.search(problem, done.stderr), done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "verb", [("router", "server-server", "--tools", "/x", "--runtimes", "0.0.0.0:1"), ("ports", "0.0.0.0:1")]
)
def test_beyond_loopback_without_authentication_names_the_options(verb: tuple[str, ...]) -> None:
    done = run(*verb)
    assert done.returncode == 3
    assert done.stderr.startswith(
        "error: tcp://0.0.0.0:1 is beyond loopback: only with TLS (certificate, key, CA) and a token"
    )
    assert "--tls-cert, --tls-key, --tls-ca and --token-file" in done.stderr
    assert "--insecure" in done.stderr
