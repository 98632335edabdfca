"""``counters watch``: limits of counters, and what is done when one is crossed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from dotnetdiag.analysis.meant_kinds import meant_kind
from dotnetdiag.cli import verdict
from dotnetdiag.cli.actions import Actions, parse_action
from dotnetdiag.cli.command import LaunchingCommand
from dotnetdiag.cli.counter_options import alarm_options, say_changes, say_waiting
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.render import echo, json_text
from dotnetdiag.cli.signals import stopping
from dotnetdiag.tui.counter_values import amount

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_alarms import CounterAlarm
    from dotnetdiag.recipes.counter_watch import CounterOptions, CounterTargets

FIRED = 10
"""The exit code when a limit was crossed, and nothing more is waited for."""


@click.command("watch", cls=LaunchingCommand)
@alarm_options
@click.argument("thresholds", nargs=-1, required=True, metavar="THRESHOLD...")
@click.option(
    "--then",
    "action",
    metavar="VERB",
    help="A verb of dotnetdiag to run for the process, with its options, as one word: 'trace collect --duration 10s'.",
)
@click.option(
    "--cooldown", default="1m", show_default=True, help="How long nothing more is said of a process and limit."
)
@click.option("--once", is_flag=True, help="End with the first that is crossed, and exit code 10.")
@click.option("--json", "is_json", is_flag=True, help="A JSON object for each that is crossed.")
@click.pass_context
def watch(
    ctx: click.Context,
    targets: CounterTargets,
    options: CounterOptions,
    duration: str | None,
    thresholds: tuple[str, ...],
    action: str | None,
    cooldown: str,
    once: bool,
    is_json: bool,
) -> None:
    """Say when a counter crosses a limit, and run a verb for the process that it is of.

    A THRESHOLD is 'Provider[instrument] > 0.8', with 'for 30s' behind it when all values of that time must be; comparisons are > >= < <= == !=.
    {tag=value} behind the brackets means the series with these tags; a figure after it is value, rate, count, sum, p50, p95 or p99: without one
    the rate per second of counters, p95 of histograms, else the value.

    --then gets '-p PID' where it names no process itself; {pid} in it is replaced by the process id. What it prints goes to stderr.

    \b
    dotnetdiag counters watch -p 1234 'System.Runtime[dotnet.process.cpu.time] > 0.8 for 30s' --then 'trace collect --duration 10s'
    dotnetdiag counters watch --all 'System.Runtime[dotnet.process.memory.working_set] > 2GB' --then 'dump collect' --cooldown 1h
    dotnetdiag counters watch -n MyApp 'MyApp.Orders[queue.length]{queue=mail} >= 1000' --once; [ $? = 10 ] && mail-somebody
    """
    be_lean()
    from dotnetdiag.durations import seconds_of
    from dotnetdiag.recipes.counter_alarms import CounterAlarms
    from dotnetdiag.recipes.thresholds import parse_threshold

    seconds = seconds_of(duration)
    limits = [parse_threshold(text) for text in thresholds]
    actions = Actions(None if action is None else parse_action(ctx, action))
    has_fired = False
    with CounterAlarms(targets, limits, options, cooldown=cooldown) as alarms, actions:

        def end(number: int) -> None:
            alarms.stop()
            actions.signal(number)

        with stopping(end):
            say_waiting(targets)
            for update, crossed in alarms.updates(None if seconds is None else time.monotonic() + seconds):
                say_changes(update)
                for alarm in crossed[:1] if once else crossed:
                    _say(alarm, is_json=is_json)
                    process = alarm.process
                    is_by_id = process.target.startswith("process ")
                    actions.run(process.pid if is_by_id else process.target, process.pid)
                actions.look()
                has_fired = has_fired or bool(crossed)
                verdict.settle(FIRED if once and has_fired else 0)
                if once and has_fired:
                    break
            alarms.close()
            actions.wait()
    if once and has_fired:
        raise click.exceptions.Exit(FIRED)


def _say(alarm: CounterAlarm, *, is_json: bool) -> None:
    crossing, process = alarm.crossing, alarm.process
    series, threshold = crossing.series, crossing.threshold
    if is_json:
        json_text(
            {
                "utc": crossing.utc,
                "pid": process.pid,
                "process": process.name,
                "threshold": threshold.text,
                "provider": series.provider,
                "instrument": series.name,
                "tags": dict(series.tags),
                "figure": threshold.figure_of(meant_kind(series)),
                "value": crossing.value,
                "lasted_s": round(crossing.lasted_s, 3),
            },
            indent=None,
        )
        return
    tags = ",".join(f"{key}={value}" for key, value in series.tags.items())
    pid = "" if process.pid is None else f" ({process.pid})"
    lasted = f" for {crossing.lasted_s:.3g} s" if threshold.for_s else ""
    echo(
        f"{crossing.utc[:23]}Z  {process.name or process.target}{pid}  {series.provider}  {series.name}"
        f"{f' {{{tags}}}' if tags else ''}  {threshold.figure_of(meant_kind(series))} {amount(crossing.value)}"
        f" {threshold.comparison} {amount(threshold.limit)}{lasted}"
    )
