"""``counters serve``: the counters of processes, for Prometheus."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import LaunchingCommand
from dotnetdiag.cli.counter_options import say_changes, say_waiting, service_options
from dotnetdiag.cli.files import FilePath
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.render import echo
from dotnetdiag.cli.signals import stopping
from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_watch import CounterOptions, CounterTargets

BIND = "127.0.0.1:9879"


@click.command("serve", cls=LaunchingCommand)
@service_options
@click.option(
    "--bind", metavar="HOST:PORT", default=BIND, show_default=True, help="Where to serve; port 0 is any free one."
)
@click.option("--token-file", metavar="FILE", help="The token that who asks must show, in its first line.")
@click.option("--token-variable", metavar="NAME", help="The variable of the environment that has the token.")
@click.option("--tls-cert", "--cert", "certificate", type=FilePath(), help="Our certificate (PEM): HTTPS.")
@click.option("--tls-key", "--key", "key", type=FilePath(), help="Its key, unless the certificate's file has it.")
@click.option("--insecure", is_flag=True, help="Beyond loopback without a token: anybody may read the counters.")
def serve(
    targets: CounterTargets,
    options: CounterOptions,
    duration: str | None,
    bind: str,
    token_file: str | None,
    token_variable: str | None,
    certificate: Path | None,
    key: Path | None,
    insecure: bool,
) -> None:
    """Serve the counters of one process or of many to Prometheus, at /metrics, in its text format and in OpenMetrics'.

    Says where on stderr. With --all and --name nobody need be there at first. Ends with Ctrl-C, after --duration, or, where nobody can join, with the
    last of the processes. Whoever asks beyond this machine must show a token: `Authorization: Bearer …`.

    \b
    dotnetdiag counters serve --all
    dotnetdiag counters serve -n MyApp --counters System.Runtime,MyApp.Orders --refresh-interval 5
    dotnetdiag counters serve --all --bind 0.0.0.0:9879 --token-file /etc/dotnetdiag.token --tls-cert me.pem
    """
    be_lean()
    from dotnetdiag.durations import seconds_of
    from dotnetdiag.recipes.counter_watch import CounterWatch
    from dotnetdiag.recipes.security import token_of
    from dotnetdiag.recipes.service_names import ServiceNames
    from dotnetdiag.service.fleet_state import FleetState
    from dotnetdiag.service.metrics_server import MetricsServer, parse_bind
    from dotnetdiag.service.prometheus import PrometheusPages

    if token_file and token_variable:
        raise UsageError("--token-file and --token-variable are for the same thing: give one")
    seconds = seconds_of(duration)
    pages, state = PrometheusPages(), FleetState(options.interval_s)
    with (
        CounterWatch(targets, options) as watch,
        ServiceNames() as services,
        MetricsServer(
            pages.page,
            parse_bind(bind),
            token=token_of(file=token_file or "", variable=token_variable or ""),
            insecure=insecure,
            certificate=certificate or "",
            key=key or "",
        ) as server,
        stopping(lambda _: watch.stop()),
    ):
        echo(f"Serving {server.url} (Ctrl+C ends it)", err=True)
        say_waiting(targets)
        for update in watch.updates(None if seconds is None else time.monotonic() + seconds):
            say_changes(update)
            pages.show(state.take(update, services.of))
            for change in update.changes:
                if not change.joined:
                    services.forget(change.process.number)
