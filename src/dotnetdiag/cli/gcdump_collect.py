"""``gcdump collect``: the heap of a process, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import TRACING_ERROR
from dotnetdiag.cli.files import FilePath
from dotnetdiag.cli.gcdump_live import timeout_option
from dotnetdiag.cli.heap_walks import collect_into
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.options import json_option, target_options

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
    2. How long the process stood still is said in any case but one, a .nettrace that finds no room while the events come: of all walks, "at
    least" where the runtime did not tell when it had the process stop, or when it let it run on.

    --json: one object, {path, size_bytes, duration_s, attempts, walks, all_pauses_ms, are_pauses_known} and what report --json has before its types.

    \b
    dotnetdiag gcdump collect -p 1234
    dotnetdiag gcdump collect -n MyApp -o app.gcdump --force
    dotnetdiag gcdump collect -p 1234 -o app.nettrace
    """
    be_lean()
    from dotnetdiag.recipes.heap_collect import HeapOptions

    options = HeapOptions(target=target, timeout=timeout, buffer_mb=buffer_mb)
    if not collect_into(options, output, force=force, verbose=verbose, as_json=as_json):
        raise click.exceptions.Exit(TRACING_ERROR)
