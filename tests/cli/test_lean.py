"""What is loaded later is there for who asks, in a process of its own: this one has loaded it all."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
from tests.nettrace.recordings import data_of

from dotnetdiag.cli.lean import _cleandoc, _Finder, lean_click

LEAN = "import sys; from dotnetdiag.cli.lean import be_lean; be_lean(); import numpy as np; "
REPORTED = (
    *("advice", "allocations", "contention", "cpu", "exceptions", "gc", "jit", "loader", "logs", "requests", "startup"),
    *("tasks", "threadpool", "threads", "waits"),
)
LATER = ["ast", "ctypes", "inspect", "numpy._typing", "numpy.linalg", "pickle", "platform", "textwrap"]


def said(code: str) -> str:
    """The last line that a program prints."""
    done = subprocess.run([sys.executable, "-c", LEAN + code], capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()[-1]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="what numpy loads there was not seen")
def test_numpy_is_loaded_without_what_it_uses_seldom() -> None:
    assert said(f"print([one for one in {LATER} if one in sys.modules])") == "[]"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print(np.linalg.norm([3, 4]))", "5.0"),
        ("from numpy.linalg import det; print(round(det(np.eye(2))))", "1"),
        ("import numpy.linalg; print(numpy.linalg is np.linalg is sys.modules['numpy.linalg'])", "True"),
        ("print(np.roots([1, -3, 2]).tolist())", "[2.0, 1.0]"),
        ("print((np.matrix([[1, 1], [0, 1]]) ** 3).tolist())", "[[1, 3], [0, 1]]"),
        ("import numpy.typing as npt; print(npt.NDArray is np.typing.NDArray)", "True"),
        ("import pickle; print(pickle.loads(pickle.dumps(np.arange(3))).tolist())", "[0, 1, 2]"),
        ("import io; f = io.BytesIO(); np.save(f, np.arange(3)); f.seek(0); print(np.load(f).tolist())", "[0, 1, 2]"),
        ("print(np.arange(3).ctypes.data > 0)", "True"),
        ("import inspect; print('axis' in inspect.signature(np.sum).parameters)", "True"),
        ("import inspect; print(inspect.cleandoc('a\\n   b').splitlines()[-1])", "b"),
        ("import uuid, platform; print(uuid.uuid4().version, platform.system() != '')", "4 True"),
        (
            "import concurrent.futures as c, logging; print(c._base.LOGGER.getEffectiveLevel() == logging.WARNING)",
            "True",
        ),
        ("import importlib.resources as r; print((r.files('numpy') / 'version.py').is_file())", "True"),
        ("print(type(np.__loader__).__name__, np.__loader__ is np.__spec__.loader)", "SourceFileLoader True"),
        ("np.testing.assert_array_equal([1], [1]); print('equal')", "equal"),
    ],
)
def test_it_is_there_for_who_asks(code: str, expected: str) -> None:
    assert said(code) == expected


def test_several_threads_may_ask_at_once() -> None:
    code = (
        "import threading; found = []; "
        "work = lambda: found.append(round(float(np.linalg.norm([3, 4])))); "
        "threads = [threading.Thread(target=work) for _ in range(8)]; "
        "[one.start() for one in threads]; [one.join() for one in threads]; print(found)"
    )
    assert said(code) == str([5] * 8)


def test_a_verb_begins_without_what_click_uses_seldom() -> None:
    code = (
        "import sys; sys.argv = ['dotnetdiag', 'gcdump', 'collect', '-p', '999999999']; from dotnetdiag.cli import main as one; "
        "one._leave = lambda code: print(code, [name for name in ('inspect', 'dataclasses', 'platform') if name in sys.modules]); one.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "3 []\n"
    assert "999999999" in done.stderr


@pytest.mark.parametrize("text", ["", "one", "  one  ", "one\n  two\n    three", "\tone\n\ttwo\n", " a\tb", "\none\n"])
def test_texts_are_cleaned_as_elsewhere(text: str) -> None:
    assert _cleandoc(text) == inspect.cleandoc(text)


def test_what_a_verb_loads_itself_is_as_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if one is not _Finder])
    before = list(sys.meta_path)
    with lean_click():
        assert sys.meta_path != before
    assert sys.meta_path == before


@pytest.mark.parametrize("name", ["web-10", "gcverbose-10", "default-10", "startup-10", "killed-10"])
def test_no_report_loads_masked_arrays(name: str, tmp_path: Path) -> None:
    """``numpy.unique`` and what is made of it do, which is 14 ms of the 100 to 200 that a report takes."""
    path = tmp_path / "x.nettrace"
    path.write_bytes(data_of(f"{name}.nettrace"))
    code = (
        "import sys; from dotnetdiag.cli.lean import be_lean; be_lean(); import dotnetdiag as dd; "
        f"kinds = {REPORTED}; trace = dd.open({str(path)!r}); found = []\n"
        "for kind in kinds:\n"
        "    getattr(dd, kind)(trace)\n"
        "    if 'numpy.ma' in sys.modules: found.append(kind); del sys.modules['numpy.ma']; vars(sys.modules['numpy']).pop('ma', None)\n"
        "print(found)"
    )
    assert said(code) == "[]"


@pytest.mark.parametrize("verb", ["sql", "convert"])
def test_no_verb_loads_pandas(verb: str, tmp_path: Path) -> None:
    """Which pyarrow does where it is installed, whatever it is given: a third of the time of a short query. A program's own may."""
    pytest.importorskip("pandas")  # of an extra, as what loads it is: the tests of a bare installation have neither
    pytest.importorskip("duckdb")
    path, parquet = tmp_path / "x.nettrace", tmp_path / "x.parquet"
    path.write_bytes(data_of("default-10.nettrace"))
    words = [
        "trace",
        verb,
        str(path),
        *(["from events limit 1"] if verb == "sql" else ["--format", "parquet", "-o", str(parquet)]),
    ]
    code = (
        f"import sys, os; sys.argv = ['dotnetdiag', *{words}]\n"
        "from dotnetdiag.cli import main\n"
        "main._leave = lambda code: print('LEFT', code, *{'pandas', 'pyarrow.lib'} & set(sys.modules))\n"
        "main.main()"
    )
    assert said(code) == "LEFT 0 pyarrow.lib"
    assert said("import dotnetdiag as dd; import pandas; print(pandas.DataFrame.__name__)") == "DataFrame"
