"""The router as users start it, between the workload on a real runtime and the tool that they have."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import Any

from tests.live.runtimes import Target, command, unpack
from tests.live.test_trace_collect import PYTHON

from dotnetdiag.transport import candidates
from dotnetdiag.transport.addresses import UnixAddress

PATIENCE_S = 60.0
FLOOD = "Workload-Manifest:0xffffffffffffffff:5"


@dataclass(slots=True)
class Routing:
    """A router under way. ``address``: where tools are. ``heard``: what it said with ``--json``."""

    process: subprocess.Popen[str]
    address: str
    runtimes_address: str
    heard: list[dict[str, Any]] = field(default_factory=list)
    came: threading.Condition = field(default_factory=threading.Condition)

    def wait_for(self, what: str, **facts: Any) -> dict[str, Any]:
        """The first event that is so, from now on or before."""

        def found() -> dict[str, Any] | None:
            return next(
                (one for one in self.heard if one["what"] == what and facts.items() <= one.items()),
                None,
            )

        with self.came:
            assert self.came.wait_for(lambda: found() is not None, PATIENCE_S), (what, facts, self.heard)
        event = found()
        assert event is not None
        return event

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.came:
                self.heard.append(json.loads(line))
                self.came.notify_all()


@contextmanager
def routed(*words: object, **environment: str) -> Iterator[Routing]:
    """A router that listens; it must end with 0 when it is told to, unless it was killed."""
    process = subprocess.Popen(
        [*PYTHON, "router", *map(str, words), "--json"],
        stdout=PIPE,
        stderr=PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("listening on "), line + process.stderr.read()
        made = Routing(process, *re.findall(r"(\S+) for (?:tools|runtimes)", line))
        reader = threading.Thread(target=made.listen)
        reader.start()
        yield made
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) in (0, -signal.SIGKILL)
        assert process.stderr.read() == ""
        reader.join(PATIENCE_S)
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()


def dotnet_trace(*words: object) -> subprocess.Popen[str]:
    """The tool that users have, unchanged."""
    folder = unpack()
    program = [str(folder / "dotnet" / "dotnet"), str(folder / "dotnet-trace" / "dotnet-trace.dll")]
    environment = {**os.environ, **command("10")[1], "DOTNET_CLI_TELEMETRY_OPTOUT": "1"}
    return subprocess.Popen(
        [*program, *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def listed_by_dotnet_trace() -> str:
    """What its ``ps`` says. It ends with an exception when any process of the machine ends meanwhile (3 of 40): then it is asked again."""
    for _ in range(10):
        tool = dotnet_trace("ps")
        said, _ = tool.communicate(timeout=PATIENCE_S)
        if tool.returncode == 0 or "Process has exited" not in said:
            break
    assert tool.returncode == 0, said
    return said


def ended(tool: subprocess.Popen[str]) -> str:
    """What the tool has said, once it has ended by itself with 0."""
    try:
        said, _ = tool.communicate(timeout=PATIENCE_S)
    finally:
        tool.kill()
        tool.wait()
    assert tool.returncode == 0, said
    return said


def own_socket(target: Target) -> str:
    """The path of the runtime's own socket."""
    address = candidates(target.pid)[0].address
    assert isinstance(address, UnixAddress)
    return address.path


def held_at(port: Path) -> Mapping[str, Any]:
    """What makes a runtime dial this port, and wait there to be resumed."""
    return {"DOTNET_DiagnosticPorts": f"{port},suspend,connect", "DOTNET_DefaultDiagnosticPortSuspend": "0"}
