"""A shell that a page is typed into: alone with its processes where the system allows it."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from tests.docs.pages import Step

LIMIT_S = 120.0
"""Of one command."""
ALONE = ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
# a command at a time from descriptor 9; its output, and between NULs how it ended
_LOOP = r"""
last=0
while IFS= read -r -d '' -u 9 command; do
    eval "(exit $last)
$command" 9<&- </dev/null 2>&1
    last=$?
    printf '\0%d\0' $last
done
"""
_END = "kill $(jobs -p) 2>/dev/null; wait"
_LEFT = r"""
for tries in $(seq 100); do
    left=; for one in /proc/[0-9]*; do [ $one = /proc/$$ ] || left+=$(tr '\0' ' ' 2>/dev/null <$one/cmdline); done
    [ "$left" ] || break; sleep 0.1
done
echo "$left"
"""


@cache
def can_be_alone() -> bool:
    """Whether a page gets a pid namespace of its own: it then sees no other .NET processes, and nothing outlives it."""
    try:
        return subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


class Shell:
    """bash, in a folder."""

    def __init__(self, process: subprocess.Popen[bytes], commands: int, folder: Path) -> None:
        self._process, self._commands, self._folder = process, commands, folder
        self._background = 0

    def run(self, step: Step) -> tuple[str, int]:
        """Type a command; what it prints, and how it ends. Of one in the background: what it has printed when that is what the page says."""
        if not step.in_background:
            output, status = self._run(step.command)
            return (_without_neighbours(output) if can_be_alone() else _without_others(output)), status
        self._background += 1
        said = self._folder / f"background-{self._background}.txt"
        said.touch()
        self._run(f"{step.command.removesuffix('&')} >{said} 2>&1 &")
        ends = time.monotonic() + LIMIT_S / 4
        while not step.matches(said.read_text("utf-8")) and time.monotonic() < ends:
            time.sleep(0.02)
        return said.read_text("utf-8"), 0

    def left(self) -> str:
        """End what runs in the background; the command lines of what still runs."""
        self._run(_END)
        return self._run(_LEFT)[0].strip() if can_be_alone() else ""

    def _run(self, command: str) -> tuple[str, int]:
        os.write(self._commands, command.encode() + b"\0")
        data, ends = b"", time.monotonic() + LIMIT_S
        assert self._process.stdout is not None
        while data.count(b"\0") < 2:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, ends - time.monotonic()))
            more = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            assert more, f"{command}: no end within {LIMIT_S:g} s, or of the shell; so far: {data.decode()}"
            data += more
        output, status, _ = data.split(b"\0")
        return output.decode(), int(status)


def _without_neighbours(output: str) -> str:
    """Programs of other tests have their sockets in the same /tmp, and ``ps`` tells of them."""
    return re.sub(r"^A runtime whose process is not seen from here listens at .*\n?", "", output, flags=re.MULTILINE)


def _without_others(output: str) -> str:
    """A list of processes without those that this page has not started."""
    lines = output.splitlines(keepends=True)
    if not lines or not lines[0].lstrip().startswith("pid  name"):
        return output
    return "".join(line for line in lines if line is lines[0] or "demo.dll" in line)


@contextmanager
def shell(folder: Path, environment: dict[str, str]) -> Iterator[Shell]:
    """In an empty folder ``work`` of ``folder``, with this environment and no other."""
    (folder / "work").mkdir()
    (folder / "tmp").mkdir()
    theirs, ours = os.pipe()
    alone = ALONE if can_be_alone() else []
    process = subprocess.Popen(
        [*alone, "bash", "--norc", "--noprofile", "-c", f"exec 9<&{theirs}{_LOOP}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=folder / "work",
        env={
            "TMPDIR": str(folder / "tmp"),
            "HOME": str(folder),
            "DOTNET_PerfMapJitDumpPath": str(folder),
            "LANG": "C.UTF-8",
            **environment,
        },
        pass_fds=[theirs],
        start_new_session=True,
    )
    os.close(theirs)
    try:
        yield Shell(process, ours, folder)
    finally:
        os.close(ours)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
