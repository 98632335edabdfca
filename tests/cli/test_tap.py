"""``tap`` and ``decode``: their words, what they print, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.cli.test_commands import run
from tests.client.scripted import INFO, ScriptedRuntime, says
from tests.ipc.test_conversation import COLLECT, INFO3, SESSION
from tests.live.test_trace_collect import PYTHON

import dotnetdiag as dd
from dotnetdiag.errors import TransportError
from dotnetdiag.ipc.commands import Command

PATIENCE_S = 30.0


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="dd-") as path:
        yield Path(path)


@contextmanager
def started(folder: Path, *words: object) -> Iterator[subprocess.Popen[str]]:
    """A tap of a scripted runtime, once it listens."""
    runtime = ScriptedRuntime(folder / "runtime", {Command.ProcessInfo3: says(INFO.pack())})
    tap = subprocess.Popen(
        [
            *PYTHON,
            "tap",
            "--diagnostic-port",
            f"{folder}/runtime,connect",
            "--listen",
            f"{folder}/tap",
            *map(str, words),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert tap.stderr is not None
        line = tap.stderr.readline()
        assert line == f"listening on {folder}/tap for tools, dialling {folder}/runtime for runtimes\n"
        yield tap
    finally:
        tap.kill()
        tap.communicate()
        runtime.close()


def ask(folder: Path) -> None:
    assert dd.Client.connect(f"{folder}/tap,connect", timeout_s=PATIENCE_S).process_info().pid == INFO.pid


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_tap_with_0_and_leaves_nothing(number: signal.Signals, folder: Path) -> None:
    with started(folder, "--write-pcap", folder / "x.pcap") as tap:
        ask(folder)
        tap.send_signal(number)
        out, err = tap.communicate(timeout=PATIENCE_S)
    assert (tap.returncode, err) == (0, "")
    assert "request ProcessInfo3, 20 bytes at 0" in out
    assert "clrProductVersion = '9.0'" in out
    assert os.listdir(folder) == ["x.pcap"]
    shown = run("decode", str(folder / "x.pcap"))
    assert shown.returncode == 0
    assert shown.stdout == out  # the times too


def test_a_capture_that_takes_no_more_is_told_while_the_tap_goes_on(folder: Path) -> None:
    with started(folder, "--write-pcap", "/dev/full", "--force") as tap:
        ask(folder)
        assert tap.stderr is not None
        said = tap.stderr.readline()
        ask(folder)
        tap.terminate()
        _, err = tap.communicate(timeout=PATIENCE_S)
    assert said == "warning: /dev/full: No space left on device; the tap goes on without a capture\n"
    assert err == "error: /dev/full: No space left on device\n"
    assert tap.returncode != 0


def test_each_message_is_a_line_of_json(folder: Path) -> None:
    with started(folder, "--json") as tap:
        ask(folder)
        tap.terminate()
        out, _ = tap.communicate(timeout=PATIENCE_S)
    request, reply = map(json.loads, out.splitlines())
    assert (request["sender"], request["kind"], request["name"]) == ("tool", "request", "ProcessInfo3")
    assert reply["connection"] == 1
    assert reply["time"].endswith("Z")
    assert {"name": "clrProductVersion", "value": "9.0"}.items() <= reply["fields"][-2].items()


def test_a_tap_whose_output_nobody_reads_ends(folder: Path) -> None:
    with started(folder) as tap:
        assert tap.stdout is not None
        tap.stdout.close()
        with suppress(TransportError):  # it may end before it has forwarded all
            ask(folder)
        assert tap.wait(PATIENCE_S) == 0
        assert tap.stderr is not None
        assert tap.stderr.read() == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tap",), "error: Must specify either --process-id, --name, or --diagnostic-port."),
        (("tap", "-p", "999999999"), "error: process 999999999: "),
        (("tap", "-p", "1", "-n", "x"), "error: Only one of the --name, --process-id,"),
        (("decode", "/nonexistent"), "error: /nonexistent: No such file or directory"),
        (("decode", os.devnull), "error: /dev/null: nothing here is of the diagnostic protocol"),
        (("decode", os.devnull, "--port", "0"), "error: a port is a number from 1 to 65535"),
    ],
)
def test_what_makes_no_sense_is_one_line(words: tuple[str, ...], said: str) -> None:
    done = run(*words)
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr.startswith(said)
    assert done.stderr.count("\n") == 1


def test_decode_reads_standard_input_and_shows_the_header_where_it_is_asked_for() -> None:
    done = subprocess.run(
        [*PYTHON, "decode", "-", "--header"], input=INFO3.hex(), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == (
        "#1  tool -> runtime  request ProcessInfo3, 20 bytes at 0\n"
        "        14  u16         size = 20\n"
        "        16  u8          command set = 4 (Process)\n"
        "        17  u8          command id = 8 (ProcessInfo3)\n"
        "        18  u16         reserved = 0\n"
    )


def test_what_is_said_does_not_drive_a_terminal(folder: Path) -> None:
    text = "\x1b[2J\n".encode("utf-16-le")
    hook = b"".join(
        [b"DOTNET_IPC_V1\0", (20 + 4 + len(text) + 2).to_bytes(2, "little"), b"\4\7\0\0", b"\6\0\0\0", text, b"\0\0"]
    )
    (folder / "x").write_bytes(hook + COLLECT + SESSION)
    done = run("decode", str(folder / "x"))
    assert "\x1b" not in done.stdout
    assert "startupHookPath = '\\x1b[2J\\n'" in done.stdout
