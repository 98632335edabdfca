"""Reports and comparisons as whole jobs, and what is shown of them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.analysis.traces import allocation, event_source, external, managed, runtime_is, traced
from tests.nettrace.recordings import recording

from dotnetdiag.cli.trace_report import COMMANDS, WORSE
from dotnetdiag.errors import DiagnosticsError, GrammarError, UnknownName, UsageError
from dotnetdiag.recipes import exporting
from dotnetdiag.recipes.diffing import DiffOptions, compare, parse_limit
from dotnetdiag.recipes.limit import Limit
from dotnetdiag.recipes.report import UNTOLD, ReportOptions, ViewOptions, parse_time_range, report, view
from dotnetdiag.trace.method_names import Style


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """In the second ``P.Slow`` takes 30 ms instead of 10; both wait for 50 ms."""
    made = []
    for name, slow in (("before", 10), ("after", 30)):
        trace = traced(
            managed(0, 1, "App.P.Slow", "App.P.Main"),
            managed(slow, 1, "App.P.Fast", "App.P.Main"),
            external(slow + 10, 1, "System.Io.Wait", "App.P.Main"),
            managed(slow + 60, 1, 0x99),
            managed(0, 2, 0x99),
            managed(1, 2, 0x99),
            modules={"System.Io": "/x/System.IO.dll"},
            lost=3,
        )
        path = tmp_path / f"{name}.nettrace"
        path.write_bytes(bytes(trace.raw.buffer))
        made.append(path)
    return made[0], made[1]


def run(*arguments: str | Path) -> Result:
    group = click.Group(commands={one.name or "": one for one in COMMANDS})
    return CliRunner().invoke(group, [str(argument) for argument in arguments])


# the recipes ----------------------------------------------------------------------------------------------------------


def test_a_report_has_rows_and_what_is_missing(files: tuple[Path, Path]) -> None:
    made = report(files[0], ReportOptions(number=2, view=ViewOptions(style=Style.SHORT)))
    assert [(row.name, row.exclusive, row.inclusive) for row in made.rows] == [
        ("System.Io.Wait", 50.0, 50.0),
        ("App.P.Slow", 10.0, 10.0),
    ]
    assert (made.total, made.samples, made.threads, made.unit) == (71.0, 4, 2, "ms")
    assert (made.lost, made.frames, made.unresolved) == (3, 5, 1)
    assert made.shortcomings == "3 events lost; 1 of 5 frames unresolved"
    assert made.states == {"cpu": 21.0, "unmanaged": 50.0}
    assert json.loads(json.dumps(made.to_json()))["rows"][0]["name"] == "System.Io.Wait"


def test_groups_do_not_hide_what_is_unresolved(files: tuple[Path, Path]) -> None:
    made = report(files[0], ReportOptions(view=ViewOptions(by="module")))
    assert {row.name for row in made.rows} == {"System.IO", "app", "?"}
    assert (made.frames, made.unresolved) == (5, 1)


def test_every_option_of_the_view_counts(files: tuple[Path, Path]) -> None:
    def names(**options: Any) -> dict[str, float]:
        view = ViewOptions(style=Style.SHORT, **options)
        return {row.name: row.exclusive for row in report(files[0], ReportOptions(number=9, view=view)).rows}

    assert names(state="waiting") == {"System.Io.Wait": 50.0, "App.P.Main": 0.0}
    assert names(threads=("2",)) == {"?!0x99": 1.0}
    assert names(start_s=0.005, end_s=0.012) == {"App.P.Slow": 5.0, "App.P.Fast": 2.0, "App.P.Main": 0.0}
    assert names(focus=("fast",)) == {"App.P.Fast": 10.0, "App.P.Main": 0.0}
    assert names(focus=("main",), ignore=("fast", "wait")) == {"App.P.Slow": 10.0, "App.P.Main": 0.0}
    assert names(hide_framework=True, threads=("1",))["App.P.Main"] == 50.0
    assert names(weight="samples")["App.P.Slow"] == 1.0
    assert names(by="thread") == {"Thread (1)": 70.0, "Thread (2)": 1.0}
    with pytest.raises(UsageError, match="state 'sleeping'"):
        names(state="sleeping")


@pytest.mark.parametrize("fold_recursion", [False, True])
def test_a_method_that_calls_itself_is_one_frame_where_that_is_asked_for(fold_recursion: bool) -> None:
    trace = traced(managed(0, 1, "P.F", "P.F", "P.G", "P.F", "P.Main", "P.Main"), managed(2, 1))
    shown = view(trace, ViewOptions(fold_recursion=fold_recursion))
    path = [shown.frames.name(frame, Style.SHORT) for frame in shown.tree.path(int(shown.node[0]))]
    whole = ["P.F", "P.F", "P.G", "P.F", "P.Main", "P.Main"]
    assert path == (["P.F", "P.G", "P.F", "P.Main"] if fold_recursion else whole)


def test_a_time_without_an_end_counts_the_sample_at_the_very_end(files: tuple[Path, Path]) -> None:
    def samples(time: str) -> float:
        start_s, end_s = parse_time_range(time)
        return report(files[0], ReportOptions(view=ViewOptions(weight="samples", start_s=start_s, end_s=end_s))).total

    assert [samples(time) for time in ("0-", "1ms-", "70ms-", "0-70ms")] == [6, 4, 1, 5]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1.5-2", (1.5, 2.0)), ("500ms-2s", (0.5, 2.0)), ("10s-", (10.0, None)), ("-1m", (None, 60.0)), ("0-0", (0, 0))],
)
def test_times_are_read(text: str, expected: tuple[float | None, float | None]) -> None:
    assert parse_time_range(text) == expected


@pytest.mark.parametrize("text", ["", "-", "5", "2-1", "a-b", "1-2-3", "١-٢"])
def test_times_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(GrammarError):
        parse_time_range(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5%", (5.0, True)),
        (" 2.5 % ", (2.5, True)),
        ("20ms", (20.0, False)),
        ("1.5s", (1500.0, False)),
        ("7", (7.0, False)),
    ],
)
def test_limits_are_read(text: str, expected: tuple[float, bool]) -> None:
    limit = parse_limit(text)
    assert (limit.amount, limit.percent) == expected


@pytest.mark.parametrize("text", ["", "%", "x%", "-5%", "5 apples", "²%"])
def test_limits_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(GrammarError, match=r"^limit: write 5%, or an amount such as 20ms"):
        parse_limit(text)


def test_a_comparison_is_of_time_on_the_processor(files: tuple[Path, Path]) -> None:
    made = compare(*files, DiffOptions(limit=Limit(amount=10, percent=True)))
    assert (made.total.before, made.total.after) == (21.0, 41.0)
    assert made.limit == 2.1
    assert [(row.name, row.absolute) for row in made.above] == [("(total)", 20.0), ("app!App.P.Slow()", 20.0)]
    assert made.rows[0].relative == 200.0
    assert made.shortcomings[0] == "before.nettrace: 3 events lost; 1 of 4 frames unresolved"


def test_methods_are_held_to_what_they_took_themselves(files: tuple[Path, Path]) -> None:
    options = DiffOptions(inclusive=True, limit=Limit(amount=10, percent=False))
    made = compare(*files, options)
    assert {row.name for row in made.rows[:2]} == {"app!App.P.Main()", "app!App.P.Slow()"}
    assert [row.name for row in made.above] == ["(total)", "app!App.P.Slow()"]


def test_shares_forgive_a_longer_recording(files: tuple[Path, Path]) -> None:
    made = compare(*files, DiffOptions(shares=True, limit=Limit(amount=50, percent=True)))
    assert made.total.absolute == 0
    assert made.above == ()


def test_groups_are_compared_too(files: tuple[Path, Path]) -> None:
    made = compare(*files, DiffOptions(view=ViewOptions(by="namespace", state="all")))
    assert {row.name: row.absolute for row in made.rows} == {"App": 20.0, "System": 0.0, "?": 0.0}


def test_a_first_trace_without_samples_cannot_be_a_limit(tmp_path: Path, files: tuple[Path, Path]) -> None:
    empty = tmp_path / "empty.nettrace"
    empty.write_bytes(bytes(traced(allocation(1, 1, "P.A")).raw.buffer))
    for options in (DiffOptions(limit=Limit(amount=1, percent=True)), DiffOptions()):
        with pytest.raises(UsageError, match=r"empty\.nettrace has no samples"):
            compare(empty, files[0], options)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_recording_without_samples_in_the_state_is_not_compared(
    tmp_path: Path, files: tuple[Path, Path], swapped: bool
) -> None:
    path = tmp_path / "idle.nettrace"
    path.write_bytes(bytes(traced(external(0, 1, "P.A"), external(9, 1, "P.A"), external(10, 1)).raw.buffer))
    pair = (path, files[0]) if swapped else (files[0], path)
    with pytest.raises(UnknownName, match=r"^no state 'cpu' in the 2 samples of idle\.nettrace$"):
        compare(*pair, DiffOptions())
    assert compare(*pair, DiffOptions(view=ViewOptions(state="all"))).total.absolute
    assert compare(files[0], files[0], DiffOptions(view=ViewOptions(focus=("no such",)))).total.after == 0


@pytest.mark.parametrize("state", ["cpu", "waiting"])
def test_the_states_of_net_9_are_refused_for_its_sampler_does_not_tell_them(tmp_path: Path, state: str) -> None:
    samples = [external(0, 1, "P.A"), external(9, 1, "P.A"), managed(10, 1, "P.A"), external(20, 1)]
    for version, told in (("8.0.1", True), ("9.0.22", False), ("10.0.0", True)):
        path = tmp_path / f"{version}.nettrace"
        path.write_bytes(bytes(traced(*samples, runtime_is(21, 1, version)).raw.buffer))
        options = ReportOptions(view=ViewOptions(state=state))
        if told:
            assert report(path, options).samples == {"cpu": 1, "waiting": 2}[state]
            continue
        for ask in (lambda: report(path, options), lambda: compare(path, path, DiffOptions(view=options.view))):  # noqa: B023
            with pytest.raises(UnknownName, match=r"in 9\.0\.22\.nettrace: the sampler of \.NET 9 does not tell"):
                ask()
        assert report(path, ReportOptions()).samples == 3


def test_of_net_9_it_is_said_that_what_is_unmanaged_may_have_run() -> None:
    for version, managed_samples, noted in (("9.0.22", 0, True), ("9.0.22", 1, False), ("10.0.0", 0, False)):
        ran = [managed(10 + at / 100, 1, "P.A") for at in range(30 * managed_samples)]
        trace = traced(external(0, 1, "P.A"), external(9, 1, "P.A"), *ran, external(20, 1), runtime_is(21, 1, version))
        assert (UNTOLD in view(trace, ViewOptions()).notes) is noted


def test_a_state_with_next_to_no_samples_is_told() -> None:
    idle = traced(managed(0, 1, "P.A"), *(external(at, 1, "P.A") for at in range(1, 102)))
    assert view(idle, ViewOptions(state="cpu")).notes == ("only 1 of 101 samples are in the state cpu",)
    assert view(idle, ViewOptions(state="waiting")).notes == ()


# the commands ---------------------------------------------------------------------------------------------------------


def test_report_prints_a_table_and_the_shortcomings(files: tuple[Path, Path]) -> None:
    done = run("report", files[0], "topN", "-n", "1", "--short")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "Top 1 Functions (Exclusive) of 71 ms in before.nettrace",
        "4 samples of 2 threads: 21 ms cpu, 50 ms unmanaged",
        "",
        "inclusive  exclusive  inclusive ms  exclusive ms  method",
        "   70.42%     70.42%            50            50  System.Io.Wait",
        "",
        "1 of 5 frames unresolved",
    ]
    assert done.stderr == "warning: before.nettrace: 3 events were lost when it was recorded\n"


def test_report_takes_its_options_in_any_order(files: tuple[Path, Path]) -> None:
    first = run("report", files[0], "topN", "--inclusive", "--by", "namespace", "--time", "0-20ms")
    second = run("report", "--by", "namespace", "--time", "0-20ms", "--inclusive", files[0])
    assert first.exit_code == 0
    assert first.stdout == second.stdout
    assert "Top 2 Namespaces (Inclusive)" in first.stdout


@pytest.fixture
def marked(tmp_path: Path) -> Path:
    """The thread waits after 3 ms, is sampled no more after 5, and says goodbye through an EventSource."""
    path = tmp_path / "marked.nettrace"
    events = (managed(0, 1, "P.Run"), allocation(2, 1, "P.New"), external(3, 1, "P.Wait"), managed(5, 1, "P.Last"))
    path.write_bytes(bytes(traced(*events, event_source(1000, 1, "P.Say")).raw.buffer))
    return path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("report x", {"P.Run": 3.0, "P.Wait": 2.0}),
        ("report x --event-marks", {"P.Last": 995.0, "P.Run": 2.0, "P.Wait": 2.0, "P.New": 1.0}),
        ("--compat report x topN", {"P.Last": 995.0, "P.Run": 2.0, "P.Wait": 2.0, "P.New": 1.0}),
        ("--compat report x topN --no-event-marks", {"P.Run": 3.0, "P.Wait": 2.0}),
    ],
)
def test_only_samples_are_time_unless_dotnet_trace_is_to_be_followed(
    words: str, expected: dict[str, float], marked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["dotnetdiag", *words.split()])
    _, _, more = words.partition("report x")
    done = run("report", marked, "--short", "--json", *more.split())
    assert {row["name"]: row["exclusive"] for row in json.loads(done.stdout)["rows"]} == expected


def test_report_diff_and_converted_files_agree(marked: Path, tmp_path: Path) -> None:
    exporting.convert_file(marked, ["json"], tmp_path / "out.json")
    converted = json.loads((tmp_path / "out.json").read_text())
    reported = json.loads(run("report", marked, "topN", "--json").stdout)
    compared = json.loads(run("diff", marked, marked, "--json", "--state", "all").stdout)
    assert converted["total"] == reported["total"] == compared["total"]["before"] == 5.0


def test_report_in_json_has_all_of_it(files: tuple[Path, Path]) -> None:
    done = json.loads(run("report", files[0], "topN", "--json", "--state", "cpu").stdout)
    assert done["total"] == 21.0
    assert {row["name"] for row in done["rows"]} >= {"app!App.P.Slow()", "app!App.P.Fast()", "!0x99"}
    assert (done["lost"], done["unresolved"], done["complete"]) == (3, 1, True)


def test_a_trace_without_samples_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "ticks.nettrace"
    path.write_bytes(bytes(traced(allocation(1, 1, "P.A")).raw.buffer))
    done = run("report", path, "topN")
    assert done.exit_code == 0
    assert "No method calls found." in done.stdout
    assert "note: the trace has no CPU samples" in done.stdout


@pytest.mark.parametrize("more", [[], ["-v"], ["--json"], ["--short"]])
@pytest.mark.parametrize("verb", ["report", "diff"])
def test_names_do_not_drive_the_terminal(verb: str, more: list[str], tmp_path: Path) -> None:
    path = tmp_path / "evil\x1b[2J.nettrace"
    path.write_bytes(bytes(traced(managed(0, 1, "P.\x1b[31m\x9bred\r"), managed(1, 1)).raw.buffer))
    done = run(
        verb,
        *([path, "topN"] if verb == "report" else [path, path]),
        *more,
        *(["--fail-above", "0%"] * (verb == "diff")),
    )
    assert done.exit_code == 0, done.output
    assert ("\\u001b[31m\\u009bred\\r" if "--json" in more else "\\x1b[31m\\x9bred\\x0d") in done.stdout
    assert not {*done.stdout, *done.stderr} & {"\x1b", "\x9b", "\r"}


def test_a_broken_trace_gives_what_is_whole(files: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "cut.nettrace"
    path.write_bytes(files[0].read_bytes()[:-3])
    done = run("report", path)
    assert done.exit_code == 0
    assert re.search(r"^warning: cut\.nettrace: .*; what was whole was read$", done.stderr, re.MULTILINE)


def test_diff_says_what_grew_and_exits_with_its_code(files: tuple[Path, Path]) -> None:
    done = run("diff", *files, "--fail-above", "5%", "--short")
    assert done.exit_code == WORSE == 1
    assert done.stdout.splitlines()[2:6] == [
        "before ms  after ms  change  relative  method",
        "       21        41     +20    +95.2%  (total)  <- above the limit",
        "       10        30     +20   +200.0%  App.P.Slow  <- above the limit",
        "        1         1      +0     +0.0%  ?!?",
    ]
    assert "2 above the limit of 1.05 ms" in done.stderr
    assert run("diff", *files, "--fail-above", "20ms").exit_code == 0
    assert run("diff", *reversed(files), "--fail-above", "5%").exit_code == 0
    assert run("diff", *files).exit_code == 0


@pytest.mark.parametrize("more", [[], ["--inclusive"]])
def test_diff_shows_as_many_rows_as_asked_for_first_those_above_the_limit(more: list[str], tmp_path: Path) -> None:
    """A method that shrank by more than all that grew, and one that grew by more than the limit allows beside one that did not."""
    took = {"P.Shrunk": (90, 10), "P.Grown": (10, 40), "P.Longer": (10, 60), "P.Same": (5, 5)}
    files = [tmp_path / "before.nettrace", tmp_path / "after.nettrace"]
    for at, path in enumerate(files):
        samples, now = [], 0
        for name, times in took.items():
            samples.append(managed(now, 1, name))
            now += times[at]
        path.write_bytes(bytes(traced(*samples, managed(now, 1)).raw.buffer))

    def shown(*words: str) -> list[str]:
        said = run("diff", *files, "--short", "--fail-above", "20ms", *more, *words)
        assert said.exit_code == WORSE
        return re.findall(r"P\.\w+|\(total\)", said.stdout)

    for number, names in (
        (0, ["(total)"]),
        (1, ["(total)", "P.Longer"]),
        (3, ["(total)", "P.Longer", "P.Grown", "P.Shrunk"]),
    ):
        assert shown("-n", str(number)) == names
        assert [
            re.findall(r"P\.\w+|\(total\)", row)[0]
            for row in run(
                "diff", *files, "--short", "--fail-above", "20ms", "-n", str(number), "--format", "csv", *more
            ).stdout.splitlines()[1:]
        ] == names
    done = json.loads(run("diff", *files, "--short", "-n", "0", "--fail-above", "20ms", "--json", *more).stdout)
    assert [row["name"] for row in done["above"]] == ["P.Longer", "P.Grown"]


@pytest.mark.parametrize(
    "arguments", [["--time", "5-1"], ["--focus", "("], ["--thread", "77"], ["--ignore", "["], ["--time", "x"]]
)
def test_wrong_options_are_errors_of_ours(files: tuple[Path, Path], arguments: list[str]) -> None:
    done = run("report", files[0], *arguments)
    assert isinstance(done.exception, DiagnosticsError)
    assert isinstance(done.exception, UsageError)


@pytest.mark.parametrize(
    "words",
    [
        *("report", "report --json", "report -n 0", "diff {1}", "diff {1} --json", "info", "info --json", "dump"),
        *("events", "events --format jsonl", "events --format csv", "convert --format nettrace -o {1}.converted"),
    ],
)
def test_a_reader_who_has_gone_is_no_error_of_any_verb_that_reads(words: str, files: tuple[Path, Path]) -> None:
    """As in ``| head``."""
    verb, *more = words.format(*files).split()
    program = [sys.executable, "-m", "dotnetdiag.cli.main", "trace", verb, str(files[0]), *more]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = [line for line in process.stderr.read().splitlines() if not line.startswith(("warning:", "note:"))]
        said = [line for line in said if " events lost; " not in line]
        assert (said, process.wait(60)) == ([], 0)


def test_recordings_compare_with_themselves() -> None:
    path = recording("cpu-only-10.nettrace")
    done = run("diff", path, path, "--fail-above", "0%")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0].count("cpu-only-10.nettrace") == 2
