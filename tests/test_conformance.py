"""Every recording through the public face, against what the reference reader saw in it.

A new recording dropped in (``NAME.nettrace`` or ``.netperf``, ``.xz`` or not, with ``NAME.events.jsonl.gz`` or
``.xz``) is checked with no new code. What is neither equal nor in ``traceevent_differences`` is wrong.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.events.traceevent_differences import (
    BASELINE_LACKS,
    BASELINE_NAMES,
    CUT,
    WRONG_RELATED,
    line_differences,
)
from tests.nettrace.recordings import FOLDER, listing_of, recording, recordings

import dotnetdiag
from dotnetdiag.cli.trace_files import COMMANDS
from dotnetdiag.trace.method_names import event_signature, full_name, parse_jitted

KEYS = [
    "provider", "event", "id", "version", "level", "opcode", "keywords", "ms", "utc", "pid", "tid", "activity",
    "related", "bytes", "payload",
]  # fmt: skip


def command(*arguments: str | Path) -> str:
    group = click.Group(commands={one.name or "": one for one in COMMANDS})
    done = CliRunner().invoke(group, [str(argument) for argument in arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


REFERENCE_IS_WRONG: dict[tuple[str, str], str] = {}
"""(recording, its frame) → our frame. There is none so far."""


@pytest.fixture(params=recordings())
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def lines_of(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        yield json.loads(line)


def test_printed_events_are_those_of_the_reference_value_by_value(name: str) -> None:
    trace = dotnetdiag.open(FOLDER / name)
    listing = listing_of(name)
    ours = list(lines_of(command("events", FOLDER / name, "--format", "jsonl")))
    assert len(ours) == CUT.get(name, len(listing.events)) == len(trace)
    wrong: Counter[str] = Counter()
    for mine, theirs in zip(ours, listing.events, strict=name not in CUT):
        assert list(mine) == KEYS
        wrong.update(line_differences(mine, theirs, related=trace.format != WRONG_RELATED))
    assert not wrong, "\n".join(f"{count} × {text}" for text, count in wrong.most_common(40))


def test_verdict_losses_and_duration_are_those_of_the_reference(name: str) -> None:
    said = json.loads(command("info", FOLDER / name, "--json"))
    listing = listing_of(name)
    assert said["complete"] == (name not in CUT)
    assert said["events"] == CUT.get(name, len(listing.events))
    if listing.end is not None:
        known = not said["format"].startswith("NetPerf")
        assert said["lost"] == (listing.end["lost"] if known else None)
        assert said["duration_ms"] == listing.end["duration_ms"]
        assert said["start"] == listing.end["start"]
        counted = Counter((event["provider"], event["event"]) for event in command_events(name))
        assert {(p, e): row["count"] for p, events in said["providers"].items() for e, row in events.items()} == counted
    else:
        assert said["damage"] is not None


def command_events(name: str) -> Iterator[dict[str, Any]]:
    return lines_of(command("events", FOLDER / name, "--format", "jsonl", "--fields", "ms"))


def test_cut_recording_gives_all_that_arrived_and_says_that_the_end_is_missing() -> None:
    for name, events in CUT.items():
        trace = dotnetdiag.open(recording(name))
        assert len(trace) == sum(1 for _ in trace.events()) == events
        assert not trace.complete
        assert "without the end marker" in (trace.damage or "")
        assert trace.raw.damage_offset == len(trace.raw.buffer)
        assert "broken" in repr(trace)


@pytest.mark.parametrize("name", [name for name in recordings() if (FOLDER / f"{name[:-3]}.baseline.txt").exists()])
def test_counts_are_those_of_the_baseline(name: str) -> None:
    theirs = {}
    for line in (FOLDER / f"{name[:-3]}.baseline.txt").read_text(encoding="utf-8-sig").splitlines():
        event, number, _ = line.split(", ", 2)
        theirs[event] = int(number)
    ours: Counter[str] = Counter()
    for provider, events in dotnetdiag.open(FOLDER / name).counts().items():
        for event, count in events.items():
            full = f"{provider}/{event}"
            shown = BASELINE_NAMES.get(full, (full,))[0]
            if not (full in BASELINE_LACKS and shown not in theirs):
                ours[shown] += count
    assert ours == theirs
    assert theirs


SYMBOLISED = [name for name in recordings() if (FOLDER / f"{name.rpartition('.')[0]}.stacks.jsonl.gz").exists()]


@pytest.mark.parametrize("name", SYMBOLISED)
def test_printed_stacks_are_those_of_the_reference(name: str) -> None:
    ours: dict[tuple[str, int, float], list[list[str]]] = defaultdict(list)
    for line in lines_of(command("events", FOLDER / name, "--format", "jsonl", "--fields", "ms", "--stacks")):
        ours[line["provider"], line["tid"], line["ms"]].append(line["frames"])
    with gzip.open(FOLDER / f"{name.rpartition('.')[0]}.stacks.jsonl.gz", "rt", encoding="utf-8") as file:
        theirs = [json.loads(line) for line in file]
    assert theirs
    for said in theirs:
        frames = ours[said["provider"], said["tid"], said["ms"]]
        wanted = [REFERENCE_IS_WRONG.get((name, frame), frame) for frame in said["frames"]]
        assert list(map(as_we_print, wanted)) in [list(map(as_we_print, stack)) for stack in frames], said


@cache
def as_we_print(frame: str) -> str:
    """A frame of TraceEvent's: it leaves jitted code of perf maps as it stands, and writes names of PE files in lower case."""
    module, _, text = frame.partition("!")
    jitted = parse_jitted(text)
    if jitted is not None:
        return full_name(jitted.module, jitted.type_name, jitted.method, event_signature(jitted.signature))
    return f"{module.lower()}!{text}" if text.startswith("0x") else frame
