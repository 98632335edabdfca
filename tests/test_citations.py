"""What the code cites can be read: pages and sections of docs/. What these show in bytes is what the library reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from dotnetdiag.ipc import advertise, environment, messages, process_info, replies, tracing
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.nettrace import read
from dotnetdiag.nettrace.records import parse_record, parse_row
from dotnetdiag.nettrace.type_header import read_type
from dotnetdiag.providers.keywords import CLR_KEYWORDS
from dotnetdiag.providers.presets import PRESETS
from dotnetdiag.providers.questions import QUESTIONS
from dotnetdiag.wire import Cursor

CHECKOUT = Path(__file__).resolve().parents[1]
PAGES = {page.name: page for page in (CHECKOUT / "docs").rglob("*.md")}
REFERENCE = sorted((CHECKOUT / "docs" / "reference").glob("*.md"))
CODE = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "fuzz", "soak", "tools")
    for kind in ("py", "pyx", "pxd")
    for path in (CHECKOUT / folder).rglob(f"*.{kind}")
    if path != Path(__file__)
)

# A page with sections; one section or a range of them, of the page named last, and the row of a table there.
_NUMBER = r"\d+(?:\.\d+)*"
_CITED = re.compile(
    rf"(?P<page>[\w-]+\.md)(?=\s+§)|§ ?(?P<first>{_NUMBER})(?:-§?(?P<last>{_NUMBER}))?(?: no\. (?P<row>\w+))?"
)
_HEADING = re.compile(rf"^##+ (?P<number>{_NUMBER})\.? ", re.MULTILINE)
_EXAMPLE = re.compile(r"^```hex\n# (?P<what>.+)\n(?P<lines>(?:.+\n)+?)```$", re.MULTILINE)


def citations(text: str, default: str = "") -> Iterator[tuple[str, str, str]]:
    """(page, section, row or ``""``) of each citation. ``default``: the page of those before which none is named."""
    page = default
    for found in _CITED.finditer(text):
        page = found["page"] or page
        for number in filter(None, (found["first"], found["last"])):
            yield page, number, found["row"] or ""


def problems(text: str, default: str = "") -> Iterator[str]:
    """What a text cites that is not there."""
    for page, number, row in citations(text, default):
        path = PAGES.get(page)
        content = path.read_text("utf-8") if path is not None else ""
        if path is None:
            yield f"{page or 'no page'} §{number}: docs/ has no such page"
        elif number not in {heading["number"] for heading in _HEADING.finditer(content)}:
            yield f"{page} §{number}: there is no such section"
        elif row and f"\n| {row} |" not in content:
            yield f"{page} §{number} no. {row}: there is no such row"


def test_every_section_that_the_code_cites_exists() -> None:
    found = {}
    for path in CODE:
        default = "ipc-protocol.md" if "ipc" in path.parts else ""  # the room of one page
        if wrong := list(problems(path.read_text("utf-8"), default)):
            found[str(path.relative_to(CHECKOUT))] = wrong
    assert found == {}


def test_a_citation_that_leads_nowhere_is_noticed() -> None:
    text = "ipc-protocol.md §5.8-5.12, §18 no. 17c, nettrace.md §1-§99, §11.8; elsewhere.md §1; ipc-protocol.md §18 no. 999"
    assert list(citations(text))[:3] == [
        ("ipc-protocol.md", "5.8", ""),
        ("ipc-protocol.md", "5.12", ""),
        ("ipc-protocol.md", "18", "17c"),
    ]
    assert list(problems(text)) == [
        "nettrace.md §99: there is no such section",
        "elsewhere.md §1: docs/ has no such page",
        "ipc-protocol.md §18 no. 999: there is no such row",
    ]
    assert list(problems("§5")) == ["no page §5: docs/ has no such page"]


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_sections_of_a_page_are_numbered_once(page: Path) -> None:
    numbers = [heading["number"] for heading in _HEADING.finditer(page.read_text("utf-8"))]
    assert sorted(set(numbers)) == sorted(numbers)


def test_tables_of_numbers_are_those_of_the_code() -> None:
    protocol, tools = (PAGES[name].read_text("utf-8") for name in ("ipc-protocol.md", "dotnet-tools.md"))
    for command in Command:
        since = command.since.split()[-1]
        assert f"\n| 0x{command:04X} | {command.name} | {since} |" in protocol
    for code in HResult:
        assert f"0x{code:08X}" in protocol
    cells = [cell.strip() for line in tools.splitlines() if line.startswith("|") for cell in line.split("|")]
    listed = {
        name: int(value.replace("_", ""), 16)
        for names, _, value in (cell.rpartition(" ") for cell in cells if re.fullmatch(r"[a-z, ]+ [0-9_]+", cell))
        for name in names.split(", ")
    }
    assert listed == {name: value for name, value in CLR_KEYWORDS.items() if name != "managedheapcollect"}  # ours
    for preset in [one for name, one in PRESETS.items() if name not in QUESTIONS]:  # those are ours
        for provider in preset.providers:
            assert f"`{provider.name}:0x{provider.keywords:X}:{int(provider.level)}" in tools


# bytes ----------------------------------------------------------------------------------------------------------------


def recording(data: bytes) -> SimpleNamespace:
    """Facts of a whole file, or of the beginning of one."""
    contents = read(data)
    assert contents.info is not None
    return SimpleNamespace(
        events=len(contents.headers),
        types=tuple(f"{record.provider}/{record.name or record.event_id}" for record in contents.metadata.values()),
        complete=contents.complete,
        lost=contents.lost.total,
        process_id=contents.info.process_id,
        pointer_size=contents.info.pointer_size,
    )


def metadata_row(data: bytes) -> object:
    """Of version 6, with its size."""
    assert int.from_bytes(data[:2], "little") == len(data) - 2
    return parse_row(Cursor(data[2:], where="row"))


MESSAGES: tuple[Any, ...] = (
    advertise.Advertise,
    environment.EnvironmentBlock,
    environment.EnvironmentReply,
    messages.ErrorReply,
    process_info.ProcessInfo3Reply,
    replies.ResultReply,
    tracing.CollectTracing2,
)
PARSERS: dict[str, Callable[[bytes], object]] = {
    **{kind.__name__: kind.parse for kind in MESSAGES},
    "Recording": recording,
    "Metadata": lambda data: parse_record(Cursor(data, where="metadata")),
    "MetadataRow": metadata_row,
    "ObjectType": lambda data: read_type(memoryview(data), 0, 0),
}


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.stem)
def test_bytes_of_a_page_are_read_as_the_page_says(page: Path) -> None:
    """A block of ``hex`` begins with ``# Type(attribute=value, …)``; behind a semicolon stands what the bytes mean."""
    text = page.read_text("utf-8")
    examples = list(_EXAMPLE.finditer(text))
    assert len(examples) == text.count("\n```hex")
    for example in examples:
        call = ast.parse(example["what"], mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        data = bytes.fromhex("".join(line.partition(";")[0] for line in example["lines"].splitlines()))
        found: Any = PARSERS[call.func.id](data)
        for keyword in call.keywords:
            value = getattr(found, str(keyword.arg))
            assert (str(value) if isinstance(value, UUID) else value) == ast.literal_eval(keyword.value), example[
                "what"
            ]
        if isinstance(found, MESSAGES):
            assert found.pack() == data
            assert not found.trailing
