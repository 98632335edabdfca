"""Time by lines of source: on recordings and PDBs made by hand, each line known."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from uuid import UUID

import pytest
from tests.analysis.traces import Seen, managed, traced
from tests.assemblies.test_debug_directory import CODEVIEW, EMBEDDED, codeview, image, packed
from tests.assemblies.test_sequence_points import SIMPLE, TWO_DOCUMENTS, pdb
from tests.trace.made import RUNDOWN, z16
from tests.trace.test_code_maps import payload_of

import dotnetdiag as dd
from dotnetdiag.errors import InputError, UsageError, WrongCombination
from dotnetdiag.recipes import pdb_files
from dotnetdiag.recipes.pdb_files import PdbFiles
from dotnetdiag.trace.code_maps import NO_MAPPING
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.trace import Trace

ID, OTHER = UUID("f2353642-b577-4e37-9a3c-e9589b929998"), UUID("39fcbbc1-471e-4f5d-9d2f-d19dd50827a4")
LEAF, MAIN = 0x10000, 0x10100
"""Where ``traced`` puts the methods of :func:`recorded`; the leaf is at 0x10 of its code, a return address looked up at 0xf."""


def map_of(method: int, *entries: tuple[int, int]) -> Seen:
    """(IL offset, native offset) of each entry."""
    payload = payload_of(method, entries)
    return Seen(ms=99, thread=1, stack=(), provider=RUNDOWN, number=150, payload=payload)


def module(path: str, pdb_id: UUID, number: int = 1) -> Seen:
    ids = struct.pack("<H", 0) + pdb_id.bytes_le + struct.pack("<I", 1) + z16("app.pdb") + bytes(16 + 4) + z16("")
    payload = struct.pack("<QQII", number, 7, 8, 0) + z16(path) + z16("") + ids
    return Seen(ms=99, thread=1, stack=(), provider=RUNDOWN, number=154, payload=payload, version=2)


def recorded(folder: Path, *more: Seen, pdb_id: UUID | None = ID) -> Trace:
    """Main calls Leaf for 10 ms; both of ``folder/app.dll``, whose methods all have the token 0x06000001."""
    path = str(folder / "app.dll")
    said = [] if pdb_id is None else [module(path, pdb_id)]
    samples = managed(0, 1, "P.Leaf", "P.Main"), managed(10, 1, "P.Leaf", "P.Main")
    return traced(*samples, *more, *said, modules={"": path})


HIDDEN_FIRST = bytes([0, 0, 0, 0, 5, 0, 8, 10, 5])
"""No locals; from 0 on hidden, from 5 on line 10."""
MAPS = map_of(LEAF, (0, 0), (9, 0x10), (300, 0x11)), map_of(MAIN, (0, 0), (300, 0xF), (9, 0x10))
"""The leaf is in line 12; Main called it in line 4."""


def lines(trace: Trace, *symbols: Path) -> list[tuple[str, str | None, int | None, str | None]]:
    found = dd.source_lines(trace, style=Style.SHORT, symbols=symbols)
    return [(row["method"], row["file"], row["line"], row["line_kind"]) for row in found.to_pylist()]


EXACT = [("P.Leaf", "/src/A.cs", 12, "exact"), ("P.Main", "/src/A.cs", 4, "exact")]
NONE = [("P.Leaf", None, None, None), ("P.Main", None, None, None)]


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    (tmp_path / "app.pdb").write_bytes(pdb((1, SIMPLE), pdb_id=ID))
    return tmp_path


def test_the_pdb_beside_the_module_says_the_lines(beside: Path) -> None:
    assert lines(recorded(beside, *MAPS)) == EXACT
    assert dd.source_lines(recorded(beside, *MAPS)).notes == ()


def test_weights_are_those_of_the_profile(beside: Path) -> None:
    rows = dd.source_lines(recorded(beside, *MAPS)).to_pylist()
    assert [(row["exclusive"], row["inclusive"], row["inclusive_percent"]) for row in rows] == [
        (10.0, 10.0, 100.0),
        (0.0, 10.0, 100.0),
    ]


def test_a_method_is_as_many_rows_as_it_has_lines_and_a_line_is_one_whatever_the_address(beside: Path) -> None:
    samples = [managed(ms, 1, address) for ms, address in enumerate((LEAF, LEAF + 1, LEAF + 0x10, LEAF + 0x11, LEAF))]
    path = str(beside / "app.dll")
    known = managed(50, 2, "P.Leaf"), managed(51, 2, "P.Leaf")
    trace = traced(*samples, *known, *MAPS, module(path, ID), modules={"": path})
    rows = dd.source_lines(trace, threads=1).to_pylist()
    assert [(row["line"], row["exclusive"]) for row in rows] == [(10, 2.0), (12, 1.0), (4, 1.0)]


def test_without_a_map_the_first_line_of_the_method_is_told_apart(beside: Path) -> None:
    trace = recorded(beside, MAPS[1])
    assert lines(trace) == [("P.Leaf", "/src/A.cs", 10, "first"), EXACT[1]]
    (note,) = dd.source_lines(trace).notes
    assert note.startswith("1 line with ~ is the first of its method")
    assert [row.name for row in dd.report(trace, by="line").rows] == [
        "app!P.Leaf() A.cs:~10",
        "app!P.Main() A.cs:4",
    ]


NEAR = map_of(LEAF, (0, 0), (9, 0x8), (NO_MAPPING, 0x10), (300, 0x20))
"""At 0x8 the leaf is in line 12; from 0x10 on its map says no line, up to 0x20."""


def test_a_line_that_the_map_does_not_say_is_that_of_the_code_before_and_told_apart(beside: Path) -> None:
    trace = recorded(beside, NEAR, MAPS[1])
    assert lines(trace) == [("P.Leaf", "/src/A.cs", 12, "near"), EXACT[1]]
    (note,) = dd.source_lines(trace).notes
    assert note.startswith("1 line with ~ is of code beside")
    report = dd.report(trace, by="line")
    assert [row.name for row in report.rows] == ["app!P.Leaf() A.cs:~12", "app!P.Main() A.cs:4"]
    for rows in (report.to_json()["rows"], report.table().to_pylist(), dd.source_lines(trace).to_pylist()):
        assert [(row["line_kind"], type(row["line_kind"])) for row in rows] == [("near", str), ("exact", str)]


def test_what_is_exact_in_a_line_is_not_added_to_what_is_not(beside: Path) -> None:
    places = (0x8, 0x10, 0x11, 0x18, 0x20, 0x10)
    samples = [managed(ms, 1, LEAF + place) for ms, place in enumerate(places)]
    path = str(beside / "app.dll")
    trace = traced(*samples, managed(50, 2, "P.Leaf"), NEAR, module(path, ID), modules={"": path})
    rows = dd.source_lines(trace, threads=1).to_pylist()
    assert [(row["line"], row["line_kind"], row["exclusive"]) for row in rows] == [
        (12, "near", 3.0),
        (12, "exact", 1.0),
        (4, "exact", 1.0),
    ]


def test_code_before_the_first_line_of_a_method_is_near_it(beside: Path) -> None:
    (beside / "app.pdb").write_bytes(pdb((1, HIDDEN_FIRST), pdb_id=ID))
    trace = recorded(beside, map_of(LEAF, (0, 0), (4, 0x10), (5, 0x11)), map_of(MAIN, (0, 0), (5, 0xF)))
    assert lines(trace) == [("P.Leaf", "/src/A.cs", 10, "near"), ("P.Main", "/src/A.cs", 10, "exact")]


def test_lines_that_are_not_exact_are_counted_by_what_they_are(beside: Path) -> None:
    said = dd.source_lines(recorded(beside, NEAR)).notes
    assert [note.partition(":")[0] for note in said] == [
        "1 line with ~ is of code beside",
        "1 line with ~ is the first of its method",
    ]


def test_a_method_without_points_has_no_line(beside: Path) -> None:
    (beside / "app.pdb").write_bytes(pdb((1, b""), pdb_id=ID))
    assert lines(recorded(beside, *MAPS)) == NONE


def test_lines_of_one_method_may_be_of_several_files(beside: Path) -> None:
    (beside / "app.pdb").write_bytes(pdb((0, TWO_DOCUMENTS), pdb_id=ID))
    assert lines(recorded(beside, *MAPS)) == [
        ("P.Leaf", "/src/B.cs", 40, "exact"),
        ("P.Main", "/src/B.cs", 40, "exact"),
    ]


# which PDB ------------------------------------------------------------------------------------------------------------


def test_a_pdb_of_another_build_is_refused(beside: Path) -> None:
    trace = recorded(beside, *MAPS, pdb_id=OTHER)
    assert lines(trace) == NONE
    refused, missing = dd.source_lines(trace).notes
    assert refused == f"{beside / 'app.pdb'} is of another build of app, and not used"
    assert missing == "no lines, for there is no PDB at hand: of app"


def test_folders_are_searched_with_what_is_below_them_and_come_first(beside: Path, tmp_path: Path) -> None:
    (tmp_path / "symbols" / "deep").mkdir(parents=True)
    (tmp_path / "symbols" / "App.PDB").write_bytes(pdb((1, SIMPLE), pdb_id=OTHER))
    (tmp_path / "symbols" / "deep" / "app.pdb").write_bytes(pdb((0, TWO_DOCUMENTS), pdb_id=ID))
    trace = recorded(beside, *MAPS)
    assert lines(trace, tmp_path / "symbols")[0] == ("P.Leaf", "/src/B.cs", 40, "exact")
    assert dd.source_lines(trace, symbols=tmp_path / "symbols").notes == (
        f"{tmp_path / 'symbols' / 'App.PDB'} is of another build of app, and not used",
    )


def test_a_folder_that_is_none_is_an_error(beside: Path) -> None:
    with pytest.raises(InputError, match="it is no folder"):
        dd.source_lines(recorded(beside), symbols=[beside, beside / "no"])


@pytest.mark.parametrize("is_wide", [False, True])
def test_an_embedded_pdb_says_the_lines(is_wide: bool, tmp_path: Path) -> None:
    inside = packed(pdb((1, SIMPLE), pdb_id=ID))
    (tmp_path / "app.dll").write_bytes(image((CODEVIEW, codeview(ID)), (EMBEDDED, inside), is_wide=is_wide))
    assert lines(recorded(tmp_path, *MAPS)) == EXACT
    assert lines(recorded(tmp_path, *MAPS, pdb_id=OTHER)) == NONE


def test_an_embedded_pdb_of_an_assembly_in_a_folder_says_the_lines(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    inside = packed(pdb((1, SIMPLE), pdb_id=ID))
    (tmp_path / "kept" / "app.dll").write_bytes(image((CODEVIEW, codeview(ID)), (EMBEDDED, inside)))
    assert lines(recorded(tmp_path, *MAPS)) == NONE
    assert lines(recorded(tmp_path, *MAPS), tmp_path / "kept") == EXACT


@pytest.mark.parametrize(("assembly_id", "is_taken"), [(ID, True), (OTHER, False)])
def test_the_assembly_says_the_id_where_the_recording_does_not(assembly_id: UUID, is_taken: bool, beside: Path) -> None:
    (beside / "app.dll").write_bytes(image((CODEVIEW, codeview(assembly_id))))
    assert lines(recorded(beside, *MAPS, pdb_id=None)) == (EXACT if is_taken else NONE)


def test_where_nothing_says_the_id_a_note_says_so(beside: Path) -> None:
    trace = recorded(beside, *MAPS, pdb_id=None)
    assert lines(trace) == EXACT
    (note,) = dd.source_lines(trace).notes
    assert note.endswith("is used, but nothing says whether it is of this build of app")


@pytest.mark.parametrize("data", [b"", b"Microsoft C/C++ MSF 7.00\r\n\x1aDS\0\0\0", pdb((1, SIMPLE), pdb_id=ID)[:200]])
def test_what_is_no_portable_pdb_is_a_note(data: bytes, beside: Path) -> None:
    (beside / "app.pdb").write_bytes(data)
    trace = recorded(beside, *MAPS)
    assert lines(trace) == NONE
    assert dd.source_lines(trace).notes[0].startswith(f"{beside / 'app.pdb'}: it is no portable PDB")


def test_a_damaged_method_is_a_note(beside: Path) -> None:
    (beside / "app.pdb").write_bytes(pdb((9, SIMPLE), pdb_id=ID))
    trace = recorded(beside, *MAPS)
    assert lines(trace) == NONE
    assert dd.source_lines(trace).notes == (f"{beside / 'app.pdb'}: it is damaged (there is no document 9)",)


def test_a_damaged_embedded_pdb_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "app.dll").write_bytes(image((EMBEDDED, b"MPDB\5\0\0\0\xff")))
    trace = recorded(tmp_path, *MAPS)
    assert lines(trace) == NONE
    assert "its embedded PDB is damaged" in dd.source_lines(trace).notes[0]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
def test_a_fifo_is_not_waited_for(beside: Path) -> None:
    (beside / "app.pdb").unlink()
    os.mkfifo(beside / "app.pdb")
    trace = recorded(beside, *MAPS)
    assert lines(trace) == NONE
    assert dd.source_lines(trace).notes[0] == f"{beside / 'app.pdb'}: it is no regular file"


@pytest.mark.parametrize(("spare", "is_read"), [(0, True), (-1, False)])
def test_a_file_that_is_too_large_is_not_read(
    spare: int, is_read: bool, beside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdb_files, "LIMIT_BYTES", (beside / "app.pdb").stat().st_size + spare)
    assert lines(recorded(beside, *MAPS)) == (EXACT if is_read else NONE)


def test_pdbs_are_held_up_to_a_limit(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdb_files, "TOTAL_BYTES", (beside / "app.pdb").stat().st_size - 1)
    trace = recorded(beside, *MAPS)
    assert lines(trace) == NONE
    assert "is one too many" in dd.source_lines(trace).notes[0]


def test_sequence_points_are_read_up_to_a_limit(beside: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdb_files, "MOST_POINTS", 2)
    files = PdbFiles()
    assert files.lines(str(beside / "app.dll"), ID, 0x06000001) is not None
    assert files.lines(str(beside / "app.dll"), ID, 0x06000001) is None
    assert files.notes == ("lines of more than 2 sequence points: the other methods are without",)


@pytest.mark.parametrize(
    "path", ["app.dll", "//host/share/app.dll", r"\\host\share\app.dll", "", "/", "/x\0y/app.dll", "C:app.dll"]
)
def test_paths_of_other_machines_are_not_opened(path: str, monkeypatch: pytest.MonkeyPatch, beside: Path) -> None:
    """What a recording names is anybody's word: asking another machine would tell it who asks."""
    monkeypatch.chdir(beside)
    opened: list[Path] = []

    def contents(asked: Path) -> bytes:
        opened.append(asked)
        return b""

    monkeypatch.setattr(pdb_files, "_contents", contents)
    assert PdbFiles().lines(path, ID, 0x06000001) is None
    assert opened == []


