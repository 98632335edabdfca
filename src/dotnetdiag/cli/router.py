"""``router``: forward between tools and runtimes that cannot reach each other. Modes and options are named as dotnet-dsrouter names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.lazy import LazyGroup
from dotnetdiag.cli.output import format_option, show
from dotnetdiag.cli.render import echo, json_text
from dotnetdiag.cli.security import security_options
from dotnetdiag.cli.signals import stopping
from dotnetdiag.cli.standard_streams import lead_stdout_nowhere
from dotnetdiag.errors import OutputError, UsageError

if TYPE_CHECKING:
    from dotnetdiag.recipes.router import RouterOptions

ENTRIES = {
    "server-server": ("router", "server_server", "Tools dial us, and runtimes dial us."),
    "server-client": ("router", "server_client", "Tools dial us, and we dial the runtime."),
    "client-server": ("router", "client_server", "We dial the tool, and runtimes dial us."),
    "client-client": ("router", "client_client", "We dial the tool, and the runtime."),
    "server-websocket": ("router", "server_websocket", "Tools dial us, and runtimes dial us over WebSocket."),
    "client-websocket": ("router", "client_websocket", "We dial the tool, and runtimes dial us over WebSocket."),
    "ios-sim": ("router", "ios_sim", "server-client for the iOS simulator: 127.0.0.1:9000."),
    "ios": ("router", "ios", "server-client for an iOS device whose port is forwarded to 127.0.0.1:9000."),
    "android-emu": ("router", "android_emu", "server-server for the Android emulator: 127.0.0.1:9000."),
    "android": ("router", "android", "server-server for an Android device: 127.0.0.1:9001."),
    "status": ("router", "status", "Who is connected to a router."),
}
WEB_SOCKET = "ws://127.0.0.1:8088/diagnostics"
EMULATED, DEVICE = "127.0.0.1:9000", "127.0.0.1:9001"
# by the first word of an option: the kind of address, and how it is written
KINDS = {
    "ipc": ("path", "the PATH of a socket"),
    "tcp": ("tcp", "HOST:PORT"),
    "web": ("web socket", "ws://HOST:PORT/PATH"),
}
LEVELS = ("none", "critical", "error", "warning", "info", "debug", "trace")
# what is said on stderr, from which level on
SAID_FROM = {
    "unreachable": "warning",
    "refused": "warning",
    "lost": "warning",
    "connected": "info",
    "gone": "info",
    "resumed": "info",
    "began": "debug",
    "ended": "debug",
}


@click.group(cls=LazyGroup, entries=ENTRIES)
def router() -> None:
    """Forward between tools and runtimes that cannot reach each other: in containers, on devices, across machines.

    The first word of a mode is the tools' side, the second the runtimes': a server is dialled, a client dials.
    """


_OPTIONS: dict[str, Callable[[Any], Any]] = {
    "tools": click.option(
        "--tools", metavar="ADDRESS", help="Where tools are: a path, host:port, or ws://host:port/path."
    ),
    "runtimes": click.option("--runtimes", metavar="ADDRESS", help="Where runtimes are, likewise."),
    "ipc_server": click.option(
        "-ipcs",
        "--ipc-server",
        metavar="PATH",
        help="Listen for tools at this path; by default where they look for our pid.",
    ),
    "ipc_client": click.option(
        "-ipcc", "--ipc-client", metavar="PATH", help="Dial the tool that listens at this path."
    ),
    "tcp_server": click.option(
        "-tcps",
        "--tcp-server",
        metavar="HOST:PORT",
        help="Listen for runtimes at this port; by default 127.0.0.1:0, any.",
    ),
    "tcp_client": click.option(
        "-tcpc", "--tcp-client", metavar="HOST:PORT", help="Dial the runtime that listens at this port."
    ),
    "web_socket": click.option(
        "-ws", "--web-socket", metavar="URL", default=WEB_SOCKET, show_default=True, help="Listen for runtimes there."
    ),
}
_COMMON = (
    click.option(
        "-rt", "--runtime-timeout", metavar="SECONDS", help="A tool waits so long for a runtime; by default for ever."
    ),
    security_options,
    click.option(
        "--secure",
        type=click.Choice(["tools", "runtimes", "both"]),
        default="both",
        show_default=True,
        help="Which sides TLS and token are for, where both are TCP.",
    ),
    click.option(
        "--insecure", is_flag=True, help="Go beyond loopback without TLS and a token: whoever connects may run code."
    ),
    click.option("--status", "status_address", metavar="PATH", help="A socket that tells who is connected."),
    click.option("--json", "as_json", is_flag=True, help="Say who comes and goes as lines of JSON on stdout."),
    click.option(
        "-v",
        "--verbose",
        type=click.Choice(LEVELS),
        default="info",
        show_default=True,
        help="How much to say on stderr.",
    ),
)


def _mode(
    name: str, *options: str, help: str, tools: str, runtimes: str, fixed: str = "", each: bool = False
) -> click.Command:
    """A mode. ``tools`` and ``runtimes``: who dials, ``listen`` or ``connect``, on that side. ``fixed``: where the runtimes of a preset are."""

    def run(
        runtime_timeout: str | None,
        tls_cert: str | None,
        tls_key: str | None,
        tls_ca: str | None,
        token_file: str | None,
        secure: str,
        insecure: bool,
        status_address: str | None,
        as_json: bool,
        verbose: str,
        each: bool = False,
        **addresses: str | None,
    ) -> None:
        from dotnetdiag.recipes.router import RouterOptions

        at_tools = _one_of(
            addresses, "tools", f"ipc_{_role(tools)}", *(() if tools == runtimes else (f"tcp_{_role(tools)}",))
        )
        at_runtimes = fixed or _one_of(
            addresses,
            "runtimes",
            f"tcp_{_role(runtimes)}",
            "web_socket",
            *(() if tools == runtimes else (f"ipc_{_role(runtimes)}",)),
        )
        if not at_runtimes and runtimes == "listen":
            at_runtimes = "127.0.0.1:0"
        if not at_runtimes:
            raise UsageError("say where the runtime listens: --tcp-client HOST:PORT")
        if not at_tools and tools == "connect":
            raise UsageError("say where the tool listens: --ipc-client PATH")
        _run(
            RouterOptions(
                tools=f"{at_tools},{tools}" if at_tools else "",
                runtimes=f"{at_runtimes},{runtimes}",
                certificate=tls_cert or "",
                key=tls_key or "",
                ca=tls_ca or "",
                token_file=token_file or "",
                secured=("tools", "runtimes") if secure == "both" else (secure,),
                insecure=insecure,
                each=each,
                runtime_timeout_s=_seconds(runtime_timeout),
                status_address=status_address or "",
            ),
            as_json=as_json,
            level=verbose,
        )

    if each:
        run = click.option(
            "--each",
            is_flag=True,
            help="A socket for each runtime, PATH.PID-COOKIE, instead of one for the first; none is resumed.",
        )(run)
    for option in reversed([*(_OPTIONS[one] for one in options), *_COMMON]):
        run = option(run)
    return click.command(name, cls=Command, help=help)(run)


def _role(dials: str) -> str:
    return "server" if dials == "listen" else "client"


def _one_of(addresses: dict[str, str | None], *names: str) -> str:
    """The address of a side, which the first name is; the others are what dsrouter calls it."""
    given = [name for name in names if addresses.get(name) and (name != "web_socket" or addresses[name] != WEB_SOCKET)]
    if len(given) > 1:
        words = " and ".join(map(_option, given))
        raise UsageError(f"{words} name the same side: give one of them")
    name = given[0] if given else "web_socket" if "web_socket" in names else ""
    address = addresses.get(name) or ""
    if address:
        _require_kind(name, address, side=names[0])
    return address


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _require_kind(name: str, address: str, *, side: str) -> None:
    """Raise UsageError for an address of another kind than the option's: a host whose port was forgotten is a path, too."""
    from dotnetdiag.recipes.router import kind_of

    meant = KINDS.get(name.partition("_")[0])
    if meant is not None and kind_of(address) != meant[0]:
        instead = "" if name == "web_socket" else f"; {_option(side)} takes either"
        example = f" (127.0.0.1:{address})" if address.isdecimal() else ""
        raise UsageError(f"{_option(name)} takes {meant[1]}{example}, not {address!r}{instead}")


