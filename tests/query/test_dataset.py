"""Data sets of many recordings, read by Arrow, DuckDB, polars and Dask: all say the same as the traces themselves."""

from __future__ import annotations

import gzip
import pickle
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from tests.nettrace.recordings import data_of
from tests.query.asked import named, saved

import dotnetdiag as dd
from dotnetdiag.errors import FormatError, InputError, MissingDependency, UnknownName, UsageError
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.query import files, tables
from dotnetdiag.query.dataset import Dataset
from dotnetdiag.trace.trace import Trace

fsspec = pytest.importorskip("fsspec")
BEGINS = ("events-10", "events-3.1", "gccollect-10")
"""GC/Start has another version in 3.1; Exception/Start is not in the last."""
WHERE = pyarrow.dataset.field("Depth") > 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    saved(tmp_path, *BEGINS)
    return tmp_path


@pytest.fixture
def bucket() -> Iterator[str]:
    """The same in the memory of this process, as another file system has them."""
    memory = fsspec.filesystem("memory")
    for begin in BEGINS:
        memory.pipe(f"/bucket/{begin}.nettrace", data_of(named(begin)))
    yield "memory://bucket/*.nettrace"
    memory.rm("/bucket", recursive=True)


def expected(depth: bool = False) -> Counter[str]:
    """How many collections have which reason."""
    found: Counter[str] = Counter()
    for begin in BEGINS:
        rows = Trace(data_of(named(begin)))["GC/Start"].to_pylist()
        found.update(row["Reason"] for row in rows if not depth or row["Depth"] > 0)
    return found


def test_batches_are_those_of_all_files_with_the_columns_that_are_asked_for(folder: Path, bucket: str) -> None:
    for source in (folder / "*.nettrace", f"file://{folder}/*.nettrace", bucket):
        made = dd.dataset(source)
        assert len(made) == len(made.files) == len(BEGINS)
        batches = list(made.batches("GC/Start", ["Reason", "file"]))
        assert all(batch.schema.names == ["Reason", "file"] for batch in batches)
        assert len({str(batch.schema) for batch in batches}) == 1
        whole = pa.Table.from_batches(batches)
        assert Counter(whole["Reason"].to_pylist()) == expected()
        assert set(whole["file"].to_pylist()) == set(made.files)
        chosen = pa.Table.from_batches(made.batches("GC/Start", "Reason", where=WHERE))
        assert Counter(chosen["Reason"].to_pylist()) == expected(depth=True)


def test_a_table_that_one_file_has_is_read_with_all_of_them(folder: Path) -> None:
    made = dd.dataset(folder / "*.nettrace")
    thrown = pa.Table.from_batches(made.batches("Exception/Start"), made.schema("Exception/Start"))
    counts = {path: len(trace.get("Exception/Start") or ()) for path in made.files if (trace := dd.open(path))}
    assert Counter(thrown["file"].to_pylist()) == Counter({path: count for path, count in counts.items() if count})
    assert 0 in counts.values()


def test_sql_and_tables_are_of_all_files(folder: Path, bucket: str) -> None:
    for made in (dd.dataset(folder / "*.nettrace"), dd.dataset(bucket)):
        rows = made.sql('select Reason, count(*) as n from "GC/Start" where Depth > 0 group by all').to_pylist()
        assert {row["Reason"]: row["n"] for row in rows} == expected(depth=True)
        counts = dict(zip(made.tables().values("name"), made.tables().values("rows"), strict=True))
        assert counts["GC/Start"] == sum(expected().values())
        assert len(made.sql("select distinct file from gc")) == len(BEGINS)


def test_polars_reads_only_the_columns_that_it_needs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = dd.dataset(folder / "*.nettrace")
    frame = made.to_polars("GC/Start")
    assert {"file", "ms", "Reason", "frames"} <= set(frame.collect_schema().names())
    decoded: set[str] = set()
    column = tables._EventWindow.column

    def noted(self: tables._EventWindow, name: str) -> object:
        decoded.update({name} if len(self) else ())
        return column(self, name)

    monkeypatch.setattr(tables._EventWindow, "column", noted)
    rows = frame.filter(pl.col("Depth") > 0).group_by("Reason").agg(pl.len()).collect()
    assert dict(rows.iter_rows()) == expected(depth=True)
    assert decoded == {"Depth", "Reason"}
    assert len(frame.head(3).collect()) == 3


