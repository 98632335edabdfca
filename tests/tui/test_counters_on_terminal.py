"""``counters monitor`` on a terminal, from its begin to its end: of a server of our own."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals of this kind", allow_module_level=True)

from tests.analysis.counters_made import MadeCounters
from tests.recipes.test_counter_watch import served
from tests.tui.terminal import ALTERNATE, CURSOR, NORMAL, Terminal, on_terminal

from dotnetdiag.testing import Runtime

OFTEN = ("--refresh-interval", "200ms")
WITHOUT_TEXTUAL = "sys.modules['textual'] = None; "
SHOWN = b"dotnet.process"


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def port(tmp_path: Path, servers: ExitStack) -> str:
    (port,) = servers.enter_context(served(tmp_path, "server"))
    return port


def assert_as_before(terminal: Terminal) -> None:
    """What a shell needs of a terminal when a program has left it."""
    assert terminal.output.rfind(NORMAL) > terminal.output.rfind(ALTERNATE) >= 0
    assert terminal.output.rfind(CURSOR) > terminal.output.rfind(b"\x1b[?25l")
    assert terminal.settings_now() == terminal.settings


ENDS: dict[str, Callable[[Terminal], None]] = {
    "q": lambda terminal: terminal.press(b"q"),
    "Ctrl-C": lambda terminal: terminal.press(b"\x03"),
    "SIGINT": lambda terminal: terminal.kill(signal.SIGINT),
    "SIGTERM": lambda terminal: terminal.kill(signal.SIGTERM),
    "SIGHUP": lambda terminal: terminal.kill(signal.SIGHUP),
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_the_screen_ends_and_leaves_the_terminal_as_it_was(end: Callable[[Terminal], None], port: str) -> None:
    with on_terminal("counters", "monitor", "--dport", port, *OFTEN) as terminal:
        terminal.wait_for(SHOWN)
        end(terminal)
        assert terminal.ended() == 0
        terminal.wait_for(NORMAL)
        terminal.wait_for(CURSOR)
        assert_as_before(terminal)


def test_it_ends_after_the_duration(port: str) -> None:
    with on_terminal("counters", "monitor", "--dport", port, *OFTEN, "--duration", "1s") as terminal:
        assert terminal.ended() == 0
        terminal.wait_for(NORMAL)


def test_it_ends_with_the_last_process_and_says_why(port: str, servers: ExitStack) -> None:
    with on_terminal("counters", "monitor", "--dport", port, *OFTEN) as terminal:
        terminal.wait_for(SHOWN)
        servers.close()
        assert terminal.ended() == 0
        terminal.wait_for(NORMAL)
        assert_as_before(terminal)


def test_a_terminal_that_has_gone_ends_it(port: str) -> None:
    with on_terminal("counters", "monitor", "--dport", port, *OFTEN) as terminal:
        terminal.wait_for(SHOWN)
        terminal.hang_up()
        assert terminal.ended() == 0


def test_a_terminal_that_takes_nothing_holds_up_no_end(port: str) -> None:
    with on_terminal("counters", "monitor", "--dport", port, *OFTEN) as terminal:
        terminal.wait_for(SHOWN)
        terminal.stop()
        terminal.kill(signal.SIGTERM)
        assert terminal.ended() == 0


def test_an_error_is_a_line_after_the_screen_with_the_exit_code_that_it_has_without(tmp_path: Path) -> None:
    words = ("counters", "monitor", "--dport", f"{tmp_path}/nobody,connect", *OFTEN)
    with on_terminal(*words) as terminal, on_terminal(*words, "--plain") as other:
        code = terminal.ended()
        assert code == other.ended() != 0
        terminal.wait_for(NORMAL)
        other.wait_for(b"error: ")
        terminal.wait_for(b"error: ")
        assert_as_before(terminal)
        said = terminal.output[terminal.output.rfind(NORMAL) :]
        assert b"nobody" in said
        assert ALTERNATE not in other.output


@pytest.mark.parametrize(
    ("words", "before"), [(("--plain",), ""), ((), WITHOUT_TEXTUAL), (("--plain",), WITHOUT_TEXTUAL)]
)
def test_without_the_full_screen_the_last_values_are_drawn(words: tuple[str, ...], before: str, port: str) -> None:
    with on_terminal("counters", "monitor", "--dport", port, *OFTEN, *words, before=before) as terminal:
        terminal.wait_for(SHOWN)
        terminal.wait_for(b"Ctrl+C ends it")
        terminal.kill(signal.SIGINT)
        assert terminal.ended() == 0
        assert ALTERNATE not in terminal.output
        assert terminal.output.count(b"pip install 'dotnetdiag[tui]'") == (0 if words else 1)


@pytest.mark.parametrize(("words", "sign"), [((), ALTERNATE), (("--plain",), b"A\r\x1b[J")])
def test_who_wants_no_colours_gets_the_screen_all_the_same(words: tuple[str, ...], sign: bytes, port: str) -> None:
    """Lines ran through instead."""
    no_colour = "import os; os.environ['NO_COLOR'] = '1'; "
    with on_terminal("counters", "monitor", "--dport", port, *OFTEN, *words, before=no_colour) as terminal:
        terminal.wait_for(SHOWN)
        terminal.wait_for(sign)
        terminal.kill(signal.SIGINT)
        assert terminal.ended() == 0


def test_what_is_drawn_stands_in_the_place_of_what_was_drawn_before(tmp_path: Path) -> None:
    made = MadeCounters()
    for second in range(3):
        made.at(100 + second).gauge("g", sessionId="SHARED", meterName="M", lastValue=str(second), tags="k=\x1b[2J")
    with (
        Runtime("9.0", listen=str(tmp_path / "p"), replay=made.data(), waits=True) as runtime,
        on_terminal(
            "counters", "monitor", "--dport", f"{runtime.address},connect", "--counters", "M", "--plain", *OFTEN
        ) as terminal,
    ):
        terminal.wait_for(b"[M]")
        terminal.wait_for(b"A\r\x1b[J")
        terminal.kill(signal.SIGINT)
        assert terminal.ended() == 0
        assert re.search(rb"\x1b\[\d+A\r\x1b\[J", terminal.output)
        assert rb"\x1b[J" not in terminal.output
        assert rb"k=\x1b[2J" in terminal.output
        assert b"\x1b[2J" not in terminal.output


def test_the_screen_says_who_is_waited_for() -> None:
    with on_terminal("counters", "monitor", "-n", "nobody is called so", *OFTEN) as terminal:
        terminal.wait_for(b"waiting for a process named nobody is called so")
        assert ALTERNATE in terminal.output
        terminal.press(b"q")
        assert terminal.ended() == 0
