"""Trace events in JSON, for Perfetto, chrome://tracing and edge://tracing:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

The layout of the reference tool (dotnet-tools.md §1.2): ``B`` and ``E`` events in microseconds with ``sf``, the id of the
stack in ``stackFrames``. There each path has an id of its own, so that a method has as many callers as it has. Samples
that have no length are instants (``i``) with their weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import IO

import numpy as np

from dotnetdiag import __version__
from dotnetdiag.analysis.filters import with_states
from dotnetdiag.analysis.profile import Array
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.export.texts import clean, file_stem, frame_texts, profile_only, quoted
from dotnetdiag.export.timeline import Timeline
from dotnetdiag.export.walk import changes, numbers
from dotnetdiag.trace.method_names import Style

_CHUNK = 1 << 16


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a profile."""
    profile = with_states(profile_only(result, "chromium"))
    names, categories = _names(profile, style)
    name = file_stem(clean(profile.origin.name)) or profile.name
    head = f'{{"otherData":{{"name":{quoted(name)},"exporter":"dotnetdiag@{__version__}"}},"displayTimeUnit":"ms",\n'
    file.write(f'{head}"traceEvents":['.encode("ascii"))
    _write_names_of_threads(profile, file)  # every event has one, so a comma before it
    frame, sf = numbers(profile.tree.frame), _ids(profile)
    for thread in profile.threads:
        rows = slice(thread.rows.start, thread.rows.stop)
        whose = f'"pid":{thread.process_id or profile.origin.process_id or 0},"tid":{thread.thread_id},"sf":'
        timeline = _timeline(profile, names, whose, sf)
        start, length, node = profile.start_ns[rows], profile.length_ns[rows], profile.node[rows]
        found = changes(start, length, node)
        timeline.write(file, ((time / 1e3, before, after) for time, before, after in found), first=False)
        instants = np.flatnonzero(length == 0)
        if len(instants):
            columns = (start[instants], node[instants], profile.weight[rows][instants])
            _write_instants(file, names, frame, whose, sf, profile.unit, columns)
    file.write(b'],\n"stackFrames":{')
    _write_stack_frames(profile, file, names, categories, sf)
    file.write(b"}}\n")


def _names(profile: StackProfile, style: Style | None) -> tuple[dict[int, str], dict[int, str]]:
    """(names without module, modules) of the frames, quoted."""
    ids = profile.used_frames().tolist()
    names, categories = {-1: quoted("(no stack)")}, {-1: '""'}
    for number, text in zip(ids, frame_texts(profile, ids, style), strict=True):
        category, mark, rest = text.partition("!")
        frame = profile.frames[number]
        names[number] = quoted(rest if mark and frame.module else text)
        categories[number] = quoted(category if mark and frame.module else clean(frame.module))
    return names, categories


def _ids(profile: StackProfile) -> memoryview:
    """The number of each node among those in use."""
    used = profile.used_nodes()
    return numbers(np.cumsum(used).astype(np.int64) - 1)


def _timeline(profile: StackProfile, names: dict[int, str], whose: str, sf: memoryview) -> Timeline:
    frame = numbers(profile.tree.frame)

    def begin(node: int, phase: str) -> str:
        return f'{{"name":{names[frame[node]]},"cat":"sampleEvent","ph":"{phase}","ts":'

    return Timeline(
        profile.tree,
        lambda node: begin(node, "B"),
        lambda node: begin(node, "E"),
        lambda node: f",{whose}{sf[node]}}}",
    )


def _write_names_of_threads(profile: StackProfile, file: IO[bytes]) -> None:
    texts = []
    for thread in profile.threads:
        pid = thread.process_id or profile.origin.process_id or 0
        label = quoted(clean(thread.label))
        texts.append(
            f'{{"name":"thread_name","ph":"M","ts":0,"pid":{pid},"tid":{thread.thread_id},"args":{{"name":{label}}}}}'
        )
    for pid, command_line in ((profile.origin.process_id or 0, profile.origin.command_line), *profile.origin.others):
        if command_line:
            line = quoted(clean(command_line))
            texts.append(f'{{"name":"process_name","ph":"M","ts":0,"pid":{pid},"tid":0,"args":{{"name":{line}}}}}')
    file.write(",".join(texts).encode("ascii"))


def _write_instants(
    file: IO[bytes],
    names: dict[int, str],
    frame: memoryview,
    whose: str,
    sf: memoryview,
    unit: str,
    columns: Sequence[Array],
) -> None:
    """Samples without a length."""
    key = quoted(clean(unit))
    for low in range(0, len(columns[0]), _CHUNK):
        rows = zip(*(column[low : low + _CHUNK].tolist() for column in columns), strict=True)
        texts = []
        for time, node, weight in rows:
            stack = f"{whose}{sf[node]}" if node else whose.removesuffix(',"sf":')
            texts.append(
                f'{{"name":{names[frame[node]]},"cat":"sampleEvent","ph":"i","s":"t","ts":{time / 1e3!r},{stack},'
                f'"args":{{{key}:{weight!r}}}}}'
            )
        file.write(("," + ",".join(texts)).encode("ascii"))


def _write_stack_frames(
    profile: StackProfile, file: IO[bytes], names: dict[int, str], categories: dict[int, str], sf: memoryview
) -> None:
    nodes = np.flatnonzero(profile.used_nodes())
    for low in range(0, len(nodes), _CHUNK):
        some = nodes[low : low + _CHUNK]
        columns = (some.tolist(), profile.tree.frame[some].tolist(), profile.tree.parent[some].tolist())
        texts = []
        for node, frame, parent in zip(*columns, strict=True):
            above = f',"parent":{sf[parent]}' if parent > 0 else ""
            texts.append(f'"{sf[node]}":{{"name":{names[frame]},"category":{categories[frame]}{above}}}')
        file.write((("," if low else "") + ",".join(texts)).encode("ascii"))
