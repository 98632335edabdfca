"""Which ports hold a runtime at startup: how it is let run again depends on them."""

from __future__ import annotations

import pytest

from dotnetdiag.recipes.suspension import suspending_ports
from dotnetdiag.transport import processes


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        (b"/tmp/p", ("/tmp/p",)),
        (b"/tmp/p,suspend", ("/tmp/p",)),
        (b"/tmp/p,connect,suspend;/tmp/q", ("/tmp/p", "/tmp/q")),
        (b"/tmp/p,nosuspend; /tmp/q , listen", ("/tmp/q,connect",)),
        (b"/tmp/p,NoSuspend", ()),
        (b"", ()),
        (b";", ()),
    ],
)
def test_ports_hold_a_runtime_unless_they_say_otherwise(
    text: bytes, ports: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "environ", lambda pid: {b"DOTNET_DiagnosticPorts": text})
    assert suspending_ports(7) == ports


def test_nothing_is_known_of_a_process_that_cannot_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "environ", lambda pid: None)
    assert suspending_ports(7) == suspending_ports(None) == ()
