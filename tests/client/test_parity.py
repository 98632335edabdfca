"""The two clients have the same operations with the same parameters."""

from __future__ import annotations

import inspect

from dotnetdiag.client import Client
from dotnetdiag.client.aio import AsyncClient

NOT_YET_ASYNC = {"connect"}


def test_clients_have_the_same_methods() -> None:
    sync, other = ({n for n in vars(kind) if not n.startswith("_")} for kind in (Client, AsyncClient))
    assert sync - NOT_YET_ASYNC == other


def test_methods_take_the_same_parameters() -> None:
    for name in (n for n in vars(AsyncClient) if not n.startswith("_")):
        one, other = (inspect.signature(getattr(kind, name)).parameters for kind in (Client, AsyncClient))
        assert list(one.values()) == list(other.values()), name
