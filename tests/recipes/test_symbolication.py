"""Stack traces get lines of source where a PDB has them, and stay as they are where none has."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.assemblies.test_sequence_points import SIMPLE, pdb

from dotnetdiag.errors import InputError
from dotnetdiag.recipes import symbolication
from dotnetdiag.recipes.symbolication import symbolicate


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "bin" / "Release").mkdir(parents=True)
    (tmp_path / "bin" / "Release" / "My.App.pdb").write_bytes(pdb(*[(1, SIMPLE)] * 12))
    (tmp_path / "Broken.pdb").write_bytes(b"no PDB")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("   at A.B.C(Int32 x) in My.App.dll:token 0x6000001+0x9", "   at A.B.C(Int32 x) in /src/A.cs:line 12"),
        ("   at A.B.C() in my.app.dll:token 0x600000c+0x12c", "   at A.B.C() in /src/A.cs:line 4"),
        ("at C() in My.App.ni.dll:token 0x06000001+0x0", "at C() in /src/A.cs:line 10"),
        ("at C() in My.App.exe:token 0x6000001+0x0 --->", "at C() in /src/A.cs:line 10 --->"),
        ("at C() in My.App.dll:token 0x600000d+0x0", None),
        ("at C() in My.App.dll:token 0xa000001+0x0", None),
        ("at C() in Other.dll:token 0x6000001+0x0", None),
        ("at C() in Broken.dll:token 0x6000001+0x0", None),
        ("System.Exception: in My.App.dll: token", None),
        ("", None),
    ],
)
def test_tokens_become_lines(line: str, made: str | None, folder: Path) -> None:
    assert list(symbolicate([line], [folder])) == [line if made is None else made]


@pytest.mark.parametrize(("spare", "is_read"), [(0, True), (-1, False)])
def test_a_file_that_is_too_large_is_not_read(
    spare: int, is_read: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (folder / "bin" / "Release" / "My.App.pdb").stat().st_size
    monkeypatch.setattr(symbolication, "LIMIT_BYTES", size + spare)
    (line,) = symbolicate(["at C() in My.App.dll:token 0x6000001+0x0"], [folder])
    assert line.startswith("at C() in /src/A.cs") == is_read


def test_a_folder_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is no folder"):
        list(symbolicate(["at C() in A.dll:token 0x6000001+0x0"], [tmp_path / "no"]))
