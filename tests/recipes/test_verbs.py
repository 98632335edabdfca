"""The verbs of the command line, called from Python."""

from __future__ import annotations

import inspect
import shutil
from pathlib import Path

import pytest
from tests.nettrace.recordings import recording

import dotnetdiag as dd
from dotnetdiag.cli.trace import ENTRIES
from dotnetdiag.errors import InputError, OutputExists, UnknownName, UsageError
from dotnetdiag.recipes.target import Target, connected
from dotnetdiag.recipes.verbs import Runtime, target_of


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return Path(shutil.copy(recording("default-10.nettrace"), tmp_path / "app.nettrace"))


def test_the_root_has_every_verb_of_recordings_and_says_what_it_takes() -> None:
    elsewhere = {"events": "Trace.events", "dump": "", "list-profiles": "", "user-events": "", "ps": "processes"}
    for verb in ENTRIES:
        if verb not in elsewhere:
            assert callable(getattr(dd, verb)), verb
            assert verb in dir(dd)
    for name in ("collect", "diff", "merge", "trim", "redact", "report", "stack"):
        assert inspect.signature(getattr(dd, name)).parameters
        assert getattr(dd, name).__doc__


def test_a_recording_is_trimmed_filtered_merged_and_redacted(source: Path, tmp_path: Path) -> None:
    part = dd.trim(source, tmp_path / "part.nettrace", start="500ms", end=1.5)
    whole = dd.info(source)
    assert 0 < (part.events or 0) < whole.events
    kept = dd.filter(source, tmp_path / "kept.nettrace", providers="Microsoft-DotNETCore-SampleProfiler", strict=True)
    assert kept.events == len(dd.open(source)["Thread/Sample"])
    both = dd.merge(part.path, kept.path, tmp_path / "both.nettrace")
    assert both.events == (part.events or 0) + (kept.events or 0)
    assert dd.redact(source, tmp_path / "safe.nettrace").replaced
    with pytest.raises(OutputExists):
        dd.trim(source, part.path, start=1)
    assert dd.trim(source, part.path, start=1, force=True).path == part.path
    (made,) = dd.convert(source, "speedscope")
    assert made.path == source.with_name("app.speedscope.json")


def test_a_report_is_that_of_the_command_line_and_a_difference_that_of_two(source: Path) -> None:
    from dotnetdiag.recipes.report import ReportOptions, ViewOptions
    from dotnetdiag.recipes.report import report as of_path

    trace = dd.open(source)
    view = ViewOptions(by="module", state="cpu")
    expected = of_path(source, ReportOptions(number=3, view=view)).rows
    assert (
        dd.report(trace, 3, by="module", state="cpu").rows
        == dd.report(source, 3, by="module", state="cpu").rows
        == expected
    )
    assert all(not method.exclusive.absolute for method in dd.diff(source, trace).methods)
    assert len(dd.diff(dd.cpu(trace), trace).changes()) > 10


def test_a_question_takes_a_path_as_well_as_a_trace(source: Path) -> None:
    trace = dd.open(source)
    assert dd.cpu(source).total == dd.cpu(trace).total
    assert dd.stacks(source, "Thread/Sample").total == len(trace["Thread/Sample"])
    assert len(dd.spans(source, "GC/Start", "GC/Stop")) == len(trace["GC/Start"])
    assert len(trace.events("GC/Start")) == len(trace["GC/Start"])
    assert dd.cpu(source).between("500ms", "1s").total == dd.cpu(trace).between(0.5, 1).total > 0
    expected = dd.report(trace, start=0.5, end=1)
    assert dd.report(source, start="500ms", end="1").rows == expected.rows


def test_a_difference_takes_the_view_of_a_report(source: Path) -> None:
    by_module = dd.diff(source, source, by="module", state="all")
    assert len(by_module.methods) < len(dd.diff(source, source, state="all").methods)


def test_recordings_to_merge_may_be_a_list(source: Path, tmp_path: Path) -> None:
    one = dd.merge([source, source], tmp_path / "one.nettrace")
    two = dd.merge(source, source, tmp_path / "two.nettrace")
    assert one.events == two.events


def test_a_result_is_shown_and_handed_on_as_its_table(source: Path) -> None:
    import polars

    results = (dd.report(source), dd.diff(source, source), dd.info(source), dd.cpu(source), dd.processes())
    for result in results:
        table = result.table()
        if not isinstance(result, list):  # which polars takes for its rows
            assert polars.DataFrame(result).columns == list(table.columns)
        assert len(result.to_pandas()) == len(result.to_arrow()) == len(result.to_polars()) == len(table)
        assert "<table>" in result._repr_html_()
        assert len(repr(result)) < 5_000


def test_a_file_that_is_there_is_written_over_only_when_told(source: Path, tmp_path: Path) -> None:
    table = dd.cpu(source).methods()
    path = dd.write(table, tmp_path / "methods.csv")
    with pytest.raises(OutputExists) as caught:
        dd.write(table, path)
    assert caught.value.__notes__ == ["force=True overwrites it"]
    assert dd.write(table, path, force=True) == path


