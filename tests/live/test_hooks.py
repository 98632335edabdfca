"""What the check of startup hooks says, held against what real runtimes do with the same files.

The files go to the runtime in messages packed here, since nothing of ours sends what kills.
"""

from __future__ import annotations

import glob
import platform
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.hooks import UNUSABLE, USABLE
from tests.live.runtimes import REQUIRED, Target, available, unpack, workload

from dotnetdiag.assemblies.startup_hook import X64, startup_hook_problem
from dotnetdiag.client import Client
from dotnetdiag.errors import DangerousRequest

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not available(), reason="the runtimes of ../shared/dotnet are not there"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="the files are for x64"),
]
RUNTIMES = [name for name in REQUIRED if name in ("9", "10")]


@pytest.fixture
def sockets() -> Iterator[str]:
    """A folder of our own for the target's socket: killed runtimes leave theirs, and numbers come again. Its path is short."""
    with tempfile.TemporaryDirectory(prefix="hook") as folder:
        yield folder


def apply(target: Target, sockets: str, path: Path) -> bool:
    """Send ApplyStartupHook (0x0407); whether the runtime said that it did."""
    text = f"{path}\0"
    payload = struct.pack("<I", len(text)) + text.encode("utf-16-le")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        (address,) = glob.glob(f"{sockets}/dotnet-diagnostic-{target.pid}-*-socket")
        connection.connect(address)
        connection.sendall(b"DOTNET_IPC_V1\0" + struct.pack("<HBBH", 20 + len(payload), 4, 7, 0) + payload)
        answer = connection.recv(24)
    return len(answer) == 24 and answer[16:18] == b"\xff\x00" and answer[20:] == bytes(4)


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_usable_hooks_are_taken_by_the_runtime(runtime: str, tmp_path: Path, sockets: str) -> None:
    with workload(runtime, "idle", "seconds=100", TMPDIR=sockets) as target:
        for number, (name, data) in enumerate(USABLE.items()):
            path = tmp_path / f"{number}.dll"
            path.write_bytes(data)
            assert apply(target, sockets, path), name
            assert target.alive, name


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("name", UNUSABLE)
def test_unusable_hooks_kill_the_runtime(runtime: str, name: str, tmp_path: Path, sockets: str) -> None:
    path = tmp_path / "hook.dll"
    path.write_bytes(UNUSABLE[name][0])
    with workload(runtime, "idle", "seconds=100", TMPDIR=sockets, DOTNET_DbgEnableMiniDump="0") as target:
        assert not apply(target, sockets, path)
        assert target.process.wait(timeout=60) != 0


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_client_runs_a_usable_hook_and_refuses_the_others(runtime: str, tmp_path: Path, sockets: str) -> None:
    path = tmp_path / "hook.dll"
    with workload(runtime, "idle", "seconds=100", TMPDIR=sockets) as target:
        client = Client(target.pid, timeout_s=20)
        for data, sentence in UNUSABLE.values():
            path.write_bytes(data)
            with pytest.raises(DangerousRequest) as caught:
                client.apply_startup_hook(str(path))
            assert sentence.partition(", and the target runs 1")[0] in str(caught.value)
        path.write_bytes(USABLE["public"])
        client.apply_startup_hook(str(path))
        assert target.alive


def test_hook_of_a_compiler_is_taken() -> None:
    data = (unpack() / "workload" / "hook" / "hook.dll").read_bytes()
    assert startup_hook_problem(data, machine=X64, runtime_version="8.0.33") == ""
