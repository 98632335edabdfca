"""Options that many verbs share, and what they make."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag.cli.render import echo
from dotnetdiag.errors import UsageError
from dotnetdiag.tui.plain import clean

if TYPE_CHECKING:
    from dotnetdiag.recipes.startup import Startup
    from dotnetdiag.recipes.suspension import Hold
    from dotnetdiag.recipes.target import Client, Target

F = TypeVar("F", bound=Callable[..., Any])


def complete_pid(_: click.Context, __: click.Parameter, incomplete: str) -> list[Any]:
    from click.shell_completion import CompletionItem

    from dotnetdiag.recipes.processes import list_processes

    return [
        CompletionItem(str(process.pid), help=clean(process.entry_assembly or process.name))
        for process in list_processes()
        if str(process.pid).startswith(incomplete)
    ]


def completed(words: Callable[[], Iterable[str]], separators: str = ",") -> Callable[..., list[str]]:
    """What completes a list of words, of which the last is begun."""

    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
        at = max(map(incomplete.rfind, separators)) + 1
        before, begun = incomplete[:at], incomplete[at:].lower()
        return [before + word for word in words() if word.lower().startswith(begun)]

    return complete


def _presets() -> Iterable[str]:
    from dotnetdiag.recipes.presets import PRESETS

    return PRESETS


def _clr_keywords() -> Iterable[str]:
    from dotnetdiag.recipes.presets import CLR_KEYWORDS

    return CLR_KEYWORDS


def _levels() -> Iterable[str]:
    from dotnetdiag.recipes.presets import LEVELS

    return LEVELS


def _formats() -> Iterable[str]:
    from dotnetdiag.recipes.exporting import format_names

    return format_names()


def _known_formats(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Given several times or with commas, in lower case. Raises BadParameter: a word that is none is no command line."""
    found = tuple(name for text in texts for part in text.split(",") if (name := part.strip().lower()))
    known = tuple(_formats()) if texts else ()
    unknown = next((name for name in found if name not in known), None)
    if unknown is not None or (texts and not found):
        said = "no format is given" if unknown is None else f"no format {unknown!r}"
        raise click.BadParameter(f"{said}; there are: {', '.join(known)}")
    return found


def formats_option(help: str, *, required: bool = False) -> Callable[[F], F]:
    """``--format`` of verbs that write a recording in others, as the keyword ``formats``."""
    return click.option(
        "--format",
        "formats",
        multiple=True,
        required=required,
        metavar="FORMAT",
        callback=_known_formats,
        shell_complete=completed(_formats),
        help=help,
    )


def complete_name(_: click.Context, __: click.Parameter, incomplete: str) -> list[Any]:
    from dotnetdiag.recipes.processes import list_processes

    names = {
        name for process in list_processes() for name in (process.entry_assembly, process.name) if name.isprintable()
    }
    return sorted(name for name in names if name and name.startswith(incomplete))


NO_TARGET = "Must specify either --process-id, --name, --wait-for, --diagnostic-port, or --dsrouter."


def target_options(function: F) -> F:
    """``-p``, ``-n``, ``--wait-for``, ``--diagnostic-port``: passed on as one keyword, ``target``."""

    @wraps(function)
    def with_target(
        *args: Any,
        pid: int | None,
        name: str | None,
        wait_for: str | None,
        port: str | None,
        router: str | None,
        **others: Any,
    ) -> Any:
        target = target_of(pid, name, wait_for, port, router)
        if target is None:
            raise UsageError(NO_TARGET)
        return function(*args, target=target, **others)

    return target_parameters(with_target)  # type: ignore[return-value]


