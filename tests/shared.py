"""Where ../shared is: real runtimes, recordings with what the reference reader saw in them, the description of events.

It is no part of the checkout. ``DOTNETDIAG_SHARED`` names another folder, or hides it (``none``). Without it the tests run
on the recordings of tests/data and on the runtimes that this machine has; what only it can prove is skipped with a reason
that the last lines of the run count (:mod:`tests.left_out`).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
PARTS = ("dotnet", "fixtures", "reference")
IN_CI = os.environ.get("CI") == "true"
NOT_HERE = "not without ../shared: "
"""How the reason begins with which a test is skipped for want of it."""


def find_shared(setting: str, beside: Path) -> Path | None:
    """The folder that ``DOTNETDIAG_SHARED`` names, or the one beside the checkout when it names none.

    ``None`` when it is hidden, or when there is nothing of ours in the folder beside. A named folder that is not there is
    an error: whoever names one means it.
    """
    if setting == "none":
        return None
    if setting:
        folder = Path(setting).resolve()
        if not folder.is_dir():
            raise FileNotFoundError(f"DOTNETDIAG_SHARED={setting}: there is no such folder")
        return folder
    return beside if any((beside / part).is_dir() for part in PARTS) else None


SHARED = find_shared(os.environ.get("DOTNETDIAG_SHARED", ""), CHECKOUT.parent / "shared")


def shared_part(name: str) -> Path | None:
    """One of ``PARTS``; ``None`` when it is not here. In CI, ../shared without one of its parts is an error."""
    if SHARED is None:
        return None
    folder = SHARED / name
    if folder.is_dir():
        return folder
    if IN_CI:
        raise FileNotFoundError(f"{folder} is missing")
    return None


def skip_without(what: str) -> NoReturn:
    """Skip the test that runs, for want of something of ../shared."""
    pytest.skip(NOT_HERE + what)


def needs(part: str, what: str) -> pytest.MarkDecorator:
    """Skips tests when a part of ../shared is not here."""
    return pytest.mark.skipif(shared_part(part) is None, reason=NOT_HERE + what)