def test_one_text_is_as_good_as_a_list_of_one(source: Path, tmp_path: Path) -> None:
    from dotnetdiag.recipes.verbs import _some

    assert dd.report(source, focus="Burn").rows == dd.report(source, focus=("Burn",)).rows
    assert dd.report(source, ignore="Burn").rows == dd.report(source, ignore=("Burn",)).rows
    assert _some("ab") == _some(["ab"]) == ("ab",)
    with pytest.raises(UsageError, match="no format 'zip'"):
        dd.collect(1, formats="zip")
    with pytest.raises(UsageError, match="no samples of a thread 'no such'"):
        dd.report(source, threads="no such")


def test_nothing_is_trimmed_to_a_time_after_the_end(source: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing is after 1000 s: app\.nettrace ends at"):
        dd.trim(source, tmp_path / "part.nettrace", start=1000)
    assert not (tmp_path / "part.nettrace").exists()


def test_wrong_arguments_are_one_line_that_says_what_to_give(source: Path, tmp_path: Path) -> None:
    for call, words in (
        (lambda: dd.merge(source), "give the recordings, and at the end the file to write"),
        (lambda: dd.trim(source, tmp_path / "x"), "give a start, an end, or both"),
        (lambda: dd.filter(source, tmp_path / "x"), "give providers or events"),
        (lambda: dd.report(source, bye="module"), "no such view: bye; there are weight, "),  # type: ignore[call-arg]
        (lambda: dd.report(source, -1), "-1 rows: give 0 or more"),
        (lambda: dd.report(source, start="soon"), "800ms or dd:hh:mm:ss, or seconds as 1.5 at character 1 of 'soon'"),
        (lambda: dd.report(source, start=[1]), "a time is a number of seconds, or a text"),  # type: ignore[arg-type]
        (lambda: dd.diff(dd.cpu(source), source, by="module"), "a profile is compared as it is"),
        (lambda: dd.gc([source, source]), "several at once with dd.sql or dd.dataset"),  # type: ignore[arg-type]
        (lambda: dd.cpu(3), "give the path of a file, not a int"),  # type: ignore[arg-type]
        (lambda: dd.convert(dd.open(source), "csv"), "give the path of a file, not a Trace"),  # type: ignore[arg-type]
        (lambda: dd.watch(None), "None is no runtime: give a pid, a name, the address of a port, or a Client"),  # type: ignore[arg-type]
        (lambda: dd.watch("no such name", limit=-1), "a limit of -1 events: give 0 or more"),
        (lambda: dd.open(source).events(where=3), "where=3: give a text"),  # type: ignore[arg-type]
        (lambda: dd.open(source).events(time=5), "time=5: give .from, to."),  # type: ignore[arg-type]
        (lambda: dd.stack(1, style="long"), "style 'long': one of full, short"),
        (lambda: dd.collect(), "give a runtime or a command"),
        (lambda: dd.collect(1, command=["x"]), "give a runtime or a command"),
        (lambda: dd.stack(True), "True is no runtime"),
        (lambda: dd.stack(""), "'' is no runtime"),
    ):
        with pytest.raises(UsageError, match=words):
            call()
    with pytest.raises(UnknownName):
        dd.filter(source, tmp_path / "x", events=["No/Such"])
    assert not (tmp_path / "x").exists()


CLIENT = dd.Client(1)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (CLIENT, Target(client=CLIENT)),
        (12, Target(pid=12)),
        ("12", Target(pid=12)),
        ("app", Target(name="app")),
        ("/run/port", Target(port="/run/port")),
        ("host:9000,connect", Target(port="host:9000,connect")),
        (Target(name="x"), Target(name="x")),
    ],
)
def test_a_runtime_is_a_pid_a_name_an_address_or_a_client(given: Runtime, meant: Target) -> None:
    assert target_of(given) == meant


def test_a_client_stays_its_owner_s() -> None:
    with connected(target_of(CLIENT)) as same:
        assert same is CLIENT


def test_typical_mistakes_are_answered_and_results_are_readable(source: Path) -> None:
    trace = dd.open(source)
    table = trace["GC/Start"]
    event = table[0]
    with pytest.raises(UnknownName, match="no field 'Reson' in GC/Start; near: Reason"):
        event["Reson"]
    with pytest.raises(UsageError, match="the name of a field"):
        event[0]  # type: ignore[index]
    with pytest.raises(TypeError, match="not iterable"):
        list(event)  # type: ignore[call-overload]
    with pytest.raises(IndexError, match=r"no row 1000000: the table has \d+"):
        table[1_000_000]
    with pytest.raises(InputError, match="null"):
        dd.open("a\0b")
    one, several = (list(trace.events("GC/Start", fields=fields)) for fields in ("Depth", ["Depth"]))
    assert [event.payload for event in one] == [event.payload for event in several]
    assert repr(trace.lost) == "<LossAccount: 0 events lost>"
    top = dd.cpu(trace).top(3)
    assert repr(top[0]).startswith(f"<{top[0].name()}: ")
    assert top.table()["exclusive"].to_pylist() == [row.exclusive for row in top]
