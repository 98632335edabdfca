"""``dotnet-trace`` and ``dotnetdiag trace``, side by side: each row of ``docs/dotnet-trace.md``."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.live.routing import listed_by_dotnet_trace
from tests.live.runtimes import Target, command, unpack, workload
from tests.nettrace.recordings import data_of

import dotnetdiag

pytestmark = pytest.mark.live

Done = subprocess.CompletedProcess[str]
BRIEF = ("--duration", "00:00:00.2")
RUNDOWN = "Microsoft-Windows-DotNETRuntimeRundown"
NOBODY = "999999999"


@pytest.fixture(scope="module")
def idle() -> Iterator[Target]:
    unpack()
    with workload("10", "idle", "seconds=600") as started:
        yield started


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def sampled(tmp_path: Path) -> Path:
    path = tmp_path / "a.nettrace"
    path.write_bytes(data_of("cpu-only-10.nettrace"))
    return path


def programs() -> dict[str, list[str]]:
    folder = unpack()
    theirs = [str(folder / "dotnet" / "dotnet"), str(folder / "dotnet-trace" / "dotnet-trace.dll")]
    ours = [sys.executable, "-m", "dotnetdiag.cli.main"]
    return {"theirs": theirs, "ours": [*ours, "trace"], "compatible": [*ours, "--compat", "trace"]}


def environment() -> dict[str, str]:
    source = str(Path(dotnetdiag.__file__).parents[1])
    return {**os.environ, **command("10")[1], "DOTNET_CLI_TELEMETRY_OPTOUT": "1", "PYTHONPATH": source}


def run(tool: str, *words: str) -> Done:
    return subprocess.run(
        [*programs()[tool], *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment(),
    )


def both(*words: str) -> tuple[Done, Done]:
    return run("theirs", *words), run("ours", *words)


def said(done: Done) -> str:
    return done.stdout + done.stderr


def providers(name: str) -> set[str]:
    return set(dotnetdiag.open(name).counts())


# words ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        "-p PID -o x --clrevents gc --rundown",
        "-p:PID -o:x --clrevents:gc --rundown:true",
        "-p=PID -o=x --clrevents=gc --rundown=true",
        "--process-id:PID --output:x --clrevents gc --rundown true",
    ],
)
def test_options_are_spelled_in_the_same_ways(words: str, idle: Target) -> None:
    for tool in ("theirs", "ours"):
        done = run(tool, "collect", *words.replace("PID", str(idle.pid)).split(), *BRIEF)
        assert done.returncode == 0, said(done)
        assert RUNDOWN in providers("x")
        Path("x").unlink()


@pytest.mark.parametrize("words", ["--rundown false", "--rundown:false"])
def test_no_rundown_is_none(words: str, idle: Target) -> None:
    for tool in ("theirs", "ours"):
        done = run(tool, "collect", "-p", str(idle.pid), "-o", "x", "--clrevents", "gc", *words.split(), *BRIEF)
        assert done.returncode == 0, said(done)
        assert RUNDOWN not in providers("x")


@pytest.mark.parametrize(
    "words", ["-?", "-h", "--help", "collect -?", "collect -h", "ps -?", "convert -?", "report -?", "list-profiles -?"]
)
def test_help_is_asked_for_in_the_same_ways(words: str) -> None:
    for done in both(*words.split()):
        assert done.returncode == 0
        assert "Usage:" in done.stdout


def test_what_excludes_each_other_is_refused_in_the_same_words(idle: Target) -> None:
    pid = str(idle.pid)
    for words in (["-p", pid, "-n", "x"], ["-p", pid, "--show-child-io"], ["-p", pid, "--", "true"], ["-p", "-3"]):
        theirs, ours = both("collect", *words)
        assert (theirs.returncode, ours.returncode) == (3, 3)
        text = said(theirs).strip().removeprefix("[ERROR] ")
        assert re.sub(r",? or |, ", " ", text) == re.sub(r",? or |, ", " ", said(ours).strip().removeprefix("error: "))


def test_an_option_of_one_value_is_given_once(sampled: Path) -> None:
    theirs, ours = both("report", sampled.name, "topN", "-n", "3", "-n", "4")
    assert (theirs.returncode, ours.returncode) == (1, 3)


# on purpose: what theirs takes for granted, or refuses ----------------------------------------------------------------------


def test_lists_that_are_given_twice_add_up_here(idle: Target) -> None:
    words = ["-p", str(idle.pid), *BRIEF, "-o", "x", "--providers", "A", "--providers", "B"]
    theirs, ours = both("collect", *words)
    assert (theirs.returncode, ours.returncode) == (1, 0)
    assert re.findall(r"^(A|B) +0x", said(ours), re.MULTILINE) == ["A", "B"]


@pytest.mark.parametrize(
    ("text", "theirs_says", "ours_says"),
    [
        ("49592c0f-5a05-516d-aa4b-a64e02026c89", "appears to be a GUID which is not supported", "by name, not by GUID"),
        (",", "defaulting to trace profiles", "a provider's name is missing"),
    ],
)
def test_providers_that_cannot_be_meant_are_refused_here(
    text: str, theirs_says: str, ours_says: str, idle: Target
) -> None:
    theirs, ours = both("collect", "-p", str(idle.pid), *BRIEF, "-o", "x", "--providers", text)
    assert (theirs.returncode, ours.returncode) == (0, 3)
    assert theirs_says in said(theirs)
    assert ours_says in said(ours)


def test_a_router_is_ours_here() -> None:
    theirs, ours = both("collect", "--dsrouter", "ios")
    assert (theirs.returncode, ours.returncode) == (2, 1)  # theirs has none beside it, ours finds no device
    assert "127.0.0.1:9000" in said(ours)


# exit codes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "theirs", "ours"),
    [
        ("", 1, 0),
        ("nosuch", 1, 3),
        ("collect -p x", 1, 3),
        ("collect", 3, 3),
        (f"collect -p {NOBODY}", 2, 3),
        ("collect -n no-such-process", 3, 3),
        ("collect -p 1 --profile nosuch", 3, 3),
        ("collect -p 1 --duration soon", 1, 3),
        ("collect -p 1 --clrevents nosuch", 3, 3),
        ("collect -- no-such-program", 3, 3),
        ("convert nosuch.nettrace --format Speedscope", 1, 2),
        ("convert a.nettrace", 1, 3),
        ("convert notes.txt --format Speedscope", 3, 2),
        ("convert a.nettrace --format nosuch", 1, 3),
        ("convert a.nettrace --format ,", 1, 3),
        ("collect -p 1 --format nosuch", 1, 3),
        ("convert empty.nettrace --format Speedscope", 3, 2),
        ("convert head.nettrace --format Speedscope", 1, 2),
        ("report nosuch.nettrace topN", 1, 2),
        ("report notes.txt topN", 1, 2),
        ("report empty.nettrace topN", 1, 2),
        ("report head.nettrace topN", 1, 2),
        ("report cut.nettrace topN", 1, 0),
        ("report a.nettrace", 255, 0),
        ("report a.nettrace topN", 0, 0),
    ],
)
def test_exit_codes_are_these_and_theirs_with_compat(words: str, theirs: int, ours: int, sampled: Path) -> None:
    Path("notes.txt").write_text("no trace")
    data = sampled.read_bytes()
    for name, size in (("empty", 0), ("head", 30), ("cut", 3000)):
        Path(f"{name}.nettrace").write_bytes(data[:size])
    codes = {tool: run(tool, *words.split()).returncode for tool in ("theirs", "ours", "compatible")}
    assert codes == {"theirs": theirs, "ours": ours, "compatible": theirs}


# what is recorded, and what is told ------------------------------------------------------------------------------------------


def test_the_same_is_told_before_and_after_a_recording(idle: Target) -> None:
    theirs, ours = both("collect", "-p", str(idle.pid), "--duration", "00:00:00:01", "-o", "x.nettrace")
    assert (theirs.returncode, ours.returncode) == (0, 0)
    told = [[" ".join(line.split()) for line in said(done).splitlines() if line] for done in (theirs, ours)]
    only_here = {"Recording trace in progress. Press <Ctrl+C> to exit..."}
    own = ("Process", "Output File", "x.nettrace")  # the program there, the pid here; the size and seconds at the end
    shown = [[line for line in lines if not line.startswith(own) and line not in only_here] for lines in told]
    assert shown[0] == shown[1]
    assert "Trace Duration : 00:00:00:01" in told[1]
    assert ours.stdout.startswith("x.nettrace  ")


@contextmanager
def named(name: str, folder: Path) -> Iterator[str]:
    """A runtime whose program has a name of its own."""
    words, own = command("NativeAOT", "idle", "seconds=100")
    program = shutil.copy(words[0], folder / name)
    with subprocess.Popen([program, *words[1:]], stdout=subprocess.PIPE, env={**os.environ, **own}) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"ready")
            yield str(process.pid)
        finally:
            process.kill()


def test_a_process_is_named_and_listed(tmp_path: Path) -> None:
    name = f"Beside{os.getpid()}"
    with named(name, tmp_path) as pid:
        for listed in (listed_by_dotnet_trace(), run("ours", "ps").stdout):
            (line,) = (line for line in listed.splitlines() if line.split()[:1] == [pid])
            assert name in line
        for tool in ("theirs", "ours"):
            done = run(tool, "collect", "-n", name, *BRIEF, "-o", "x", "--clrevents", "gc")
            assert done.returncode == 0, said(done)
            assert dotnetdiag.open("x").complete


def test_a_started_program_gives_its_exit_code_and_its_output() -> None:
    words, _ = command("10", "cpu", "rounds=1", "exit=7")
    for tool in ("theirs", "ours"):
        shown = run(tool, "collect", "--show-child-io", "-o", "x", "--clrevents", "gc", "--", *words)
        assert (shown.returncode, "done cpu" in shown.stdout) == (7, True), said(shown)
        hidden = run(tool, "collect", "-o", "x", "--clrevents", "gc", "--", *words)
        assert (hidden.returncode, "done cpu" in said(hidden)) == (7, False), said(hidden)
        assert "Process exited with code '7'." in said(hidden)


def test_a_port_is_waited_at_in_the_same_words(tmp_path: Path) -> None:
    for tool in ("theirs", "ours"):
        port = tmp_path / tool
        words = [*programs()[tool], "collect", "--diagnostic-port", str(port), *BRIEF, "-o", "x", "--clrevents", "gc"]
        with subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment(),
        ) as recorder:
            assert recorder.stdout is not None
            lines = iter(recorder.stdout.readline, "")
            told = [next(line for line in lines if "Waiting for" in line), next(lines)]
            assert told == [
                f"Waiting for connection on {port}\n",
                f"Start an application with the following environment variable: DOTNET_DiagnosticPorts={port}\n",
            ]
            with workload("10", "idle", "seconds=100", DOTNET_DiagnosticPorts=str(port)):
                for _ in lines:
                    pass
                assert recorder.wait(60) == 0
        assert dotnetdiag.open("x").complete


def test_blocking_buffers_need_a_newer_runtime(idle: Target) -> None:
    words = ("collect", "-p", str(idle.pid), *BRIEF, "-o", "x", "--buffering-mode", "Block")
    codes = {tool: run(tool, *words).returncode for tool in ("theirs", "ours", "compatible")}
    assert codes == {"theirs": 1, "ours": 4, "compatible": 1}


def test_profiles_have_the_same_names() -> None:
    theirs, ours = both("list-profiles")
    for line in theirs.stdout.splitlines()[1:]:
        found = re.match(r"\t(\S+) +(\(collect-linux\))?", line)
        if found is not None and found[2] is None:
            assert f"\n{found[1]}\n" in f"\n{ours.stdout}"


# files --------------------------------------------------------------------------------------------------------------------


def test_a_converted_file_is_beside_its_source(sampled: Path) -> None:
    for tool in ("theirs", "ours"):
        assert run(tool, "convert", sampled.name, "--format", "Speedscope").returncode == 0
        Path("a.speedscope.json").unlink()


def test_a_converted_file_has_the_name_that_was_said(sampled: Path) -> None:
    """Theirs has another suffix; so has ours with --compat."""
    made = {"theirs": "z.speedscope.json", "ours": "z.json", "compatible": "z.speedscope.json"}
    for tool, name in made.items():
        done = run(tool, "convert", sampled.name, "--format", "Speedscope", "-o", "z.json")
        assert done.returncode == 0, said(done)
        assert [path.name for path in Path().glob("z*")] == [name]
        Path(name).unlink()


@pytest.mark.parametrize("name", ["gcverbose-10", "web-10", "http-10", "counters-10", "default-10", "cpu-only-10"])
def test_a_report_in_compatible_mode_has_their_shares(name: str) -> None:
    """Also of recordings without samples: events are then all there is. The time of tasks (web-10) is theirs alone."""
    Path("a.nettrace").write_bytes(data_of(f"{name}.nettrace"))
    theirs = re.findall(
        r"^\d+\. (.+?) +[\d.]+% +([\d.]+)%", run("theirs", "report", "a.nettrace", "topN").stdout, re.MULTILINE
    )
    done = run("compatible", "report", "a.nettrace", "topN", "--json")
    ours = [row["exclusive_percent"] for row in json.loads(done.stdout)["rows"]]
    tasks = sum(float(share) for label, share in theirs if label == "UNKNOWN_ASYNC")
    expected = [float(share) for label, share in theirs if label != "UNKNOWN_ASYNC"]
    assert len(expected) >= 4
    assert bool(tasks) == (name == "web-10")
    assert [share * (1 - tasks / 100) for share in ours[: len(expected)]] == pytest.approx(expected, abs=0.01)


def test_a_nettrace_file_stays_one(sampled: Path) -> None:
    for done in both("convert", sampled.name, "--format", "NetTrace"):
        assert done.returncode == 0, said(done)
        assert [path.name for path in Path().iterdir()] == [sampled.name]


def test_a_nettrace_file_of_another_name_is_a_copy_and_one_of_the_same_name_stays(sampled: Path) -> None:
    data = sampled.read_bytes()
    for tool in ("theirs", "ours", "compatible"):
        for name in ("b.nettrace", sampled.name):
            done = run(tool, "convert", sampled.name, "--format", "NetTrace", "-o", name)
            assert done.returncode == 0, said(done)
            assert Path(name).read_bytes() == data
        Path("b.nettrace").unlink()


def test_a_dash_is_stdout_here(sampled: Path) -> None:
    theirs, ours = both("convert", sampled.name, "--format", "Speedscope", "-o", "-")
    assert (theirs.returncode, ours.returncode) == (0, 0)
    assert ours.stdout.startswith('{"exporter":')
    assert Path("-.speedscope.json").exists()  # theirs


def test_what_is_there_is_overwritten_by_force_here(sampled: Path) -> None:
    words = ["convert", sampled.name, "--format", "Speedscope"]
    Path("a.speedscope.json").write_text("mine")
    ours = run("ours", *words)
    assert (ours.returncode, Path("a.speedscope.json").read_text()) == (2, "mine")
    assert run("ours", *words, "--force").returncode == 0
    assert run("theirs", *words).returncode == 0


def test_a_cut_recording_is_converted_and_said_to_be_cut() -> None:
    Path("cut.nettrace").write_bytes(data_of("killed-10.nettrace"))
    theirs = run("theirs", "convert", "cut.nettrace", "--format", "Speedscope", "-o", "theirs")
    ours = run("ours", "convert", "cut.nettrace", "--format", "Speedscope", "-o", "ours")
    assert (theirs.returncode, ours.returncode) == (0, 0), said(theirs) + said(ours)
    assert "potentially broken trace" in said(theirs)
    assert "warning: cut.nettrace: end of data" in ours.stderr
    assert {"theirs.speedscope.json", "ours.speedscope.json"} <= {path.name for path in Path().iterdir()}


def test_a_report_has_as_many_rows_as_asked_for(sampled: Path) -> None:
    theirs, ours = both("report", sampled.name, "topN", "-n", "2")
    assert len(re.findall(r"^\d\. ", theirs.stdout, re.MULTILINE)) == 2
    assert len(re.findall(r"^ *[\d.]+% ", ours.stdout, re.MULTILINE)) == 2
    assert re.findall(r"[\d.]+%", theirs.stdout) == re.findall(r"[\d.]+%", ours.stdout)


def test_events_count_as_time_in_their_report_and_in_ours_with_compat() -> None:
    Path("a.nettrace").write_bytes(data_of("default-10.nettrace"))
    theirs, ours, compatible = (run(tool, "report", "a.nettrace", "topN") for tool in ("theirs", "ours", "compatible"))
    percents = [re.findall(r"[\d.]+(?=%)", done.stdout) for done in (theirs, ours, compatible)]
    assert "21.02" in percents[0]
    assert "21.02" not in percents[1]
    assert [float(one) for one in percents[2]] == [float(one) for one in percents[0]]


# dotnet-stack -------------------------------------------------------------------------------------------------------------

THROWS = """
using System;
static class Program
{
    static int Deep(int x)
    {
        if (x > 2)
            throw new InvalidOperationException("deep");
        return Deep(x + 1) + 1;
    }
    static void Main()
    {
        try { Deep(0); }
        catch (Exception error) { Console.WriteLine(error); }
    }
}
"""


def test_tokens_become_the_lines_that_the_runtime_itself_would_say(tmp_path: Path) -> None:
    folder = unpack()
    host, framework = folder / "dotnet" / "dotnet", folder / "dotnet" / "shared" / "Microsoft.NETCore.App" / "10.0.14"
    Path("throws.cs").write_text(THROWS)
    Path("throws.runtimeconfig.json").write_text(
        '{"runtimeOptions":{"tfm":"net10.0","framework":{"name":"Microsoft.NETCore.App","version":"10.0.0"},'
        '"configProperties":{"Switch.System.Diagnostics.StackTrace.ShowILOffsets":true}}}'
    )
    libraries = [
        f"-r:{framework / name}.dll" for name in ("System.Private.CoreLib", "System.Runtime", "System.Console")
    ]
    options = ["-nologo", "-noconfig", "-nostdlib", "-debug:portable", "-out:throws.dll", *libraries, "throws.cs"]

    def says(*words: str) -> str:
        return subprocess.run(
            [str(host), *words], stdout=subprocess.PIPE, text=True, timeout=120, check=True, env=environment()
        ).stdout

    says(str(folder / "bincore" / "csc.dll"), *options)
    lines = says("throws.dll")
    Path("symbols").mkdir()
    Path("throws.pdb").rename("symbols/throws.pdb")
    tokens = says("throws.dll")
    assert tokens.count(".dll:token 0x6000001+0x") == 4
    Path("trace.txt").write_text(tokens)
    ours = programs()["ours"][:-1]
    words = [*ours, "stack", "symbolicate", "trace.txt", "-d", "symbols", "-o", "-"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=environment())
    assert done.stdout == lines
