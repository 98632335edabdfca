"""What is refused as a startup hook, and that no bytes break the check."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.client import Client
from dotnetdiag.errors import DangerousRequest
from dotnetdiag.ipc.startup_hook import startup_hook_problem

DEMO = (files("dotnetdiag.recipes") / "demo" / "demo.dll").read_bytes()


def test_assembly_without_the_type_is_refused() -> None:
    assert startup_hook_problem(DEMO) == "it has no type StartupHook outside of a namespace"


@given(st.binary(max_size=400))
def test_other_bytes_are_no_assembly(data: bytes) -> None:
    assert startup_hook_problem(b"MZ" + data).startswith("it is no .NET assembly")


def test_cut_assembly_is_refused_at_every_length() -> None:
    assert all(startup_hook_problem(DEMO[:size]) for size in range(len(DEMO)))


@pytest.mark.parametrize("path", ["hook.dll", "/a.dll:/b.dll", "/nonexistent/hook.dll", "/etc/passwd", ""])
def test_client_refuses_it_before_anything_is_sent(path: str) -> None:
    import os

    # our own process has no runtime: anything that got as far as connecting would raise TargetError instead
    with pytest.raises(Exception, match="ApplyStartupHook") as caught:
        Client(os.getpid()).apply_startup_hook(path)
    assert isinstance(caught.value, DangerousRequest) or path == ""
