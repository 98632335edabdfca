"""Waiting at the start."""

from __future__ import annotations

from dotnetdiag.server.suspension import Suspension


def test_nothing_is_suspended_without_a_port() -> None:
    assert not Suspension().is_suspended


def test_the_last_port_that_is_resumed_tells_once() -> None:
    told: list[str] = []
    suspension = Suspension(lambda: told.append("resumed"))
    suspension.add("/a")
    suspension.add("/b")
    with suspension.observed(lambda: told.append("changed")):
        suspension.resume("/a")
        assert (suspension.is_suspended, told) == (True, [])
        suspension.resume("/b")
        suspension.resume("/b")
    assert (suspension.is_suspended, told) == (False, ["resumed", "changed"])


def test_a_port_that_does_not_suspend_resumes_nothing() -> None:
    suspension = Suspension()
    suspension.add("/a")
    suspension.resume("/other")
    assert suspension.ports == ("/a",)


def test_what_is_suspended_again_does_not_tell_again() -> None:
    told: list[str] = []
    suspension = Suspension(lambda: told.append("resumed"))
    for _ in range(2):
        suspension.add("/a")
        suspension.resume("/a")
    assert told == ["resumed"]


def test_each_port_that_comes_or_goes_is_a_change() -> None:
    told: list[bool] = []
    suspension = Suspension(changed=lambda: told.append(suspension.is_suspended))
    suspension.add("/a")
    suspension.add("/b")
    for port in ("/other", "/a", "/b", "/b"):
        suspension.resume(port)
    assert told == [True, True, True, False]
