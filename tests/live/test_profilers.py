"""Native profilers: attached to a running runtime with its client data, registered while it is suspended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest
from tests.live import supported
from tests.live.runtimes import unpack, workload

from dotnetdiag.client import Client
from dotnetdiag.errors import BadEncoding, NotSupported, ProfilerAlreadyActive, ServerError

pytestmark = pytest.mark.live

CLSID = UUID("5F1A6C2E-3B7D-4A8E-9C10-D0E5A1B2C3D4")


def library() -> str:
    return str(unpack() / "workload" / "libwlprofiler.so")


def test_attached_profiler_gets_its_client_data(runtime: str, tmp_path: Path) -> None:
    told = tmp_path / "profiler.txt"
    data = f"file={told}".encode()
    with workload(runtime, "idle", "seconds=100") as started:
        client = Client(started.pid, timeout_s=20)
        if runtime == "NativeAOT":
            with pytest.raises(NotSupported) as refused:
                client.attach_profiler(CLSID, library(), data)
            supported.note("profiler attach", runtime, f"NotSupported 0x{refused.value.hresult:08X}")
        else:
            client.attach_profiler(CLSID, library(), data)
            lines = told.read_text(encoding="utf-8").splitlines()
            assert any(line.startswith("attach pid=") and data.hex() in line.lower() for line in lines), lines
            supported.note("profiler attach", runtime, "works")
            with pytest.raises(ServerError):
                client.attach_profiler(CLSID, library(), data)  # one is active already
        assert started.alive


def test_a_second_profiler_is_a_named_error(tmp_path: Path) -> None:
    with workload("10", "idle", "seconds=100") as started:
        client = Client(started.pid, timeout_s=20)
        client.attach_profiler(CLSID, library(), f"file={tmp_path / 'a'}".encode())
        with pytest.raises(ProfilerAlreadyActive):
            client.attach_profiler(CLSID, library(), b"")


def test_a_library_that_is_missing_is_an_error_and_no_harm(runtime: str) -> None:
    if runtime == "NativeAOT":
        return  # refuses all profilers: see above
    with workload(runtime, "idle", "seconds=100") as started:
        with pytest.raises(ServerError):
            Client(started.pid, timeout_s=20).attach_profiler(CLSID, "/nonexistent/lib.so", timeout_s=2)
        assert started.alive


def test_profiler_registered_while_suspended_is_there_from_the_start(runtime: str, tmp_path: Path) -> None:
    told = tmp_path / "profiler.txt"
    if runtime == "3.1":  # cannot be suspended; answers BAD_ENCODING where it does not know a command of this set
        with workload(runtime, "idle", "seconds=100") as started, pytest.raises(BadEncoding) as unknown:
            Client(started.pid).startup_profiler(CLSID, library())
        supported.note("profiler at startup", runtime, f"BadEncoding 0x{unknown.value.hresult:08X}")
        return
    with workload(runtime, "idle", "seconds=100", suspended=True, WL_PROFILER_FILE=str(told)) as started:
        client = Client(started.pid, timeout_s=20)
        if runtime == "NativeAOT":
            with pytest.raises(NotSupported) as refused:
                client.startup_profiler(CLSID, library())
            supported.note("profiler at startup", runtime, f"NotSupported 0x{refused.value.hresult:08X}")
        else:
            done = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "dotnetdiag.cli.main",
                    "profiler",
                    "startup",
                    "-p",
                    str(started.pid),
                    str(CLSID),
                    library(),
                ],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        client.resume()
        started.expect("ready")
        if runtime != "NativeAOT":
            assert "startup pid=" in told.read_text(encoding="utf-8")
            supported.note("profiler at startup", runtime, "works")
