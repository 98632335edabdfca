"""Profiles made by hand, with any names there may be."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.origin import Origin
from dotnetdiag.analysis.profile import MILLISECONDS, ProfileThread, State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.export import FORMATS, Result
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.stack_tree import StackTree


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One sample; ``stack`` is outermost first."""

    thread: int
    start_ms: float
    length_ms: float
    stack: tuple[str, ...]
    state: State = State.CPU
    weight: float | None = None


def sample(
    thread: int, start_ms: float, length_ms: float, *stack: str, state: State = State.CPU, weight: float | None = None
) -> Sample:
    return Sample(thread=thread, start_ms=start_ms, length_ms=length_ms, stack=stack, state=state, weight=weight)


def profile_of(
    *samples: Sample,
    unit: str = MILLISECONDS,
    names: dict[int, str] | None = None,
    origin: Origin | None = None,
    module: str = "app",
) -> StackProfile:
    """Methods are ``Type.Method`` of a module; samples must be by thread and time. ``names`` are those of threads."""
    texts: dict[str, int] = {}
    offsets, path = [0], []
    for one in samples:
        path += [texts.setdefault(name, len(texts)) for name in reversed(one.stack)]
        offsets.append(len(path))
    tree, nodes = StackTree.from_paths(np.array(offsets), np.array(path, np.int32))
    frames = []
    for text in texts:
        type_name, _, method = text.rpartition(".")
        frames.append(Frame(kind=FrameKind.METHOD, module=module, type_name=type_name, method=method, signature="()"))
    ids = list(dict.fromkeys(one.thread for one in samples))
    thread = np.array([ids.index(one.thread) for one in samples], np.int32)
    rows = [np.flatnonzero(thread == index).tolist() for index in range(len(ids))]
    weights = [one.length_ms if one.weight is None else one.weight for one in samples]
    start = np.array([round(one.start_ms * 1e6) for one in samples], np.int64)
    length = np.array([round(one.length_ms * 1e6) for one in samples], np.int64)
    return StackProfile(
        name="Thread time",
        unit=unit,
        tree=tree,
        frames=Frames(extra=frames),
        threads=tuple(
            ProfileThread(
                thread_id=number, process_id=77, name=(names or {}).get(number, ""), rows=range(some[0], some[-1] + 1)
            )
            for number, some in zip(ids, rows, strict=True)
        ),
        thread=thread,
        start_ns=start,
        length_ns=length,
        weight=np.array(weights, np.float64),
        node=nodes.astype(np.int32),
        state=np.array([one.state for one in samples], np.uint8),
        origin=origin or Origin(name="made.nettrace", process_id=77, events=len(samples), lost=0),
        to_ns=int((start + length).max(initial=0)),
    )


def written(result: Result, name: str, style: Style | None = None) -> bytes:
    """What the format's file holds."""
    out = io.BytesIO()
    FORMATS[name].write(result, out, style=style)
    return out.getvalue()


SMALL = (
    sample(1, 0, 10, "App.Main", "App.Work", "App.Inner"),
    sample(1, 10, 5, "App.Main", "App.Work"),
    sample(1, 15, 5, "App.Main", "App.Wait", state=State.UNMANAGED),
    sample(1, 30, 10, "App.Main", "App.Work", "App.Inner"),
    sample(2, 5, 20, "App.Loop", "App.Work", "App.Inner"),
    sample(2, 25, 20, "App.Loop", "App.Loop", "App.Work"),
)
"""Two threads; between 20 and 30 ms nothing is known of the first."""

DEEP = 5000
HOSTILE_NAMES = (
    "T." + "n" * 10_000,
    "T.quote\"double'single`back",
    "T.<script>window.hacked = 1</script>",
    "T.</script><script>window.hacked = 2</script>",
    "T.<!-- <script> -->",
    "T.<img src=x onerror=window.hacked=3>",
    "T.]]>&lt;&amp;",
    "T.line\u2028paragraph\u2029next\x85end",
    "T.lone\ud800high",
    "T.lone\udc00low",
    "T.pair\ud83d\ude00",
    "T.\U0001f600 \u05d0\u202e rtl",
    "T.control\x00\x01\x1b[31m\x7f\r\n\ttab",
    "T.semi;colon 12",
    "T.back\\slash\\u003c",
    "T.=HYPERLINK(1,2)",
    "T.%s%d{0}{name}$1$&",
    "T.__proto__",
    "__proto__",
    "T.constructor",
    "T. ",
    "",
)


def hostile(
    threads: Sequence[str] = ("Thread </script><script>window.hacked=4</script>", "lone \ud800"),
) -> StackProfile:
    """Each hostile name, all of them in one stack, and a stack of 5,000 frames."""
    samples, time = [], 0.0
    for name in HOSTILE_NAMES:
        samples.append(sample(1, time, 1, "T.Main", name))
        time += 1
    samples.append(sample(1, time, 5, *HOSTILE_NAMES))
    samples.append(sample(2, 0, 40, *(f"T.Deep{number}" for number in range(DEEP))))
    samples.append(sample(2, 40, 30, *(f"T.Deep{number % 3}" for number in range(DEEP)), state=State.UNMANAGED))
    names = dict(enumerate(threads, 1))
    origin = Origin(
        name="</script><script>window.hacked=5</script>\ud800.nettrace",
        process_id=77,
        command_line="dotnet '</script><img src=x onerror=window.hacked=6>' \udfff",
        events=100,
        lost=3,
        damage="<b onmouseover=window.hacked=7>",
        complete=False,
    )
    return profile_of(*samples, names=names, origin=origin)
