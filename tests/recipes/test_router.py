"""Routing as a job, and asking a router who is there."""

from __future__ import annotations

import socket
import tempfile
import threading

import pytest

from dotnetdiag.errors import FormatError, TransportError
from dotnetdiag.recipes import router
from dotnetdiag.recipes.router import RouterOptions, route, router_status
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.router.router import Router
from dotnetdiag.router.status import RouterEvent


def test_it_routes_until_it_is_told_to_stop() -> None:
    with tempfile.TemporaryDirectory(prefix="dd-") as folder:
        stop, told = Stop(), list[str]()
        options = RouterOptions(
            tools=f"{folder}/tools", runtimes=f"{folder}/runtimes", status_address=f"{folder}/status"
        )

        def listening(started: Router) -> None:
            told.append(started.description)
            status = router_status(f"{folder}/status")
            assert (status["tools"], status["connected"], status["commands"]) == (f"{folder}/tools", [], [])
            stop.stop()

        route(options, stop=stop, listening=listening)
        assert told == [f"listening on {folder}/tools for tools and {folder}/runtimes for runtimes"]
        with pytest.raises(TransportError):
            router_status(f"{folder}/status")


def test_who_is_slow_to_take_what_happens_delays_nobody_and_is_told_what_is_lost() -> None:
    events, told = router._Events(), list[RouterEvent]()
    for number in range(router.MOST_EVENTS + 5):
        events.put(RouterEvent(what="connected", seconds=number))
    events.tell(told.append, 0)
    assert len(told) == router.MOST_EVENTS + 1
    assert told[1] == RouterEvent(what="lost", seconds=0, why="5 events, which nobody took")
    assert told[1].text == "lost: 5 events, which nobody took"
    events.tell(told.append, 0)
    assert len(told) == router.MOST_EVENTS + 1


@pytest.mark.parametrize("answer", [b"", b"no json\n", b"[]\n", b'{"connected": []}\n', b"\xff"])
def test_what_is_no_status_is_said_to_be_none(answer: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix="dd-") as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/status")
        listener.listen()

        def say() -> None:
            with listener.accept()[0] as connection:
                connection.sendall(answer)

        thread = threading.Thread(target=say)
        thread.start()
        with pytest.raises(FormatError, match="this is no router's status"):
            router_status(f"{folder}/status")
        thread.join()
