"""The scripted runtime, seen by the reference tools and through the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from tests.live.routing import PATIENCE_S, dotnet_trace, ended, listed_by_dotnet_trace
from tests.live.runtimes import unpack
from tests.live.test_reference_reader import oracle
from tests.live.test_server import reference
from tests.nettrace.recordings import data_of, recording, recordings

import dotnetdiag as dd
from dotnetdiag.errors import NotSupported
from dotnetdiag.testing import RELEASES

pytestmark = pytest.mark.live

RECORDING = "cpu-only-10.nettrace"
MANY = 2000
FAKE = [sys.executable, "-m", "dotnetdiag.cli.main", "fake"]


class Faked:
    """A fake under way. ``heard``: what it said with ``--json``."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.pid = process, process.pid
        self.heard: list[dict[str, Any]] = []

    @property
    def asked(self) -> list[str]:
        return [one["command"] for one in self.heard]

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.heard.append(json.loads(line))


@contextmanager
def faking(*words: object, ends_with: int = signal.SIGTERM, **environment: str) -> Iterator[Faked]:
    """The verb, once it is ready; it must end with 0 when it is told to."""
    process = subprocess.Popen(
        [*FAKE, *map(str, words), "--json"],
        stdin=subprocess.DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith(f"process {process.pid} poses as .NET "), line + process.stderr.read()
        faked = Faked(process)
        reader = threading.Thread(target=faked.listen)
        reader.start()
        yield faked
        process.send_signal(ends_with)
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == ""
        reader.join(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def collected(pid: int, path: Path, *words: object) -> bytes:
    """What dotnet-trace writes."""
    tool = dotnet_trace("collect", "-p", pid, "--providers", "A", "-o", path, *words)
    try:
        assert "Trace completed" in ended(tool)
    finally:
        tool.kill()
        tool.communicate()
    return path.read_bytes()


@pytest.mark.parametrize("name", recordings())
def test_dotnet_trace_collects_every_recording_byte_by_byte(name: str, tmp_path: Path) -> None:
    unpack()
    played = tmp_path / "played"
    played.write_bytes(data_of(name))
    with faking("--replay", played, "--speed", "max", "--wait") as faked:
        data = collected(faked.pid, tmp_path / "a.nettrace", "--duration", "00:00:01")
        assert data == data_of(name)
    assert [one for one in faked.asked if one in ("CollectTracing2", "StopTracing")] == [
        "CollectTracing2",
        "StopTracing",
    ]


def test_dotnet_trace_takes_a_recording_that_ends_by_itself(tmp_path: Path) -> None:
    with faking("--replay", recording(RECORDING), "--speed", "max") as faked:
        assert collected(faked.pid, tmp_path / "a.nettrace") == data_of(RECORDING)


def test_the_reference_reader_takes_a_recording_that_was_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.nettrace"
    with faking("--replay", recording(RECORDING), "--speed", "0.2x", "--on-stop", "cut") as faked:
        data = collected(faked.pid, path, "--duration", "00:00:02")
    assert len(data) < len(data_of(RECORDING))
    *events, end = oracle("events", path)
    assert end["end"]
    assert len(events) == len(dd.open(path)) > 0
    assert dd.open(path).complete


@pytest.mark.parametrize("age", [name for name in RELEASES if name not in ("pre-V1",)])
def test_every_age_is_listed_by_dotnet_trace_and_by_us_and_collected_from(age: str, tmp_path: Path) -> None:
    with faking("--age", age, "--name", "Shop", "--replay", recording(RECORDING), "--wait", "--speed", "max") as faked:
        assert f" {faked.pid} " in listed_by_dotnet_trace()
        listed = (one for _ in range(5) for one in dd.processes() if one.pid == faked.pid)
        process = next(one for one in listed if not one.problem)  # it may be too busy to answer in time
        if age == "3.1":
            assert process.runtime_version == "3.x"
        else:
            assert process.runtime_version == (RELEASES[age].runtime_version if age != "5" else "")
        assert collected(faked.pid, tmp_path / "a", "--duration", "00:00:01") == data_of(RECORDING)
        dd.collect(faked.pid, tmp_path / "b", providers="A", duration="10ms")
        assert (tmp_path / "b").read_bytes() == data_of(RECORDING)


def test_the_reference_client_is_told_who_the_fake_is() -> None:
    with faking("--age", "9.0", "--name", "Shop", ends_with=signal.SIGINT) as faked:
        info = reference(faked.pid, "info")
        assert (info["ManagedEntrypointAssemblyName"], info["ClrProductVersionString"]) == ("Shop", "9.0.22")
        assert reference(faked.pid, "setenv", "A", "b") == {"ok": True}
        assert reference(faked.pid, "env")["A"] == "b"
        assert reference(faked.pid, "dump", "Full", "/nowhere/x")["ok"]
    assert faked.asked[0].startswith("ProcessInfo")
    assert {"SetEnvironmentVariable", "ProcessEnvironment"} < set(faked.asked)


def test_a_fake_that_dials_a_port_of_dotnet_trace_is_resumed_by_it(tmp_path: Path) -> None:
    port, path = tmp_path / "p", tmp_path / "a.nettrace"
    tool = dotnet_trace("collect", "--diagnostic-port", port, "--duration", "00:00:01", "--providers", "A", "-o", path)
    try:
        with faking("--connect", port, "--suspended", "--replay", recording(RECORDING), "--wait") as faked:
            assert "Trace completed" in ended(tool)
        assert path.read_bytes() == data_of(RECORDING)
        assert "ResumeRuntime" in faked.asked
    finally:
        tool.kill()
        tool.communicate()


def test_what_misbehaves_does_so_through_the_command_line(tmp_path: Path) -> None:
    with (
        faking("--listen", tmp_path / "s", "--misbehave", "ProcessInfo3=error:0x80131515") as faked,
        dd.Client.connect(f"{tmp_path}/s,connect") as client,
        pytest.raises(NotSupported),
    ):
        client.process_info()
    assert faked.asked == ["ProcessInfo3"]


def test_all_that_was_asked_is_told_when_it_ends(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*FAKE, "--listen", tmp_path / "s", "--json"], stdout=PIPE, stderr=PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stderr.readline()
        with dd.Client.connect(f"{tmp_path}/s,connect") as client:
            for _ in range(MANY):
                client.process_info()
        process.send_signal(signal.SIGTERM)
        lines = process.stdout.readlines()  # a pipe holds a part of them
        assert process.wait(PATIENCE_S) == 0
    assert len(lines) == MANY


@pytest.mark.parametrize(
    "words", [["--age", "12"], ["--speed", "fast"], ["--misbehave", "silent"], ["--misbehave", "X=silent"]]
)
def test_a_wrong_option_is_an_error_of_one_line(words: list[str]) -> None:
    done = subprocess.run([*FAKE, *words], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (3, "", 1)
