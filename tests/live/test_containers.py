"""docs/how-to/containers.md, walked in namespaces that are made as a container engine makes them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.live.runtimes import CACHE, command
from tests.live.test_namespaces import namespaces_are_possible
from tests.shared import needs

import dotnetdiag as dd

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]
PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "containers.md").read_text()
BLOCKS = {
    title: lines.strip().splitlines()
    for title, lines in re.findall(r'```\{ \.sh title="([^"]+)" \}\n(.*?)```', PAGE, re.DOTALL)
}


NEEDED = sorted(
    {Path(path).parts[2] for path in (sys.executable, sys.prefix, __file__, str(CACHE)) if path.startswith("/tmp/")}
)


@pytest.fixture(autouse=True)
def possible() -> None:
    if not namespaces_are_possible():
        if os.environ.get("CI") == "true" and os.getuid() == 0:
            pytest.fail("unshare does not work here although this is root in CI")
        pytest.skip("this user may not make namespaces")


def container(mounts: dict[str, Path], words: list[str], *, processes_of: int | None = None) -> list[str]:
    """A command in a pid and a mount namespace of its own, or in the processes of another container; with volumes and a /tmp of its own."""
    own = "" if "/tmp" in mounts else "mount -t tmpfs none /tmp && "
    binds = "".join(f"mkdir -p {place} && mount --bind {folder} {place} && " for place, folder in mounts.items())
    script = f'{binds}{own}mount -t proc proc /proc && exec "$@"'
    if processes_of is None:
        return ["unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", script, "sh", *words]
    return ["nsenter", "-t", str(processes_of), "-p", "unshare", "--mount", "sh", "-c", script, "sh", *words]


@contextmanager
def program(mounts: dict[str, Path], runtime: str, **more: str) -> Iterator[int]:
    """The program in its container; the pid that the host has for it."""
    words, environment = command(runtime, "idle", "seconds=1000")
    with subprocess.Popen(
        container(mounts, words), env={**os.environ, **environment, **more}, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready 1")
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield int(children[0])
        finally:
            process.kill()


def walk(title: str, mounts: dict[str, Path], folder: Path, *, processes_of: int | None = None) -> list[str]:
    """What the lines of a block print; each must end well."""
    printed = []
    for line in BLOCKS[title]:
        words = ["sh", "-c", f"cd {folder} 2>/dev/null; {line.replace('MyApp', 'workload')}"]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(
            container(mounts, words, processes_of=processes_of),
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        printed.append(done.stdout + done.stderr)
    return printed


def is_complete(path: Path) -> bool:
    with dd.open(path) as trace:
        return trace.complete


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    path = tmp_path / "volume"
    path.mkdir()
    return path


def test_every_block_is_walked() -> None:
    assert set(BLOCKS) == {
        "in the sidecar",
        "in a sidecar with a shared /tmp",
        "in the same pid namespace",
        "in the debug container",
    }


@pytest.mark.parametrize("runtime", ["8", "9", "10", "NativeAOT"])
def test_a_sidecar_with_a_volume(runtime: str, volume: Path) -> None:
    mounts = {"/diag": volume}
    with program(mounts, runtime, DOTNET_DiagnosticPorts="/diag/app.sock,nosuspend"):
        printed = walk("in the sidecar", mounts, volume)
    assert "dials it" in printed[0]
    (followed,) = (volume / "traces").glob("*.nettrace")
    assert is_complete(volume / "app.nettrace")
    assert is_complete(followed)


@pytest.mark.parametrize("runtime", ["8", "9", "10", "NativeAOT"])
def test_a_sidecar_with_a_shared_tmp(runtime: str, volume: Path) -> None:
    mounts = {"/tmp": volume}
    with program(mounts, runtime):
        printed = walk("in a sidecar with a shared /tmp", mounts, volume)
    assert "A runtime whose process is not seen from here listens at /tmp/dotnet-diagnostic-1-" in printed[0]
    assert is_complete(volume / "app.nettrace")


@pytest.mark.parametrize("title", ["in the same pid namespace", "in the debug container"])
@pytest.mark.parametrize("runtime", ["8", "10"])
def test_a_container_that_shares_its_processes(runtime: str, title: str, volume: Path) -> None:
    with program({}, runtime) as pid:
        printed = walk(title, {"/tmp": volume}, Path("/tmp"), processes_of=pid)
    assert "workload" in printed[0]
    assert is_complete(volume / "app.nettrace")
