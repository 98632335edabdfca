"""Short sessions of targets that do not end them, or send without end: each is left in its time, and says so."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.client.scripted import ScriptedRuntime, eventually, obeys, says
from tests.nettrace.recordings import data_of

from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError, TimedOut
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.replies import SessionReply
from dotnetdiag.live.symbols import LiveSymbols
from dotnetdiag.recipes import live_names, stack_report
from dotnetdiag.recipes.live_names import read_names
from dotnetdiag.recipes.stack_report import take_stacks
from dotnetdiag.testing import Script, Talk

DATA = data_of("events-10.nettrace")
STOPPED = says(SessionReply(session_id=1).pack())


def sends_and_stays(talk: Talk) -> None:
    """All but the end, and then nothing."""
    talk.begin_session(DATA[:-1])
    talk.wait_until_hung_up()


def sends_without_end(talk: Talk, every_s: float = 0.0) -> None:
    talk.begin_session(DATA[:-1])
    while True:
        talk.send(bytes(1 << 16))
        talk.pause(every_s)


def drips_without_end(talk: Talk) -> None:
    sends_without_end(talk, 0.02)


def sends_and_ends(talk: Talk) -> None:
    talk.begin_session(DATA)
    talk.wait_for_stop()


@contextmanager
def target(session: Script, stop: Script = STOPPED) -> Iterator[tuple[ScriptedRuntime, Client]]:
    """A runtime that answers StopTracing, whatever its session does."""
    with TemporaryDirectory() as folder:
        made = ScriptedRuntime(Path(folder) / "r", {Command.CollectTracing2: session, Command.StopTracing: stop})
        try:
            yield made, Client.connect(str(made.path))
        finally:
            made.close()


LIMITS: dict[str, tuple[Script, str, float, str]] = {
    "silence": (sends_and_stays, "SHORT_SILENCE_S", 0.2, "the target did not end a short session: nothing came within 0.2 s"),
    "a drip": (drips_without_end, "SHORT_DRAIN_TIMEOUT_S", 0.3, "the session did not end within 0.3 s"),
    "a flood": (sends_without_end, "SHORT_SESSION_BYTES", 1 << 20, "the target sends more than 1 MB for a short session"),
}  # fmt: skip


@pytest.fixture(params=LIMITS)
def endless(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Script, str]:
    """What a session does, and what is said of it."""
    script, limit, value, said = LIMITS[request.param]
    monkeypatch.setattr(live_names, limit, value)
    return script, said


def test_names_of_a_target_that_does_not_end_are_told_to_be_missing(endless: tuple[Script, str]) -> None:
    script, said = endless
    symbols = LiveSymbols()
    with target(script) as (runtime, client):
        before = symbols.now()
        problem = read_names(client, symbols)
        assert problem is not None
        assert said in problem
        assert "\n" not in problem
        assert symbols.now() is before
        eventually(runtime.is_idle, "the session is left")


def test_stacks_of_a_target_that_does_not_end_are_an_error_of_one_line(
    endless: tuple[Script, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script, said = endless
    monkeypatch.setattr(stack_report, "RUNS_S", (0.0,))
    with target(script) as (runtime, client):
        with pytest.raises(DiagnosticsError, match=said) as raised:
            take_stacks(client)
        assert "\n" not in str(raised.value)
        assert isinstance(raised.value, TimedOut) == ("within" in said)
        eventually(runtime.is_idle, "the session is left")


@pytest.mark.parametrize(
    "ask", [lambda client: read_names(client, LiveSymbols()), take_stacks], ids=["names", "stacks"]
)
def test_a_flood_costs_no_more_than_its_limit(ask: Callable[[Client], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_names, "SHORT_SESSION_BYTES", 16 << 20)
    with target(sends_without_end) as (_, client):
        tracemalloc.start()
        try:
            ask(client)
        except DiagnosticsError:
            pass
        finally:
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
    assert peak < 32 << 20


def test_names_of_a_target_that_ends_are_there() -> None:
    symbols = LiveSymbols()
    with target(sends_and_ends, obeys) as (_, client):
        before = symbols.now()
        assert read_names(client, symbols) is None
        assert symbols.now() is not before
