"""``transport.suspension`` on real runtimes: it must never take one that runs for one that waits, nor the other way round."""

from __future__ import annotations

import os
import subprocess
import threading
import time

import pytest
from tests.live.runtimes import command, workload

from dotnetdiag.client import Client
from dotnetdiag.transport.processes import thread_names
from dotnetdiag.transport.suspension import is_suspended

pytestmark = pytest.mark.live
NAMED = ["8", "9", "10", "NativeAOT"]


@pytest.mark.parametrize("runtime", NAMED)
@pytest.mark.parametrize("environment", [{}, {"DOTNET_gcServer": "1"}, {"DOTNET_EnableDiagnostics_Debugger": "0"}])
def test_a_suspended_runtime_is_seen_to_wait_until_it_is_resumed(runtime: str, environment: dict[str, str]) -> None:
    with workload(runtime, "idle", "seconds=100", suspended=True, **environment) as target:
        assert is_suspended(target.pid) is True
        Client(target.pid).resume()
        seen = is_suspended(target.pid)
        target.expect("ready")
        assert seen in (False, None), "from the moment on that it was resumed"
        assert _verdict_after_start(target.pid) is False


@pytest.mark.parametrize("runtime", NAMED)
def test_a_runtime_that_tells_that_it_waits_still_waits(runtime: str) -> None:
    """After 5 seconds it wakes up to print a notice."""
    with workload(runtime, "idle", "seconds=100", suspended=True) as target:
        target.expect("The runtime has been configured to pause during startup")
        assert is_suspended(target.pid) is True


@pytest.mark.parametrize("runtime", NAMED)
@pytest.mark.parametrize("environment", [{}, {"DOTNET_gcServer": "1", "DOTNET_EnableDiagnostics_Debugger": "0"}])
def test_a_runtime_that_starts_is_never_seen_to_wait(runtime: str, environment: dict[str, str]) -> None:
    words, own = command(runtime, "idle", "seconds=100")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, **own, **environment})
    assert process.stdout is not None
    line = threading.Thread(target=process.stdout.readline)  # until it says that it is ready
    line.start()
    try:
        seen = []
        while line.is_alive():
            seen.append(is_suspended(process.pid))
            time.sleep(0.001)
        assert True not in seen, thread_names(process.pid)
        assert _verdict_after_start(process.pid) is False
    finally:
        process.kill()
        process.communicate()
        line.join()


@pytest.mark.parametrize("suspended", [False, True])
def test_of_an_old_runtime_it_cannot_be_told(suspended: bool) -> None:
    """3.1 knows no suspension; its threads have no names."""
    with workload("3.1", "idle", "seconds=100", suspended=suspended) as target:
        assert is_suspended(target.pid) is None


def _verdict_after_start(pid: int) -> bool | None:
    """NativeAOT gets its first thread with a name of its own a moment after the first line of the program."""
    ends = time.monotonic() + 5
    while (verdict := is_suspended(pid)) is None and time.monotonic() < ends:
        time.sleep(0.01)
    return verdict
