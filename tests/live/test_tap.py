"""A tap between the tools that users have and real runtimes: what is printed is what was sent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.live.routing import PATIENCE_S, dotnet_trace, ended, held_at
from tests.live.runtimes import names, workload
from tests.live.test_trace_collect import PYTHON
from tests.shared import needs

import dotnetdiag as dd

pytestmark = pytest.mark.live

PROVIDER = "Microsoft-Windows-DotNETRuntime"


class Tapped:
    """A tap under way; ``said`` is there once it has ended."""

    def __init__(self, address: Path) -> None:
        self.address = address
        self.said: list[dict[str, Any]] = []

    def of(self, kind: str, name: str) -> list[dict[str, Any]]:
        return [one for one in self.said if (one["kind"], one["name"]) == (kind, name)]


def fields(message: dict[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["value"] for field in message["fields"]}


@contextmanager
def tapped(folder: Path, *words: object) -> Iterator[Tapped]:
    made = Tapped(folder / "tap")
    words = ("tap", *words, "--listen", made.address, "--write-pcap", folder / "x.pcap", "--json")
    with (folder / "said").open("wb") as said:
        process = subprocess.Popen([*PYTHON, *map(str, words)], stdout=said, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("listening on "), line + process.stderr.read()
        yield made
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.communicate()
    made.said += map(json.loads, (folder / "said").read_text("utf-8").splitlines())


def decoded(file: Path) -> list[dict[str, Any]]:
    done = subprocess.run(
        [*PYTHON, "decode", str(file), "--json"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def in_order(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Both ways of both, whichever of two connections came first in the same microsecond."""
    return sorted(
        ({**one, "time": ""} for one in said),
        key=lambda one: (one["connection"], one["sender"], one["offset"], one["kind"]),
    )


@pytest.mark.skipif(not names(), reason="no .NET runtime was found")
@pytest.mark.parametrize("runtime", names())
def test_what_our_client_says_to_any_runtime_is_told(runtime: str, tmp_path: Path) -> None:
    with workload(runtime, "idle", "seconds=100") as target, tapped(tmp_path, "-p", target.pid) as tap:
        client = dd.Client.connect(f"{tap.address},connect")
        has_information = target.kind not in ("2.1", "3.1")
        if has_information:
            information = client.process_info()
            variables = client.environment()
        with client.trace(PROVIDER, duration=0.5) as session:
            session.save(tmp_path / "x.nettrace")
    (ends,) = [one for one in tap.said if one["kind"] == "stream end"]
    assert ends["size"] == (tmp_path / "x.nettrace").stat().st_size
    assert ends["name"] == "nettrace"
    (asked,) = [one for one in tap.said if one["kind"] == "request" and one["name"].startswith("CollectTracing")]
    assert fields(asked)["provider[0].name"] == PROVIDER
    if has_information:
        (reply,) = tap.of("ok", "ProcessInfo3")
        told = fields(reply)
        assert (told["processId"], told["runtimeCookie"]) == (information.pid, str(information.cookie))
        assert told["commandLine"] == information.command_line
        (block,) = tap.of("environment", "ProcessEnvironment")
        entries = {value for name, value in fields(block).items() if name.startswith("entry[")}
        assert entries == {f"{name}={value}" for name, value in variables.items()}
    assert not [one for one in tap.said if one["kind"] != "error" and one["problems"]]
    assert in_order(decoded(tmp_path / "x.pcap")) == in_order(tap.said)


@needs("dotnet", "the workload on real runtimes")
@pytest.mark.parametrize("runtime", ["8", "10"])
def test_what_dotnet_trace_says_is_told(runtime: str, tmp_path: Path) -> None:
    file = tmp_path / "x.nettrace"
    with workload(runtime, "idle", "seconds=100") as target, tapped(tmp_path, "-p", target.pid) as tap:
        words = ("--duration", "00:00:02", "--providers", f"{PROVIDER}:1:4", "-o", file)
        assert "Trace completed" in ended(
            dotnet_trace("collect", "--diagnostic-port", f"{tap.address},connect", *words)
        )
    assert [one["name"] for one in tap.said if one["kind"] == "request"] == [
        "CollectTracing2",
        "ResumeRuntime",
        "StopTracing",
    ]
    (asked,), (session,) = tap.of("request", "CollectTracing2"), tap.of("ok", "CollectTracing2")
    told = fields(asked)
    assert (told["provider[0].name"], told["provider[0].keywords"], told["provider[0].level"]) == (PROVIDER, 1, 4)
    assert (told["circularBufferMB"], told["format"], told["requestRundown"]) == (256, 1, True)
    (stop,) = tap.of("request", "StopTracing")
    assert fields(stop)["sessionId"] == fields(session)["sessionId"]
    (ends,) = tap.of("stream end", "nettrace")
    assert ends["size"] == file.stat().st_size
    assert dd.open(file).complete


@needs("dotnet", "the workload on real runtimes")
def test_a_runtime_that_dials_is_heard_from_its_first_word(tmp_path: Path) -> None:
    with (
        tapped(tmp_path, "--diagnostic-port", tmp_path / "port") as tap,
        workload("10", "idle", "seconds=100", suspended=True, **held_at(tmp_path / "port")) as target,
    ):
        client = dd.Client.connect(f"{tap.address},connect")
        cookie = client.process_info().cookie
        client.resume()
        assert target.expect("ready")
    first, *_ = tap.said
    assert (first["kind"], first["sender"]) == ("advertise", "runtime")
    assert fields(first) == {"runtimeCookie": str(cookie), "processId": target.pid, "future": 0}
    assert tap.of("ok", "ResumeRuntime")
    assert not os.path.exists(tap.address)
