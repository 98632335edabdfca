"""A server that misbehaves gives an error of ours within the timeout, and leaves no descriptor open."""

from __future__ import annotations

import pytest
from tests.client.scripted import INFO, drips, says, says_and_waits
from tests.client.shells import Stage, within_limits

from dotnetdiag.errors import DiagnosticsError, ProtocolError, TimedOut, TransportError
from dotnetdiag.ipc.environment import MAX_VARIABLES, EnvironmentBlock, EnvironmentReply
from dotnetdiag.ipc.frames import MAGIC
from dotnetdiag.testing import Script

GOOD = INFO.pack()


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), ProtocolError),
        (says(MAGIC + b"\x13\x00\xff\x00\0\0"), ProtocolError),
        (says(MAGIC + b"\xff\xff\xff\x00\0\0"), TransportError),
        (says(MAGIC + b"\x14\x00\x04\x00\0\0"), ProtocolError),
        (says(MAGIC + b"\x14\x00\xff\x00\0\0"), ProtocolError),
        (says_and_waits(GOOD[:10]), TimedOut),
        (says_and_waits(GOOD[:25]), TimedOut),
        (says_and_waits(), TimedOut),
        (drips(GOOD), TimedOut),
    ],
    ids=[
        "garbage",
        "size 19",
        "size 65535",
        "not a reply",
        "bare OK",
        "half header",
        "half payload",
        "silence",
        "drip",
    ],
)
def test_answer_that_is_wrong_is_an_error_of_ours(stage: Stage, script: Script, error: type[DiagnosticsError]) -> None:
    client = stage.client(stage.runtime(script), timeout_s=0.3)
    with pytest.raises(error):
        within_limits(client.process_info)


def test_close_at_any_offset_is_an_error_of_ours(stage: Stage) -> None:
    runtime = stage.runtime(says())
    client = stage.client(runtime)
    for offset in range(len(GOOD)):
        runtime.play(None, says(GOOD[:offset]))
        with pytest.raises(TransportError):
            within_limits(client.process_info)


def test_whole_answer_is_taken(stage: Stage) -> None:
    assert stage.client(stage.runtime(says(GOOD))).process_info().pid == INFO.pid


@pytest.mark.parametrize("count", [MAX_VARIABLES, MAX_VARIABLES + 1])
def test_an_environment_of_too_many_variables_is_not_taken_apart(stage: Stage, count: int) -> None:
    """That would be a call that does not end in its time, and an event loop that stands still."""
    block = EnvironmentBlock(entries=(None,) * count).pack()
    client = stage.client(stage.runtime(says(EnvironmentReply(size_bytes=len(block)).pack(), block)))
    if count > MAX_VARIABLES:
        with pytest.raises(ProtocolError, match="more than the limit"):
            within_limits(client.environment)
    else:
        assert within_limits(client.environment) == {}
