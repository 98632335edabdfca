"""A port that 200 runtimes dial at once, half of which never say who they are: how long until each of the others was resumed.

Wanted: 100 ms for the last of them. Run: ``python benchmarks/crowd.py [rounds]``. The diallers are one process of their own: they dial
together, those that speak advertise and wait for the resume that the server sends to everybody who comes.
"""

from __future__ import annotations

import json
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from uuid import UUID

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import append

import dotnetdiag as dd
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.ipc.advertise import Advertise

RUNTIMES, SILENT = 200, 100
LIMIT_S = 10.0
HEADER, OK = 20, b"DOTNET_IPC_V1\0" + (20).to_bytes(2, "little") + b"\xff\x00\x00\x00"


def dial(address: str) -> None:
    """Dial all at once; when each of those that spoke was resumed, in seconds since then, as JSON."""
    sockets = []
    began = time.monotonic()
    selector = selectors.DefaultSelector()
    for number in range(RUNTIMES):
        one = socket.socket(socket.AF_UNIX)
        one.connect(address)
        sockets.append(one)
        if number % 2:  # the silent ones are among them
            one.sendall(Advertise(cookie=UUID(int=number), pid=number).pack())
            selector.register(one, selectors.EVENT_READ)
    served: list[float] = []
    while len(served) < RUNTIMES - SILENT and time.monotonic() - began < LIMIT_S:
        for key, _ in selector.select(1):
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            if len(connection.recv(64)) >= HEADER:
                connection.sendall(OK)
                served.append(time.monotonic() - began)
            selector.unregister(connection)
    print(json.dumps(served))


def round_() -> list[float]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, dd.listen(f"{folder}/port") as server:

        def serve() -> None:
            for runtime in server:
                with suppress(DiagnosticsError):  # the diallers have ended
                    runtime.resume()

        accepting = threading.Thread(target=serve)
        accepting.start()
        done = subprocess.run(
            [sys.executable, __file__, "dial", f"{folder}/port"], capture_output=True, check=True, text=True, timeout=60
        )
        server.close()
        accepting.join()
    served: list[float] = json.loads(done.stdout)
    assert len(served) == RUNTIMES - SILENT, f"{len(served)} were served"
    return served


def main(rounds: int) -> None:
    all_of = [round_() for _ in range(rounds)]
    figures = {
        "median ms": 1000 * statistics.median(time_s for one in all_of for time_s in one),
        "last ms": 1000 * statistics.median(max(one) for one in all_of),
        "worst ms": 1000 * max(max(one) for one in all_of),
        "rounds": rounds,
    }
    for name, value in figures.items():
        print(f"{name:<10} {value:.1f}")
    print("wanted: last <= 100 ms")
    append("crowd.py", figures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["dial"]:
        dial(sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 11)
