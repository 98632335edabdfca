"""The life of a session: the whole table, in every order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from dotnetdiag.ipc.session_life import TABLE, Action, Event, SessionLife, State

S, E, A = State, Event, Action
OPEN = (S.STARTING, S.STREAMING, S.STOPPING, S.DRAINING)
OVER = (S.ENDED, S.BROKEN)

# As a drawing: rows are states, columns are events in the order of their definition. `.` cannot happen.
EVENTS = (
    E.STARTED, E.STOP, E.STOP_ANSWERED, E.STOP_FAILED, E.STREAM_ENDED, E.STREAM_FAILED, E.LIMIT_PASSED, E.ABORTED,
)  # fmt: skip
DRAWING = """
           STARTED   STOP      ANSWERED  FAILED    ENDED  BROKE  LIMIT  ABORTED
STARTING   streaming .         .         .         .      broken .      .
STREAMING  .         stopping! .         .         ended  broken .      broken
STOPPING   .         stopping  draining  draining? ended  broken broken broken
DRAINING   .         draining  .         .         ended  broken broken broken
ENDED      ended     ended     ended     ended     ended  ended  ended  ended
BROKEN     broken    broken    broken    broken    broken broken broken broken
"""


def drawn() -> Iterator[tuple[State, Event, str]]:
    for line in DRAWING.strip().splitlines()[1:]:
        name, *cells = line.split()
        for event, cell in zip(EVENTS, cells, strict=True):
            yield State[name], event, cell


@pytest.mark.parametrize(("state", "event", "cell"), list(drawn()))
def test_the_table_is_the_drawing(state: State, event: Event, cell: str) -> None:
    life = SessionLife(state)
    if cell == ".":
        with pytest.raises(KeyError):
            life.on(event)
        assert life.state is state
        return
    action = life.on(event)
    assert life.state is State(cell.rstrip("!?"))
    if state in OVER:
        assert action is A.NOTHING
    elif life.state in OVER:
        assert action is A.CLOSE
    else:
        assert action is {"!": A.SEND_STOP, "?": A.SHORTEN_LIMIT}.get(cell[-1], A.NOTHING)


def test_every_pair_is_drawn() -> None:
    assert [(state, event) for state, event, _ in drawn()] == list(product(State, Event))
    assert set(EVENTS) == set(Event)


def reached_from(state: State) -> set[State]:
    seen, waiting = {state}, [state]
    while waiting:
        here = waiting.pop()
        for (start, _), (end, _) in TABLE.items():
            if start is here and end not in seen:
                seen.add(end)
                waiting.append(end)
    return seen


@pytest.mark.parametrize("state", OPEN)
def test_both_ends_can_be_reached_from_every_open_state(state: State) -> None:
    assert set(OVER) <= reached_from(state)


@pytest.mark.parametrize("state", OVER)
def test_an_end_is_for_good(state: State) -> None:
    assert reached_from(state) == {state}
    assert SessionLife(state).is_over


def test_open_states_are_not_over() -> None:
    assert not any(SessionLife(state).is_over for state in OPEN)
    assert SessionLife().state is S.STARTING


def test_stop_is_sent_once_however_often_it_is_asked_for() -> None:
    for later in ((), (E.STOP_ANSWERED,), (E.STOP_FAILED,)):
        life = SessionLife()
        actions = [life.on(event) for event in (E.STARTED, E.STOP, E.STOP, *later, E.STOP, E.STREAM_ENDED, E.STOP)]
        assert actions.count(A.SEND_STOP) == 1
        assert actions.count(A.CLOSE) == 1
        assert life.state is S.ENDED


def test_an_answer_to_the_stop_that_comes_after_the_end_changes_nothing() -> None:
    for last in (E.STREAM_ENDED, E.STREAM_FAILED, E.LIMIT_PASSED, E.ABORTED):
        for answer in (E.STOP_ANSWERED, E.STOP_FAILED):
            life = SessionLife(S.STOPPING)
            life.on(last)
            state = life.state
            assert life.on(answer) is A.NOTHING
            assert life.state is state
