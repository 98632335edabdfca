"""The screen of an app as lines of text, and the kept ones that it is compared with."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot

FOLDER = Path(__file__).with_name("screens")
LIMIT_S = 60.0


def screen_lines(app: App[Any]) -> list[str]:
    """What somebody sees, without what stands blank at the ends of lines."""
    return ["".join(segment.text for segment in strip).rstrip() for strip in app.screen._compositor.render_strips()]


def screen_text(app: App[Any]) -> str:
    return "\n".join(screen_lines(app)) + "\n"


def assert_kept(app: App[Any], name: str) -> None:
    """The screen is the one in ``screens/NAME.txt``. With ``DOTNETDIAG_KEEP_SCREENS=1`` it is written there: look at the difference."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("DOTNETDIAG_KEEP_SCREENS") == "1":
        path.write_text(screen_text(app), encoding="utf-8")
    assert screen_text(app) == path.read_text(encoding="utf-8")


async def until(pilot: Pilot[Any], is_so: Callable[[], bool]) -> None:
    """The app has done what it had to do, and it is so."""
    end_s = time.monotonic() + LIMIT_S
    while True:
        await pilot.pause()
        if is_so():
            return
        assert time.monotonic() < end_s, screen_text(pilot.app)
