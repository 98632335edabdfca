"""The verbs: what there is, and where it stands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag.cli.command import traceback_option
from dotnetdiag.cli.exits import COMPATIBLE_PARSE_ERROR, OK, is_compatible, parse_error_code
from dotnetdiag.cli.lazy import LazyGroup
from dotnetdiag.cli.render import echo, write_raw

if TYPE_CHECKING:
    from click.exceptions import ClickException

# name -> (module of this room, attribute, the line that --help shows)
COMMANDS = {
    "ps": ("processes", "ps", "List the .NET processes that can be reached."),
    "info": ("processes", "info", "Show who a runtime is."),
    "env": ("processes", "env", "Show a runtime's environment."),
    "setenv": ("processes", "setenv", "Set or remove variables of a runtime's environment."),
    "resume": ("processes", "resume", "Let a runtime run that is suspended at startup."),
    "ports": ("ports", "ports", "Show which runtimes dial a diagnostic port."),
    "run": ("run", "run", "Start a program with a startup hook, a profiler, variables."),
    "router": ("router", "router", "Forward between tools and runtimes that cannot reach each other."),
    "tap": ("tap", "tap", "Stand between tools and a runtime, and print what both say."),
    "decode": ("decode", "decode", "Explain captured bytes of the diagnostic protocol."),
    "trace": ("trace", "trace", "Record traces, and look into them."),
    "counters": ("counters", "counters", "What programs count and measure."),
    "gcdump": ("gcdump", "gcdump", "What fills the heap, what holds it, what grew."),
    "stack": ("stack", "stack", "Show the stacks of a process's managed threads."),
    "dump": ("dump", "dump", "Write core dumps."),
    "profiler": ("profiler", "profiler", "Load a native profiler into a runtime."),
    "startup-hook": ("hooks", "startup_hook", "Run a managed startup hook in a runtime."),
    "perfmap": ("perfmap", "perfmap", "Write a map of jitted code for perf."),
    "doctor": ("doctor", "doctor", "Say why a process can or cannot be attached to."),
    "demo": ("demo", "demo", "Start a small .NET program, record it, and show what came."),
    "fake": ("fake", "fake", "Pose as a .NET process, to test what talks to one."),
    "conformance": ("conformance", "conformance", "Check a server against what the protocol asks of it."),
    "completion": ("completion", "completion", "Print the completion script for a shell."),
}

_HELP_WANTED: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""click 8.1 shows the help itself where a verb lacks its verb."""


class _Raised(Exception):
    """An error of a verb that click would not pass on."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class _Root(LazyGroup):
    """Passes on what verbs raise: click takes an EOFError (as our ConnectionEnded is one) for Ctrl-D, and ends the process itself when
    a pipe is closed.
    """

    def make_context(self, *args: Any, **options: Any) -> click.Context:
        with _passed_on():
            return super().make_context(*args, **options)

    def invoke(self, ctx: click.Context) -> Any:
        with _passed_on():
            return super().invoke(ctx)


@contextmanager
def _passed_on() -> Iterator[None]:
    try:
        yield
    except (EOFError, BrokenPipeError) as error:
        raise _Raised(error) from error


@click.group(
    cls=_Root,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "-?", "--help"]},
    params=[traceback_option(hidden=False)],
)
@click.version_option(package_name="dotnetdiag")
@click.option(
    "--compat",
    is_flag=True,
    expose_value=False,
    help="As dotnet-trace in what scripts may test: exit codes, and the suffix of what `convert -o` writes.",
)
def commands() -> None:
    """Diagnostics for running .NET processes.

    \b
    dotnetdiag ps                                   which processes are there
    dotnetdiag trace collect -p PID --duration 30s  record one
    dotnetdiag trace info FILE                      what is in the recording
    dotnetdiag doctor PID                           why it does not work

    Exit codes: 0 done, 1 no session, 2 tracing failed or was cancelled, 3 wrong arguments, 4 not possible on this platform,
    5 unknown, 128 and the signal when SIGTERM or SIGHUP ended it (those end `trace collect` and `trace watch` as Ctrl-C does: 0);
    `trace collect -- COMMAND` gives the command's own.
    """


def run() -> int:
    """Read the command line and do what it says; the exit code. Raises our errors; click's own become a line and a code."""
    try:
        code = commands.main(prog_name="dotnetdiag", standalone_mode=False)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except _HELP_WANTED as error:
        write_raw(error.format_message() + "\n")
        return COMPATIBLE_PARSE_ERROR if is_compatible() else OK
    except click.ClickException as error:
        echo(f"error: {' '.join(_usage_text(error).split())}", err=True)
        return parse_error_code()
    except click.Abort as abort:  # what click makes of an interrupt
        raise (abort.__cause__ if isinstance(abort.__cause__, KeyboardInterrupt) else KeyboardInterrupt()) from None
    except _Raised as raised:
        raise raised.error from raised.error.__cause__
    return code if isinstance(code, int) else 0


def _usage_text(error: ClickException) -> str:
    text = error.format_message()
    context = getattr(error, "ctx", None)
    return text if context is None else f"{text} Try '{context.command_path} --help'."
