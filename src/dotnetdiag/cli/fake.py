"""``fake``: a runtime that is none."""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.render import echo, json_text
from dotnetdiag.cli.signals import stopping
from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from dotnetdiag.testing import Asked

FASTEST = "max"
_LOOK_S = 0.2
"""How often the main thread looks whether a signal has come."""
_LAST_S = 1.0
"""What the last messages may take to be printed, when it ends."""
_MOST_TOLD = 10_000
"""Messages that were not printed yet, while nobody reads what is printed."""


@click.command(cls=Command)
@click.option("--age", default="10", show_default=True, help="The .NET to pose as: pre-V1, 3.1, 5 to 11, NativeAOT.")
@click.option("--replay", metavar="FILE", help="A recording (.nettrace, .netperf), which each session streams.")
@click.option("--speed", default="1x", show_default=True, help="Of the replay: 1x is real time, 10x faster, or max.")
@click.option(
    "--on-stop",
    type=click.Choice(["finish", "cut"]),
    default="finish",
    show_default=True,
    help="When a session is stopped: send what is left of the recording at once, or end it at a block.",
)
@click.option(
    "--wait", "waits", is_flag=True, help="Keep a session open at the end of the recording, until it is stopped."
)
@click.option("--name", default="fake", show_default=True, help="What the program is called.")
@click.option("--listen", metavar="ADDRESS", help="A path, or host:port; by default where tools look for this process.")
@click.option("--connect", metavar="PORT", help="Dial a diagnostic port instead.")
@click.option("--suspended", is_flag=True, help="Wait at the start to be resumed.")
@click.option(
    "--misbehave",
    multiple=True,
    metavar="COMMAND=WHAT",
    help="Do wrong when it is asked this: delay:2s, garbage[:BYTE], close:BYTE, silent, ignore, error[:0xHRESULT], magic, size:BYTES.",
)
@click.option("--json", "as_json", is_flag=True, help="What is asked, as a line of JSON each.")
def fake(
    age: str,
    replay: str | None,
    speed: str,
    on_stop: str,
    waits: bool,
    name: str,
    listen: str | None,
    connect: str | None,
    suspended: bool,
    misbehave: tuple[str, ...],
    as_json: bool,
) -> None:
    """Pose as a .NET process, to test what talks to one: it answers as that release does, and what it is asked is printed. Ctrl-C ends it.

    Sessions stream a recording, at the pace at which it was made. Dumps, profilers, perf maps and startup hooks are answered with success, and
    nothing is done. COMMAND is a command of the protocol such as ProcessInfo2, or * for all; several things joined by + may be wrong
    with it.

    \b
    dotnetdiag fake --age 8.0 --replay app.nettrace --speed max
    dotnetdiag fake --misbehave ProcessInfo2=close:20 --misbehave StopTracing=silent
    """
    from dotnetdiag.testing import Runtime

    received: list[int] = []
    over = threading.Event()
    told: queue.Queue[Asked | None] = queue.Queue(_MOST_TOLD)
    left_out = 0

    def on_asked(asked: Asked) -> None:  # in the thread that serves, which waits for no reader of ours
        nonlocal left_out
        try:
            told.put_nowait(asked)
        except queue.Full:
            left_out += 1

    def tell() -> None:
        try:
            while (asked := told.get()) is not None:
                _tell(asked, as_json)
        except BrokenPipeError:  # nobody reads any more
            over.set()

    with (
        stopping(received.append),
        Runtime(
            age,
            listen=listen,
            connect=connect,
            suspended=suspended,
            name=name,
            replay=replay,
            speed=_speed(speed),
            on_stop=on_stop,
            waits=waits,
            misbehave=dict(map(_misbehaviour, misbehave)),
            on_asked=on_asked,
        ) as runtime,
    ):
        how = "dials" if connect is not None else "listens at"
        echo(f"process {os.getpid()} poses as .NET {runtime.release.name}, {how} {runtime.address}", err=True)
        telling = threading.Thread(target=tell, daemon=True)
        telling.start()
        while not (received or over.wait(_LOOK_S)):
            pass
    with suppress(queue.Full):  # nobody reads
        told.put(None, timeout=_LAST_S)
    telling.join(_LAST_S)
    with told.mutex:
        left_out += sum(asked is not None for asked in told.queue)
    if left_out:
        echo(f"{left_out:,} messages were not printed: nobody read them", err=True)


_LONGEST = 200
"""Characters of a value in a line for people."""


def _tell(asked: Asked, as_json: bool) -> None:
    if as_json:
        json_text({"command": asked.command, "request": _fields(asked), "bytes": asked.data.hex()}, indent=None)
    else:
        facts = ", ".join(f"{name} {_short(str(value))}" for name, value in (_fields(asked) or {}).items())
        echo(f"{asked.command or 'no message'}, {len(asked.data)} bytes" + (f": {facts}" if facts else ""))


def _short(text: str) -> str:
    left = len(text) - _LONGEST
    return text if left <= 0 else f"{text[:_LONGEST]}… ({left:,} more)"


def _fields(asked: Asked) -> dict[str, Any] | None:
    return None if asked.request is None else _plain(asked.request)


def _plain(value: Any) -> Any:
    """As JSON has it: bytes in hex, and nothing where there are none."""
    if is_dataclass(value):
        named = ((field.name, _plain(getattr(value, field.name))) for field in fields(value))
        return {name: one for name, one in named if one != ""}
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, int | float | str | None):
        return value
    return str(value)


def _speed(text: str) -> float | None:
    if text == FASTEST:
        return None
    try:
        speed = float(text.removesuffix("x"))
    except ValueError:
        speed = 0
    if not 0 < speed < float("inf"):
        raise UsageError(f"{text!r} is no speed: write 1x, 10x, 0.5x or {FASTEST}")
    return speed


def _misbehaviour(text: str) -> tuple[str, str]:
    command, separator, what = text.partition("=")
    if not separator:
        raise UsageError(f"{text!r}: write COMMAND=WHAT, as in ProcessInfo2=close:20")
    return command, what
