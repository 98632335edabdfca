"""A host attaches to a runtime in another pid and mount namespace, by the host's pid and by the inner one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.runtimes import command, workload

from dotnetdiag.client import Client
from dotnetdiag.recipes.processes import list_processes
from dotnetdiag.transport import candidates, processes

pytestmark = pytest.mark.live


def namespaces_are_possible() -> bool:
    return (
        subprocess.run(["unshare", "--pid", "--mount", "--fork", "true"], capture_output=True, check=False).returncode
        == 0
    )


@pytest.mark.parametrize("runtime", ["8", "10", "NativeAOT"])
def test_host_attaches_into_another_pid_and_mount_namespace(runtime: str, tmp_path: Path) -> None:
    if not namespaces_are_possible():
        if os.environ.get("CI") == "true" and os.getuid() == 0:
            pytest.fail("unshare does not work here although this is root in CI")
        pytest.skip("this user may not make namespaces")
    words, environment = command(runtime, "idle", "seconds=100")
    # its own /tmp hides the socket from us, its own /proc shows it pid 1 and up; the sleep gives the runtime a pid above 1
    script = 'mount -t tmpfs none /tmp && mount -t proc proc /proc && cd /tmp && sleep 0 && "$@" & wait'
    outside = os.environ | environment
    if str(Path(words[0])).startswith("/tmp/") or any(word.startswith("/tmp/") for word in words):
        # the runtimes are unpacked below /tmp: give the runtime another place for its socket instead of a tmpfs over them
        script = (
            f'mount -t tmpfs none {tmp_path} && mount -t proc proc /proc && cd {tmp_path} && sleep 0 && "$@" & wait'
        )
        outside = {**outside, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(
        ["unshare", "--pid", "--mount", "--fork", "sh", "-c", script, "sh", *words], stdout=subprocess.PIPE, env=outside
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith("ready ")
        inner = int(line.split()[1])
        (outer,) = (
            pid
            for pid in processes.iter_pids()
            if pid != inner
            and _namespace_pids(pid)[-1:] == [inner]
            and len(_namespace_pids(pid)) > 1
            and "idle" in (processes.argv(pid) or ())
        )
        info = Client(outer).process_info()
        assert info.pid == inner
        assert Client(inner).process_info().cookie == info.cookie
        (shown,) = (one for one in list_processes() if one.pid == outer)
        assert shown.other_namespace
        assert shown.namespace_pid == inner
        with Client(outer).trace("Microsoft-Windows-DotNETRuntime:GC", duration="0.2s") as session:
            assert session.save(tmp_path.parent / f"{runtime}.nettrace") > 0
        listed = subprocess.run(
            [sys.executable, "-m", "dotnetdiag.cli.main", "info", "-p", str(inner)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert listed.returncode == 0, listed.stderr
        if runtime != "NativeAOT":  # which writes no dumps
            _dump_is_told_for_both(outer, processes.cwd(outer) or "/")
    finally:
        for pid in list(processes.iter_pids()):
            if len(_namespace_pids(pid)) > 1 and "idle" in (processes.argv(pid) or ()):
                os.kill(pid, 9)
        process.kill()
        process.communicate()


def _namespace_pids(pid: int) -> list[int]:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return []
    line = next((line for line in status.splitlines() if line.startswith("NSpid:")), "NSpid:")
    return [int(word) for word in line.split()[1:]]


def _dump_is_told_for_both(pid: int, folder: str) -> None:
    """Where it is for the target, below the target's own working directory, and where we find it."""
    done = subprocess.run(
        [sys.executable, "-m", "dotnetdiag.cli.main", "dump", "collect", "-p", str(pid), "--type", "Mini", "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["path"].startswith(f"{folder.rstrip('/')}/core_")
    assert told["host_path"] == f"/proc/{pid}/root{told['path']}"
    assert told["size_bytes"] == Path(told["host_path"]).stat().st_size > 0


SESSIONS_WHILE_SUSPENDED = """
import sys
from dotnetdiag import Client
client = Client.connect(sys.argv[1], timeout_s=5)
for _ in range(3):
    with client.trace("Microsoft-Windows-DotNETRuntime:GC", rundown_keyword=0):
        pass
with client.trace("Microsoft-Windows-DotNETRuntime:GC", rundown_keyword=0) as session:
    client.resume()
    assert session.read()
"""


@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_sessions_from_another_namespace_that_end_while_it_is_suspended_poison_no_runtime(runtime: str) -> None:
    """The system does not name the peer there, so its threads cannot be looked at (ipc-protocol.md §21.1)."""
    if not namespaces_are_possible():
        pytest.skip("this user may not make namespaces")
    with workload(runtime, "idle", "seconds=100", suspended=True) as target:
        address = str(candidates(target.pid)[0].address)
        words = [sys.executable, "-c", SESSIONS_WHILE_SUSPENDED, address]
        done = subprocess.run(
            ["unshare", "--pid", "--fork", "--mount-proc", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert target.expect("ready")
        assert target.alive
