"""``--dsrouter``: an application on a device, played by a runtime behind a router that dials as the device does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.live.runtimes import command, workload
from tests.shared import needs

import dotnetdiag as dd
from dotnetdiag.recipes.collect import CollectOptions, Observer, collect
from dotnetdiag.recipes.device import PRESETS
from dotnetdiag.recipes.target import Target, connected

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]


@pytest.mark.parametrize("runtime", ["8", "10", "NativeAOT"])
def test_an_application_that_dials_is_recorded_from_its_start(
    runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(PRESETS, "android-emu", "127.0.0.1:0,listen")
    words, environment = command(runtime, "gc", "gen0=3")
    environment |= {"DOTNET_DiagnosticPorts": str(tmp_path / "p")}
    devices: list[dd.Router] = []
    programs: list[subprocess.Popen[str]] = []

    def start(address: str) -> None:
        if not devices:
            devices.append(dd.Router(tools=f"{address},connect", runtimes=f"{tmp_path}/p,listen"))
            programs.append(
                subprocess.Popen(words, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)
            )

    path = tmp_path / "x.nettrace"
    options = CollectOptions(target=Target(router="android-emu"), clr_events="gc+loader", output=path)
    try:
        done = collect(options, Observer(waiting=start))
        assert done.complete
        assert "done gc" in programs[0].communicate(timeout=60)[0]
    finally:
        for program in programs:
            program.kill()
            program.communicate()
        for device in devices:
            device.close()
    with dd.open(path) as trace:
        assert trace.counts()["Microsoft-Windows-DotNETRuntime"]["GC/Start"] >= 3


def test_an_application_that_listens_is_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        TemporaryDirectory(dir="/tmp") as folder,  # short: it is part of an address
        workload("10", "idle", "seconds=1000", TMPDIR=folder) as target,
    ):
        (socket,) = Path(folder).glob("dotnet-diagnostic-*-socket")
        with dd.Router(tools="127.0.0.1:0,listen", runtimes=f"{socket},connect") as device:
            monkeypatch.setitem(PRESETS, "ios", f"{device.tools_address},connect")
            with connected(Target(router="ios")) as client:
                assert client.process_info().pid == target.pid
