"""Two machines, played by network namespaces: the link between them is cut in the middle of a large recording."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.cli.test_commands import run
from tests.live.runtimes import workload
from tests.live.test_trace_collect import PYTHON
from tests.shared import needs

import dotnetdiag as dd
from dotnetdiag.transport.sockets import PROBE_AFTER_S, PROBE_EVERY_S, PROBES

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]
FLOOD = ("flood", "threads=1", "each=2000000000", "size=64", "wait=stdin")
PROVIDERS = "Workload-Manifest:0xffffffffffffffff:5"
CUT_AT_BYTES = 20_000_000
FAR, NEAR = "10.213.7.1", "10.213.7.2"
NOTICED_S = PROBE_AFTER_S + PROBE_EVERY_S * PROBES
"""A machine that says nothing, and is sent nothing, is asked whether it is there."""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


@pytest.fixture
def near() -> Iterator[list[str]]:
    """What a command of the other machine is started with: a namespace whose only link leads to ours."""
    problem = "" if shutil.which("ip") else "there is no ip (iproute2)"
    name, here, there = (f"{prefix}{os.getpid()}" for prefix in ("dd", "ddh", "ddt"))
    if not problem:
        try:
            ip("netns", "add", name)
            ip("link", "add", here, "type", "veth", "peer", "name", there, "netns", name)
            ip("addr", "add", f"{FAR}/30", "dev", here)
            ip("link", "set", here, "up")
            ip("-n", name, "addr", "add", f"{NEAR}/30", "dev", there)
            ip("-n", name, "link", "set", there, "up")
        except subprocess.CalledProcessError as error:
            problem = error.stderr.decode().strip()
    if problem:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False) if shutil.which("ip") else None
        if os.environ.get("CI") == "true" and os.getuid() == 0:
            pytest.fail(f"no network namespace can be made here although this is root in CI: {problem}")
        pytest.skip(f"no network namespace can be made here: {problem}")
    try:
        yield ["ip", "netns", "exec", name]
    finally:
        ip("netns", "del", name)


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line_of(process: subprocess.Popen[str], start: str) -> str:
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith(start):
        assert line, f"it ended without a line {start!r}"
    return line


def test_a_cut_link_ends_what_went_over_it_in_time_and_nothing_else(near: list[str], tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with (
        TemporaryDirectory(dir="/tmp") as folder,  # short: part of addresses
        workload("10", *FLOOD, TMPDIR=folder) as target,
    ):
        (own,) = Path(folder).glob("dotnet-diagnostic-*-socket")
        with (
            started(
                *(
                    *PYTHON,
                    "router",
                    "server-client",
                    "--tcp-server",
                    f"{FAR}:0",
                    "--ipc-client",
                    str(own),
                    "--insecure",
                )
            ) as far,
        ):
            (port,) = re.findall(rf"{FAR}:(\d+) for tools", line_of(far, "listening on "))
            with (
                started(
                    *(*near, *PYTHON, "router", "server-client", "--ipc-server", f"{folder}/tools"),
                    *("--tcp-client", f"{FAR}:{port}", "--insecure"),
                ) as router,
            ):
                line_of(router, "listening on ")
                with started(
                    *(*near, *PYTHON, "trace", "collect", "--diagnostic-port", f"{folder}/tools,connect"),
                    *("--providers", PROVIDERS, "--resume-runtime", "false", "-o", str(path)),
                ) as tool:
                    line_of(tool, "Recording trace")
                    target.say()
                    while not path.exists() or path.stat().st_size < CUT_AT_BYTES:
                        assert tool.poll() is None
                        time.sleep(0.01)
                    ip("-n", near[-1], "link", "set", f"ddt{os.getpid()}", "down")
                    _, err = tool.communicate(timeout=NOTICED_S + 30)
                    assert tool.returncode == 2, err
        # the far side goes on: its runtime was sent nothing for as long as the flood waits for the link, and lives
        assert target.alive
        done = run("info", "--diagnostic-port", f"{own},connect")
        assert done.returncode == 0, done.stderr
    with dd.open(path) as trace:
        assert not trace.complete
        assert sum(trace.counts()["Workload-Manifest"].values()) > 50_000
