"""What holds a runtime at startup, and what lets it run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dotnetdiag.client import Client
from dotnetdiag.errors import UnsupportedCommand
from dotnetdiag.recipes.suspension import Hold, holds, is_held, resume
from dotnetdiag.transport import processes

OWN = Hold(pid=7)


def port(path: str) -> Hold:
    return Hold(pid=7, port=path)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_to(ports: bytes = b"", own: bytes = b"") -> None:
        values = {b"DOTNET_DiagnosticPorts": ports, b"DOTNET_DefaultDiagnosticPortSuspend": own}
        monkeypatch.setattr(processes, "environ", lambda pid: values)
        monkeypatch.setattr(processes, "cwd", lambda pid: "/folder")

    return set_to


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        (b"/tmp/p", ["/tmp/p"]),
        (b"/tmp/p,suspend", ["/tmp/p"]),
        (b"/tmp/p,connect,suspend;/tmp/q", ["/tmp/p", "/tmp/q"]),
        (b"/tmp/p,nosuspend;/tmp/q,,suspend,nosuspend,listen,", []),
        (b"/tmp/p,suspend,nosuspend;/tmp/q, nosuspend", ["/tmp/p", "/tmp/q"]),
        (b"/tmp/p,NoSuspend", []),
        (b"/tmp/p,listen;/tmp/q,Listen,suspend", []),
        (b"", []),
        (b";", []),
    ],
)
def test_ports_hold_a_runtime_unless_it_listens_there_or_they_say_otherwise(
    text: bytes, ports: list[str], environment: Callable[..., None]
) -> None:
    environment(text)
    assert [hold.port for hold in holds(7)] == ports


@pytest.mark.parametrize(
    ("text", "held"),
    [
        *((text, True) for text in ("1", "2", "00000001", "0x1", "-1", "+1", " 1", "1x", "a")),
        *((text, False) for text in ("0", "00", "0x0", "true", "x1", "")),
    ],
)
def test_its_own_socket_holds_a_runtime_where_the_variable_says_so(
    text: str, held: bool, environment: Callable[..., None]
) -> None:
    environment(own=text.encode())
    assert holds(7) == ((OWN,) if held else ())


def test_variables_count_under_their_old_names_where_the_new_ones_are_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {b"COMPlus_DiagnosticPorts": b"/tmp/p", b"COMPlus_DefaultDiagnosticPortSuspend": b"1"}
    monkeypatch.setattr(processes, "environ", lambda pid: values)
    assert holds(7) == (port("/tmp/p"), OWN)
    values |= {b"DOTNET_DiagnosticPorts": b"/tmp/q", b"DOTNET_DefaultDiagnosticPortSuspend": b"0"}
    assert holds(7) == (port("/tmp/q"),)


def test_nothing_is_known_of_a_process_that_cannot_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "environ", lambda pid: None)
    assert holds(7) == holds(None) == ()


class Runtime:
    """Held by ``holds``, each let go by a resume over it."""

    def __init__(self, *held: Hold) -> None:
        self.held = list(held)

    def client(self, over: Hold | None) -> Any:
        runtime = self

        class Played:
            def resume(self) -> None:
                if over in runtime.held:
                    runtime.held.remove(over)

            def target_pid(self) -> int:
                return 7

            def is_suspended(self) -> bool:
                return bool(runtime.held)

        return Played()


@pytest.mark.parametrize(
    ("over", "address", "left"),
    [
        (port("/tmp/p"), "/tmp/p", [port("q"), OWN]),
        (port("q"), "/folder/q", [port("/tmp/p"), OWN]),
        (OWN, None, [port("/tmp/p"), port("q")]),
        (OWN, "/tmp/dotnet-diagnostic-7-1-socket", [port("/tmp/p"), port("q")]),
    ],
)
def test_what_still_holds_a_runtime_is_all_but_what_it_was_resumed_over(
    over: Hold, address: str | None, left: list[Hold], environment: Callable[..., None]
) -> None:
    environment(b"/tmp/p;q", b"1")
    runtime = Runtime(port("/tmp/p"), port("q"), OWN)
    assert list(resume(runtime.client(over), over=address)) == left


def test_a_runtime_that_runs_is_held_by_nothing_whatever_its_variables_say(environment: Callable[..., None]) -> None:
    environment(b"/tmp/p;q")
    assert resume(Runtime().client(None)) == ()


def test_an_old_runtime_has_nothing_to_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise UnsupportedCommand("ResumeRuntime", 0x80131385)

    monkeypatch.setattr(Client, "resume", refuse)
    assert resume(Client(7)) == ()


@pytest.mark.parametrize(
    ("threads", "pid", "variables", "told"),
    [
        (True, 7, {}, True),
        (False, 7, {}, False),
        (None, 7, {}, False),
        (None, 7, {b"DOTNET_DiagnosticPorts": b"/tmp/p"}, None),
        (None, 7, None, None),
        (None, None, {}, None),
    ],
    ids=["waits", "runs", "nothing would hold it", "a port would", "it cannot be seen", "nobody knows which it is"],
)
def test_who_has_nothing_in_the_environment_that_would_hold_it_is_not_held(
    threads: bool | None,
    pid: int | None,
    variables: dict[bytes, bytes] | None,
    told: bool | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The threads of .NET Core 3.x say nothing, and one that answers nothing any more is asked nothing."""

    class Played:
        def is_suspended(self) -> bool | None:
            return threads

        def target_pid(self, *, confirmed: bool) -> int | None:
            assert confirmed
            return pid

    monkeypatch.setattr(processes, "environ", lambda _: variables)
    played: Any = Played()
    assert is_held(played) is told
