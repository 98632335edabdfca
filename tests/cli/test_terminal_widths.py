"""Tables on terminals of the usual widths: what matters is whole, and what gives way still tells one row from another."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.analysis.traces import managed, traced
from tests.cli.test_commands import in_terminal
from tests.cli.test_strange_sockets import pretender
from tests.nettrace.recordings import recording

import dotnetdiag
from dotnetdiag.tui.widths import cells, cut, padded, shortened, shortened_method

WIDTHS = (80, 100, 140)
LONG = "Company.Product.Services.Implementation.Handlers."
METHODS = tuple(f"{LONG}{kind}Handler.HandleRequest" for kind in ("Login", "Order", "Search"))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "long.nettrace"
    seen = [managed(10 * turn, 1, name, f"{LONG}Program.Main") for turn, name in enumerate(METHODS)]
    path.write_bytes(bytes(traced(*seen, managed(30, 1)).raw.buffer))
    return path


def shown(words: list[str], width: int, **environment: str) -> list[str]:
    """The lines without colours; those of tables are no wider than the terminal."""
    _, output = in_terminal(words, b"never", b"", columns=width, **environment)
    return [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in output.decode().splitlines()]


@pytest.mark.parametrize("colours", [{}, {"NO_COLOR": "1"}], ids=["colours", "none"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("verb", ["report topN", "diff"])
def test_numbers_are_whole_and_methods_differ(verb: str, width: int, colours: dict[str, str], trace: Path) -> None:
    words = ["trace", *verb.split(), str(trace), *([str(trace)] if verb == "diff" else [])]
    rows = [line for line in shown(words, width, **colours) if "HandleRequest" in line]
    assert len(rows) == 3
    assert max(map(len, rows)) <= width
    for row in rows:
        numbers = ["33.33%", "33.33%", "10", "10"] if verb != "diff" else ["10", "10", "+0", "+0.0%"]
        assert row.split()[:4] == numbers
    assert len({row.split()[4] for row in rows}) == 3
    assert all(re.search(r"(Login|Order|Search)Handler\.HandleRequest", row) for row in rows) or width == 80


@pytest.mark.parametrize("width", WIDTHS)
def test_what_grew_too_much_is_marked_at_any_width(width: int, trace: Path, tmp_path: Path) -> None:
    grown = tmp_path / "grown.nettrace"
    grown.write_bytes(bytes(traced(managed(0, 1, METHODS[0]), managed(500, 1)).raw.buffer))
    rows = [
        line for line in shown(["trace", "diff", str(trace), str(grown), "--fail-above", "5%"], width) if "+490" in line
    ]
    assert [row.endswith("<- above the limit") for row in rows] == [True]
    assert len(rows[0]) <= width


@pytest.mark.parametrize("width", WIDTHS)
def test_counts_of_events_are_whole(width: int, trace: Path) -> None:
    row = next(line for line in shown(["trace", "info", str(trace)], width) if "Thread/" in line)
    assert row.split()[-5:] == ["4", "16", "100.0", "0.000", "30.000"]


@pytest.mark.parametrize("colours", [{}, {"NO_COLOR": "1"}], ids=["colours", "none"])
def test_every_event_of_a_recording_is_one_line_at_any_width(colours: dict[str, str]) -> None:
    path = recording("web-10.nettrace")
    counts = dotnetdiag.open(path).counts()
    for width in WIDTHS:
        lines = shown(["trace", "info", str(path)], width, **colours)
        assert max(map(len, lines[lines.index("") :])) <= width
        for provider, events in counts.items():
            assert any(provider in line for line in lines)
            for event, count in events.items():
                assert any(event in line and f" {count:,} " in line for line in lines), (width, event)


@pytest.mark.parametrize("width", WIDTHS)
def test_spans_show_the_fields_that_come_first(width: int) -> None:
    words = ["trace", "report", "spans", str(recording("gcverbose-10.nettrace")), "GC/Start", "GC/Stop"]
    rows = [line for line in shown(words, width) if "Count=" in line]
    assert len(rows) == 10
    assert max(map(len, rows)) <= width
    assert all(re.search(r"  Count=\d+ Depth=\d Reason=", row) for row in rows)


@pytest.mark.parametrize("width", WIDTHS)
def test_the_name_of_an_event_is_whole(width: int, trace: Path) -> None:
    row = next(line for line in shown(["trace", "events", str(trace)], width) if "/Thread/Sample" in line)
    assert row.split()[:2] == ["0.0000", "1"]
    assert len(row) <= width


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory() as made:
        yield Path(made)


@pytest.mark.skipif(sys.platform != "linux", reason="looks through /proc")
@pytest.mark.parametrize("width", WIDTHS)
def test_pids_are_whole_and_command_lines_differ(width: int, folder: Path) -> None:
    common = b"--configuration=/srv/company/product/" + b"x" * 120
    with pretender(folder, common, b"--role=web") as first, pretender(folder, common, b"--role=jobs") as second:
        lines = shown(["ps"], width, TMPDIR=str(folder))
    rows = {pid: next(line for line in lines if line.split()[:1] == [str(pid)]) for pid in (first, second)}
    others = [line for line in lines if line.split()[:1] and line.split()[0].isdecimal() and line not in rows.values()]
    assert max(map(len, rows.values())) <= width or others, "names of other processes may be longer"


def test_a_text_is_shortened_in_its_middle() -> None:
    assert shortened("abcdefghij", 10) == "abcdefghij"
    assert shortened("abcdefghij", 7) == "ab…ghij"
    assert [len(shortened("abcdefghij", width)) for width in range(1, 12)] == [*range(1, 11), 10]


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("app!N.T.M(int32)", 16, "app!N.T.M(int32)"),
        ("app!N.T.M(int32)", 12, "app!N.T.M(…)"),
        ("app!N.T.M(int32)", 9, "app!N.T.M"),
        ("app!N.T.M(int32)", 8, "…p!N.T.M"),
        ("app!N.T.M", 5, "….T.M"),
        ("(total)", 4, "…al)"),
    ],
)
def test_a_method_keeps_its_name_longest(text: str, width: int, short: str) -> None:
    assert shortened_method(text, width) == short


@pytest.mark.parametrize("width", range(1, 14))
@pytest.mark.parametrize("text", ["表格.方法(整数)", "ab表格cd", "ascii(only)"])
def test_no_text_takes_more_cells_than_it_has(text: str, width: int) -> None:
    for made in (shortened(text, width), shortened_method(text, width), cut(text, width)):
        assert cells(made) <= width
        assert made == text or "…" in made or text.startswith(made)


def test_padding_counts_cells() -> None:
    assert padded("表", 4) == "表  "
    assert padded("表", 4, right=True) == "  表"