def test_arrow_s_own_data_set_takes_columns_and_filters(folder: Path) -> None:
    made = dd.dataset(folder / "*.nettrace").to_arrow("GC/Start")
    assert made.count_rows(filter=WHERE) == sum(expected(depth=True).values())
    assert Counter(made.to_table(columns=["Reason"], filter=WHERE)["Reason"].to_pylist()) == expected(depth=True)
    assert made.head(2, columns=["ms"]).num_rows == 2
    assert sum(batch.num_rows for batch in made.to_batches(columns=["file"])) == sum(expected().values())


def test_dask_has_a_partition_for_each_file(folder: Path) -> None:
    pytest.importorskip("dask.dataframe")
    made = dd.dataset(folder / "*.nettrace")
    frame = made.to_dask("GC/Start")
    assert frame.npartitions == len(BEGINS)
    counts = frame[frame.Depth > 0].groupby("Reason").size().compute(scheduler="threads")
    assert counts.to_dict() == expected(depth=True)
    some = made.to_dask("gc", ["file", "pause_ms"])
    assert list(some.columns) == ["file", "pause_ms"]
    (row,) = made.sql("select max(pause_ms) as most from gc").to_pylist()
    assert some.pause_ms.max().compute(scheduler="threads") == row["most"]


def test_a_task_can_be_pickled_and_read_elsewhere(folder: Path) -> None:
    made = dd.dataset(folder / "*.nettrace")
    for table in ("GC/Start", "events", "gc"):
        tasks = pickle.loads(pickle.dumps(made.tasks(table, ["file", "pid"])))
        assert [task.file for task in tasks] == list(made.files)
        parts = [task.read() for task in tasks]
        assert sum(part.num_rows for part in parts) == sum(batch.num_rows for batch in made.batches(table, "pid"))
        assert all(part.schema.names == ["file", "pid"] for part in parts)


