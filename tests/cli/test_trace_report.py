"""``trace report --by line``: what people and programs see, and which options belong together."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from tests.assemblies.test_sequence_points import SIMPLE, pdb
from tests.cli.test_commands import run
from tests.recipes.test_source_lines import ID, MAPS, recorded

from dotnetdiag.cli.trace_report import _shortened


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A recording of ``tmp_path/bin/app.dll``, which is not there; its PDB is in ``tmp_path/symbols/deep``."""
    path = tmp_path / "app.nettrace"
    path.write_bytes(recorded(tmp_path / "bin", *MAPS).raw.buffer.tobytes())
    (tmp_path / "symbols" / "deep").mkdir(parents=True)
    (tmp_path / "symbols" / "deep" / "app.pdb").write_bytes(pdb((1, SIMPLE), pdb_id=ID))
    return path


def test_lines_are_those_of_a_folder_of_symbols(file: Path) -> None:
    said = run(
        "trace", "report", str(file), "--by", "line", "--symbols", str(file.parent / "symbols"), "--short"
    ).stdout
    assert said.splitlines()[0] == "Top 2 Lines (Exclusive) of 10 ms in app.nettrace"
    assert [line.split()[-2:] for line in said.splitlines() if "A.cs" in line] == [
        ["P.Leaf", "A.cs:12"],
        ["P.Main", "A.cs:4"],
    ]


def test_without_a_pdb_the_methods_are_told_and_why(file: Path) -> None:
    said = run("trace", "report", str(file), "--by", "line", "--short").stdout.splitlines()
    assert said[-1] == "note: no lines, for there is no PDB at hand: of app"
    assert any(line.endswith("P.Leaf") for line in said)


def test_programs_get_file_and_line(file: Path) -> None:
    words = ("trace", "report", str(file), "--by", "line", "--symbols", str(file.parent), "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(run(*words).stdout)))
    assert [(row["method"], row["file"], row["line"], row["line_kind"]) for row in rows] == [
        ("app!P.Leaf()", "/src/A.cs", "12", "exact"),
        ("app!P.Main()", "/src/A.cs", "4", "exact"),
    ]


def test_a_flame_graph_has_lines_too(file: Path) -> None:
    run(
        *("trace", "convert", str(file), "--format", "collapsed", "--by", "line"),
        *("--symbols", str(file.parent), "-o", str(file.parent / "out")),
    )
    (made,) = file.parent.glob("out*")
    assert "P.Main() A.cs:4;app!P.Leaf() A.cs:12" in made.read_text("utf-8")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--symbols", "."), "folders of symbols are for lines of source; --symbols needs --by line"),
        (("--by", "line", "--symbols", "nowhere"), "nowhere: it is no folder"),
    ],
)
def test_what_makes_no_sense_is_an_error(words: tuple[str, ...], says: str, file: Path) -> None:
    made = run("trace", "report", str(file), *words)
    assert made.returncode != 0
    assert says in made.stderr


@pytest.mark.parametrize(
    ("width", "made"),
    [
        (60, "app!Shop.Cart.Total(class System.String) Cart.cs:71"),
        (40, "app!Shop.Cart.Total(…) Cart.cs:71"),
        (30, "app!Shop.Cart.Total Cart.cs:71"),
        (22, "…Cart.Total Cart.cs:71"),
    ],
)
def test_the_line_of_a_name_that_is_cut_stays(width: int, made: str) -> None:
    assert _shortened("app!Shop.Cart.Total(class System.String) Cart.cs:71", width) == made
