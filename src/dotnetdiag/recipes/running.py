"""Start a program for its own sake: its runtime gets something first, and then it is left alone."""

from __future__ import annotations

from collections.abc import Callable

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.recipes.launch import Child, Launch, launched, shell_code, started_alone, told_of_heirs
from dotnetdiag.recipes.suspension import resume


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramEnd:
    """``code`` as a shell has it; the name of the ``signal`` that ended the program; ``notes`` are for people."""

    code: int
    signal: str | None = None
    notes: tuple[str, ...] = ()


def run_program(launch: Launch, *, on_start: Callable[[Child], None] = lambda _: None) -> ProgramEnd:
    """Start it, and wait for its end. ``on_start`` gets it at once: to pass on signals, also from a signal handler.

    A program whose runtime gets nothing but variables needs none, and is started as it is. Raises UsageError when it cannot be started,
    ProcessNotFound when it ends before its runtime has come, and what ``Startup.prepare`` raises: it is ended then.
    """
    if not launch.startup.needs_runtime:
        with started_alone(launch) as child:
            on_start(child)
            return _end(child)
    with launched(launch, on_start=on_start) as held:
        resume(held.client, over=held.address)
        end = _end(held)
    return ProgramEnd(code=end.code, signal=end.signal, notes=told_of_heirs(held.heirs))


def _end(child: Child) -> ProgramEnd:
    code = child.process.wait()
    shown, name = shell_code(code)
    assert shown is not None, "it has ended"
    return ProgramEnd(code=shown, signal=name)
