"""Collapsed stacks, read back by the rule of the format: frames between ``;``, the weight behind the last blank."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
from tests.analysis.reference import opened, speedscope_of, sums_of
from tests.export.made import DEEP, SMALL, hostile, profile_of, sample, written
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.diff import diff
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacks import stacks
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.trace import Trace

LINE = re.compile(r"(?P<stack>[^\x00-\x1f]+) (?P<weight>[1-9][0-9]*)")


def read(data: bytes) -> dict[tuple[str, ...], int]:
    text = data.decode("utf-8")
    assert not text or text.endswith("\n")
    found: dict[tuple[str, ...], int] = {}
    for line in text.split("\n")[:-1]:
        assert len(line.splitlines()) == 1
        match = LINE.fullmatch(line)
        assert match, line
        stack = tuple(match["stack"].split(";"))
        assert all(stack)
        assert stack not in found
        found[stack] = int(match["weight"])
    return found


def test_a_line_has_thread_frames_state_and_microseconds() -> None:
    assert read(written(profile_of(*SMALL, names={2: "loop;er"}), "collapsed", Style.SHORT)) == {
        ("Thread (1)", "App.Main", "App.Work", "App.Inner", "CPU_TIME"): 20_000,
        ("Thread (1)", "App.Main", "App.Work", "CPU_TIME"): 5_000,
        ("Thread (1)", "App.Main", "App.Wait", "UNMANAGED_CODE_TIME"): 5_000,
        ("Thread (2) (loop:er)", "App.Loop", "App.Work", "App.Inner", "CPU_TIME"): 20_000,
        ("Thread (2) (loop:er)", "App.Loop", "App.Loop", "App.Work", "CPU_TIME"): 20_000,
    }


def test_other_units_are_rounded_and_nothing_is_written_of_nothing() -> None:
    profile = profile_of(
        sample(1, 0, 0, "A.B", weight=2.6), sample(1, 1, 0, "A.C", weight=0.4), sample(1, 2, 0, weight=4), unit="bytes"
    )
    assert read(written(profile, "collapsed", Style.SHORT)) == {
        ("Thread (1)", "A.B", "CPU_TIME"): 3,
        ("Thread (1)", "CPU_TIME"): 4,
    }
    assert written(profile_of(), "collapsed") == b""


@pytest.mark.parametrize("name", ["default-10", "cpu-only-10"])
def test_weights_are_those_of_the_reference(name: str) -> None:
    document = speedscope_of(name)
    expected: defaultdict[str, float] = defaultdict(float)
    for one in document["profiles"]:
        sums = sums_of(document, one)
        for state in ("CPU_TIME", "UNMANAGED_CODE_TIME"):
            expected[state] += sums.exclusive[state]
    found: defaultdict[str, float] = defaultdict(float)
    for stack, weight in read(written(cpu(opened(name)), "collapsed")).items():
        found[stack[-1]] += weight / 1e3
    assert found == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize("name", recordings())
def test_every_recording_gives_a_file_that_can_be_read(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    everything = stacks(trace)
    assert sum(read(written(everything, "collapsed")).values()) == everything.total
    timed: StackProfile = cpu(trace)
    lines = read(written(timed, "collapsed"))
    assert sum(lines.values()) / 1e3 == pytest.approx(timed.total, abs=0.001 * len(lines) + 0.001)


def test_hostile_names_stay_in_their_line_and_deep_stacks_are_whole() -> None:
    found = read(written(hostile(), "collapsed"))
    assert max(map(len, found)) == DEEP + 2
    assert sum(found.values()) == round(hostile().total * 1000)


def test_a_difference_has_both_weights() -> None:
    before = profile_of(*SMALL)
    after = profile_of(*SMALL[:1], sample(1, 10, 7, "App.Main", "App.New"))
    lines = set(written(diff(before, after), "collapsed", Style.SHORT).decode().splitlines())
    assert lines == {
        "App.Main;App.Work;App.Inner 20000 10000",
        "App.Main;App.Work 5000 0",
        "App.Main;App.Wait 5000 0",
        "App.Loop;App.Work;App.Inner 20000 0",
        "App.Loop;App.Loop;App.Work 20000 0",
        "App.Main;App.New 0 7000",
    }
