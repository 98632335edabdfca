"""Make ``docs/terminal.svg``: the output of real commands on a real process, drawn as a terminal shows it.

    DOTNET_ROOT=… python tools/terminal_picture.py PROGRAM.dll [ARGUMENT…]

The program is started as ``dotnet NAME.dll …`` in its own folder and is killed in the end.
"""

from __future__ import annotations

import io
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

OUTPUT = Path(__file__).resolve().parents[1] / "docs" / "terminal.svg"
COLUMNS = 118


def run(command: str, folder: Path) -> str:
    """What a command writes to a terminal of our width."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": "40", "TERM": "xterm-256color"}
    process = subprocess.Popen(
        command.split(), stdin=follower, stdout=follower, stderr=follower, cwd=folder, env=environment
    )
    os.close(follower)
    parts = []
    while True:
        try:
            data = os.read(leader, 65536)
        except OSError:
            break
        if not data:
            break
        parts.append(data)
    process.wait()
    os.close(leader)
    return b"".join(parts).decode()


def last_states(text: str) -> str:
    """Of lines that are written over again and again, what stays."""
    return "\n".join(line.rsplit("\r\x1b[K", 1)[-1].rstrip("\r") for line in text.split("\n"))


def main(program: Path, arguments: list[str]) -> None:
    """Run, record, draw."""
    console = Console(record=True, width=COLUMNS, force_terminal=True, file=io.StringIO())
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        target = subprocess.Popen(
            ["dotnet", program.name, *arguments],
            executable=shutil.which("dotnet", path=os.environ["DOTNET_ROOT"]),
            cwd=program.parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert target.stdout is not None
            target.stdout.readline()
            time.sleep(1)
            for command in (
                "dotnetdiag ps",
                f"dotnetdiag trace collect -p {target.pid} --duration 5s -o app.nettrace --format speedscope,flamegraph",
                "dotnetdiag trace report app.nettrace topN -n 8 --state cpu --source",
            ):
                console.print(Text(f"$ {command}", style="bold"))
                console.print(Text.from_ansi(last_states(run(command, folder))))
        finally:
            target.kill()
            target.communicate()
    console.save_svg(str(OUTPUT), title="dotnetdiag")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), sys.argv[2:])
