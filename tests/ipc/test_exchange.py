"""One command on one connection: what is open when, whatever happens and in whatever order."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from dotnetdiag.errors import ConnectFailed, ConnectionEnded, DiagnosticsError, ProtocolError, ServerError, TimedOut
from dotnetdiag.ipc.advertise import Advertise, receive_advertise
from dotnetdiag.ipc.exchange import (
    LARGEST_PIECE,
    Close,
    Dial,
    Operation,
    Receive,
    Run,
    Send,
    SendDescriptor,
    ask,
    exchange,
    receive_exactly,
    receive_frame,
)
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.messages import ErrorReply, OkReply
from dotnetdiag.ipc.process import ResumeRuntime
from dotnetdiag.ipc.replies import ResultReply

REQUEST = ResumeRuntime()
GONE = ConnectionEnded("gone")


def at(run: Run[Any], *outcomes: Any) -> Any:
    """The step after these outcomes; errors are outcomes too."""
    for outcome in outcomes:
        if isinstance(outcome, DiagnosticsError):
            run.failed(outcome)
        else:
            run.succeeded(outcome)
    return run.step


# the order of the steps -----------------------------------------------------------------------------------------------------


def test_a_command_is_dialled_sent_answered_and_closed() -> None:
    run = Run(ask(REQUEST))
    answer = ResultReply(hresult=1).pack()
    assert run.step == Dial()
    assert run.open == []
    assert at(run, "c") == Send("c", REQUEST.pack())
    assert run.open == ["c"]
    assert at(run, None) == Receive("c", 20)
    assert at(run, answer[:1]) == Receive("c", 19)
    assert at(run, answer[1:20]) == Receive("c", 4)
    assert at(run, answer[20:23]) == Receive("c", 1)
    assert at(run, answer[23:]) == Close("c")
    assert run.open == ["c"]
    assert at(run, None) is None
    assert run.open == []
    assert run.result == ResultReply(hresult=1)


def test_only_the_answer_of_a_slow_command_is_slow() -> None:
    run = Run(ask(REQUEST, slow=True))
    slow = []
    for outcome in ("c", None, *(ResultReply().pack()[at : at + 1] for at in range(24)), None):
        assert run.step is not None
        slow.append(run.step.slow)
        run.succeeded(outcome)
    assert slow == [False, False, *[True] * 24, False]
    assert not Receive("c", 1).slow
    assert not SendDescriptor("c", 1).slow


def test_an_exchange_leaves_its_connection_open_for_what_follows() -> None:
    run = Run(exchange(REQUEST))
    assert at(run, "c", None, ResultReply().pack()[:20], ResultReply().pack()[20:]) is None
    assert run.result == ("c", ResultReply())
    assert run.open == ["c"]


def test_a_descriptor_goes_behind_the_request() -> None:
    run = Run(exchange(REQUEST, descriptor=0))
    assert at(run, "c") == Send("c", REQUEST.pack())
    assert at(run, None) == SendDescriptor("c", 0)
    assert at(run, None) == Receive("c", 20)


def test_a_bare_ok_is_a_success() -> None:
    """Size 20, which no runtime sends and clients tolerate."""
    run = Run(ask(REQUEST))
    assert at(run, "c", None, OkReply().pack()) == Close("c")
    at(run, None)
    assert run.result == ResultReply(hresult=0)


# what fails -----------------------------------------------------------------------------------------------------------------


def test_a_dial_that_fails_leaves_nothing_to_close() -> None:
    run = Run(ask(REQUEST))
    error = ConnectFailed("nobody listens")
    with pytest.raises(ConnectFailed) as caught:
        run.failed(error)
    assert caught.value is error
    assert run.open == []


@pytest.mark.parametrize("error", [GONE, TimedOut("late"), ProtocolError("odd")])
@pytest.mark.parametrize("before", [("c",), ("c", None), ("c", None, b"DOTNET")])
def test_a_send_or_a_receive_that_fails_closes_the_connection_first(before: Any, error: DiagnosticsError) -> None:
    run = Run(ask(REQUEST))
    assert at(run, *before, error) == Close("c")
    with pytest.raises(type(error)) as caught:
        run.succeeded(None)
    if isinstance(error, TimedOut) and len(before) > 1:
        assert "did not answer" in str(caught.value)
        assert caught.value.__cause__ is error
    else:
        assert caught.value is error
    assert run.open == []


def test_a_close_that_fails_after_an_error_is_left_to_the_shell() -> None:
    run = Run(ask(REQUEST))
    at(run, "c", GONE)
    with pytest.raises(TimedOut):
        run.failed(TimedOut("close"))
    assert run.open == ["c"]


@pytest.mark.parametrize("cut", [0, 1, 19, 20, 23])
def test_an_answer_that_ends_too_early_closes_the_connection(cut: int) -> None:
    answer = ResultReply().pack()
    run = Run(ask(REQUEST))
    pieces = [piece for piece in (answer[:20][:cut], answer[20:cut]) if piece]
    assert at(run, "c", None, *pieces, b"") == Close("c")
    with pytest.raises(ConnectionEnded, match="closed the connection before its answer was complete"):
        run.succeeded(None)
    assert run.open == []


def test_a_refusal_closes_the_connection() -> None:
    run = Run(ask(REQUEST))
    answer = ErrorReply(hresult=0x80004005, text="why").pack()
    assert at(run, "c", None, answer[:20], answer[20:]) == Close("c")
    with pytest.raises(ServerError) as caught:
        run.succeeded(None)
    assert (caught.value.hresult, caught.value.text) == (0x80004005, "why")
    assert run.open == []


def test_a_descriptor_that_cannot_be_sent_does_not_hide_why() -> None:
    answer = ErrorReply(hresult=0x80131385).pack()
    run = Run(exchange(REQUEST, descriptor=3))
    assert at(run, "c", None, GONE) == Receive("c", 20)
    assert at(run, answer[:20], answer[20:]) == Close("c")
    with pytest.raises(ServerError):
        run.succeeded(None)
    # no answer either
    run = Run(exchange(REQUEST, descriptor=3))
    assert at(run, "c", None, GONE, b"") == Close("c")
    with pytest.raises(ConnectionEnded):
        run.succeeded(None)
    # an answer that is no refusal: the runtime has no descriptor, so it has no session
    run = Run(exchange(REQUEST, descriptor=3))
    assert at(run, "c", None, GONE, ResultReply().pack()[:20], bytes(4)) == Close("c")
    with pytest.raises(ConnectionEnded) as caught:
        run.succeeded(None)
    assert caught.value is GONE
    # a timeout is none of these
    run = Run(exchange(REQUEST, descriptor=3))
    assert at(run, "c", None, TimedOut("full")) == Close("c")


def test_an_error_that_is_none_of_ours_is_raised_at_once_and_the_shell_closes() -> None:
    operation = ask(REQUEST)
    run = Run(operation)
    at(run, "c", None)
    with pytest.raises(KeyboardInterrupt):
        operation.throw(KeyboardInterrupt())
    assert run.open == ["c"]


def test_an_exchange_that_is_closed_early_wants_nothing_more() -> None:
    for before in ((), ("c",), ("c", None), ("c", None, b"DOT")):
        operation = ask(REQUEST)
        run = Run(operation)
        at(run, *before)
        operation.close()  # would raise RuntimeError if another step came
        assert run.open == (["c"] if before else [])
        with pytest.raises(StopIteration):
            operation.send(None)


def test_a_connection_of_somebody_else_may_be_closed() -> None:
    def other() -> Operation[None]:
        yield Dial()
        yield Close("d")

    run = Run(other())
    assert at(run, "c") == Close("d")
    assert at(run, None) is None
    assert run.open == ["c"]


def test_each_of_several_connections_is_counted() -> None:
    def three() -> Operation[str]:
        first = yield Dial()
        second = yield Dial()
        yield Close(first)
        third = yield Dial()
        assert (first, second, third) == ("a", "b", "c")
        return "done"

    run = Run(three())
    at(run, "a", "b")
    assert run.open == ["a", "b"]
    at(run, None)
    assert run.open == ["b"]
    assert at(run, "c") is None
    assert (run.open, run.result) == (["b", "c"], "done")


# what a reply is taken for --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0xFF01, 0xFFFE, 0x0400, 0xFE00, 0x00FF])
def test_what_is_neither_ok_nor_error_is_a_protocol_error(code: int) -> None:
    frame = Frame(command_set=code >> 8, command_id=code & 0xFF, payload=bytes(4))
    with pytest.raises(ProtocolError) as caught:
        REQUEST.read_reply(frame)
    assert str(caught.value) == f"ResumeRuntime at 0x10: the reply is a 0x{code:04X}, neither OK nor Error"


# many bytes -----------------------------------------------------------------------------------------------------------------


def test_so_many_bytes_are_received_in_pieces_that_are_not_large() -> None:
    size = 2 * LARGEST_PIECE + 3
    run: Run[Any] = Run(receive_exactly("c", size))
    assert run.step == Receive("c", LARGEST_PIECE)
    assert at(run, b"x" * LARGEST_PIECE) == Receive("c", LARGEST_PIECE)
    assert at(run, b"y") == Receive("c", LARGEST_PIECE)
    assert at(run, b"z" * (LARGEST_PIECE - 1)) == Receive("c", 3)
    assert at(run, b"123") is None
    assert len(run.result) == size
    assert run.result.endswith(b"yz" + b"z" * (LARGEST_PIECE - 2) + b"123")
    assert Run(receive_exactly("c", 0)).result == b""
    run = Run(receive_exactly("c", 10))
    assert at(run, b"1234567") == Receive("c", 3)
    assert LARGEST_PIECE == 1 << 20


def test_a_frame_is_received_and_not_a_byte_more() -> None:
    run: Run[Any] = Run(receive_frame("c", slow=True))
    assert run.step == Receive("c", 20, slow=True)
    frame = Frame(command_set=1, command_id=2, payload=b"abc")
    assert at(run, frame.pack()[:20]) == Receive("c", 3, slow=True)
    assert at(run, b"abc") is None
    assert run.result == frame


SAID = Advertise(cookie=UUID(int=7), pid=1).pack()


def test_an_advertise_is_received_in_any_cuts() -> None:
    for cut in range(1, 34):
        run: Run[Any] = Run(receive_advertise("c"))
        assert run.step == Receive("c", 34)
        assert at(run, SAID[:cut]) == Receive("c", 34 - cut)
        assert at(run, SAID[cut:]) is None
        assert run.result == Advertise.parse(SAID)
    run = Run(receive_advertise("c"))
    at(run, SAID)
    assert run.result.pid == 1


def test_a_connection_that_ends_before_its_advertise_is_told() -> None:
    for cut in range(34):
        run: Run[Any] = Run(receive_advertise("c"))
        if cut:
            at(run, SAID[:cut])
        with pytest.raises(ConnectionEnded, match=f"closed the connection {34 - cut} bytes before the end"):
            run.succeeded(b"")


# the calls that the steps stand for -----------------------------------------------------------------------------------------


def test_a_step_makes_the_call_that_it_stands_for() -> None:
    calls: list[Any] = []

    class Connection:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: calls.append((name, *arguments)) or name  # type: ignore[func-returns-value]

    connection = Connection()
    steps: list[Any] = [
        Send(connection, b"x"),
        SendDescriptor(connection, 3),
        Receive(connection, 7),
        Close(connection),
    ]
    assert [step.perform(None, "soon") for step in steps] == ["send", "send_descriptor", "receive", "close"]
    assert calls == [("send", b"x", "soon"), ("send_descriptor", 3, "soon"), ("receive", 7, "soon"), ("close",)]
    assert Dial().perform(connection, "soon") == "dial"
    assert calls[-1] == ("dial", "soon")


def test_steps_are_equal_by_what_they_do() -> None:
    steps: list[Any] = [
        Dial(),
        Close(),
        Receive("c", 1),
        Receive("c", 2),
        Receive("c", 1, slow=True),
        Send("c", b"x"),
        Send("d", b"x"),
    ]
    assert all((one == other) is (one is other) for one in steps for other in steps)
    assert Send("c", b"x") == Send("c", b"x") != "Send"


def test_an_operation_that_is_abandoned_ends_where_it_stands() -> None:
    operation = ask(REQUEST)
    run = Run(operation)
    at(run, "c", None)
    assert run.abandon() == ["c"]
    with pytest.raises(StopIteration):
        operation.send(None)