def test_a_task_of_an_open_trace_takes_its_file_along(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    with open("events-10.nettrace", "rb") as plain, gzip.open("packed.nettrace.gz", "wb") as packed:
        packed.write(plain.read())
    for name in ("events-10.nettrace", "packed.nettrace.gz"):
        with dd.open(name) as trace:
            made = dd.dataset([trace, "gccollect-10.nettrace"])
            for table in ("GC/Start", "gc"):
                here = [task.read() for task in made.tasks(table, where=WHERE if table == "GC/Start" else None)]
                sent = pickle.dumps((made, made.tasks(table, where=WHERE if table == "GC/Start" else None)))
                with monkeypatch.context() as elsewhere:
                    elsewhere.chdir("/")
                    (again, tasks) = pickle.loads(sent)
                    assert tasks[0].read() == here[0]
                    assert again.files == made.files == (name, "gccollect-10.nettrace")
                assert [task.read() for task in tasks] == here
            assert made.files[0] == trace.name
    (task, _) = tasks
    Path("packed.nettrace.gz").unlink()
    with pytest.raises(InputError, match=r"packed\.nettrace\.gz"):
        task.read()


def test_a_task_of_a_trace_that_no_file_has_says_so_when_it_is_pickled() -> None:
    for name in ("x", ""):
        trace = Trace(data_of(named("events-10")), name=name)
        made = dd.dataset(trace)
        assert [task.file for task in made.tasks("events", "ms")] == [trace.name]
        for one in (made, made.tasks("events", "ms")):
            with pytest.raises(UsageError, match=f"^{name or 'a trace'}: what came as bytes .* dd.dataset$") as raised:
                pickle.dumps(one)
            assert "\n" not in str(raised.value)


def test_what_is_fetched_is_gone_when_it_is_closed(
    bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = dd.dataset(bucket)
    for batch in made.batches("GC/Start", "ms"):
        assert batch.num_rows
        assert list(tmp_path.iterdir()) == []
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_not_there_are_told(folder: Path) -> None:
    made = dd.dataset(folder / "*.nettrace")
    with pytest.raises(UnknownName, match="near: GC/Start"):
        list(made.batches("GC/Strat"))
    with pytest.raises(UnknownName, match="near: Reason"):
        list(made.batches("GC/Start", ["Raeson"]))
    with pytest.raises(UsageError, match="spans"):
        list(made.batches("spans"))
    with pytest.raises(UsageError, match="names"):
        list(made.batches(3))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["run [1].nettrace", "what?.nettrace", "a*b.nettrace"])
def test_a_file_elsewhere_that_is_called_as_a_pattern_is_read_by_its_name(name: str) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe(f"/called/{name}", data_of(named("gccollect-10")))
    memory.pipe("/called/axb.nettrace", data_of(named("events-10")))
    try:
        listed = [one for one in dd.dataset("memory://called/*.nettrace").files if one.endswith(name)]
        assert len(listed) == 1
        assert listed == [f"memory://called/{name}"]  # as one would write it, for two answers to be joined by it
        found = dd.dataset(listed)
        assert found.files == tuple(listed)
        expected = len(Trace(data_of(named("gccollect-10"))).events())
        assert found.sql("select count(*) from events").to_pylist() == [{"count_star()": expected}]
    finally:
        memory.rm("/called", recursive=True)


def test_what_is_wrong_with_a_recording_elsewhere_names_its_address() -> None:
    """And not the file that it was fetched into, which is gone."""
    memory, whole = fsspec.filesystem("memory"), bytearray(data_of(named("events-10")))
    whole[300_000:300_200] = b"\xff" * 200
    memory.pipe("/odd/a.nettrace", b"garbage" * 100)
    memory.pipe("/cut/a.nettrace", bytes(whole))
    try:
        for ask in (lambda made: made.sql("select count(*) from gc"), lambda made: list(made.batches("GC/Start"))):
            with pytest.raises(FormatError, match=r"^memory://.*odd/a\.nettrace: first bytes"):
                ask(dd.dataset("memory://odd/*.nettrace"))
        damage = dd.dataset("memory://cut/*.nettrace").sql("select count(*) from gc").losses.damage
        assert damage is not None
        assert re.match(r"memory://.*cut/a\.nettrace: EventBlock", damage)
    finally:
        memory.rm("/odd", recursive=True)
        memory.rm("/cut", recursive=True)


@pytest.mark.parametrize("odd", ["\0bad", ["\0bad"], "file://\0bad", "\0*.nettrace"])
def test_a_path_with_a_nul_is_told(odd: str | list[str]) -> None:
    with pytest.raises(InputError, match="null byte"):
        dd.dataset(odd)


def test_a_file_system_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="memory://no/file"):
        list(dd.dataset("memory://no/file.nettrace").batches("events", "ms"))
    with pytest.raises(InputError, match="no file has a name like this"):
        dd.dataset("memory://no/*.nettrace")
    with pytest.raises(InputError, match=r"^zip://a\.nettrace::/no/file\.zip: No such file"):
        list(dd.dataset("zip://a.nettrace::/no/file.zip").batches("events", "ms"))
    with pytest.raises(UsageError, match="nonsense"):
        dd.dataset("nonsense://bucket/*.nettrace")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingDependency, match=r"dotnetdiag\[dataset\]"):
        dd.dataset("memory://bucket/*.nettrace")


def test_a_recording_that_grows_numbers_wide_and_texts_where_nothing_else_is_common() -> None:
    from dotnetdiag.query.batches import united

    one = pa.schema([("a", pa.uint16()), ("b", pa.int32()), ("C", pa.int64()), ("n", pa.null())])
    other = pa.schema([("a", pa.uint32()), ("b", pa.large_string()), ("c", pa.int64()), ("n", pa.float64())])
    assert united([one, other], "x") == pa.schema(
        [("a", pa.uint32()), ("b", pa.large_string()), ("C", pa.int64()), ("n", pa.float64())]
    )
    signed, unsigned = pa.schema([("a", pa.int32())]), pa.schema([("a", pa.uint64())])
    assert (
        united([signed, unsigned, signed], "x")
        == united([unsigned, signed], "x")
        == pa.schema([("a", pa.decimal128(20))])
    )
    with pytest.raises(UsageError, match=r"x\.a is list"):
        united([pa.schema([("a", pa.list_(pa.int8()))]), one], "x")


@pytest.mark.parametrize(
    ("code", "kind", "value", "expected"),
    [
        (TypeCode.UINT64, "<Q", 2**64 - 1, [1, 2**64 - 1]),
        (TypeCode.DOUBLE, "<d", 0.5, [1, 0.5]),
        (TypeCode.INT64, "<q", 2**62 + 1, [1, 2**62 + 1]),
    ],
)
def test_numbers_of_another_kind_in_another_recording(
    code: TypeCode, kind: str, value: float, expected: list[float], tmp_path: Path
) -> None:
    for name, own, pack, number in (("a", TypeCode.INT32, "<i", 1), ("b", code, kind, value)):
        with (tmp_path / f"{name}.nettrace").open("wb") as file, Writer(file) as writer:
            fields = (Field(name="n", type=FieldType(code=own)),)
            writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="X", fields=fields))
            writer.write_event(1, 1, struct.pack(pack, number), thread=1)
    made = dd.dataset(tmp_path / "*.nettrace")
    assert [row for batch in made.batches("X", ["n"]) for row in batch.column("n").to_pylist()] == expected
    assert sorted(
        float(one) for one in dd.sql(str(tmp_path / "*.nettrace"), 'select n from "X"').values("n")
    ) == sorted(map(float, expected))


