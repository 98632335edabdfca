"""``stack report`` on real runtimes, held against what the ``stacks`` workload does and against dotnet-stack's output."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.runtimes import Target, workload
from tests.nettrace.recordings import recording
from tests.shared import needs

from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.recipes.stack_report import iter_reports, take_stacks
from dotnetdiag.recipes.thread_stacks import StackReport
from dotnetdiag.trace.method_names import Style

pytestmark = [
    pytest.mark.live,
    needs("dotnet", "the workload on real runtimes"),
]
PYTHON = [sys.executable, "-m", "dotnetdiag.cli.main"]
REFERENCE = "stacks-10.stack-report.txt"
GREEK = ["Workload.Parked.Gamma", "Workload.Parked.Beta", "Workload.Parked.Alpha"]
SPINNING = "Workload.Parked.<>c.<Start>b__1_1"
HEAD = re.compile(r"Threads? \(0x[0-9A-F]+(, 0x[0-9A-F]+)*\): ")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PYTHON, "stack", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def short(runtime_target: Target) -> StackReport:
    return take_stacks(Client(runtime_target.pid), style=Style.SHORT)


def settled(target: Target) -> StackReport:
    """A report once the program has started all its threads, and they are where they stay; ``stacks`` does not say when. The one that finds
    them there is not it: they may have run, or waited for a processor, in the time that it took.
    """
    for _ in range(100):
        found = short(target)
        names = [frame for one in found.threads for frame in one.frames]
        if names.count(GREEK[0]) == 2 and SPINNING in names and "System.Threading.Thread.Sleep" in names:
            return short(target)
    raise AssertionError(f"the threads did not come: {found}")


def test_threads_are_seen_where_they_are(runtime: str) -> None:
    with workload(runtime, "stacks", "linger=stdin") as target:
        if runtime == "NativeAOT":
            with pytest.raises(DiagnosticsError, match="no sample profiler"):
                short(target)
            return
        found = settled(target)
        assert target.alive
    assert found.pid == target.pid
    assert found.unresolved == found.lost == 0
    parked = [one for one in found.threads if GREEK[0] in one.frames]
    assert len(parked) == 2
    for one in parked:
        at = one.frames.index(GREEK[0])
        assert list(one.frames[at : at + 3]) == GREEK
        assert one.state == "waiting"
    assert parked[0].frames == parked[1].frames
    spinning = [one for one in found.threads if one.frames[0] == SPINNING]
    assert [one.state for one in spinning] == ["cpu"]
    (main,) = [one for one in found.threads if one.frames[-1] == "Workload.Program.Main"]
    assert main.tid == target.pid
    assert main.state == "waiting"
    assert sorted(len(group.threads) for group in found.groups()) == [1] * (len(found.threads) - 2) + [2]
    if runtime != "3.1":
        assert sorted(str(one.name) for one in parked) == ["parked-a", "parked-b"]
        assert [one.name for one in spinning] == ["spinning"]
    if runtime in ("9", "10"):
        assert main.managed_id == 1
        assert len({one.managed_id for one in found.threads}) == len(found.threads)


def test_the_stacks_are_those_of_the_reference() -> None:
    """The same program on the same runtime: the same threads in the same frames, and lines of the same form."""
    reference = recording(REFERENCE)
    with workload("10", "stacks", "linger=stdin") as target:
        settled(target)
        found = run("report", "-p", str(target.pid), "--no-fold")
        assert found.returncode == 0, found.stderr
    ours, theirs = stacks_of(found.stdout), stacks_of(reference.read_text(encoding="utf-8"))
    # beside those of `stacks` there is one thread that lets the process linger, in either
    wanted = [stack for stack in theirs if "Workload.Parked" in "".join(stack)]
    assert [stack for stack in ours if "Workload.Parked" in "".join(stack)] == wanted
    assert len(ours) == len(theirs)
    assert {stack[-1] for stack in ours} <= {stack[-1] for stack in theirs}


def stacks_of(text: str) -> list[list[str]]:
    """Frames of each thread; the form of every line is checked."""
    found: list[list[str]] = []
    assert text.endswith("\n\n") or text.endswith(")\n")
    for line in text.splitlines():
        if line.startswith("Thread"):
            assert re.match(r"Thread \(0x[0-9A-F]+\):", line), line
            found.append([])
        elif line:
            assert re.match(r"  (\[Native Frames\]|CPU_TIME|[\w.]+!.+\(.*\))$", line), line
            found[-1].append(line[2:])
    assert all(stack[0] in ("[Native Frames]", "CPU_TIME") for stack in found)
    return found


def test_the_face_prints_text_and_json(runtime: str) -> None:
    with workload(runtime, "stacks", "linger=stdin") as target:
        if runtime != "NativeAOT":
            settled(target)
        done = run("report", "-p", str(target.pid), "--short")
        if runtime == "NativeAOT":
            assert done.returncode == 4
            assert done.stdout == ""
            assert done.stderr.startswith("error: stack report: NativeAOT has no sample profiler")
            assert len(done.stderr.splitlines()) == 1
            return
        assert done.returncode == 0, done.stderr
        heads = [line for line in done.stdout.splitlines() if line.startswith("Thread")]
        assert all(HEAD.match(line) for line in heads)
        assert sum(line.startswith("Threads (") and "2 × waiting" in line for line in heads) == 1
        told = run("report", "-p", str(target.pid), "--json")
        found = json.loads(told.stdout)
        assert found["pid"] == target.pid
        assert {thread["state"] for thread in found["threads"]} == {"cpu", "waiting"}
        assert all(thread["frames"] for thread in found["threads"])


def test_several_samples_and_one_thread() -> None:
    with workload("10", "stacks", "linger=stdin") as target:
        settled(target)
        done = run(
            "report", "-p", str(target.pid), "--count", "3", "--interval", "10ms", "--thread", "spinning", "--json"
        )
        assert done.returncode == 0, done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert [[thread["name"] for thread in one["threads"]] for one in found] == [["spinning"]] * 3
        assert len({one["utc"] for one in found}) == 3
        tid = found[0]["threads"][0]["tid"]
        for text in (str(tid), hex(tid)):
            again = run("report", "-p", str(target.pid), "--thread", text)
            assert len(stacks_of(again.stdout)) == 1
        wrong = run("report", "-p", str(target.pid), "--thread", "none")
        assert wrong.returncode == 3
        assert "spinning" in wrong.stderr
        with pytest.raises(UsageError):
            next(iter_reports(Client(target.pid), count=0))


def test_a_suspended_target_is_one_line() -> None:
    with workload("10", "stacks", suspended=True) as target:
        done = run("report", "-p", str(target.pid))
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1
        assert "suspended" in done.stderr


def test_interrupting_it_leaves_the_target_running() -> None:
    with workload("10", "stacks", "linger=stdin") as target:
        process = subprocess.Popen(
            [*PYTHON, "stack", "report", "-p", str(target.pid), "--count", "1000", "--interval", "50ms"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A background job of a shell without job control ignores SIGINT, and so would this child of it.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == 2
        assert err.splitlines()[-1] == "error: cancelled"
        assert target.alive
        assert len(short(target).threads) >= 4


def test_names_come_from_the_system(tmp_path: Path) -> None:
    """A made /proc: a container's threads have other ids outside."""
    from dotnetdiag.recipes.system_threads import system_threads

    tasks = {
        700: ("app", b"5 6 7\n", "700\t1"),
        701: (".NET TP Worker", b"123 0 1\n", "701\t9"),
        702: ("\\weird", b"", ""),
    }
    (tmp_path / "700").mkdir()
    (tmp_path / "700" / "comm").write_text("app\n")
    (tmp_path / "700" / "status").write_text("Name:\tapp\nNSpid:\t700\t1\n")
    for task, (comm, schedstat, pids) in tasks.items():
        folder = tmp_path / "700" / "task" / str(task)
        folder.mkdir(parents=True)
        (folder / "comm").write_text(comm + "\n")
        (folder / "schedstat").write_bytes(schedstat)
        (folder / "status").write_text(f"Name:\t{comm}\nNSpid:\t{pids}\n" if pids else "Name:\tx\n")
    found = system_threads(700, tmp_path)
    assert {tid: (one.name, one.cpu_ns, one.queued_ns) for tid, one in found.items()} == {
        1: (None, 5, 6),
        9: (".NET TP Worker", 123, 0),
        702: ("\\weird", None, None),
    }
    assert system_threads(1, tmp_path) == {}
    assert os.getpid() in system_threads(os.getpid())


@pytest.mark.parametrize(
    ("mode", "ran_ns", "queued_ns", "state"),
    [
        ("native", 900, 0, "cpu"),
        ("native", 10, 900, "cpu"),  # a machine that has no time for it
        ("native", 10, 20, "waiting"),
        ("native", None, None, "waiting"),
        ("managed", 0, 0, "cpu"),
    ],
)
def test_a_thread_that_only_waits_for_a_processor_does_not_wait(
    mode: str, ran_ns: int | None, queued_ns: int | None, state: str
) -> None:
    from dotnetdiag.recipes.stack_report import _with_system
    from dotnetdiag.recipes.system_threads import SystemThread
    from dotnetdiag.recipes.thread_stacks import ThreadStack

    before = {7: SystemThread(name="x", cpu_ns=1000, queued_ns=1000)}
    late = SystemThread(
        name="x",
        cpu_ns=None if ran_ns is None else 1000 + ran_ns,
        queued_ns=None if queued_ns is None else 1000 + queued_ns,
    )
    (one,) = _with_system([ThreadStack(tid=7, mode=mode, frames=())], before, {7: late}, 1e-6)
    assert one.state == state
    assert one.cpu == (None if ran_ns is None else pytest.approx(ran_ns / 1000))
