"""What the environment says of ports (ipc-protocol.md §10, §11, §21.5)."""

from __future__ import annotations

import os

import pytest

from dotnetdiag.ipc.ports import PortMode, RuntimePort
from dotnetdiag.server.ports import PortSettings, default_address, read_settings
from dotnetdiag.transport.processes import start_time_ticks


def test_nothing_set_is_a_server_that_waits_for_nobody() -> None:
    assert read_settings({}) == PortSettings(enabled=True, suspend=False, ports=())


@pytest.mark.parametrize("prefix", ["DOTNET_", "COMPlus_"])
def test_ports_are_read_under_both_prefixes(prefix: str) -> None:
    port = RuntimePort(address="/a", mode=PortMode.CONNECT, suspend=False)
    assert read_settings({f"{prefix}DiagnosticPorts": "/a,nosuspend"}).ports == (port,)


@pytest.mark.parametrize(
    ("text", "suspends"),
    [("1", True), ("2", True), ("00000001", True), ("0x1", True), ("-1", True), ("0", False), ("true", False)],
)
def test_suspending_is_a_hexadecimal_number(text: str, suspends: bool) -> None:
    assert read_settings({"DOTNET_DefaultDiagnosticPortSuspend": text}).suspend is suspends


@pytest.mark.parametrize("name", ["EnableDiagnostics", "EnableDiagnostics_IPC"])
def test_a_switch_that_is_0_is_no_server(name: str) -> None:
    assert not read_settings({f"DOTNET_{name}": "0"}).enabled
    assert not read_settings({f"COMPlus_{name}": "00"}).enabled
    assert read_settings({f"DOTNET_{name}": "1"}).enabled
    assert read_settings({f"DOTNET_{name}": "off"}).enabled


@pytest.mark.parametrize(
    ("tmpdir", "folder"), [({}, "/tmp"), ({"TMPDIR": ""}, "/tmp"), ({"TMPDIR": "/run/x/"}, "/run/x")]
)
def test_the_default_address_has_the_pid_and_the_start_time(tmpdir: dict[str, str], folder: str) -> None:
    pid = os.getpid()
    assert default_address(tmpdir) == f"{folder}/dotnet-diagnostic-{pid}-{start_time_ticks(pid) or 0}-socket"
