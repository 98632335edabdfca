"""The two clients have the same operations with the same parameters, attributes and defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from tests.client.scripted import SESSION, says
from tests.client.shells import Stage

from dotnetdiag.client import Client, TraceSession
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.client.commands import Commands
from dotnetdiag.client.session_aio import AsyncTraceSession, AsyncUserEventsSession
from dotnetdiag.client.user_events import UserEventsSession
from dotnetdiag.ipc.commands import Command

PAIRS = [(Client, AsyncClient), (TraceSession, AsyncTraceSession), (UserEventsSession, AsyncUserEventsSession)]
SPECIAL = {
    "__enter__": "__aenter__",
    "__exit__": "__aexit__",
    "__iter__": "__aiter__",
    "__init__": "__init__",
}


def public(kind: type) -> dict[str, object]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("_")}


def twin_name(name: str) -> str:
    return "aclose" if name == "close" else name


def bare(annotation: object) -> str:
    """The type in an annotation, without what only the twin has."""
    text = str(annotation)
    for ours, theirs in (("AsyncRoute", "Route"), ("AsyncIterator", "Iterator"), ("Async", "")):
        text = text.replace(ours, theirs)
    return text


@pytest.mark.parametrize(("sync", "other"), PAIRS, ids=lambda kind: kind.__name__)
def test_twins_have_the_same_methods(sync: type, other: type) -> None:
    assert {twin_name(name) for name in public(sync)} == set(public(other))
    assert {SPECIAL[name] for name in SPECIAL if hasattr(sync, name)} == {
        name for name in SPECIAL.values() if hasattr(other, name)
    }


@pytest.mark.parametrize("name", public(Commands))
def test_a_command_is_performed_at_once_or_awaited(name: str) -> None:
    assert not inspect.iscoroutinefunction(getattr(Client, name))
    assert inspect.iscoroutinefunction(getattr(AsyncClient, name))


@pytest.mark.parametrize(("sync", "other"), PAIRS, ids=lambda kind: kind.__name__)
def test_methods_take_the_same_parameters(sync: type, other: type) -> None:
    """With the same names, kinds, types and defaults, and give the same."""
    for name, value in public(sync).items():
        if callable(value) or isinstance(value, classmethod):
            one, two = (inspect.signature(getattr(kind, at)) for kind, at in ((sync, name), (other, twin_name(name))))
            assert list(one.parameters.values()) == list(two.parameters.values()), name
            assert bare(one.return_annotation) == bare(two.return_annotation), name


@pytest.mark.parametrize(("sync", "other"), PAIRS, ids=lambda kind: kind.__name__)
def test_twins_have_the_same_properties(sync: type, other: type) -> None:
    def properties(kind: type) -> dict[str, object]:
        return {
            name: inspect.signature(value.fget).return_annotation
            for name, value in public(kind).items()
            if isinstance(value, property) and value.fget is not None
        }

    assert properties(sync) == properties(other)


@pytest.mark.parametrize(("sync", "other"), PAIRS, ids=lambda kind: kind.__name__)
def test_what_has_no_docstring_has_none_in_either(sync: type, other: type) -> None:
    """And nothing of what one explains is left unexplained by the other."""

    def silent(kind: type) -> set[str]:
        return {twin_name(name) for name, value in public(kind).items() if not getattr(value, "__doc__", None)}

    assert silent(sync) == silent(other) == set()


def test_instances_have_the_same_attributes(stage: Stage) -> None:
    """Those that are set when a client or a session is made."""
    client = stage.client(stage.runtime({Command.CollectTracing2: says(SESSION)}))
    session = client.trace("A", duration=3)
    bodies: list[Any] = [part.inner if stage.is_async else part for part in (client, session)]
    attributes = [{name for name in vars(body) if not name.startswith("_")} for body in bodies]
    assert attributes == [{"timeout_s"}, {"session_id", "command", "duration_s"}]
    assert (session.session_id, session.command, session.duration_s) == (5, "CollectTracing2", 3)
    session.close()
