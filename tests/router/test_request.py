"""Where a request ends."""

from __future__ import annotations

import pytest

from dotnetdiag.ipc.frames import HEADER_SIZE, Frame
from dotnetdiag.ipc.process_info import ProcessInfo3
from dotnetdiag.router.request import wanted

WHOLE = Frame(command_set=4, command_id=3, payload=b"x" * 70).pack()


@pytest.mark.parametrize("size", range(len(WHOLE) + 1))
def test_a_request_says_its_size_once_its_header_is_there(size: int) -> None:
    assert wanted(memoryview(WHOLE[:size])) == (len(WHOLE) if size >= HEADER_SIZE else HEADER_SIZE)


@pytest.mark.parametrize("data", [b"\0" * 20, b"x" * 30, ProcessInfo3().pack()[:14] + b"\0" * 6])
def test_what_is_no_message_is_forwarded_as_it_came(data: bytes) -> None:
    assert wanted(memoryview(data)) == len(data)
