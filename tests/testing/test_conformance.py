"""The conformance checks: passed by our server and the scripted runtime of each release, failed by what misbehaves."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest
from tests.nettrace.recordings import data_of
from tests.server.shells import SHELLS, Served
from tests.server.sources import FakeSource, Streamer

from dotnetdiag.errors import TransportError, UnknownName, UsageError
from dotnetdiag.ipc.tracing import CollectTracing6
from dotnetdiag.server import Caller, ProcessCommands, Streaming
from dotnetdiag.testing import RELEASES, Outcome, Result, Runtime, examine
from dotnetdiag.testing.checks import CHECKS, DIFFERENCES
from dotnetdiag.testing.conformance import release_of
from dotnetdiag.testing.peer import Peer
from dotnetdiag.testing.releases import MEASURED
from dotnetdiag.transport import parse_address

V1 = [name for name in RELEASES if name != "pre-V1"]
INFO_NOT_THERE = {"ProcessInfo says the pid of the process", "what a newer release has is UNKNOWN_COMMAND"}


class Serving(ProcessCommands):
    """All that a process can say, and sessions of a whole recording."""

    def collect(self, request: CollectTracing6, caller: Caller) -> Streaming:
        name = "cpu-only-10.nettrace" if request.format else "eventpipe-dotnetcore2.1-linux-x64-tracelogging.netperf.xz"
        data = data_of(name)
        return Streaming(source=FakeSource(data[:100], data[100:]))


@pytest.fixture
def at() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as made:
        yield f"{made}/s"


def outcomes(results: Iterator[Result]) -> dict[str, Outcome]:
    return {result.name: result.outcome for result in results}


@pytest.mark.parametrize("shell", SHELLS)
def test_our_server_passes_every_check(shell: str, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOTNETDIAG_CONFORMANCE", "")
    served = Served(shell, Serving())
    try:
        found = outcomes(examine(served.listen(at), dangerous=True))
    finally:
        served.end()
    assert list(found) == list(CHECKS)
    assert {name for name, outcome in found.items() if outcome is not Outcome.PASSED} == INFO_NOT_THERE
    assert set(found.values()) == {Outcome.PASSED, Outcome.NOT_APPLICABLE}


@pytest.mark.parametrize("age", [None, "pre-V1"])
def test_a_server_from_before_v1_is_told_from_one_that_does_wrong(age: str | None, at: str) -> None:
    with Runtime("pre-V1", listen=at), pytest.raises(UsageError, match="these checks speak the protocol of V1"):
        next(examine(at, age=age))


def test_a_server_that_answers_nothing_is_checked(at: str) -> None:
    with Runtime("9", listen=at, misbehave={"*": "close:0"}):
        assert next(examine(at)).outcome is Outcome.FAILED


def test_what_a_server_does_not_have_is_not_applicable(at: str) -> None:
    served = Served("threads", Streamer())
    try:
        found = outcomes(examine(served.listen(at)))
    finally:
        served.end()
    assert found["ProcessInfo 1 to 3 say the same"] is Outcome.NOT_APPLICABLE
    assert found["a variable that is set is there"] is Outcome.NOT_APPLICABLE
    assert (
        found["a session of CollectTracing2 ends whole when it is stopped"] is Outcome.FAILED
    )  # "the end" is no trace


@pytest.mark.parametrize("age", V1)
def test_the_scripted_runtime_passes_as_every_release(age: str, at: str) -> None:
    with Runtime(age, listen=at) as runtime:
        assert release_of(Peer(parse_address(at))) is runtime.release
        found = {result.name: result for result in examine(at, dangerous=True)}
    assert not {name for name, result in found.items() if result.outcome is Outcome.FAILED}
    expected = {name for name, known in DIFFERENCES.items() if age in known}
    expected -= {"a connection that says nothing holds up nobody"}  # it serves all at once, whoever it plays
    assert {name for name, result in found.items() if result.outcome is Outcome.DIFFERS} == expected


@pytest.mark.parametrize(
    ("misbehave", "failed"),
    [
        ({"StopTracing": "error"}, "StopTracing of an unknown id is OK, with that id"),
        ({"StopTracing": "close:10"}, "the reserved field is not looked at"),
        ({"ProcessInfo2": "garbage:28"}, "ProcessInfo 1 to 3 say the same"),
        ({"ProcessEnvironment": "close:40"}, "the environment is as long as it is announced"),
        ({"SetEnvironmentVariable": "ignore"}, "a variable that is set is there"),
        ({"CollectTracing2": "close:60"}, "a session of CollectTracing2 ends whole when it is stopped"),
        ({"CollectTracing3": "garbage:100"}, "a session of CollectTracing3 ends whole when it is stopped"),
        ({"*": "magic"}, "an unknown command set is UNKNOWN_COMMAND"),
    ],
)
def test_what_misbehaves_fails_the_check_that_is_made_for_it(misbehave: dict[str, str], failed: str, at: str) -> None:
    with Runtime("10", listen=at, misbehave=misbehave):
        found = {result.name: result for result in examine(at, age="10")}
    assert found[failed].outcome is Outcome.FAILED
    assert found[failed].detail


@pytest.mark.parametrize("age", V1)
def test_what_kills_a_release_is_not_sent_to_it(age: str, at: str) -> None:
    with Runtime(age, listen=at) as runtime:
        found = outcomes(examine(at))
        asked = [one.data for one in runtime.asked if len(one.data) >= 20]
    for name, check in CHECKS.items():
        if check.kills and (age in check.kills or age not in MEASURED):
            assert found[name] is Outcome.NOT_APPLICABLE
    if age != "3.1":  # it lives
        assert not [data for data in asked if data[16] == 4 and data[17] in (0, 2, 4, 8) and len(data) > 20]
        assert not [
            data for data in asked if data[16:18] in (b"\x01\x01", b"\x02\x02", b"\x02\x03") and len(data) == 20
        ]


def test_where_nobody_listens_nothing_is_checked(at: str) -> None:
    with pytest.raises(TransportError, match="no such socket"):
        next(examine(at))


def test_who_is_examined_is_named_once(at: str) -> None:
    for wrong in ({}, {"address": at, "pid": 1}):
        with pytest.raises(UsageError):
            next(examine(**wrong))  # type: ignore[arg-type] # each is wrong
    with pytest.raises(UnknownName):
        next(examine(at, age="12"))
    with pytest.raises(UsageError, match="no diagnostic socket"):
        next(examine(pid=1 << 30))


def test_every_difference_is_one_of_a_check_and_a_release() -> None:
    for name, known in DIFFERENCES.items():
        assert name in CHECKS
        assert set(known) <= set(RELEASES)
    assert all(check.document.startswith("ipc-protocol.md §") and check.sends for check in CHECKS.values())
