"""``gcdump collect``: the heap of a process, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import TRACING_ERROR
from dotnetdiag.cli.files import FilePath
from dotnetdiag.cli.gcdump_live import collect as collect_now
from dotnetdiag.cli.gcdump_live import say_pause, timeout_option
from dotnetdiag.cli.heap_types import say_problems
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.options import json_option, target_options
from dotnetdiag.cli.render import echo, json_text, write_raw

if TYPE_CHECKING:
    from dotnetdiag.recipes.target import Target


@click.command("collect", cls=Command)
@target_options
@click.option(
    "-o",
    "--output",
    type=FilePath(),
    help="File to write: .gcdump; .nettrace, what the runtime sends; .heapsnapshot, .graphml, .sqlite, .html; - is stdout. For .parquet, "
    "which is three files, convert a .gcdump.  [default: yyyyMMdd_HHmmss_PID.gcdump]",
)
@timeout_option
@click.option(
    "--buffersize",
    "buffer_mb",
    type=click.IntRange(1, 4095),
    default=1024,
    show_default=True,
    help="MB, in the process.",
)
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
@click.option("-v", "--verbose", is_flag=True, help="Say more of how it went.")
@json_option
def collect(
    target: Target,
    output: Path | None,
    timeout: float | str | None,
    buffer_mb: int,
    force: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Write the heap of a process into a .gcdump, which PerfView and Visual Studio open too.

    The process makes a blocking collection of everything and walks its heap: it stands still meanwhile. With --force a file that is there
    stays as it is until the new one is written to its end, which then takes its place, also with a heap that is not complete. Where
    events were lost, all is collected once more with a larger buffer; a heap that is not complete is written, and said to be so: exit code
    2. How long the process stood still is said in any case: of all walks, "at least" where the runtime did not tell when it had the process
    stop, or when it let it run on.

    --json: one object, {path, size_bytes, duration_s, attempts, all_pauses_ms, are_pauses_known} and what report --json has before its types.

    \b
    dotnetdiag gcdump collect -p 1234
    dotnetdiag gcdump collect -n MyApp -o app.gcdump --force
    dotnetdiag gcdump collect -p 1234 -o app.nettrace
    """
    be_lean()
    from dotnetdiag.recipes.heap_collect import HeapOptions
    from dotnetdiag.recipes.heap_convert import new_path, write_collected
    from dotnetdiag.recipes.outputs import is_stdout

    options = HeapOptions(target=target, timeout=timeout, buffer_mb=buffer_mb)
    with write_collected(options, output, force=force) as writing:
        done = collect_now(writing.options)
        say_pause(done)  # also where the file cannot be written
        path, size = writing.finish(done, new_path(done.pid))
    say_problems(done.heap)
    to_stdout = is_stdout(path)  # which has the heap alone
    if verbose:
        echo(
            f"{done.size_bytes:,} bytes came in {done.duration_s:.2f} s, in {done.attempts} session{'s' if done.attempts > 1 else ''}.",
            err=True,
        )
    if as_json:
        from dotnetdiag.recipes.heap_reports import summary

        walks = {
            "attempts": done.attempts, "all_pauses_ms": done.all_pauses_ms, "are_pauses_known": done.are_pauses_known,
        }  # fmt: skip
        told = {"path": str(path), "size_bytes": size, "duration_s": done.duration_s, **walks}
        json_text({**told, **summary(done.heap)}, err=to_stdout)
    else:
        echo(f"Writing gcdump to '{path}'...", err=to_stdout)
        write_raw(f"\tFinished writing {size} bytes.\n", err=to_stdout)
    if not done.heap.completeness.complete:
        raise click.exceptions.Exit(TRACING_ERROR)
