from __future__ import annotations

import os
import re
import socket
import tempfile
from pathlib import Path

import pytest

from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.server.commands import Refused
from dotnetdiag.server.dump_names import dump_path


@pytest.mark.parametrize(
    ("path", "expanded"),
    [
        ("/d/core", "/d/core"),
        ("/d/%p.dmp", "/d/PID.dmp"),
        ("/%p/%p%p", "/PID/PIDPID"),
        ("%pp", "PIDp"),
        ("%%p", "%p"),
        ("%%%p%%", "%PID%"),
        ("%%%%", "%%"),
        ("core%", "core"),
        ("%h", "HOST"),
    ],
)
def test_placeholders_are_expanded_as_createdump_does(path: str, expanded: str) -> None:
    assert dump_path(path) == expanded.replace("PID", str(os.getpid())).replace("HOST", socket.gethostname())


def test_the_time_is_in_seconds() -> None:
    assert re.fullmatch(r"\d{10,}", dump_path("%t"))


def test_the_name_is_that_of_the_process_where_the_system_has_one() -> None:
    comm = Path("/proc/self/comm")
    if comm.exists():
        assert dump_path("%e") == comm.read_text("utf-8").strip()
    assert dump_path("%e.x") != ".x"


@pytest.mark.parametrize("path", ["%z", "/d/%5p", "x%.dmp", "%\x01", "%P", "%%%s"])
def test_another_placeholder_is_refused(path: str) -> None:
    with pytest.raises(Refused, match=r"is none of %p, %e, %h, %t and %%") as caught:
        dump_path(path)
    assert caught.value.hresult == HResult.FAIL


def test_no_name_is_a_core_in_the_temporary_folder() -> None:
    assert dump_path("") == dump_path(None) == os.path.join(tempfile.gettempdir(), f"coredump.{os.getpid()}")
