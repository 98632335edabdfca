"""``counters push``: the counters of processes, to a collector of OpenTelemetry."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import LaunchingCommand
from dotnetdiag.cli.counter_options import say_changes, say_waiting, service_options
from dotnetdiag.cli.files import FilePath
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.render import echo
from dotnetdiag.cli.signals import stopping
from dotnetdiag.errors import InputError, UsageError
from dotnetdiag.tui.counter_changes import process_text

if TYPE_CHECKING:
    from dotnetdiag.recipes.collector import CollectorOptions, Signal
    from dotnetdiag.recipes.counter_watch import CounterOptions, CounterTargets
    from dotnetdiag.recipes.event_push import EventsFailed
    from dotnetdiag.recipes.outbox import Notice, Sent

_NOUNS = {"metrics": ("point", "points"), "logs": ("log record", "log records"), "traces": ("span", "spans")}


@click.command("push", cls=LaunchingCommand)
@service_options
@click.option(
    "--to", metavar="URL", default="", help="http://HOST:4318, https://…, grpc://HOST:4317, or grpcs://… (with TLS)."
)
@click.option(
    "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of all requests. May be repeated."
)
@click.option(
    "--header-file", "header_files", multiple=True, metavar="NAME=FILE", help="The same, with the first line of a file."
)
@click.option(
    "--header-variable",
    "header_variables",
    multiple=True,
    metavar="NAME=VARIABLE",
    help="The same, with what a variable of the environment has.",
)
@click.option("--ca", type=FilePath(), help="The certificates (PEM) that the collector's is signed with.")
@click.option(
    "--logs",
    metavar="[LEVEL]",
    is_flag=False,
    flag_value="",
    default=None,
    help="What programs log too: what their own filters let through, or from a level on (Trace to Critical).",
)
@click.option("--traces", is_flag=True, help="Their activities too, as spans.")
@click.option("--insecure", is_flag=True, help="Headers in clear text beyond this machine.")
def push(
    targets: CounterTargets,
    options: CounterOptions,
    duration: str | None,
    to: str,
    headers: tuple[str, ...],
    header_files: tuple[str, ...],
    header_variables: tuple[str, ...],
    ca: Path | None,
    logs: str | None,
    traces: bool,
    insecure: bool,
) -> None:
    """Send the counters of one process or of many to a collector of OpenTelemetry, as metrics, by OTLP over HTTP or gRPC.

    A collector that is away is waited for: values of the last time are kept, up to a limit, and sent when it is back. With --all and --name nobody
    need be there at first. Ends with Ctrl-C, after --duration, or, where nobody can join, with the last of the processes; then the rest is sent, for
    5 s at most.

    --logs sends messages of Microsoft.Extensions.Logging, --traces activities (System.Diagnostics.Activity) of all sources, which the runtime then
    creates and marks as recorded. Of a program that is started (behind --) they come from the first on.

    Without --to the variable OTEL_EXPORTER_OTLP_ENDPOINT says where, and OTEL_EXPORTER_OTLP_PROTOCOL how (http/protobuf, grpc).
    OTEL_EXPORTER_OTLP_HEADERS has headers.

    \b
    dotnetdiag counters push --all --to http://localhost:4318
    dotnetdiag counters push -n MyApp --to grpc://localhost:4317 --counters System.Runtime,MyApp.Orders --refresh-interval 10
    dotnetdiag counters push -p 4711 --to http://localhost:4318 --logs Warning --traces
    dotnetdiag counters push --to http://localhost:4318 --logs --traces -- dotnet MyApp.dll
    dotnetdiag counters push --all --to https://otlp.example.com --header-variable api-key=API_KEY
    """
    be_lean()
    from dotnetdiag.durations import seconds_of
    from dotnetdiag.recipes.collector import collector_options
    from dotnetdiag.recipes.counter_push import CounterPush
    from dotnetdiag.recipes.counter_watch import CounterWatch
    from dotnetdiag.recipes.event_push import EventOptions

    collector = collector_options(
        to,
        headers=_headers(headers, header_files, header_variables),
        ca="" if ca is None else str(ca),
        insecure=insecure,
        environment=os.environ,
    )
    seconds = seconds_of(duration)
    pushing = CounterPush(
        collector,
        lambda notice: echo(_notice_text(notice, collector), err=True),
        events=EventOptions(logs=logs, traces=traces),
    )
    what = ", ".join(["metrics", *(["logs"] if logs is not None else []), *(["traces"] if traces else [])])
    try:
        with (
            CounterWatch(targets, options, on_held=pushing.hold) as watch,
            stopping(lambda _: watch.stop()),
        ):
            echo(f"Sending {what} to {collector.url}. Press Ctrl+C to end.", err=True)
            say_waiting(targets)
            for update in watch.updates(None if seconds is None else time.monotonic() + seconds):
                say_changes(update)
                pushing.take(update)
    finally:
        sent = pushing.close()
    if pushing.lost_events:
        echo(f"{pushing.lost_events:,} logs and activities lost in the targets: their buffers were full", err=True)
    if pushing.unreadable_activities:
        echo(f"{pushing.unreadable_activities:,} activities are no spans: they have no ids as W3C has them", err=True)
    echo(_totals_text(sent, collector), err=True)


def _headers(given: Sequence[str], files: Sequence[str], variables: Sequence[str]) -> dict[str, str]:
    """By name. Raises UsageError, InputError."""
    made = {}
    for texts, value_of in ((given, str.strip), (files, _first_line), (variables, _variable)):
        for text in texts:
            name, equals, value = text.partition("=")
            if not equals or not name.strip():
                raise UsageError(f"a header is NAME=VALUE, and {name!r} has no '='")
            made[name.strip()] = value_of(value)
    return made


def _first_line(path: str) -> str:
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InputError(path, str(getattr(error, "strerror", None) or error)) from error
    return lines[0].strip() if lines else ""


def _variable(name: str) -> str:
    value = os.environ.get(name, "").strip()
    if not value:
        raise UsageError(f"{name}: there is no such variable, or nothing in it")
    return value


def _notice_text(notice: Notice | EventsFailed, collector: CollectorOptions) -> str:
    from dotnetdiag.recipes.event_push import EventsFailed
    from dotnetdiag.recipes.outbox import CollectorAway, CollectorBack, Refused

    if isinstance(notice, EventsFailed):
        return f"{process_text(notice.process)}: no logs and activities: {notice.why}"
    where = collector.url
    if isinstance(notice, CollectorAway):
        return f"{where}: {notice.why}; what it has not taken waits"
    if isinstance(notice, CollectorBack):
        return f"{where}: takes it again, after {notice.seconds:.1f} s"
    if isinstance(notice, Refused):
        return f"{where}: refuses {_amount(notice.signal, notice.records)}: {notice.why}"
    return f"{where}: {notice.records:,} records dropped, the oldest: no room for more"


def _totals_text(sent: Sent, collector: CollectorOptions) -> str:
    """What was sent, and what was not."""
    parts = [_amounts(sent.sent) or "nothing"]
    parts += [f"{said} dropped" for said in (_amounts(sent.dropped),) if said]
    parts += [f"{said} refused" for said in (_amounts(sent.refused),) if said]
    return f"{collector.url}: sent {'; '.join(parts)}"


def _amounts(records: Mapping[Signal, int]) -> str:
    return ", ".join(_amount(signal, number) for signal, number in records.items() if number)


def _amount(signal: Signal, number: int) -> str:
    return f"{number:,} {_NOUNS[signal][number != 1]}"
