"""Where errors become a line on stderr and an exit code: those of the dotnet-* tools (dotnet-tools.md §1.1)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

import click

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


# Where dotnet-trace itself gives others, for scripts that test them: measured with 10.0.750501.
COMPATIBLE: tuple[tuple[type[BaseException], int], ...] = (
    (errors.NoDiagnostics, TRACING_ERROR),
    (errors.UnsupportedCommand, SESSION_ERROR),
    (errors.InputError, SESSION_ERROR),
    (errors.FormatError, ARGUMENT_ERROR),
)
COMPATIBLE_PARSE_ERROR = 1
"""Of System.CommandLine, also for a verb that lacks its verb."""
COMPATIBLE_NO_KIND = 255
"""Of ``report`` that is not told what to report."""


def is_compatible() -> bool:
    """Whether ``--compat`` stands before the verb."""
    return "--compat" in takewhile(lambda word: word.startswith("-"), sys.argv[1:])


def wants_traceback() -> bool:
    """Whether ``--traceback`` is among the words that are ours."""
    return "--traceback" in takewhile(lambda word: word != "--", sys.argv[1:])


def exit_code(error: BaseException, *, compatible: bool = False) -> int:
    """The code for an error; for a signal what a shell says of a program that it ended. ``compatible``: as of dotnet-trace."""
    if isinstance(error, Terminated):
        return error.exit_code
    if isinstance(error, errors.ProcessNotFound) and error.ended_with:  # as of a program that was recorded
        return error.ended_with
    if compatible and isinstance(error, errors.ProcessNotFound) and error.pid is not None:
        return TRACING_ERROR
    if compatible and isinstance(error, errors.GrammarError) and error.what == "duration":
        return COMPATIBLE_PARSE_ERROR
    table = (*COMPATIBLE, *TABLE) if compatible else TABLE
    return next((code for kind, code in table if isinstance(error, kind)), UNKNOWN_ERROR)


@contextmanager
def compatible_code(kind: type[errors.DiagnosticsError], code: int) -> Iterator[None]:
    """With ``--compat`` an error of this kind ends the verb with ``code``."""
    try:
        yield
    except kind as error:
        if not is_compatible():
            raise
        report(str(error), error)
        raise click.exceptions.Exit(code) from error


def parse_error_code() -> int:
    """For words that are no command line."""
    return COMPATIBLE_PARSE_ERROR if is_compatible() else ARGUMENT_ERROR


def report(text: str, error: BaseException) -> int:
    """The line, with what to type where that helps, after the traceback where it is asked for; the exit code."""
    from dotnetdiag.cli.advice import advice_for

    if wants_traceback():
        import traceback

        for line in "".join(traceback.format_exception(error)).splitlines():
            echo(line, err=True)
    advice = advice_for(error)
    echo(f"error: {' '.join(text.split())}{'; ' if advice else ''}{advice}", err=True)
    return exit_code(error, compatible=is_compatible())
