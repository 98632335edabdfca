"""Where errors become a line on stderr and an exit code: those of the dotnet-* tools (peers.md §1.1)."""

from __future__ import annotations

from dotnetdiag import errors
from dotnetdiag.cli.render import echo
from dotnetdiag.cli.signals import Terminated

OK = 0
SESSION_ERROR = 1
TRACING_ERROR = 2
ARGUMENT_ERROR = 3
PLATFORM_ERROR = 4
UNKNOWN_ERROR = 5

# The first row that an error is an instance of decides.
TABLE: tuple[tuple[type[BaseException], int], ...] = (
    (errors.NotPossible, PLATFORM_ERROR),
    (errors.UnsupportedCommand, PLATFORM_ERROR),
    (errors.UsageError, ARGUMENT_ERROR),
    (errors.NoDiagnostics, SESSION_ERROR),
    (errors.TargetStopped, SESSION_ERROR),
    (errors.TargetError, ARGUMENT_ERROR),
    (errors.NotSupported, PLATFORM_ERROR),
    (errors.ServerError, SESSION_ERROR),
    (errors.TransportError, SESSION_ERROR),
    (errors.MissingDependency, PLATFORM_ERROR),
    (errors.DiagnosticsError, TRACING_ERROR),
    (OSError, TRACING_ERROR),
    (KeyboardInterrupt, TRACING_ERROR),
)


def exit_code(error: BaseException) -> int:
    """The code for an error; for a signal what a shell says of a program that it ended."""
    if isinstance(error, Terminated):
        return error.exit_code
    return next((code for kind, code in TABLE if isinstance(error, kind)), UNKNOWN_ERROR)


def report(text: str, error: BaseException) -> int:
    """The line, with what to type where that helps; the exit code."""
    from dotnetdiag.cli.advice import advice_for

    advice = advice_for(error)
    echo(f"error: {' '.join(text.split())}{'; ' if advice else ''}{advice}", err=True)
    return exit_code(error)
