"""``stack``: what the threads of a process are doing now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.files import FilePath
from dotnetdiag.cli.lazy import LazyGroup
from dotnetdiag.cli.options import client_of, target_options
from dotnetdiag.cli.output import TABLE, format_option, show
from dotnetdiag.cli.render import echo, json_text

if TYPE_CHECKING:
    from dotnetdiag.recipes.target import Target
    from dotnetdiag.recipes.thread_stacks import StackReport, ThreadGroup

ENTRIES = {
    "report": ("stack", "report", "Print the stacks of all managed threads."),
    "symbolicate": ("stack", "symbolicate", "Lines of source for the tokens in a stack trace."),
    "ps": ("processes", "ps", "List the .NET processes that can be reached."),
}
MARKS = {"managed": "CPU_TIME", "native": "[Native Frames]"}
"""The line of dotnet-stack in front of the frames."""


@click.group(cls=LazyGroup, entries=ENTRIES)
def stack() -> None:
    """Say what the threads of a process are doing now."""


def _check_duration(_: click.Context, __: click.Parameter, text: str | None) -> None:
    """dotnet-stack's own, hidden there too: how long it samples before it takes a stack. Here that is as long as it takes."""
    if text is not None:
        from dotnetdiag.durations import parse_duration

        parse_duration(text)


@click.command(cls=Command)
@target_options
@click.option("--count", type=click.IntRange(min=1), default=1, show_default=True, help="Take stacks so many times.")
@click.option("--interval", default="1s", show_default=True, help="From one time to the next: 500ms, 10s.")
@click.option("--duration", hidden=True, expose_value=False, callback=_check_duration)
@click.option("--thread", "thread", help="Only this thread: an id (0x1F3A or decimal), or a name.")
@click.option("--short", is_flag=True, help="Names as in C#, without module and parameters.")
@click.option("--source", is_flag=True, help="As --short, and lambdas and async methods as in the source.")
@click.option("--no-fold", is_flag=True, help="Equal stacks are printed for each thread.")
@format_option
def report(
    target: Target,
    count: int,
    interval: str,
    thread: str | None,
    short: bool,
    source: bool,
    no_fold: bool,
    form: str,
) -> None:
    """Print the stacks of all managed threads, the innermost frame first; threads with equal stacks together.

    CPU: the thread was running managed code, or native code and was seen to use a processor, or to wait for one (on this
    machine: the runtime itself cannot tell). Names of threads come from the system (.NET 6 and newer), numbers like #5 are managed
    thread ids (.NET 9 and newer).

    --json: one object, {pid, utc, threads: [{tid, name, managed_id, role, state, mode, cpu, runnable, frames: [innermost
    first]}], unresolved, lost}; with --count above 1 such an object on a line of its own for each time.

    \b
    dotnetdiag stack report -p 1234
    dotnetdiag stack report -n MyApp --short --count 5 --interval 2s
    dotnetdiag stack report -p 1234 --json | jq '.threads[] | select(.state == "cpu")'
    """
    from dotnetdiag.durations import parse_duration
    from dotnetdiag.recipes.stack_report import iter_reports, require_interval
    from dotnetdiag.trace.method_names import Style

    interval_s = parse_duration(interval, "interval")
    require_interval(interval_s)
    style = Style.SOURCE if source else Style.SHORT if short else Style.FULL
    taken: list[StackReport] = []
    with client_of(target) as client:
        for turn, found in enumerate(iter_reports(client, count=count, interval_s=interval_s, style=style)):
            shown = found if thread is None else found.only(thread)
            if form == "json":
                json_text(shown.to_json(), indent=2 if count == 1 else None)
            elif form == TABLE:
                if count > 1:
                    if turn:
                        echo()
                    echo(f"# {turn + 1} of {count}, {shown.utc}")
                _print_text(shown, fold=not no_fold)
            else:
                taken.append(shown)
    if form not in (TABLE, "json"):
        from dotnetdiag.recipes.thread_stacks import table_of

        show(form, lambda: table_of(taken), people=lambda: None)


def _print_text(shown: StackReport, *, fold: bool) -> None:
    from dotnetdiag.recipes.thread_stacks import ThreadGroup

    groups = shown.groups() if fold else tuple(ThreadGroup(threads=(one,)) for one in shown.threads)
    for group in groups:
        for text in (_head(group), f"  {MARKS.get(group.mode, '?')}", *(f"  {frame}" for frame in group.frames), ""):
            echo(text)
    frames = sum(len(one.frames) for one in shown.threads)
    if shown.unresolved or shown.lost:
        echo(f"{shown.unresolved:,} of {frames:,} frames have no name; {shown.lost:,} events lost", err=True)


def _head(group: ThreadGroup) -> str:
    """``Thread (0x1F3A): waiting, #5, .NET TP Worker``; ``Threads (0x1F3A, 0x1F3B): 2 × waiting``."""
    state = "CPU" if group.state == "cpu" else group.state
    ids = ", ".join(f"0x{one.tid:X}" for one in group.threads)
    names = list(dict.fromkeys(one.name for one in group.threads if one.name))
    if len(group.threads) > 1:
        return f"Threads ({ids}): {', '.join([f'{len(group.threads)} × {state}', *names])}"
    (only,) = group.threads
    more = [f"#{only.managed_id}" if only.managed_id else None, only.name or only.role]
    return f"Thread ({ids}): {', '.join([state, *(text for text in more if text)])}"


@click.command(cls=Command)
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "-d",
    "--search-dir",
    "folders",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Look for .pdb files in this folder and below it, too; the current one is looked at last.",
)
@click.option("-o", "--output", type=FilePath(), help="[default: FILE.symbolicated]")
@click.option("-c", "--stdout", "to_stdout", is_flag=True, help="Print it as well.")
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
def symbolicate(file: Path, folders: tuple[Path, ...], output: Path | None, to_stdout: bool, force: bool) -> None:
    """Replace the tokens in a stack trace, the text FILE, by lines of source: `in App.dll:token 0x6000001+0x12` by `in App.cs:line 7`.

    .NET writes tokens where it has no PDB and the switch Switch.System.Diagnostics.StackTrace.ShowILOffsets is on. The PDB (a portable one)
    must be of the same build.

    \b
    dotnetdiag stack symbolicate crash.txt -d bin/Release/net10.0 -c
    """
    from dotnetdiag.errors import InputError
    from dotnetdiag.recipes.outputs import STDOUT, check_outputs, is_stdout, replacing
    from dotnetdiag.recipes.symbolication import symbolicate as symbolicated

    path = file.with_name(f"{file.name}.symbolicated") if output is None else output
    if to_stdout or is_stdout(path):
        check_outputs([STDOUT], force=force, sources=[file])
    try:
        lines = file.read_text("utf-8-sig", "replace").splitlines()
    except OSError as error:
        raise InputError(str(file), error.strerror or str(error)) from error
    made = list(symbolicated(lines, (*folders, Path())))
    if not is_stdout(path):
        with replacing(path, force=force) as target:
            target.write("".join(f"{line}\n" for line in made).encode("utf-8"))
        echo(f"Output: {path}", err=True)
    if to_stdout or is_stdout(path):
        for line in made:
            echo(line.expandtabs())


COMMANDS = (stack,)