def test_a_note_names_the_modules_of_the_program_first_and_few(tmp_path: Path) -> None:
    files = PdbFiles([tmp_path])
    for name in ("System.Linq", "B", "A", "C", "E", "Microsoft.X"):
        assert files.lines(f"/nowhere/{name}.dll", None, 0x06000001) is None
    assert files.notes == ("no lines, for there is no PDB at hand: of A, B, C, E and 2 more",)


# where they are seen --------------------------------------------------------------------------------------------------


def test_a_report_by_line_has_columns_for_programs(beside: Path) -> None:
    made = dd.report(recorded(beside, *MAPS), by="line", inclusive=True)
    assert made.by == "line"
    table = made.table()
    assert [table.to_pylist()[0][name] for name in ("method", "file", "line", "line_kind")] == [
        "app!P.Leaf()",
        "/src/A.cs",
        12,
        "exact",
    ]
    assert made.to_json()["rows"][0]["line"] == 12
    plain = dd.report(recorded(beside, *MAPS))
    assert "line" not in plain.to_json()["rows"][0]
    assert "line" not in plain.table().to_pylist()[0]


def test_filters_are_those_of_reports(beside: Path) -> None:
    trace = recorded(beside, *MAPS)
    assert len(dd.source_lines(trace, focus=r"A\.cs:4$")) == 2
    assert len(dd.source_lines(trace, ignore="Leaf")) == 0
    assert len(dd.source_lines(trace, state="waiting")) == 0


def test_two_recordings_are_compared_by_line(beside: Path) -> None:
    trace = recorded(beside, *MAPS)
    other = recorded(beside, map_of(LEAF, (0, 0)), MAPS[1])
    made = dd.diff(trace, other, by="line")
    assert {method.name: method.exclusive.absolute for method in made.methods if method.exclusive.absolute} == {
        "app!P.Leaf() A.cs:12": -10.0,
        "app!P.Leaf() A.cs:10": 10.0,
    }


def test_folders_of_symbols_are_for_lines_alone(beside: Path) -> None:
    with pytest.raises(WrongCombination) as raised:
        dd.report(recorded(beside), symbols=beside)
    assert raised.value.lacking == "lines"


def test_an_argument_that_is_none_is_an_error(beside: Path) -> None:
    with pytest.raises(UsageError, match="no such view: symbol"):
        dd.source_lines(recorded(beside), symbol="x")  # type: ignore[call-arg]