def target_parameters(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same options, as the keywords ``pid``, ``name``, ``wait_for``, ``port``, ``router``."""
    function = click.option(
        "--dsrouter",
        "router",
        type=click.Choice(["ios", "ios-sim", "android", "android-emu"]),
        help="The application on a device or an emulator, through a router of our own (see `router`).",
    )(function)
    function = click.option(
        "--diagnostic-port",
        "--dport",
        "port",
        metavar="ADDRESS[,connect|listen]",
        help="A diagnostic port. listen (the default): wait there for a runtime started with DOTNET_DiagnosticPorts=ADDRESS; "
        "connect: dial a runtime that listens there. The runtime waits at its start until it is resumed over that port, unless "
        "the variable ends with ,nosuspend.",
    )(function)
    function = click.option(
        "--wait-for", metavar="NAME", help="The first process of this name, as soon as it is there."
    )(function)
    return process_options(function)


def process_options(function: F) -> F:
    """``-p`` and ``-n``, as the keywords ``pid`` and ``name``."""
    function = click.option(
        "-n", "--name", help="Name of the process or of its entry assembly.", shell_complete=complete_name
    )(function)
    return click.option("-p", "--process-id", "pid", type=int, help="Process id.", shell_complete=complete_pid)(
        function
    )


def joined(separator: str) -> Callable[[click.Context, click.Parameter, tuple[str, ...]], str | None]:
    """An option that is given several times is one list."""
    return lambda _, __, texts: separator.join(texts) if texts else None


def provider_options(function: F) -> F:
    """What a session records: ``--providers``, ``--profile``, ``--clrevents``, ``--clreventlevel``, ``--event-filter``."""
    for option in (
        click.option(
            "--event-filter",
            "event_filters",
            multiple=True,
            metavar="PROVIDER=ID,…",
            help="Only (=) or all but (!=) these event ids (.NET 10).",
        ),
        click.option(
            "--clreventlevel",
            shell_complete=completed(_levels),
            help="Level of --clrevents: 0 to 5, or a name.  [default: informational]",
        ),
        click.option(
            "--clrevents",
            multiple=True,
            callback=joined("+"),
            shell_complete=completed(_clr_keywords, "+,"),
            help="Keywords of the runtime's provider, joined by +: gc+exception.",
        ),
        click.option(
            "--profile",
            "presets",
            multiple=True,
            callback=joined(","),
            shell_complete=completed(_presets),
            help="Named sets of providers, joined by commas; see list-profiles.",
        ),
        click.option(
            "--providers",
            multiple=True,
            callback=joined(","),
            help="Name[:keywords[:level[:arguments]]],…; keywords as hex or names joined by +.",
        ),
    ):
        function = option(function)
    return function


def json_option(function: F) -> F:
    """``--json``, as the keyword ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")(function)


def target_of(
    pid: int | None,
    name: str | None,
    wait_for: str | None,
    port: str | None,
    router: str | None,
    *,
    startup: Startup | None = None,
) -> Target | None:
    """None when none is given. Raises UsageError when several are."""
    given = sum(value is not None for value in (pid, name, wait_for, port, router))
    if given > 1:  # in the words of dotnet-trace, as in all that follows
        also = "" if wait_for is None else " --wait-for,"
        raise UsageError(
            f"Only one of the --name, --process-id,{also} --diagnostic-port, or --dsrouter options may be specified."
        )
    if not given:
        return None
    from dotnetdiag.recipes.startup import Startup
    from dotnetdiag.recipes.target import Target

    return Target(pid=pid, name=name, wait_for=wait_for, port=port, router=router, startup=startup or Startup())


@contextmanager
def client_of(target: Target, *, resumes: bool = False) -> Iterator[Client]:
    """A client of the target that the options mean.

    A runtime that has dialled our port is left suspended, and how it goes on is said, unless what is done with it ``resumes`` it.
    """
    from dotnetdiag.recipes.target import connected

    with connected(target, waiting=say_waiting(target), resumes=resumes) as client:
        try:
            yield client
        finally:
            if target.listens and not resumes:
                _say_suspended(client, target)


def _say_suspended(client: Client, target: Target) -> None:
    from dotnetdiag.recipes.suspension import is_held

    held = is_held(client)
    if held is not False:
        state = (
            "The runtime is still suspended at startup."
            if held
            else "If the runtime is suspended at startup, it still is."
        )
        echo(f"{state} Let it run: dotnetdiag resume --diagnostic-port {target.address}", err=True)


def say_held(holds: Sequence[Hold]) -> None:
    """Nothing comes of a session: the runtime waits at its start, for ``holds``, or any resume."""
    state = "and is not resumed here: nothing comes before something else resumes it"
    if holds:
        ports = any(hold.port is not None for hold in holds)
        state = f"{', by a port' if ports else ''}: nothing comes before it is resumed over {'that' if ports else 'its own socket'}"
    from dotnetdiag.tui.resuming import how_to_resume

    how = "; ".join(map(how_to_resume, holds)) or "dotnetdiag resume, or --resume-runtime true"
    echo(f"The runtime is suspended at startup{'' if holds else ' '}{state} ({how}).", err=True)


def say_late(waited_s: float, limit_s: float) -> None:
    """The runtime has not begun the session for so long; it is waited for within the limit."""
    echo(
        f"The runtime has the request, and no answer came for {waited_s:g} s: it collects garbage without a pause, is in a debugger, or the "
        f"machine is very busy. Waiting for up to {limit_s:g} s; press <Ctrl+C> to end.",
        err=True,
    )


def say_waiting(target: Target | None) -> Callable[[str], None]:
    """What is said when the target is not there yet, to be called with its address or name; of a port what dotnet-trace says there."""

    def say(awaited: str) -> None:
        if target is not None and target.wait_for is not None:
            echo(f"Waiting for a process {clean(awaited)}", err=True)
            return
        echo(f"Waiting for connection on {awaited}", err=True)
        if target is not None and target.router is not None:
            return
        echo(
            f"Start an application with the following environment variable: DOTNET_DiagnosticPorts={awaited}", err=True
        )

    return say
