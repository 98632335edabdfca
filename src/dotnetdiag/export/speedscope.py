"""speedscope's own format: https://www.speedscope.app/file-format-schema.json.

The first profile is that of all threads: equal stacks of all of them together, in the order in which they were first
seen. Then each thread over time, in the layout of the reference tool (dotnet-tools.md §1.2): ``evented``, in milliseconds.
Samples that have no length (allocations, counts) are laid out like all threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

import numpy as np

from dotnetdiag import __version__
from dotnetdiag.analysis.filters import with_states
from dotnetdiag.analysis.profile import MILLISECONDS, Array
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.export.texts import clean, file_stem, frame_texts, profile_only, quoted
from dotnetdiag.export.timeline import Timeline
from dotnetdiag.export.walk import changes, numbers, walk
from dotnetdiag.trace.method_names import Style

ALL_THREADS = "All threads"
UNITS = {MILLISECONDS: "milliseconds", "bytes": "bytes"}
_CHUNK = 1 << 16


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a profile."""
    profile = with_states(profile_only(result, "speedscope"))
    unit = UNITS.get(profile.unit, "none")
    number = _write_head(profile, file, style)
    _write_sums(profile, file, number, None, ALL_THREADS, unit)
    if profile.unit == MILLISECONDS:
        _write_times(profile, file, number)
    else:
        for index, thread in enumerate(profile.threads):
            file.write(b",\n")
            _write_sums(profile, file, number, index, thread.label, unit)
    file.write(b"]}\n")


def _write_head(profile: StackProfile, file: IO[bytes], style: Style | None) -> Array:
    """Writes what comes before the profiles; returns the number that each frame id has in the file."""
    used = profile.used_frames()
    number = np.zeros(len(profile.frames) + 1, np.int32)
    number[used] = np.arange(len(used))
    ids = used.tolist()
    frames = []
    for frame_id, text in zip(ids, frame_texts(profile, ids, style), strict=True):
        module = clean(profile.frames[frame_id].module)
        frames.append(f'{{"name":{quoted(text)}' + (f',"file":{quoted(module)}}}' if module else "}"))
    name = file_stem(clean(profile.origin.name)) or profile.name
    head = (
        f'{{"exporter":"dotnetdiag@{__version__}","name":{quoted(name)},"activeProfileIndex":0,'
        '"$schema":"https://www.speedscope.app/file-format-schema.json",\n"shared":{"frames":['
    )
    file.write(f'{head}{",".join(frames)}]}},\n"profiles":['.encode("ascii"))
    return number


def _open(file: IO[bytes], name: str, unit: str, start: float, end: float) -> None:
    text = (
        f'{{"type":"evented","name":{quoted(clean(name))},"unit":"{unit}",'
        f'"startValue":{start!r},"endValue":{end!r},"events":['
    )
    file.write(text.encode("ascii"))


def _write_sums(
    profile: StackProfile, file: IO[bytes], number: Array, thread: int | None, name: str, unit: str
) -> None:
    """Equal stacks side by side, of one thread or of all."""
    rows = profile.rows(None if thread is None else [thread])
    weights = profile.tree.exclusive(profile.node[rows], profile.weight[rows])
    steps = walk(profile.tree, profile.tree.inclusive(profile.tree.exclusive(profile.node[rows])) > 0)
    begin, end = steps.spans(weights)
    _open(file, name, unit, 0.0, float(end[0]))
    place, entered = steps.steps()
    frame = number[steps.frame]
    first = True
    for low in range(0, len(place), _CHUNK):
        some, enter = place[low : low + _CHUNK], entered[low : low + _CHUNK]
        columns = (enter.tolist(), frame[some].tolist(), np.where(enter, begin[some], end[some]).tolist())
        texts = [
            f'{{"type":"{"O" if is_open else "C"}","frame":{which},"at":{at!r}}}'
            for is_open, which, at in zip(*columns, strict=True)
        ]
        file.write((("" if first else ",") + ",".join(texts)).encode("ascii"))
        first = False
    file.write(b"]}")


def _write_times(profile: StackProfile, file: IO[bytes], number: Array) -> None:
    """Each thread over time."""
    frame = numbers(number[np.maximum(profile.tree.frame, 0)])
    timeline = Timeline(
        profile.tree,
        lambda node: f'{{"type":"O","frame":{frame[node]},"at":',
        lambda node: f'{{"type":"C","frame":{frame[node]},"at":',
        lambda _: "}",
    )
    for thread in profile.threads:
        rows = slice(thread.rows.start, thread.rows.stop)
        start, length = profile.start_ns[rows], profile.length_ns[rows]
        file.write(b",\n")
        _open(file, thread.label, "milliseconds", int(start[0]) / 1e6, int((start + length).max()) / 1e6)
        found: Iterable[tuple[int, int, int]] = changes(start, length, profile.node[rows])
        timeline.write(file, ((time / 1e6, before, after) for time, before, after in found))
        file.write(b"]}")
