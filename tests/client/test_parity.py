"""The two clients have the same operations with the same parameters."""

from __future__ import annotations

import inspect

import pytest

from dotnetdiag.client import Client, TraceSession
from dotnetdiag.client.aio import AsyncClient, AsyncTraceSession, AsyncUserEventsSession
from dotnetdiag.client.user_events import UserEventsSession

PAIRS = [(Client, AsyncClient), (TraceSession, AsyncTraceSession), (UserEventsSession, AsyncUserEventsSession)]


def public(kind: type) -> dict[str, object]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("_")}


@pytest.mark.parametrize(("sync", "other"), PAIRS, ids=lambda kind: kind.__name__)
def test_twins_have_the_same_methods(sync: type, other: type) -> None:
    assert {"aclose" if name == "close" else name for name in public(sync)} == set(public(other))


@pytest.mark.parametrize(("sync", "other"), PAIRS, ids=lambda kind: kind.__name__)
def test_methods_take_the_same_parameters(sync: type, other: type) -> None:
    for name, value in public(sync).items():
        if callable(value) or isinstance(value, classmethod):
            twin = getattr(other, "aclose" if name == "close" else name)
            one, two = (inspect.signature(method).parameters for method in (getattr(sync, name), twin))
            assert list(one.values()) == list(two.values()), name
