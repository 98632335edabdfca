"""Make the pictures of the README and of the site: ``make pictures``. All of them show real commands on the demo's program.

``docs/terminal.svg``: what a terminal shows; ``docs/flame-graph.png`` and ``docs/site.png``: two pages in a browser (Chromium).
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text
from selenium import webdriver

CHECKOUT = Path(__file__).resolve().parents[1]
DOCS = CHECKOUT / "docs"
COLUMNS = 118
WINDOW = 1280, 800
COMMANDS = (
    "dotnetdiag ps",
    "dotnetdiag trace collect -n demo --duration 5s -o app.nettrace --format flamegraph",
    "dotnetdiag trace report app.nettrace topN -n 8 --state cpu --source",
)


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


def shown(text: str) -> str:
    """Without the places of this machine."""
    return re.sub(r"(?:/[^/\s\"]+)+/(dotnet|demo\.dll)\b", r"/…/\1", text)


def terminal(folder: Path) -> None:
    """The commands, one after the other."""
    console = Console(record=True, width=COLUMNS, force_terminal=True, file=io.StringIO())
    program = subprocess.Popen(["dotnetdiag", "demo", "--run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert program.stdout is not None
        program.stdout.readline()
        time.sleep(1)
        for command in COMMANDS:
            console.print(Text(f"$ {command}", style="bold"))
            console.print(Text.from_ansi(shown(last_states(run(command, folder)))))
    finally:
        program.terminate()
        program.communicate()
    console.save_svg(str(DOCS / "terminal.svg"), title="dotnetdiag")


def pages(*targets: tuple[Path, Path]) -> None:
    """A picture of each page."""
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--force-device-scale-factor=1"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options=options)
    try:
        driver.set_window_size(*WINDOW)
        for page, picture in targets:
            driver.get(page.as_uri())
            time.sleep(1)  # what is drawn late
            driver.save_screenshot(str(picture))
    finally:
        driver.quit()


def main() -> None:
    """The terminal first: the site has its picture."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        terminal(folder)
        graph = folder / "app.flamegraph.html"
        graph.write_text(shown(graph.read_text(encoding="utf-8")), encoding="utf-8")
        site = folder / "site"
        subprocess.run(["mkdocs", "build", "--quiet", "--site-dir", str(site)], cwd=CHECKOUT, check=True)
        pages(
            (graph, DOCS / "flame-graph.png"),
            (site / "index.html", DOCS / "site.png"),
        )


if __name__ == "__main__":
    main()
