"""Programs that are started for a recording: what is said of their end."""

from __future__ import annotations

import signal
import sys

import pytest

from dotnetdiag.errors import ProcessNotFound
from dotnetdiag.recipes.launch import launched, shell_code

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (None, (None, None)),
        (0, (0, None)),
        (7, (7, None)),
        (-signal.SIGABRT, (134, "SIGABRT")),
        (-signal.SIGKILL, (137, "SIGKILL")),
        (-63, (191, "signal 63")),
    ],
)
def test_the_code_is_that_of_a_shell(code: int | None, told: tuple[int | None, str | None]) -> None:
    assert shell_code(code) == told


@pytest.mark.parametrize(
    ("program", "told"),
    [("exit 3", r"ended with code 3 before"), ("kill -9 $$", r"ended with code 137 \(SIGKILL\) before")],
)
def test_a_program_that_ends_without_a_runtime_may_be_too_old(program: str, told: str) -> None:
    with pytest.raises(ProcessNotFound, match=told) as gone, launched(["sh", "-c", program]):
        pass
    assert ".NET Core 3.1" in str(gone.value)
