"""Who reads slowly what a watch prints gets all of it."""

from __future__ import annotations

import os
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from dotnetdiag.cli import trace_watch

DATA = bytes(200_000)


@pytest.mark.skipif(sys.platform == "win32", reason="a write may wait there")
@pytest.mark.parametrize("reads", [True, False])
def test_a_reader_that_takes_a_rest_after_the_end_is_waited_for_and_one_that_stands_still_is_not(
    monkeypatch: pytest.MonkeyPatch, reads: bool
) -> None:
    """It was given up at its first rest of a tenth of a second, once the watch had been over for two."""
    monkeypatch.setattr(trace_watch, "LAST_LINES_S", 0.5)
    monkeypatch.setattr(trace_watch, "TICK_S", 0.02)
    reading, writing = os.pipe()
    taken: list[bytes] = []

    def read_slowly() -> None:
        while sum(map(len, taken)) < len(DATA):
            taken.append(os.read(reading, 1 << 15))
            time.sleep(0.1)

    reader = threading.Thread(target=read_slowly)
    if reads:
        reader.start()
    live: Any = SimpleNamespace(over_for_s=100.0)
    try:
        with open(writing, "wb", closefd=False) as file:
            assert trace_watch._write(file, DATA, live) is reads
        if reads:
            reader.join(20)
            assert b"".join(taken) == DATA
    finally:
        os.close(writing)
        os.close(reading)
