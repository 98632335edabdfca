"""What a recording says on stderr: the names of options stand here and nowhere below."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.cli.test_commands import LEAVES, in_terminal
from tests.cli.test_strange_sockets import environment
from tests.client.scripted import HEAD_BYTES, TAIL_BYTES, ScriptedRuntime, obeys, pattern, says_and_waits, streams
from tests.nettrace.recordings import data_of

from dotnetdiag.cli import recording
from dotnetdiag.cli.recording import OPTIONS, Display, ends_nicely, provider_lines
from dotnetdiag.ipc.commands import Command
from dotnetdiag.recipes.collect import Collected, CollectOptions, ProviderSource
from dotnetdiag.recipes.kept_files import KeptFile
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.trace import trace


def told(**asked: str) -> Display:
    display = Display(None, quiet=False)
    display.started(CollectOptions(**asked).composed(), Path("x.nettrace"), 1)  # type: ignore[arg-type]
    return display


def test_every_source_of_providers_has_its_option() -> None:
    assert set(OPTIONS) == {source.value for source in ProviderSource}
    options = {name for parameter in LEAVES["trace collect"].params for name in parameter.opts}
    assert set(OPTIONS.values()) <= options


def test_the_table_says_which_option_named_a_provider(capsys: pytest.CaptureFixture[str]) -> None:
    told(providers="A", presets="dotnet-sampled-thread-time", clr_events="gc")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[-1] for line in lines[:4]] == ["By", "--providers", "--profile", "--clrevents"]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_providers_are_a_line_each_that_fits_the_terminal(width: int) -> None:
    names = ("Microsoft-Windows-DotNETRuntimePrivate", "My-Company-Product-Services-Implementation-Handlers", "A")
    made = CollectOptions(providers=",".join(f"{name}:1:4" for name in names)).composed()
    head, *rows = provider_lines(made, width)
    assert max(map(len, (head, *rows))) <= width
    assert len({row.index("0x0000000000000001") for row in rows} | {head.index("Keywords")}) == 1
    assert all(row.endswith("0x0000000000000001  Informational(4)  --providers") for row in rows)
    if width == 200:
        assert [row.split()[0] for row in rows] == list(names)
    assert provider_lines(made, None) == provider_lines(made, 1000)


def test_what_was_not_asked_for_is_said_as_dotnet_trace_says_it_and_first(capsys: pytest.CaptureFixture[str]) -> None:
    told()
    assert capsys.readouterr().err.startswith("No profile or providers specified, defaulting to")
    assert told().notes == (
        "No profile or providers specified, defaulting to trace profiles 'dotnet-common' + 'dotnet-sampled-thread-time'.",
    )
    assert told(presets="gc-verbose", clr_events="gc").notes == (
        "The CLR provider was already specified through --providers or --profile. Ignoring --clrevents.",
    )
    assert told(clr_events="gc").notes == ()
    assert told(providers="Microsoft-Windows-DotNETRuntme,My-Source").notes == (
        "The provider Microsoft-Windows-DotNETRuntme is recorded, if there is one; near: Microsoft-Windows-DotNETRuntime.",
    )


# whole recordings, of a scripted runtime ---------------------------------------------------------------------------------

STREAM = pattern(HEAD_BYTES + TAIL_BYTES)


@pytest.fixture
def words() -> Iterator[list[str]]:
    """How a scripted runtime is recorded; its stream is ``STREAM``."""
    with TemporaryDirectory() as folder:
        made = ScriptedRuntime(
            Path(folder) / "runtime", {Command.CollectTracing2: streams(None), Command.StopTracing: obeys}
        )
        yield ["trace", "collect", "--diagnostic-port", f"{made.path},connect", "--duration", "200ms"]
        made.close()


def program(*words: str) -> list[str]:
    return [sys.executable, "-m", "dotnetdiag.cli.main", *words]


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="a name of POSIX systems")
@pytest.mark.parametrize("output", ["-", "/dev/stdout", "/dev/fd/1"])
@pytest.mark.parametrize("to_file", [True, False])
def test_a_recording_on_stdout_is_whole_and_all_that_is_said_is_on_stderr(
    output: str, to_file: bool, words: list[str], tmp_path: Path
) -> None:
    with open(tmp_path / "x", "wb") as file:
        done = subprocess.run(
            program(*words, "-o", output, "--json"),
            stdout=file if to_file else subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
            cwd=tmp_path,
            env=environment(),
        )
    assert done.returncode == 0, done.stderr
    assert ((tmp_path / "x").read_bytes() if to_file else done.stdout) == STREAM
    assert json.loads(done.stderr[done.stderr.index(b"{") :])["size_bytes"] == len(STREAM)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


@pytest.mark.parametrize("more", [["--format", "speedscope"], []])
def test_a_recording_that_stdout_cannot_take_is_refused(more: list[str], words: list[str], tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"old")
    with open(tmp_path / "x", "ab") as file:
        done = subprocess.run(
            program(*words, "-o", "-", *more), stdout=file, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert (tmp_path / "x").read_bytes() == b"old"


def test_a_recording_is_not_for_a_terminal(words: list[str]) -> None:
    code, output = in_terminal([*words, "-o", "-"], b"never", b"")
    assert code == 3
    assert b"not for a terminal" in output


def test_nothing_is_said_to_be_recorded_before_the_file_could_be_made(words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "no" / "x"
    done = subprocess.run(program(*words, "-o", str(path)), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr == f"error: {path}: there is no folder {path.parent}\n"


def test_a_reader_who_has_gone_ends_a_recording_and_is_no_error(words: list[str]) -> None:
    with subprocess.Popen(
        program(*words, "-o", "-"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().splitlines()
    assert (process.returncode, said[-1]) == (0, "The reader of the recording has gone, and the recording has ended.")


def test_what_a_script_sees_is_what_is_told_before_and_after(words: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        program(*words, "-o", str(tmp_path / "x")), capture_output=True, text=True, timeout=60, check=False
    )
    said = [line.partition("  ")[0] for line in done.stderr.splitlines()]
    assert said == [
        "No profile or providers specified, defaulting to trace profiles 'dotnet-common' + 'dotnet-sampled-thread-time'.",
        "Provider Name",
        "Microsoft-Windows-DotNETRuntime",
        "Microsoft-DotNETCore-SampleProfiler",
        "Process",
        f"Output File    : {tmp_path / 'x'}".partition("  ")[0],
        "Trace Duration : 00:00:00:00.2",
        "Recording trace in progress. Press <Ctrl+C> to exit...",
        "Stopping the trace. This may take several minutes depending on the application being traced.",
        "Trace ended.",
        "What has come is no trace: first bytes at 0x0: neither a NetPerf nor a nettrace file.",
    ]
    assert done.returncode == 2


@pytest.mark.parametrize("compat", [False, True])
def test_what_is_no_trace_ends_a_recording_as_it_ends_who_reads_it(
    compat: bool, tmp_path: Path, words: list[str]
) -> None:
    """It was recorded with 0, whatever had come."""
    path, before = tmp_path / "x.nettrace", ["--compat"] if compat else []
    done = subprocess.run(
        program(*before, *words, "-o", str(path)), capture_output=True, text=True, timeout=60, check=False
    )
    read = subprocess.run(
        program(*before, "trace", "info", str(path)), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == read.returncode != 0, done.stderr
    assert "What has come is no trace: first bytes at 0x0" in done.stderr
    assert path.read_bytes() == STREAM


def test_only_the_first_bytes_of_a_recording_without_an_end_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.nettrace"
    path.write_bytes(data_of("gccollect-10.nettrace")[:-1] + pattern(recording.HEAD_BYTES))
    read: list[int] = []
    monkeypatch.setattr(trace, "Trace", lambda data: read.append(len(data)))
    assert recording.no_trace(recorded(path, complete=False)) is None
    assert recording.no_trace(recorded(path, complete=True)) is None
    assert read == [min(recording.HEAD_BYTES, path.stat().st_size)]
    path.write_bytes(b"")
    assert recording.no_trace(recorded(path, complete=False)) is None
    assert recording.no_trace(recorded(tmp_path / "moved", complete=False)) is None


@pytest.mark.parametrize(
    ("size", "says"), [(1 << 20, "they had more than 64 KB"), (100 << 20, "buffer of 256 MB was full. A larger")]
)
def test_a_small_recording_that_lacks_events_does_not_blame_the_buffer_alone(
    tmp_path: Path, size: int, says: str
) -> None:
    done = replace(recorded(tmp_path / "x.nettrace", complete=True), lost_events=3, size_bytes=size)
    (line,) = recording.outcome_notes(done)
    assert line.startswith("3 events were lost: ")
    assert says in line


def recorded(path: Path, *, complete: bool) -> Collected:
    file = KeptFile(path=path, size_bytes=1, complete=complete, lost_events=0)
    return Collected(
        path=path,
        size_bytes=1,
        duration_s=1.0,
        command="CollectTracing2",
        pid=None,
        buffer_mb=256,
        complete=complete,
        lost_events=0,
        was_stopped=True,
        target_exited=False,
        files=(file,),
    )


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (["--dump-on", "signal"], "--dump-on says when a flight recorder writes what it holds: it needs --ring"),
        (["--ring", "60s", "--dump-on", "key"], "standard input is no terminal"),
        (["--ring", "60s", "--rotate", "1MB"], "a recording is rotated, or kept in a ring: not both"),
        (["--rotate", "1MB", "-o", "-"], "several files are not written to stdout"),
        (["--rotate", "1XB"], "no unit 'XB': write 100MB, 1.5GB or 64MiB at character 2 of '1XB'"),
        (["--keep", "3"], "there is one file; --keep needs --rotate SIZE or --ring DURATION"),
        (["--no-dump-at-end"], "dumps are of a ring: say how many seconds it is to hold; --ring 60s does"),
        (["--stop-delay", "5s"], "an event to stop on; --stop-on-hit and --stop-delay need --stop-on EVENT"),
        (["--clrevents", "gc", "--stop-on", "GC/Strt"], "no event 'GC/Strt'"),
        (["--clrevents", "gc", "--stop-on", "GC/Start where Depth >>"], "at character 23 of 'GC/Start where Depth >>'"),
    ],
)
def test_what_cannot_be_kept_so_is_told_before_anything_is_recorded(
    more: list[str], line: str, words: list[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        program(*words, *more), capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False, cwd=tmp_path,
        env=environment(), text=True,
    )  # fmt: skip
    assert done.returncode in (1, 3, 4)
    assert line in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_signal_ends_at_once_a_recording_whose_duration_is_over_and_whose_runtime_does_not_come_to_an_end(
    tmp_path: Path,
) -> None:
    """.NET Core 3.1 may answer nothing any more when counters are recorded."""
    made = ScriptedRuntime(
        tmp_path / "runtime", {Command.CollectTracing2: streams(None), Command.StopTracing: says_and_waits()}
    )
    words = ["trace", "collect", "--diagnostic-port", f"{made.path},connect", "--duration", "50ms", "--clrevents", "gc"]
    tool = subprocess.Popen(program(*words, "-o", str(tmp_path / "x.nettrace")), stderr=subprocess.PIPE, text=True)
    try:
        made.wait_for(Command.StopTracing)
        tool.terminate()
        assert tool.wait(20) == 128 + signal.SIGTERM
        assert (tmp_path / "x.nettrace").read_bytes() == pattern(HEAD_BYTES)
    finally:
        tool.kill()
        tool.communicate()
        made.close()


class Ending:
    """A job whose end has begun by itself."""

    was_stopped = True

    def __init__(self) -> None:
        self.asked: list[str] = []

    def stop(self) -> None:
        self.asked.append("stop")

    def abort(self) -> None:
        self.asked.append("abort")


@pytest.mark.parametrize(("several", "asked"), [(True, ["stop"]), (False, ["abort"])])
def test_the_end_of_one_of_several_is_not_that_of_all(several: bool, asked: list[str]) -> None:
    """As of a heap that is watched: what was seen is told."""
    stop, job = Stop(), Ending()
    with ends_nicely(stop, None, enter=False, several=several), stop.ending(job):
        signal.raise_signal(signal.SIGTERM)
    assert (job.asked, stop.is_cancelled) == (asked, not several)
