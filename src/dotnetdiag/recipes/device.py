"""An application on a device or an emulator, through a router of our own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from dotnetdiag.client import Client
from dotnetdiag.router.router import Router
from dotnetdiag.transport import Deadline, connect, parse_address

PRESETS = {
    "ios-sim": "127.0.0.1:9000,connect",
    "ios": "127.0.0.1:9000,connect",
    "android-emu": "127.0.0.1:9000,listen",
    "android": "127.0.0.1:9001,listen",
}
"""Where the runtimes of mobile applications are, and who dials whom: the ports of dotnet-dsrouter. A device's port is forwarded by iproxy
(usbmux) or adb, which is not done here.
"""
LOOK_S = 0.1
ANSWER_S = 5.0


@contextmanager
def routed(
    preset: str, *, waiting: Callable[[str], None] = lambda _: None, check: Callable[[], None] = lambda: None
) -> Iterator[Client]:
    """A client of the application that a router of our own reaches. Where it dials us, it is waited for: ``waiting`` is told where, ``check``
    is called several times a second, and may raise to end that. Raises what ``Router`` raises.
    """
    address, _, mode = PRESETS[preset].partition(",")
    if mode == "connect":  # a router goes on dialling, for a device that is started later; who has a command is told
        connect(parse_address(address), Deadline(ANSWER_S)).close()
    with (
        TemporaryDirectory(prefix="dotnetdiag-") as folder,
        Router(tools=f"{folder}/tools,listen", runtimes=PRESETS[preset]) as router,
    ):
        if mode == "listen":
            waiting(router.runtimes_address)
            while not router.status().connected:
                check()
                time.sleep(LOOK_S)
        with Client.connect(f"{router.tools_address},connect") as client:
            yield client
