"""The notebooks of the site run from the first cell to the last, and are kept with what they show."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tests.live.runtimes import names

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "docs" / "notebooks").glob("*.ipynb"))
LARGEST_BYTES = 200_000


def read(path: Path) -> Any:
    """Of the version that nbclient runs."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def shown(notebook: Any) -> list[set[str]]:
    """The kinds of output of each cell of code."""
    return [
        {kind for output in cell.outputs for kind in output.get("data", {})}
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.live
@pytest.mark.skipif(not names(), reason="no .NET runtime was found")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("JUPYTER_PATH", str(Path(sys.prefix) / "share" / "jupyter"))
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    notebook = read(path)
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    kinds = shown(notebook)
    assert sum("image/png" in some for some in kinds) >= 2
    assert sum("text/html" in some for some in kinds) >= 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_with_its_outputs(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert sum("image/png" in some for some in shown(notebook)) >= 2
    assert path.stat().st_size < LARGEST_BYTES
    assert "demo.dll" not in path.read_text(encoding="utf-8"), "a command line has places of the machine"
