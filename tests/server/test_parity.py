"""The two servers have the same methods with the same parameters."""

from __future__ import annotations

import inspect

from dotnetdiag.server.server import DiagnosticServer
from dotnetdiag.server.server_aio import AsyncDiagnosticServer

PLAIN = {"leave"}
"""What only the end of the interpreter calls."""


def public(kind: type) -> dict[str, object]:
    return {name: value for name, value in vars(kind).items() if not name.startswith("_") and name not in PLAIN}


def test_twins_have_the_same_methods() -> None:
    ours = {"aclose" if name == "close" else name for name in public(DiagnosticServer)}
    assert ours == set(public(AsyncDiagnosticServer))


def test_methods_take_the_same_parameters_and_give_the_same() -> None:
    for name, value in {**public(DiagnosticServer), "__init__": DiagnosticServer.__init__}.items():
        assert callable(value)
        twin = getattr(AsyncDiagnosticServer, "aclose" if name == "close" else name)
        assert inspect.signature(value) == inspect.signature(twin), name


def test_methods_are_performed_at_once_or_awaited() -> None:
    for name in public(DiagnosticServer):
        assert not inspect.iscoroutinefunction(getattr(DiagnosticServer, name))
        assert inspect.iscoroutinefunction(getattr(AsyncDiagnosticServer, "aclose" if name == "close" else name))


def test_what_one_explains_is_explained_by_the_other() -> None:
    assert all(getattr(kind, "__doc__", None) for kind in (DiagnosticServer, AsyncDiagnosticServer))
    for kind in (DiagnosticServer, AsyncDiagnosticServer):
        assert [name for name, value in public(kind).items() if not value.__doc__] == []