def test_few_recordings_are_open_at_a_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, most = [0], [0]
    really, closed = files.RecordingFile.open, files.RecordingFile.close

    def opens(self: files.RecordingFile) -> Trace:
        opened[0] += 1
        most[0] = max(most[0], opened[0])
        return really(self)

    def closes(self: files.RecordingFile, trace: Trace) -> None:
        opened[0] -= 1
        closed(self, trace)

    monkeypatch.setattr(files.RecordingFile, "open", opens)
    monkeypatch.setattr(files.RecordingFile, "close", closes)
    paths = [str(path) for path in folder.iterdir()]
    assert len(dd.sql(paths * 1, 'select file from "GC/Start" group by file')) == len(BEGINS)
    assert opened == [0]
    assert most[0] <= 2 + 1
    made = dd.dataset(paths)
    assert isinstance(made, Dataset)
    assert repr(made).startswith("<Dataset of 3 recordings: ")
    list(made.batches("events", "ms"))
    assert opened == [0]


def test_two_data_sets_are_joined(folder: Path) -> None:
    """The other is one of ours too, of which pyarrow itself must ask nothing."""
    recordings = dd.dataset(str(folder / "events-10.nettrace"))
    one, other = recordings.to_arrow("jit"), recordings.to_arrow("jit")
    joined = one.join(other, "start_ms", right_suffix="_other").to_table()
    assert {"start_ms", "method", "method_other"} <= set(joined.column_names)
    assert joined.num_rows == one.count_rows()


def test_all_that_arrow_asks_of_a_data_set_is_answered_or_refused(folder: Path, tmp_path: Path) -> None:
    made = dd.dataset(str(folder / "events-10.nettrace")).to_arrow("GC/Start")
    whole = made.to_table()
    deep = made.filter(WHERE)
    assert deep.count_rows() == deep.to_table().num_rows == made.count_rows(filter=WHERE) < len(whole)
    assert deep.filter(pyarrow.dataset.field("Depth") > 1).to_table() == made.to_table(
        filter=pyarrow.dataset.field("Depth") > 1
    )
    assert made.scanner(columns=["Depth"], filter=WHERE).to_table() == deep.to_table(columns=["Depth"])
    assert made.take([2, 0]) == whole.take([2, 0])
    assert made.sort_by([("ms", "descending")]).to_table()["ms"].to_pylist() == sorted(
        whole["ms"].to_pylist(), reverse=True
    )
    counts = pyarrow.dataset.dataset(made.to_table(["Count", "Depth"]))
    assert counts.join(counts, "Count", right_suffix="_other").to_table().num_rows == len(whole)
    pyarrow.dataset.write_dataset(made, tmp_path / "written", format="parquet")
    assert pyarrow.dataset.dataset(tmp_path / "written").count_rows() == len(whole)
    assert made.partition_expression.equals(pyarrow.dataset.scalar(True))
    for refused in (made.get_fragments, lambda: made.replace_schema(whole.schema)):
        with pytest.raises(NotImplementedError, match="a scan of recordings has"):
            refused()


def test_a_pattern_reaches_into_another_file_system(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "all.zip", "w") as file:
        for name in ("b", "a"):
            file.writestr(f"in/{name}.nettrace", data_of("gccollect-10.nettrace"))
        file.writestr("in/other.txt", "")
    made = dd.dataset(f"zip://in/*.nettrace::{tmp_path}/all.zip").sql(
        "select file, count(*) as n from gc group by file order by file"
    )
    assert made.to_pylist() == [
        {"file": f"zip://in/{name}.nettrace::{tmp_path}/all.zip", "n": 22} for name in ("a", "b")
    ]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_content_of_a_recording_is_not_taken_for_paths(kind: type) -> None:
    with pytest.raises(UsageError, match=r"give paths of files, not \w+; dd.open takes the content"):
        dd.sql(kind(data_of("gccollect-10.nettrace")), "from gc")
