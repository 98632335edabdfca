"""Type a page's commands, as a new user would.

``python -m tests.docs.walk docs/tutorial.md`` puts what comes into the page, where that says something else.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.docs.environment import environment
from tests.docs.examples import files
from tests.docs.pages import PYPI, Step, pages, steps
from tests.docs.shell import shell
from tests.live.runtimes import unpack


def walks() -> list[tuple[Path, str]]:
    """Each page, and each runtime that it needs."""
    return [(page, runtime) for page in pages() for runtime in sorted({step.runtime for step in steps(page)})]


def walk(page: Path, runtime: str, env: Path) -> Iterator[tuple[Step, str, int]]:
    """(step, what came, its exit code) of a page's commands for one runtime; at the end what they have left running, as a step's output."""
    path = f"{env / 'bin'}{os.pathsep}{os.defpath}"
    variables = {"PATH": path}
    if runtime != PYPI:
        root = unpack() / "dotnet"
        variables = {"PATH": f"{root}{os.pathsep}{path}", "DOTNET_ROOT": str(root)}
    # a short name: that of a socket has at most 107 bytes
    with tempfile.TemporaryDirectory(prefix="walk-") as folder, shell(Path(folder), variables) as typed:
        for file in files(page):
            shutil.copy(file, Path(folder) / "work")
        for step in steps(page):
            if step.runtime == runtime:
                yield step, *typed.run(step)
        yield Step(line=0, runtime=runtime, end=0, command="(end of the page)", output=""), typed.left(), 0


def write(page: Path, came: list[tuple[Step, str]]) -> None:
    """Put what came where the page says something else."""
    lines = page.read_text("utf-8").splitlines()
    for step, output in reversed(came):
        if not step.matches(output):
            after_command = step.line + step.command.count("\n")
            lines[after_command : step.end] = [line.rstrip() for line in output.rstrip().splitlines()]
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    made = environment(Path(tempfile.gettempdir()) / "dotnetdiag-walk")
    for name in sys.argv[1:]:
        wanted = Path(name).resolve()
        came = [triple for one, runtime in walks() if one == wanted for triple in walk(one, runtime, made)]
        for step, _, code in came:
            if code:
                print(f"{name}:{step.line}: $ {step.command} ended with {code}")
        commands = sorted(((step, output) for step, output, _ in came if step.line), key=lambda pair: pair[0].line)
        write(wanted, commands)
