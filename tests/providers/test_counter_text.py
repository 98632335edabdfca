from __future__ import annotations

import pytest

from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.providers.counters import CounterChoice, counter_session, parse_counters


def choice(provider: str, *names: str, only: bool = False) -> CounterChoice:
    return CounterChoice(provider=provider, names=frozenset(names), event_counters_only=only)


@pytest.mark.parametrize(
    ("text", "choices"),
    [
        ("System.Runtime", (choice("System.Runtime"),)),
        ("A[x,Y],B", (choice("A", "x", "y"), choice("B"))),
        (" A [ x , y ] , B ", (choice("A", "x", "y"), choice("B"))),
        ("A[]", (choice("A"),)),
        (r"EventCounters\A[x]", (choice("A", "x", only=True),)),
        (r"eventcounters\A", (choice("A", only=True),)),
        ("A[x],A[y]", (choice("A", "x", "y"),)),
        ("A[x],A", (choice("A"),)),
        ("A,A[x]", (choice("A"),)),
    ],
)
def test_counters_are_read_as_dotnet_counters_reads_them(text: str, choices: tuple[CounterChoice, ...]) -> None:
    assert parse_counters(text) == choices


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 0, "the name of a provider is expected"),
        ("A,,B", 2, "the name of a provider is expected"),
        ("[x]", 0, "the name of a provider is expected"),
        ("A[x", 3, "a closing ']' is expected"),
        ("A[x[y]]", 3, "at most one"),
        ("A[x]y", 4, "nothing is expected behind"),
        (r"A,EventCounters\A", 2, "not supported"),
        ('A"', 0, "no quotes"),
        ("A;B", 0, "no quotes"),
    ],
)
def test_what_is_wrong_with_counters_is_told_with_its_place(text: str, position: int, problem: str) -> None:
    with pytest.raises(GrammarError, match=problem) as caught:
        parse_counters(text)
    assert caught.value.position == position


def test_names_of_counters_are_in_any_case() -> None:
    (one,) = parse_counters("A[Requests-Per-Second]")
    assert one.includes("requests-per-second")
    assert one.includes("REQUESTS-per-second")
    assert not one.includes("requests")
    assert parse_counters("A")[0].includes("anything")


def test_a_plain_name_asks_for_the_event_source_and_for_the_meter() -> None:
    choices = parse_counters(r"A,B[x],EventCounters\C")
    made = counter_session(choices, interval_s=2.5, runtime_major=8, session_id="me", client_id="me")
    sources, (meter,) = made.parts
    assert [(one.name, one.keywords, one.level) for one in (*sources, meter)] == [
        ("A", 0, 4),
        ("B", 0, 4),
        ("C", 0, 4),
        ("System.Diagnostics.Metrics", 2, 4),
    ]
    assert {one.arguments for one in sources} == {"EventCounterIntervalSec=2.5"}
    assert meter.arguments == (
        'SessionId=SHARED;Metrics="A,B";RefreshInterval=2.5;MaxTimeSeries=1000;MaxHistograms=10;ClientId=me'
    )
    assert made.session == "SHARED"


@pytest.mark.parametrize("major", [None, 3, 6, 7])
def test_sessions_are_shared_only_where_the_runtime_can(major: int | None) -> None:
    made = counter_session(parse_counters("A"), runtime_major=major, session_id="me")
    assert made.session == "me"
    assert (made.parts[1][0].arguments or "").startswith("SessionId=me;Metrics=A;")


@pytest.mark.parametrize(("major", "parts"), [(None, 2), (6, 2), (8, 2), (9, 1), (10, 1)])
def test_event_counters_and_meters_are_asked_for_together_only_where_that_is_safe(
    major: int | None, parts: int
) -> None:
    made = counter_session(parse_counters("A"), runtime_major=major)
    assert len(made.parts) == parts
    assert [one.name for part in made.parts for one in part] == ["A", "System.Diagnostics.Metrics"]


@pytest.mark.parametrize(
    ("major", "at_start", "every_s"),
    [(None, True, 0.5), (3, True, 0.5), (6, False, 1), (8, False, 1), (9, False, 0.5), (9, True, 1), (10, False, 0.5), (10, True, 1)],
)  # fmt: skip
def test_event_counters_come_as_often_as_the_runtime_stands(major: int | None, at_start: bool, every_s: float) -> None:
    made = counter_session(parse_counters("A"), interval_s=0.5, runtime_major=major, at_start=at_start)
    sources, meters = [one for part in made.parts for one in part]
    assert sources.arguments == f"EventCounterIntervalSec={every_s:g}"
    assert "RefreshInterval=0.5;" in (meters.arguments or "")
    assert made.slowed_s == (None if every_s == 0.5 else every_s)


def test_a_runtime_that_is_asked_slowly_is_not_slowed() -> None:
    assert counter_session(parse_counters("A"), interval_s=1.5, runtime_major=8).slowed_s is None


def test_event_counters_alone_need_no_session_of_meters() -> None:
    made = counter_session(parse_counters(r"EventCounters\A"))
    assert [[one.name for one in part] for part in made.parts] == [["A"]]


def test_each_session_has_an_id_of_its_own() -> None:
    assert counter_session(parse_counters("A")).session != counter_session(parse_counters("A")).session


@pytest.mark.parametrize(
    "wrong", [{"interval_s": 0}, {"interval_s": float("inf")}, {"max_histograms": -1}, {"max_time_series": -1}]
)
def test_a_session_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        counter_session(parse_counters("A"), **wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no counters"):
        counter_session(())
