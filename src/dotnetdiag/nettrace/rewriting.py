"""A trace that was read, written again: all of it or a selection, in the same version or another.

What stays: events in file order, every header field, sequence points, losses, threads that are removed (at the next sequence
point). What is left out takes no numbers: a selection loses exactly what the whole lost, no more (``renumbering``). Where
version 6 has to be told where the numbers of a thread begin, a sequence point is added. A selection may need other events
marked as sorted, and the runs of its threads in another order (``Writer.write_events``): each thread's own order stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise, takewhile
from types import MappingProxyType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.arguments import check_kind
from dotnetdiag.nettrace.block import Block
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.ids import FreeNumbers
from dotnetdiag.nettrace.label_table import activity_lists
from dotnetdiag.nettrace.labels import LabelList
from dotnetdiag.nettrace.part_range import is_moment, mark, moment
from dotnetdiag.nettrace.renumbering import Numbers
from dotnetdiag.nettrace.scanning import Contents
from dotnetdiag.nettrace.threads import ThreadInfo
from dotnetdiag.nettrace.writer import Writer

NO_BASES: Mapping[int, int] = MappingProxyType({})
_WORD = np.uint64(0xFFFFFFFF)
Id = TypeVar("Id", np.uint32, np.uint64)


def rewrite(
    contents: Contents,
    writer: Writer,
    *,
    keep: npt.NDArray[np.bool_] | None = None,
    part_ticks: tuple[int, int] | None = None,
) -> None:
    """Write the events of ``contents`` (those where ``keep`` is true) and close the writer. ``part_ticks``: from when to when the part is that is
    cut out, which the file says (``Findings.part_ticks``).

    UsageError where the writer's version has no way to say something: nothing is left out silently. Blocks of unknown
    kinds are kept when source and target have the same container, all of the trace is taken, and they stood between
    the same sequence points.
    """
    _Rewrite(contents, writer, keep, part_ticks).run()


class _Rewrite:
    def __init__(
        self,
        contents: Contents,
        writer: Writer,
        keep: npt.NDArray[np.bool_] | None,
        part_ticks: tuple[int, int] | None,
    ) -> None:
        check_kind(contents, Contents)
        check_kind(writer, Writer)
        if keep is not None:
            if not isinstance(keep, np.ndarray) or keep.dtype != np.bool_:
                raise UsageError("a selection is an array of bool, one for each event")
            if keep.shape != (len(contents),):
                raise UsageError(f"a selection of {len(keep)} rows for {len(contents)} events")
        self.contents, self.writer, self.keep = contents, writer, keep
        self.from_v6 = contents.format.startswith("nettrace 6")
        self.from_netperf = contents.format.startswith("NetPerf")
        self.to_v6 = writer.version == 6
        if contents.stacks.pointer_size != writer.pointer_size:
            raise UsageError("the writer's pointer size is not that of the trace")
        self.os_threads: dict[int, int] = {}
        if self.from_v6 and not self.to_v6:
            self.os_threads = {index: info.os_thread_id or 0 for index, info in contents.threads.items()}
        is_same = not self.from_netperf and keep is None and self.from_v6 == self.to_v6
        self.numbers = None if is_same else Numbers(contents, keep, self.os_threads)
        self.indices: dict[int, int] = {}
        """What stands for threads of the source since threads were forgotten last."""
        self.removed: set[int] = set()
        self.written: set[int] = set()
        self.free: FreeNumbers | None = None
        self.taken: set[int] = set()
        self.latest: int | None = None
        """The time of the latest event so far."""
        self.listed: Mapping[int, int] = {}
        """By the sequence point that was written last."""
        self.sync_ticks = contents.info.sync_ticks if contents.info else 0
        times = takewhile(lambda time: time < self.sync_ticks, (time for time, _, _ in contents.sequence_points))
        self.ahead = len([*times]) if contents.part_ticks or part_ticks else 0
        """Sequence points ahead of all else that say that the source is a part, and which."""
        self.part_ticks = part_ticks or contents.part_ticks
        bases = (threads for _, _, threads in contents.sequence_points[: self.ahead])
        self.has_base = not self.from_v6 and not self.to_v6 and any(bases)
        """Whether the first of them says where numbers begin: it has to come first."""

    def run(self) -> None:
        contents, writer = self.contents, self.writer
        points, removals = contents.sequence_points, _by_segment(contents.removals)
        if self.part_ticks is not None and not self.has_base:
            writer.write_sequence_point(mark(self.sync_ticks), {})
            self._write_range()
        self._add_metadata()
        strangers = self._unknown_blocks()
        starts = [*contents.segment_starts.tolist(), len(contents)]
        self._state_bases(-1, 0, self.sync_ticks)
        for segment, (first, last) in enumerate(pairwise(starts)):
            for block in strangers.get(segment, ()):
                self._keep_block(block)
            self._segment(first, last)
            self._remove(removals.get(segment, ()), segment, last)
            if self._is_told(segment):
                self._state_bases(segment, last, self.sync_ticks)
            elif segment < len(points):
                self._sequence_point(segment, last)
            if self.has_base and segment == self.ahead - 1:
                self._write_range(self._bases(segment, last))
        if contents.threads and self.to_v6 and self.keep is None:
            for thread in contents.threads.keys() - self.written:
                self._thread(thread)
        ended = bool(points) and starts[-2] == len(contents)
        if self.numbers is not None and (not ended or len(points) in self.numbers.lossy):
            listed = self.indices if self.to_v6 else {thread: thread for thread in self.numbers.threads}
            writer.write_sequence_point(
                None,
                {
                    index: self.numbers.at(n, starts[-1], len(points))
                    for n, index in listed.items()
                    if n in self.numbers.threads
                },
            )
            ended = True
        writer.close(sequence_point=not ended)

    def _add_metadata(self) -> None:
        contents, writer = self.contents, self.writer
        rows = slice(None) if self.keep is None else self.keep
        used = set(np.unique(contents.headers.metadata_id[rows]).tolist())
        for number, metadata in contents.metadata.items():
            if self.keep is None or number in used:
                if metadata.provider_guid is not None and not self.to_v6:
                    if metadata.provider:
                        raise UsageError(f"nettrace {writer.version} cannot hold provider ids")
                    # NetPerf 1 names providers by id only
                    metadata = replace(metadata, provider=str(metadata.provider_guid), provider_guid=None)
                writer.add_metadata(metadata)
        missing = used - set(contents.metadata)
        if missing:
            raise UsageError(f"events of metadata ids that the file does not define: {sorted(missing)[:5]}")

    # sequence points ----------------------------------------------------------------------------------------------

    def _sequence_point(self, segment: int, row: int) -> None:
        time, forget, threads = self.contents.sequence_points[segment]
        forget = forget and self.to_v6
        *before, listed = _parts(threads)
        for part in before if self.numbers is None else ():
            self._write_point(time, {self._thread(thread): number for thread, number in part.items()})
        if self.numbers is not None:
            listed = dict(threads)
            told = {self.os_threads.get(thread, thread) for thread in listed} | self.numbers.lossy.get(segment, set())
            listed = {thread: self.numbers.at(thread, row, segment) for thread in told}
            if not forget:
                listed |= self._bases(segment, row)
        self._write_point(
            time, {self._thread(thread): number for thread, number in listed.items()}, forget_threads=forget
        )
        if forget:
            self.indices, self.removed = {}, set()
            self._state_bases(segment, row, time)

    def _is_told(self, segment: int) -> bool:
        """Whether a sequence point of the source says nothing but which part it is: that is said anew."""
        if segment >= self.ahead:
            return False
        time, _, threads = self.contents.sequence_points[segment]
        return is_moment(time, self.sync_ticks) if self.has_base else not threads

    def _write_range(self, bases: Mapping[int, int] = NO_BASES) -> None:
        """A thread that is not listed has ended: those are, with the same numbers, that were listed last, and those that need to be told of."""
        self.listed = {**self.listed, **{self._thread(thread): number for thread, number in bases.items()}}
        for tick in self.part_ticks or ():
            if tick is not None:
                self.writer.write_sequence_point(moment(tick, self.sync_ticks), self.listed)

    def _bases(self, segment: int, row: int) -> dict[int, int]:
        """Threads that lose something behind a segment before an event of theirs says where their numbers are."""
        if self.numbers is None:
            return {}
        return {thread: self.numbers.at(thread, row, segment) for thread in self.numbers.needy.get(segment + 1, ())}

    def _state_bases(self, segment: int, row: int, time: int) -> None:
        """Version 6 begins numbering anywhere: a sequence point says where."""
        if self.to_v6 and (bases := self._bases(segment, row)):
            self._write_point(time, {self._thread(thread): number for thread, number in bases.items()})

    def _write_point(self, time: int, threads: Mapping[int, int], *, forget_threads: bool = False) -> None:
        """Files may say a time that is before their events."""
        time, self.listed = time if self.latest is None else max(time, self.latest), threads
        self.writer.write_sequence_point(time, threads, forget_threads=forget_threads)

    def _remove(self, removals: Iterable[tuple[int, int]], segment: int, row: int) -> None:
        """Threads end with their segment: a number is that of one thread."""
        if not self.to_v6:
            return
        for thread, number in removals:
            if self.numbers is None:
                pass
            elif thread in self.indices or thread in self.numbers.lossy.get(segment, ()):
                number = self.numbers.at(thread, row, segment)
            else:
                continue
            self.writer.remove_thread(self._thread(thread), number)
            self.removed.add(self.indices.pop(thread))

    # threads ------------------------------------------------------------------------------------------------------

    def _thread(self, thread: int) -> int:
        """What stands for a thread from here on: in version 6 its row is added where it is needed."""
        if not self.to_v6:
            return thread
        index = self.indices.get(thread)
        if index is None:
            index = thread
            if index in self.removed:  # used without a row behind its end
                index = self._unused_index()
            row = self.contents.threads.get(thread)
            if row is None and not self.from_v6:
                process = self.contents.info.process_id if self.contents.info else None
                row = ThreadInfo(index=index, process_id=process, os_thread_id=thread)
            self.writer.add_thread(replace(row or ThreadInfo(index=index), index=index))
            self.indices[thread] = index
            self.written.add(thread)
        return index

    def _thread_of_event(self, thread: int) -> int:
        return self._thread(self.os_threads.get(thread, thread))

    def _unused_index(self) -> int:
        if self.free is None:
            headers, self.free = self.contents.headers, FreeNumbers((1 << 64) - 1)
            self.taken = {thread for _, _, threads in self.contents.sequence_points for thread, _ in threads}
            self.taken |= {thread for _, thread, _ in self.contents.removals}
            self.taken.update(
                self.contents.threads, *(np.unique(c).tolist() for c in (headers.thread, headers.capture_thread))
            )
            self.free.see(max(self.taken))
        number = self.free.take(self.taken)
        self.taken.add(number)
        return number

    # events -------------------------------------------------------------------------------------------------------

    def _segment(self, first: int, last: int) -> None:
        contents = self.contents
        headers = contents.headers
        if self.numbers is not None:
            headers = replace(headers, sequence=self.numbers.sequence)
        headers = headers[first:last]
        if self.keep is not None:
            headers = headers[self.keep[first:last]]
        if not len(headers):
            return
        latest = int(headers.time.max())
        self.latest = latest if self.latest is None else max(latest, self.latest)
        headers = replace(
            headers,
            stack=_mapped(headers.stack, self._stack),
            thread=_mapped(headers.thread, self._thread_of_event),
            capture_thread=_mapped(headers.capture_thread, self._thread_of_event),
            label_list=self._labels_of(headers),
        )
        self.writer.write_events(headers, contents.buffer, guids=contents.guids, arrange=self.keep is not None)

    def _stack(self, number: int) -> int:
        return self.writer.add_stack(self.contents.stacks.raw(number)) if number else 0

    def _labels_of(self, headers: HeaderColumns) -> npt.NDArray[np.uint32]:
        if self.to_v6:
            return written_labels(self.contents, headers, self.writer, from_v6=self.from_v6)
        for number in np.unique(headers.label_list).tolist() if self.from_v6 else ():
            labels = self.contents.labels[number]
            if labels != LabelList(activity=labels.activity, related=labels.related):
                raise UsageError(f"nettrace {self.writer.version} has no labels beside activity ids: {labels}")
        return np.zeros_like(headers.label_list) if self.from_v6 else headers.label_list

    # blocks of unknown kinds --------------------------------------------------------------------------------------

    def _unknown_blocks(self) -> dict[int, list[Block]]:
        if self.keep is not None or self.from_netperf or self.from_v6 != self.to_v6:
            return {}
        found: dict[int, list[Block]] = {}
        segment = 0
        for block in self.contents.blocks:
            if block.kind is BlockKind.SEQUENCE_POINT:
                segment += 1
            elif block.kind is BlockKind.UNKNOWN and block.whole:
                found.setdefault(segment, []).append(block)
        return found

    def _keep_block(self, block: Block) -> None:
        content = self.contents.buffer[block.start : block.start + block.size].tobytes()
        if self.to_v6:
            self.writer.write_block(block.number, content)
        else:
            self.writer.write_object(block.name, content, version=block.version, min_reader=block.min_reader)


def written_labels(
    contents: Contents, headers: HeaderColumns, writer: Writer, *, from_v6: bool
) -> npt.NDArray[np.uint32]:
    """Label lists of the rows, as the writer numbers them; activity ids of older formats become labels."""
    if from_v6:
        numbers, which = np.unique(headers.label_list, return_inverse=True)
        lists = [contents.labels.raw(number) for number in numbers.tolist()]
    else:
        pairs = headers.activity.astype(np.uint64) << np.uint64(32) | headers.related
        distinct, which = np.unique(pairs, return_inverse=True)
        lists = activity_lists(contents.guids, np.stack([distinct >> np.uint64(32), distinct & _WORD], axis=1))
    return np.array(writer.add_label_lists(lists), np.uint32)[which]


def _mapped(column: npt.NDArray[Id], new: Callable[[int], int]) -> npt.NDArray[Id]:
    distinct, which = np.unique(column, return_inverse=True)
    return np.array([new(number) for number in distinct.tolist()], column.dtype)[which]


def _parts(threads: Iterable[tuple[int, int]]) -> list[dict[int, int]]:
    """The list of a sequence point in parts that name no thread twice: each mention may tell of losses."""
    made: list[dict[int, int]] = [{}]
    for thread, number in threads:
        if thread in made[-1]:
            made.append({})
        made[-1][thread] = number
    return made


def _by_segment(removals: Iterable[tuple[int, int, int]]) -> dict[int, list[tuple[int, int]]]:
    found: dict[int, list[tuple[int, int]]] = {}
    for segment, thread, number in removals:
        found.setdefault(segment, []).append((thread, number))
    return found
