"""Recordings that cannot be opened: an error, as ever, or passed over everywhere and told."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

import dotnetdiag as dd
from dotnetdiag.errors import DiagnosticsError, FormatError, InputError, MissingDependency, UnknownName, UsageError
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.query.dataset import Dataset
from dotnetdiag.query.file_task import FileTask
from dotnetdiag.query.unreadable import NAMED, SKIPPABLE, Unreadable
from dotnetdiag.trace.trace import Trace

ROWS = 3
REASONS = {
    "1-empty.nettrace": "the file is empty",
    "2-text.nettrace": "neither a NetPerf nor a nettrace file",
    "4-folder.nettrace": "Is a directory",
    "5-gone.nettrace": "No such file or directory",
}
"""What is wrong with those of ``mixed``, by their names."""


def write(path: Path, rows: int = ROWS) -> str:
    """A recording with events ``X``."""
    with path.open("wb") as file, Writer(file) as writer:
        fields = (Field(name="n", type=FieldType(code=TypeCode.INT32)),)
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="X", fields=fields))
        for number in range(rows):
            writer.write_event(1, 1 + number, struct.pack("<i", number), thread=1)
    return str(path)


@pytest.fixture
def good(tmp_path: Path) -> list[str]:
    """Two that can be read, as they lie among the others."""
    return [write(tmp_path / "3-good.nettrace"), write(tmp_path / "6-good.nettrace")]


@pytest.fixture
def mixed(tmp_path: Path, good: list[str]) -> list[str]:
    """Those and one of each kind that cannot, the first of all among them."""
    (tmp_path / "1-empty.nettrace").write_bytes(b"")
    (tmp_path / "2-text.nettrace").write_text("This is not a recording.\n" * 10)
    (tmp_path / "4-folder.nettrace").mkdir()
    return sorted([*good, *(str(tmp_path / name) for name in REASONS)])


def require_told(skipped: Any, *names: str) -> None:
    """Of each of these, and of no other, what is wrong with it."""
    assert {Path(path).name for path in skipped} == set(names or REASONS)
    for path, reason in skipped.items():
        assert path in reason
        assert REASONS[Path(path).name] in reason


def read(task: FileTask) -> int:
    """How many rows it has."""
    return len(task.read())


READERS: dict[str, Callable[[Dataset], int]] = {
    "schema": lambda made: ROWS * ("n" in made.schema("X").names) * 2,
    "tables": lambda made: {row["name"]: row["rows"] for row in made.tables().to_pylist()}["X"],
    "batches": lambda made: sum(batch.num_rows for batch in made.batches("X", ["n"])),
    "tasks": lambda made: sum(map(read, made.tasks("X"))),
    "report": lambda made: sum(map(read, made.tasks("cpu_samples"))) + 2 * ROWS,
    "to_arrow": lambda made: made.to_arrow("X").to_table(["n"]).num_rows,
    "count": lambda made: made.to_arrow("events").count_rows(),
    "to_polars": lambda made: made.to_polars("X").collect().height,
    "sql": lambda made: made.sql('select count(n) as n from "X"').values("n")[0],
    "show tables": lambda made: {row["name"]: row["rows"] for row in made.sql("show tables").to_pylist()}["X"],
}


@pytest.mark.parametrize("reader", READERS)
def test_whoever_reads_passes_over_them_and_tells(reader: str, mixed: list[str]) -> None:
    made = dd.dataset(mixed, skip_unreadable=True)
    assert made.skipped == {}
    for _ in range(2):
        assert READERS[reader](made) == 2 * ROWS
        require_told(made.skipped)
    assert len(made) == len(mixed)


@pytest.mark.parametrize("reader", READERS)
def test_where_nobody_says_so_the_first_is_an_error(reader: str, mixed: list[str]) -> None:
    made = dd.dataset(mixed)
    with pytest.raises(FormatError) as raised:
        READERS[reader](made)
    assert str(raised.value) == f"{mixed[0]}: end of data at 0x0: the file is empty"
    assert raised.value.__notes__ == [SKIPPABLE]
    assert made.skipped == {}
    with pytest.raises(FormatError) as raised:
        READERS[reader](dd.dataset(mixed[0]))
    assert not hasattr(raised.value, "__notes__")  # of one alone there is nothing else to read


@pytest.mark.parametrize("reader", READERS)
def test_where_none_can_be_read_it_is_an_error_each_time(reader: str, mixed: list[str], good: list[str]) -> None:
    none = [path for path in mixed if path not in good]
    made = dd.dataset(none, skip_unreadable=True)
    said = r"^\S+1-empty\.nettrace: end of data at 0x0: the file is empty; none of the 4 recordings can be read$"
    for _ in range(2):
        with pytest.raises(InputError, match=said):
            READERS[reader](made)
        require_told(made.skipped)
    with pytest.raises(InputError, match=r"5-gone\.nettrace: No such file or directory$"):
        READERS[reader](dd.dataset(none[-1], skip_unreadable=True))


def test_sql_answers_from_the_others_and_notes_each(mixed: list[str], good: list[str]) -> None:
    answer = dd.sql(mixed, 'select file, count(*) as n from "X" group by file order by file', skip_unreadable=True)
    assert answer.to_pylist() == [{"file": path, "n": ROWS} for path in good]
    assert len(answer.notes) == len(REASONS)
    for name, reason in REASONS.items():
        (note,) = [one for one in answer.notes if name in one]
        assert note.endswith("; it was skipped")
        assert reason in note
    for query in ("show tables", "create view x as from events limit 1", "from tables"):
        assert set(dd.sql(mixed, query, skip_unreadable=True).notes) == set(answer.notes)
    with pytest.raises(InputError, match=r"5-gone\.nettrace: No such file or directory"):
        dd.sql(mixed, "select 1")
    with pytest.raises(InputError, match=r"; none of the 2 recordings can be read$"):
        dd.sql(["/no/a.nettrace", "/no/b.nettrace"], "select 1", skip_unreadable=True)


def test_a_note_of_all_that_were_read_names_none(mixed: list[str], good: list[str]) -> None:
    """As where the others were not asked at all."""
    query = "from gc"
    notes = dd.sql(good, query).notes
    assert notes
    assert dd.sql(mixed, query, skip_unreadable=True).notes[: len(notes)] == notes


def test_of_many_the_first_are_named_and_the_others_counted(good: list[str], tmp_path: Path) -> None:
    empty = [tmp_path / f"{number:04}.nettrace" for number in range(1_000 + NAMED)]
    for path in empty:
        path.touch()
    notes = dd.sql([*empty, *good], "from events limit 1", skip_unreadable=True).notes
    assert [note.partition(":")[0] for note in notes[:-1]] == [str(path) for path in empty[:NAMED]]
    assert notes[-1] == "and 1,000 more that cannot be read were skipped"
    for path in empty[NAMED:]:
        path.unlink()
    assert len(dd.sql([*empty[:NAMED], *good], "from events limit 1", skip_unreadable=True).notes) == NAMED


def test_one_that_is_cut_is_read_as_far_as_it_is_whole(good: list[str], tmp_path: Path) -> None:
    (tmp_path / "cut.nettrace").write_bytes(Path(good[0]).read_bytes()[:-1])
    made = dd.dataset([str(tmp_path / "cut.nettrace"), *good], skip_unreadable=True)
    answer = made.sql('select count(*) as n from "X"')
    assert answer.values("n")[0] == 3 * ROWS
    assert "cut.nettrace" in (answer.losses.damage or "")
    assert (made.skipped, answer.notes) == ({}, ())


@pytest.mark.parametrize("reader", ["batches", "tasks", "to_arrow", "to_polars", "sql"])
def test_one_that_vanishes_after_the_schema_was_asked(reader: str, good: list[str]) -> None:
    strict, lenient = dd.dataset(good), dd.dataset(good, skip_unreadable=True)
    tasks = lenient.tasks("X")
    assert strict.schema("X") == lenient.schema("X")
    Path(good[0]).unlink()
    with pytest.raises(InputError, match="No such file or directory"):
        READERS[reader](strict)
    assert READERS[reader](lenient) == ROWS
    assert list(lenient.skipped) == good[:1]
    assert [read(task) for task in tasks] == [0, ROWS]
    Path(good[1]).unlink()
    with pytest.raises(InputError, match="none of the 2 recordings can be read"):
        READERS[reader](lenient)


def test_a_frame_and_a_query_of_which_one_vanishes_while_they_are_read(good: list[str]) -> None:
    made = dd.dataset(good, skip_unreadable=True)
    frame, scanned = made.to_polars("X"), made.to_arrow("X")
    Path(good[1]).unlink()
    assert frame.collect().height == scanned.count_rows() == ROWS
    assert list(made.skipped) == good[1:]


def test_one_that_was_passed_over_stays_so_when_it_comes_back(mixed: list[str], good: list[str]) -> None:
    """Its columns were not among those that were told."""
    made = dd.dataset(mixed, skip_unreadable=True)
    names = made.schema("X").names
    Path(mixed[0]).write_bytes(Path(good[0]).read_bytes())
    assert READERS["batches"](made) == READERS["sql"](made) == 2 * ROWS
    require_told(made.skipped)
    again = dd.dataset(mixed, skip_unreadable=True)
    assert READERS["batches"](again) == 3 * ROWS
    assert again.schema("X").names == names


def test_a_table_that_only_one_of_them_has_is_not_there(mixed: list[str]) -> None:
    made = dd.dataset(mixed, skip_unreadable=True)
    for ask in (lambda: made.schema("Y"), lambda: made.sql('from "Y"')):
        with pytest.raises(UnknownName, match="no table 'Y'"):
            ask()
    require_told(made.skipped)


class Raising:
    """A recording that is not opened for another reason."""

    name = "raising"

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def open(self) -> Trace:
        raise self.error

    def close(self, trace: Trace) -> None:
        """It was never open."""


@pytest.mark.parametrize(
    "error", [UsageError("no such option"), MissingDependency("s3fs", extra="dataset", purpose="x"), MemoryError("x")]
)
def test_what_is_wrong_with_all_of_them_is_an_error(error: BaseException) -> None:
    made = Dataset([Raising(error), Raising(error)], skip_unreadable=True)
    for ask in (lambda: made.schema("events"), made.tables, lambda: made.sql("from events")):
        with pytest.raises(type(error)):
            ask()
    assert made.skipped == {}


def test_other_processes_bring_back_what_was_wrong(mixed: list[str], good: list[str]) -> None:
    made = dd.dataset(mixed, skip_unreadable=True)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        tasks = made.tasks("X", map=pool.map)
        require_told(made.skipped)
        assert [task.file for task in tasks] == good
        assert [part.num_rows for part in pool.map(FileTask.read, tasks)] == [ROWS, ROWS]
        none = dd.dataset([path for path in mixed if path not in good], skip_unreadable=True)
        with pytest.raises(InputError, match="none of the 4 recordings can be read"):
            none.schema("X", map=pool.map)
        with pytest.raises(DiagnosticsError, match="the file is empty") as raised:
            dd.dataset(mixed).schema("X", map=pool.map)
        assert SKIPPABLE in raised.value.__notes__


def test_threads_tell_of_the_same(mixed: list[str]) -> None:
    made = dd.dataset(mixed, skip_unreadable=True)
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(read, made.tasks("X", map=pool.map))) == 2 * ROWS
    require_told(made.skipped)


def test_what_goes_to_another_process_is_told_to_skip_and_takes_no_list_along(mixed: list[str]) -> None:
    made = dd.dataset(mixed, skip_unreadable=True)
    tasks = made.tasks("X")
    sent = pickle.dumps(tasks)
    assert b"1-empty" not in sent
    Path(tasks[0].file).unlink()
    assert [read(task) for task in pickle.loads(sent)] == [0, ROWS]
    require_told(made.skipped)
    again = pickle.loads(pickle.dumps(dd.dataset(mixed, skip_unreadable=True)))
    assert READERS["batches"](again) == ROWS


def test_dask_has_a_partition_for_each_that_can_be_read(mixed: list[str], good: list[str]) -> None:
    dask = pytest.importorskip("dask")
    pytest.importorskip("dask.dataframe")
    made = dd.dataset(mixed, skip_unreadable=True)
    with dask.config.set(scheduler="threads"):
        frame = made.to_dask("X", ["file", "n"])
        require_told(made.skipped)
        assert frame.npartitions == len(good)
        assert frame.groupby("file").size().compute(scheduler="threads").to_dict() == dict.fromkeys(good, ROWS)
        Path(good[0]).unlink()
        assert len(made.to_dask("X")) == ROWS
        with pytest.raises((FormatError, InputError), match=SKIPPABLE):  # whichever thread comes first
            dd.dataset(mixed).to_dask("X")


def test_answers_are_those_of_tasks_that_did_not_pass_over_theirs(mixed: list[str]) -> None:
    unreadable = Unreadable(len(mixed), skips=True)

    def elsewhere(call: Callable[[FileTask], Any], tasks: Iterable[FileTask]) -> list[Any]:
        return [pickle.loads(pickle.dumps(call(pickle.loads(pickle.dumps(task))))) for task in tasks]

    made = dd.dataset(mixed, skip_unreadable=True)
    assert len(unreadable.answers(elsewhere(FileTask.own_schema, made._tasks("X")))) == len(mixed) - len(REASONS)
    require_told(unreadable.skipped)
    assert made.skipped == {}
