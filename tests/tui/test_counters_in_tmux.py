"""``counters monitor`` in tmux, as over ssh: at 80 columns, after a change of the size, and back in the shell."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.recipes.test_counter_watch import served

LIMIT_S = 60.0


class Tmux:
    """A server of its own with one window, and a shell in it."""

    def __init__(self, program: str, folder: Path) -> None:
        self._words = [program, "-S", str(folder / "tmux"), "-f", os.devnull]
        environment = {name: value for name, value in os.environ.items() if name not in ("TMUX", "NO_COLOR")}
        environment |= {"PYTHONPATH": os.pathsep.join(sys.path), "LC_ALL": "C.UTF-8", "PS1": "$ "}
        environment |= {"COLUMNS": "80", "LINES": "24"}  # which a shell may have exported: it is not to be believed
        subprocess.run(
            [*self._words, "-u", "new-session", "-d", "-c", str(folder), "-x", "80", "-y", "24", "sh"],
            env=environment,
            check=True,
            timeout=LIMIT_S,
        )

    def do(self, *words: str) -> str:
        done = subprocess.run([*self._words, *words], capture_output=True, text=True, check=True, timeout=LIMIT_S)
        return done.stdout

    def type(self, line: str) -> None:
        self.do("send-keys", "-l", line)
        self.do("send-keys", "Enter")

    def screen(self) -> list[str]:
        return self.do("capture-pane", "-p").split("\n")[:-1]

    def wait_for(self, *texts: str) -> list[str]:
        """The screen, once it has all of these."""
        end_s = time.monotonic() + LIMIT_S
        while True:
            lines = self.screen()
            if all(any(text in line for line in lines) for text in texts):
                return lines
            assert time.monotonic() < end_s, "\n".join(lines)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    program = shutil.which("tmux")
    if program is None:
        text = "no tmux: install it (apt-get install tmux)"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)
    made = Tmux(program, tmp_path)
    yield made
    subprocess.run([*made._words, "kill-server"], check=False, timeout=LIMIT_S, capture_output=True)


def test_counters_fill_a_window_of_tmux(tmux: Tmux, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dotnetdiag", "counters", "monitor", "--refresh-interval", "200ms"]
    with served(tmp_path, "server") as (port,):
        tmux.type("stty -a >before")
        tmux.type(f"{shlex.join([*words, '--dport', port])}; echo code=$?")
        lines = tmux.wait_for("▼ System.Runtime", "dotnet.process.cpu.time", "? help  q end", "last 2 s")
        assert len(lines) == 24
        assert all(len(line) <= 80 for line in lines)
        tmux.do("send-keys", "s")
        tmux.wait_for("value▼")
        tmux.do("send-keys", "S")
        tmux.wait_for("value▲")
        tmux.do("send-keys", "-l", "/cpu.time")
        tmux.wait_for("dotnet.process.cpu.time", "filter: cpu.time")
        tmux.do("send-keys", "Escape")
        tmux.wait_for("working_set")
        tmux.do("send-keys", "Space")
        tmux.wait_for(" PAUSED")
        tmux.do("send-keys", "Space", "?")
        tmux.wait_for("space pause")
        tmux.do("resize-window", "-x", "120", "-y", "40")
        lines = tmux.wait_for("last 4.6 s", "? help  q end")
        assert lines[39].endswith("? help  q end")
        assert len(lines[39]) == 120
        tmux.do("resize-window", "-x", "80", "-y", "24")
        tmux.wait_for("last 2 s", "space pause")
        tmux.do("send-keys", "q")
        lines = tmux.wait_for("code=0")
        tmux.type("stty -a >after; echo compared=$(cmp before after && echo same)")
        tmux.wait_for("compared=same")
