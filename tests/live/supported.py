"""``docs/supported.md``: what each runtime answered to each operation, written by the test run that saw it."""

from __future__ import annotations

from pathlib import Path

from tests.live.runtimes import REQUIRED

FILE = Path(__file__).resolve().parents[2] / "docs" / "supported.md"
BEGIN = "<!-- written by the live tests: begin -->\n"
END = "<!-- written by the live tests: end -->\n"
CHECK = "check: "
"""How the rows of the conformance checks begin, which stand behind the operations."""
ANSWERS: dict[str, dict[str, str]] = {}
"""operation → runtime → what it answered."""
CHANGED: list[Path] = []


def note(operation: str, runtime: str, answer: str) -> None:
    """One answer. Runtimes that are not among the required ones are not written down."""
    if runtime in REQUIRED:
        ANSWERS.setdefault(operation, {})[runtime] = answer


def text() -> str:
    """The table."""
    lines = ["| operation | " + " | ".join(REQUIRED) + " |", "|---" * (len(REQUIRED) + 1) + "|"]
    for operation, answers in sorted(ANSWERS.items(), key=lambda row: row[0].startswith(CHECK)):
        lines.append("| " + " | ".join([operation, *(answers.get(name, "") for name in REQUIRED)]) + " |")
    return "\n".join(lines) + "\n"


def write() -> None:
    """Bring the table into the file, when the run saw all of it and it differs."""
    if not ANSWERS or any(set(answers) != set(REQUIRED) for answers in ANSWERS.values()):
        return
    before = FILE.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    known, _, tail = rest.partition(END)
    rows = {line.split("|")[1].strip() for line in known.splitlines()[2:]}
    if not rows <= set(ANSWERS):
        return  # a part of the tests ran
    after = head + BEGIN + text() + END + tail
    if rest and after != before:
        FILE.write_text(after, encoding="utf-8")
        CHANGED.append(FILE)