def _seconds(text: str | None) -> float | None:
    from dotnetdiag.durations import seconds_of, time_of

    return seconds_of(time_of(text), "runtime timeout")


def _run(options: RouterOptions, *, as_json: bool, level: str) -> None:
    from dotnetdiag._dataclasses import as_dict
    from dotnetdiag.recipes.descriptors import raise_limit
    from dotnetdiag.recipes.router import route
    from dotnetdiag.recipes.stop import Stop

    raise_limit()
    stop = Stop()

    def listening(started: Any) -> None:
        echo(started.description, err=True)

    def on_event(event: Any) -> None:
        if as_json:
            told = {name: value for name, value in as_dict(event).items() if value not in (None, "")}
            try:
                json_text(told, indent=None)
            except OutputError:
                if not stop.is_stopping:
                    raise
                lead_stdout_nowhere()  # nobody reads the last lines
        elif LEVELS.index(SAID_FROM[event.what]) <= LEVELS.index(level):
            echo(event.text, err=True)

    with stopping(lambda _: stop.stop()):
        route(options, stop=stop, listening=listening, on_event=on_event)


server_server = _mode(
    "server-server", "ipc_server", "tcp_server", "tools", "runtimes", tools="listen", runtimes="listen", each=True,
    help="""Tools dial us, and runtimes dial us.

    Tools reach the first runtime that has dialled, until it is gone; others that wait at their start are let run then.
    With --each every runtime has a socket of its own.

    \b
    dotnetdiag router server-server --ipc-server /tmp/tools --tcp-server 127.0.0.1:9000
    dotnet-trace collect --diagnostic-port /tmp/tools,connect
    """,
)  # fmt: skip
server_client = _mode(
    "server-client", "ipc_server", "tcp_client", "tcp_server", "ipc_client", "tools", "runtimes", tools="listen", runtimes="connect",
    help="""Tools dial us, and we dial the runtime for each command.

    \b
    dotnetdiag router server-client --ipc-server /tmp/tools --tcp-client 127.0.0.1:9000
    dotnet-trace collect --diagnostic-port /tmp/tools,connect
    """,
)  # fmt: skip
client_server = _mode(
    "client-server", "ipc_client", "tcp_server", "tcp_client", "ipc_server", "tools", "runtimes", tools="connect", runtimes="listen",
    help="""We dial the tool, as often as it takes, and runtimes dial us: each reaches the tool as if it had dialled that itself.

    \b
    dotnet-trace collect --diagnostic-port /tmp/tool
    dotnetdiag router client-server --ipc-client /tmp/tool --tcp-server 127.0.0.1:9000
    """,
)  # fmt: skip
client_client = _mode(
    "client-client", "ipc_client", "tcp_client", "tools", "runtimes", tools="connect", runtimes="connect",
    help="""We dial the tool, and the runtime for each command of the tool.

    \b
    dotnet-trace collect --diagnostic-port /tmp/tool
    dotnetdiag router client-client --ipc-client /tmp/tool --tcp-client 127.0.0.1:9000
    """,
)  # fmt: skip
server_websocket = _mode(
    "server-websocket", "ipc_server", "web_socket", "tools", tools="listen", runtimes="listen", each=True,
    help="""Tools dial us, and runtimes dial us over WebSocket.

    \b
    dotnetdiag router server-websocket --ipc-server /tmp/tools --web-socket ws://127.0.0.1:8088/diagnostics
    """,
)  # fmt: skip
client_websocket = _mode(
    "client-websocket", "ipc_client", "web_socket", "tools", tools="connect", runtimes="listen",
    help="""We dial the tool, and runtimes dial us over WebSocket.

    \b
    dotnetdiag router client-websocket --ipc-client /tmp/tool --web-socket ws://127.0.0.1:8088/diagnostics
    """,
)  # fmt: skip
ios_sim = _mode(
    "ios-sim", "ipc_server", "tools", tools="listen", runtimes="connect", fixed=EMULATED,
    help="""Dial the application in the iOS simulator, which listens at 127.0.0.1:9000.

    \b
    dotnetdiag router ios-sim
    """,
)  # fmt: skip
ios = _mode(
    "ios", "ipc_server", "tools", tools="listen", runtimes="connect", fixed=EMULATED,
    help="""Dial the application on an iOS device at 127.0.0.1:9000. Not done here: usbmux. Forward the port yourself, as with iproxy.

    \b
    iproxy 9000 9000
    dotnetdiag router ios
    """,
)  # fmt: skip
android_emu = _mode(
    "android-emu", "ipc_server", "tools", tools="listen", runtimes="listen", fixed=EMULATED,
    help="""Wait at 127.0.0.1:9000 for the application in the Android emulator, which dials 10.0.2.2:9000.

    \b
    dotnetdiag router android-emu
    """,
)  # fmt: skip
android = _mode(
    "android", "ipc_server", "tools", tools="listen", runtimes="listen", fixed=DEVICE,
    help="""Wait at 127.0.0.1:9001 for the application on an Android device. Not done here: adb. Forward the port yourself.

    \b
    adb reverse tcp:9000 tcp:9001
    dotnetdiag router android
    """,
)  # fmt: skip


@click.command(cls=Command)
@click.argument("address")
@format_option
def status(address: str, form: str) -> None:
    """Who is connected to the router whose --status socket is at ADDRESS: its runtimes and the commands under way.

    \b
    dotnetdiag router status /tmp/router.status
    dotnetdiag router status /tmp/router.status --json | jq .connected
    """
    from dotnetdiag.recipes.router import router_status
    from dotnetdiag.table import Table

    said = router_status(address)

    def people() -> None:
        echo(f"tools at {said['tools']}, runtimes at {said['runtimes']}, {said['waiting_tools']} tools wait")
        for one in said["connected"]:
            state = "ready" if one["is_ready"] else "busy"
            echo(f"runtime {one['namespace_pid']:>7}  {one['cookie']}  {state}  {one['address']}".rstrip())
        for one in said["commands"]:
            echo(
                f"command {one['number']:>7}  {one['command']}  for {one['tool_pid'] or '-'}  {one['seconds']:.1f} s"
                f"  {one['bytes_to_tool']} bytes"
            )

    show(form, lambda: Table.of_rows(said["connected"], title="connected"), people=people, document=lambda: said)
