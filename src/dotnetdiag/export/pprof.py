"""pprof: a gzipped protobuf message, ``perftools.profiles.Profile`` of ``assets/pprof/profile.proto``
(https://github.com/google/pprof/blob/main/proto/profile.proto).

A sample has all times of one stack of one thread in one state; thread and state are labels. Times are given twice: on
the processor (``cpu``) and in all (``wall``), so that viewers can switch. A location is a method: there are no lines.
"""

from __future__ import annotations

import gzip
from importlib.resources import files
from typing import IO, Any

import numpy as np

from dotnetdiag.analysis.origin import Origin
from dotnetdiag.analysis.profile import MILLISECONDS, Array, State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import MissingDependency
from dotnetdiag.export.moments import epoch_ns
from dotnetdiag.export.sums import Sums, sums_of
from dotnetdiag.export.texts import clean, frame_texts, profile_only
from dotnetdiag.trace.frame import Frame
from dotnetdiag.trace.method_names import Style

MESSAGE = "perftools.profiles.Profile"
DESCRIPTOR = "assets/pprof/profile.desc"
"""A FileDescriptorSet: what protoc makes of the schema."""
_LIMIT = (1 << 63) - 1
_FRAMES = 1 << 18


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a profile. Raises MissingDependency without the protobuf library."""
    profile = profile_only(result, "pprof")
    made = _Message(message_class()())
    made.values(profile)
    made.origin(profile)
    made.frames(profile, style)
    made.samples(profile, sums_of(profile))
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
        packed.write(made.bytes())


def message_class() -> Any:
    """The class of the message, from the schema of the package."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise MissingDependency("protobuf", extra="pprof", purpose="the format pprof") from error
    described = descriptor_pb2.FileDescriptorSet.FromString(
        files("dotnetdiag.export").joinpath(DESCRIPTOR).read_bytes()
    )
    pool = descriptor_pool.DescriptorPool()
    for one in described.file:
        pool.Add(one)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(MESSAGE))


class _Message:
    """The message while it is filled. Ids count from 1."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self._strings = {"": 0}
        self._mappings: dict[str, int] = {}

    def bytes(self) -> bytes:
        self.message.string_table.extend(self._strings)
        serialized: bytes = self.message.SerializeToString()
        return serialized

    def text(self, text: str) -> int:
        return self._strings.setdefault(clean(text), len(self._strings))

    def values(self, profile: StackProfile) -> None:
        """What the numbers of a sample are."""
        for kind, unit in value_types(profile):
            self.message.sample_type.add(type=self.text(kind), unit=self.text(unit))
        self.message.default_sample_type = self.message.sample_type[-1].type

    def origin(self, profile: StackProfile) -> None:
        """When it was recorded, and what is known of it."""
        origin = profile.origin
        if origin.start is not None:
            self.message.time_nanos = _bounded(epoch_ns(origin.start) + profile.from_ns)
        self.message.duration_nanos = _bounded(profile.to_ns - profile.from_ns)
        if profile.period_ns is not None:
            self.message.period_type.type = self.text("wall")
            self.message.period_type.unit = self.text("nanoseconds")
            self.message.period = _bounded(profile.period_ns)
        self.message.comment.extend(self.text(line) for line in _comments(origin, profile))

    def frames(self, profile: StackProfile, style: Style | None) -> None:
        """Functions and locations; both have the id of the frame, plus 1."""
        words = profile.origin.command_line.split()
        self.mapping(next((word for word in words if word.endswith(".dll")), words[0] if words else ""))
        ids = profile.used_frames().tolist()
        for number, name in zip(ids, frame_texts(profile, ids, style), strict=True):
            frame: Frame = profile.frames[number]
            self.message.function.add(
                id=number + 1,
                name=self.text(name),
                system_name=self.text(frame.name()),
                filename=self.text(frame.module),
            )
            place = self.message.location.add(
                id=number + 1, mapping_id=self._mapping(frame), address=frame.address or 0
            )
            place.line.add(function_id=number + 1)

    def _mapping(self, frame: Frame) -> int:
        return self.mapping(frame.module_path or frame.module)

    def mapping(self, path: str) -> int:
        """The id of a file; the first one is taken for the program."""
        if not path:
            return 0
        found = self._mappings.get(path)
        if found is None:
            found = self._mappings[path] = len(self._mappings) + 1
            self.message.mapping.add(id=found, filename=self.text(path), has_functions=True)
        return found

    def samples(self, profile: StackProfile, sums: Sums) -> None:
        """A sample per row of the sums."""
        thread_key, id_key, state_key = (self.text(key) for key in ("thread", "thread_id", "state"))
        threads = [(self.text(thread.label), thread.thread_id) for thread in profile.threads]
        states = [self.text(state.name.lower()) if state else 0 for state in State]
        values = _values(profile, sums)
        rows = zip(sums.thread.tolist(), sums.state.tolist(), values, strict=True)
        for low in range(0, len(sums), _FRAMES >> 8):
            offsets, path = profile.tree.paths(sums.node[low : low + (_FRAMES >> 8)])
            edges, locations = offsets.tolist(), (path + 1).tolist()
            for begin, end, (thread, state, value) in zip(edges[:-1], edges[1:], rows, strict=False):
                sample = self.message.sample.add(location_id=locations[begin:end], value=value)
                label, thread_id = threads[thread]
                sample.label.add(key=thread_key, str=label)
                sample.label.add(key=id_key, num=_bounded(thread_id))
                if states[state]:
                    sample.label.add(key=state_key, str=states[state])


def value_types(profile: StackProfile) -> tuple[tuple[str, str], ...]:
    """(type, unit) of the numbers of each sample; the last one is shown first."""
    count = ("samples", "count")
    if profile.unit == MILLISECONDS:
        return count, ("cpu", "nanoseconds"), ("wall", "nanoseconds")
    if profile.unit in ("samples", "events"):
        return (count,)
    return count, (profile.name, profile.unit)


def _values(profile: StackProfile, sums: Sums) -> list[list[int]]:
    columns: list[Array] = [sums.count.astype(np.int64)]
    if profile.unit == MILLISECONDS:
        nanoseconds = _whole(sums.weight * 1e6)
        columns += [np.where(sums.state == State.CPU, nanoseconds, 0), nanoseconds]
    elif len(value_types(profile)) > 1:
        columns.append(_whole(sums.weight))
    made: list[list[int]] = np.stack(columns, axis=1).tolist()
    return made


def _whole(weights: Array) -> Array:
    return np.clip(np.rint(weights), -(2.0**62), 2.0**62).astype(np.int64)


def _bounded(number: int) -> int:
    return max(-_LIMIT, min(number, _LIMIT))


def _comments(origin: Origin, profile: StackProfile) -> list[str]:
    lost = "events lost: not known" if origin.lost is None else f"{origin.lost} of {origin.events} events lost"
    lines = [f"dotnetdiag: {profile.name} of {origin.name}", origin.command_line, lost, *profile.notes]
    if origin.damage:
        lines.append(f"the trace is broken: {origin.damage}")
    return [line for line in lines if line]
