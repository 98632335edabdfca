"""``tap``: stand between tools and a runtime, and print what both say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.conversation_lines import show_heard
from dotnetdiag.cli.files import FilePath
from dotnetdiag.cli.options import process_options, target_of
from dotnetdiag.cli.render import echo
from dotnetdiag.cli.signals import stopping
from dotnetdiag.cli.standard_streams import lead_stdout_nowhere
from dotnetdiag.errors import OutputError, UsageError

if TYPE_CHECKING:
    from dotnetdiag.recipes.tap import Heard, RouterEvent

SAID = ("unreachable", "refused", "lost", "connected", "gone", "resumed")
"""Of what happens, what no message tells."""


@click.command(cls=Command)
@process_options
@click.option(
    "--diagnostic-port",
    "--dport",
    "port",
    metavar="ADDRESS[,connect|listen]",
    help="Instead of a process, a diagnostic port. listen (the default): runtimes started with DOTNET_DiagnosticPorts=ADDRESS dial "
    "us there; connect: we dial a runtime that listens there.",
)
@click.option(
    "--listen",
    metavar="ADDRESS",
    help="Where tools are to connect; by default a path in the folder for temporary files, which is printed.",
)
@click.option(
    "--write-pcap",
    "pcap",
    type=FilePath(),
    metavar="FILE",
    help="All that is said, streams included, as a capture of TCP.",
)
@click.option("--force", is_flag=True, help="Overwrite the capture where it is there.")
@click.option("--header", is_flag=True, help="The fields of each message's header too.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each message.")
def tap(
    pid: int | None,
    name: str | None,
    port: str | None,
    listen: str | None,
    pcap: Path | None,
    force: bool,
    header: bool,
    as_json: bool,
) -> None:
    """Stand between tools and a runtime, and print every message, both ways, with its names, fields and times, until Ctrl-C.

    Tools connect to the tap's address instead of the runtime's, which stays as it is. The bytes of a session's stream are counted, and
    not shown. What a message holds is printed: command lines, and the environment when it is asked for. A descriptor, as sessions of
    user_events have it, is not forwarded.

    \b
    dotnetdiag tap -p 1234 --listen /tmp/tap
    dotnet-trace collect --diagnostic-port /tmp/tap,connect
    """
    from dotnetdiag.recipes.descriptors import raise_limit
    from dotnetdiag.recipes.stop import Stop
    from dotnetdiag.recipes.tap import TapOptions
    from dotnetdiag.recipes.tap import tap as tapped

    target = target_of(pid, name, None, port, None)
    if target is None:
        raise UsageError("Must specify either --process-id, --name, or --diagnostic-port.")
    raise_limit()
    stop = Stop()

    def on_heard(heard: Heard) -> None:
        try:
            show_heard(heard, as_json=as_json, header=header)
        except OutputError:
            if not stop.is_stopping:
                raise
            lead_stdout_nowhere()  # nobody reads the last lines

    def on_event(event: RouterEvent) -> None:
        if event.what in SAID:
            echo(event.text, err=True)

    options = TapOptions(target=target, listen=listen or "", pcap=pcap, force=force)
    with stopping(lambda _: stop.stop()):
        tapped(
            options,
            stop=stop,
            listening=lambda router: echo(router.description, err=True),
            on_heard=on_heard,
            on_event=on_event,
            on_warning=lambda text: echo(f"warning: {text}", err=True),
        )
