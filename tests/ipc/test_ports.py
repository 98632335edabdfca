"""Texts of diagnostic ports, as a runtime reads them and as tools do."""

from __future__ import annotations

import pytest

from dotnetdiag.errors import GrammarError
from dotnetdiag.ipc.ports import (
    PortMode,
    ToolPort,
    parse_runtime_ports,
    parse_tool_port,
)

CONNECT, LISTEN = PortMode.CONNECT, PortMode.LISTEN


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("", []),
        (";;,;", []),
        (";,;/a", [("/a", CONNECT, True)]),
        ("/a", [("/a", CONNECT, True)]),
        ("/a,listen", [("/a", LISTEN, True)]),
        ("/a,LISTEN,NoSuspend", [("/a", LISTEN, False)]),
        ("/a,nosuspend,suspend", [("/a", CONNECT, False)]),  # the first of a kind wins
        ("/a,suspend,nosuspend", [("/a", CONNECT, True)]),
        ("/a,listen,connect", [("/a", LISTEN, True)]),
        ("/a,connect,listen", [("/a", CONNECT, True)]),
        ("/a, listen", [("/a", CONNECT, True)]),  # blanks are not trimmed
        ("/a,other,nosuspend", [("/a", CONNECT, False)]),
        (",,/a,,listen,", [("/a", LISTEN, True)]),
        ("listen", [("listen", CONNECT, True)]),  # the first part is always the address
        ("/a;/b,nosuspend;", [("/a", CONNECT, True), ("/b", CONNECT, False)]),
        (" /a ", [(" /a ", CONNECT, True)]),
    ],
)
def test_ports_are_read_as_the_runtime_does(text: str, ports: list[tuple[str, PortMode, bool]]) -> None:
    assert [(port.address, port.mode, port.suspend) for port in parse_runtime_ports(text)] == ports


@pytest.mark.parametrize(
    ("text", "address", "mode"),
    [
        ("/a", "/a", LISTEN),
        ("/a,connect", "/a", CONNECT),
        ("/a,listen", "/a", LISTEN),
        ("/a, Connect ", "/a", CONNECT),
        ("tcp://127.0.0.1:9000,connect", "tcp://127.0.0.1:9000", CONNECT),
    ],
)
def test_a_tool_s_port_is_an_address_and_who_dials(text: str, address: str, mode: PortMode) -> None:
    port = parse_tool_port(text)
    assert port == ToolPort(address=address, mode=mode)
    assert parse_tool_port(str(port)) == port
    assert str(port) == f"{address},{mode.value}"


@pytest.mark.parametrize(
    ("text", "position"),
    [("", 0), (",connect", 0), ("/a,", 3), ("/ab,", 4), ("/a,suspend", 3), ("/a,connect,suspend", 3)],
)
def test_another_port_is_refused_where_it_is_wrong(text: str, position: int) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_tool_port(text)
    assert (caught.value.what, caught.value.text, caught.value.position) == ("diagnostic port", text, position)
