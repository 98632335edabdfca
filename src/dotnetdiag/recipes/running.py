"""Start a program for its own sake: its runtime gets something first, and then it is left alone."""

from __future__ import annotations

from dataclasses import dataclass

from dotnetdiag.recipes.launch import Child, Launch, launched, shell_code, started_alone, told_of_heirs
from dotnetdiag.recipes.suspension import resume

LOOK_S = 0.05
"""How late a signal is passed on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnd:
    """``code`` as a shell has it; the name of the ``signal`` that ended the program; ``notes`` are for people."""

    code: int
    signal: str | None = None
    notes: tuple[str, ...] = ()


def run_program(launch: Launch, *, signals: list[int]) -> ProgramEnd:
    """Start it, and wait for its end; numbers that come to be in ``signals`` are taken from there, and sent to it and to what it has started.

    A program whose runtime gets nothing but variables needs none, and is started as it is. Raises UsageError when it cannot be started,
    ProcessNotFound when it ends before its runtime has come, and what ``Startup.prepare`` raises: it is ended then.
    """
    if not launch.startup.needs_runtime:
        with started_alone(launch) as child:
            return _end(child, signals)
    begun: list[Child] = []

    def pass_on() -> None:
        while signals:
            begun[0].send_signal(signals.pop(0))

    with launched(launch, check=pass_on, on_start=begun.append) as held:
        resume(held.client, over=held.address)
        end = _end(held, signals)
    return ProgramEnd(code=end.code, signal=end.signal, notes=told_of_heirs(held.heirs))


def _end(child: Child, signals: list[int]) -> ProgramEnd:
    while (code := child.wait(LOOK_S)) is None:
        while signals:
            child.send_signal(signals.pop(0))
    shown, name = shell_code(code)
    assert shown is not None, "it has ended"
    return ProgramEnd(code=shown, signal=name)
