"""Addresses to names: what TraceEvent made of the recordings, and the cases that recordings do not hold."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.nettrace.recordings import FOLDER, data_of, recordings
from tests.trace.made import MadeTrace, names_at

from dotnetdiag.events import resolve
from dotnetdiag.nettrace import Contents, read
from dotnetdiag.trace.bounds import process_ids
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.stack_tree import build_stack_tree
from dotnetdiag.trace.symbols import build_symbols

# recordings, as TraceEvent resolved them ------------------------------------------------------------------------------

SYMBOLISED = [name for name in recordings() if (FOLDER / f"{name.rpartition('.')[0]}.stacks.jsonl.gz").exists()]

REFERENCE_IS_WRONG: dict[tuple[str, str, str], str] = {}
"""(recording, its frame, our frame) → why. There is none so far; the two rules that could make one are: we look up
return addresses one byte before, and name code by the time at which it was there.
"""


def _reference(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(FOLDER / f"{name.rpartition('.')[0]}.stacks.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _stacks_by_event(contents: Contents) -> dict[tuple[str, str, int, float], list[int]]:
    """Rows by (provider, event, thread, ms)."""
    headers, info = contents.headers, contents.info
    assert info is not None
    names = {number: resolve(record).name for number, record in contents.metadata.items()}
    by_event: dict[tuple[str, str, int, float], list[int]] = defaultdict(list)
    for row, (kind, thread, ticks) in enumerate(
        zip(headers.metadata_id.tolist(), headers.thread.tolist(), headers.time.tolist(), strict=True)
    ):
        if contents.threads:
            thread = contents.threads[thread].os_thread_id
        ms = round((ticks - info.sync_ticks) * 1000 / info.frequency, 6)
        for name in {names[kind], "*"}:
            by_event[contents.metadata[kind].provider, name, thread, ms].append(row)
    return by_event


@pytest.mark.parametrize("name", SYMBOLISED)
def test_stacks_of_recordings_are_frame_by_frame_those_of_traceevent(name: str) -> None:
    contents = read(data_of(name))
    headers = contents.headers
    symbols = build_symbols(contents, contents.buffer)
    processes = process_ids(contents.threads, headers.thread)
    tree = build_stack_tree(contents.stacks, symbols, headers.stack, headers.time, processes)
    leaves = tree.leaves(headers.stack, headers.time, processes)
    printed = symbols.frame_names(Style.TRACEEVENT)
    by_event = _stacks_by_event(contents)
    compared = 0
    for entry in _reference(name):
        key = entry["provider"], entry["event"], entry["tid"], entry["ms"]
        rows = by_event.get(key) or by_event[key[0], "*", *key[2:]]
        ours = [[printed[frame] for frame in tree.path(int(leaves[row]))] for row in rows]
        theirs = entry["frames"]
        excused = [
            [theirs[at] if (name, theirs[at], frame) in REFERENCE_IS_WRONG else frame for at, frame in enumerate(stack)]
            for stack in ours
            if len(stack) == len(theirs)
        ]
        assert theirs in excused, (key, theirs, ours)
        compared += 1
    assert compared
    assert len(tree) > 1


def test_recordings_with_stacks_are_there() -> None:
    assert not recordings() or SYMBOLISED


# what recordings do not hold ------------------------------------------------------------------------------------------


def test_a_method_is_printed_with_module_type_and_parameters() -> None:
    made = MadeTrace()
    made.module(1, "/app/bin/My.App.dll")
    made.method(
        0x1000, 0x100, "Run", type_name="My.App.Program", signature="instance void  (int32,class System.String)"
    )
    assert names_at(made.symbols(), [0x1000, 0x10FF]) == ["My.App!My.App.Program.Run(int32,class System.String)"] * 2


def test_tiers_have_ranges_of_their_own_and_are_one_frame() -> None:
    made = MadeTrace()
    made.module(1, "a.dll")
    for start in (0x1000, 0x5000, 0x9000):
        made.load(start, 0x100, "Hot", start, method_id=77, version=2)
    symbols = made.symbols()
    frames = symbols.resolve(np.array([0x1001, 0x5001, 0x9001], np.uint64))
    assert len(set(frames.tolist())) == 1
    assert symbols.ranges == 3


def test_addresses_of_32_bit_traces_are_found() -> None:
    made = MadeTrace(pointer_size=4)
    made.method(0xFFFF0000, 0x10, "High")
    assert names_at(made.symbols(), [0xFFFF0001]) == ["ManagedModule!Some.Type.High()"]


def test_a_trace_without_symbols_names_addresses_by_themselves() -> None:
    symbols = MadeTrace().symbols()
    assert names_at(symbols, [0x1234, 0x1234, 0x5]) == ["!0x1234", "!0x1234", "!0x5"]
    assert len(symbols) == 2
    assert symbols.frame_names(Style.SHORT) == ["?!0x1234", "?!0x5"]


def test_odd_names_come_through_whole() -> None:
    odd = ["x" * 10_000, 'say "hi" </script>', "lone \ud800 surrogate", "line\nbreak", "日本語"]
    made = MadeTrace()
    for number, name in enumerate(odd):
        made.method(0x1000 * (number + 1), 0x10, name, method_id=number, type_name=f"T<{name}>")
    symbols = made.symbols()
    assert names_at(symbols, [0x1000 * (number + 1) for number in range(len(odd))]) == [
        f"ManagedModule!T<{name}>.{name}()" for name in odd
    ]
    for style in Style:
        assert all(symbols.frame_names(style))
