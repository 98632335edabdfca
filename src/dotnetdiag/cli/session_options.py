"""The options of ``trace collect`` that say what its session records, and what is made of the recording."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag.cli.options import formats_option, provider_options

if TYPE_CHECKING:
    from dotnetdiag.recipes.stopping import StoppingEvent

_OPTIONS = (
    provider_options,
    click.option("--buffersize", type=click.IntRange(min=1), default=256, show_default=True, help="MB, in the target."),
    click.option(
        "--buffering-mode",
        type=click.Choice(["Drop", "Block", "0", "1"], case_sensitive=False),
        default="Drop",
        show_default=True,
        help="Block: threads of the target wait, nothing is lost (.NET 11).",
    ),
    click.option("--duration", help="Of the session: 30s, 5m, 1h30m, or dd:hh:mm:ss."),
    click.option(
        "--rundown", type=bool, help="true (also without a value) or false: names of methods at the end, or none."
    ),
    click.option("--no-stacks", is_flag=True, help="Record no stacks (.NET 9)."),
    click.option(
        "--resume-runtime",
        type=bool,
        default=True,
        show_default=True,
        help="Resume a suspended runtime once the session runs.",
    ),
    formats_option("Also convert the recording; the .nettrace file stays."),
    click.option(
        "--force", is_flag=True, help="Overwrite files of --format that are there; the recording's own always is."
    ),
    click.option("--stopping-event-provider-name", "stop_provider", help="Stop at an event of this provider …"),
    click.option("--stopping-event-event-name", "stop_event", help="… of this name …"),
    click.option(
        "--stopping-event-payload-filter", "stop_payload", help="… with these values: field:value,field:value."
    ),
)


def session_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options; the command gets them as ``session``, which are ``CollectOptions`` of no target yet."""

    @functools.wraps(command)
    def with_session(
        *,
        providers: str | None,
        presets: str | None,
        clrevents: str | None,
        clreventlevel: str | None,
        event_filters: tuple[str, ...],
        buffersize: int,
        buffering_mode: str,
        duration: str | None,
        rundown: bool | None,
        no_stacks: bool,
        resume_runtime: bool,
        formats: tuple[str, ...],
        force: bool,
        stop_provider: str | None,
        stop_event: str | None,
        stop_payload: str | None,
        **others: Any,
    ) -> None:
        from dotnetdiag.recipes.collect import CollectOptions

        session = CollectOptions(
            providers=providers,
            presets=presets,
            clr_events=clrevents,
            clr_event_level=clreventlevel,
            event_filters=event_filters,
            rundown=rundown,
            stacks=not no_stacks,
            buffer_mb=buffersize,
            block=buffering_mode.lower() in ("block", "1"),
            duration=duration,
            resume=resume_runtime,
            stopping_event=_stopping_event(stop_provider, stop_event, stop_payload),
            formats=tuple(name for name in formats if name != "nettrace"),
            force=force,
        )
        command(session=session, **others)

    for option in reversed(_OPTIONS):
        with_session = option(with_session)
    return with_session


def _stopping_event(provider: str | None, event: str | None, payload: str | None) -> StoppingEvent | None:
    from dotnetdiag.errors import UsageError

    if not (provider or event or payload):
        return None
    if provider is None:
        raise UsageError("--stopping-event-event-name and -payload-filter need --stopping-event-provider-name")
    if payload and not event:
        raise UsageError("--stopping-event-payload-filter needs --stopping-event-event-name")
    from dotnetdiag.recipes.stopping import parse_stopping_event

    return parse_stopping_event(provider, event, payload)
