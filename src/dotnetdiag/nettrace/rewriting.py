"""A trace that was read, written again: all of it or a selection, in the same version or another.

What stays: events in file order, every header field, sequence points, losses. What is left out takes no numbers: a
selection loses exactly what the whole lost, no more.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.block import Block
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.labels import LabelList
from dotnetdiag.nettrace.scanning import Contents
from dotnetdiag.nettrace.threads import ThreadInfo
from dotnetdiag.nettrace.writer import Writer

_WORD = 0xFFFFFFFF


def rewrite(contents: Contents, writer: Writer, *, keep: npt.NDArray[np.bool_] | None = None) -> None:
    """Write the events of ``contents`` (those where ``keep`` is true) and close the writer.

    UsageError where the writer's version has no way to say something: nothing is left out silently. Blocks of unknown
    kinds are kept when source and target have the same container, all of the trace is taken, and they stood between
    the same sequence points.
    """
    _Rewrite(contents, writer, keep).run()


class _Rewrite:
    def __init__(self, contents: Contents, writer: Writer, keep: npt.NDArray[np.bool_] | None) -> None:
        if keep is not None and len(keep) != len(contents):
            raise UsageError(f"a selection of {len(keep)} rows for {len(contents)} events")
        self.contents, self.writer, self.keep = contents, writer, keep
        self.from_v6 = contents.format.startswith("nettrace 6")
        self.from_netperf = contents.format.startswith("NetPerf")
        self.to_v6 = writer.version == 6
        if contents.stacks.pointer_size != writer.pointer_size:
            raise UsageError("the writer's pointer size is not that of the trace")
        self.threads = self._thread_map()
        self.sequence, self.omitted = self._numbers()

    def run(self) -> None:
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
        if self.from_v6 and self.to_v6:
            for thread in contents.threads.values():
                writer.add_thread(thread)
        self._state_first_losses()
        strangers = self._unknown_blocks()
        starts = [*contents.segment_starts.tolist(), len(contents)]
        for segment, (first, last) in enumerate(pairwise(starts)):
            for block in strangers.get(segment, ()):
                self._keep_block(block)
            self._segment(first, last)
            if segment < len(contents.sequence_points):
                time, forget, threads = contents.sequence_points[segment]
                writer.write_sequence_point(
                    time,
                    {self._thread(thread): self._number(thread, number, last) for thread, number in threads},
                    forget_threads=forget and self.to_v6,
                )
        ended = len(contents.sequence_points) and starts[-2] == len(contents)
        writer.close(sequence_point=not ended)

    # numbers ------------------------------------------------------------------------------------------------------

    def _numbers(self) -> tuple[npt.NDArray[np.uint32], dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]]:
        """Sequence numbers to write, and per capture thread (rows, omitted numbers up to and with each row)."""
        headers = self.contents.headers
        count = len(headers)
        if not self.from_netperf and self.keep is None and self.from_v6 == self.to_v6:
            return headers.sequence, {}
        order = np.argsort(headers.capture_thread, kind="stable")
        thread = headers.capture_thread[order]
        edges = (
            np.flatnonzero(np.concatenate([[True], thread[1:] != thread[:-1], [True]])) if count else np.zeros(1, int)
        )
        made = np.zeros(count, np.uint32)
        omitted: dict[int, tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = {}
        for first, last in pairwise(edges.tolist()):
            rows = order[first:last]
            counted = np.arange(1, len(rows) + 1, dtype=np.uint32)
            numbers = counted if self.from_netperf else headers.sequence[rows]
            gone = np.zeros(len(rows), np.int64)
            if self.keep is not None:
                gone = np.cumsum(~self.keep[rows])
                steps = np.diff(numbers.astype(np.int64), prepend=numbers[:1].astype(np.int64))
                # a number that falls back begins a new thread of the same id: what was omitted before is its own affair
                restarts = np.flatnonzero((steps < 0) & (steps > -(1 << 31)))
                for row in restarts.tolist():
                    gone[row:] -= gone[row - 1]
            if self.from_v6 and not self.to_v6 and len(numbers):
                gone = gone + (int(numbers[0]) - 1)  # version 6 begins anywhere, versions 4 and 5 begin at 1
            made[rows] = (numbers.astype(np.int64) - gone & _WORD).astype(np.uint32)
            omitted[int(thread[first])] = (rows, gone)
        return made, omitted

    def _number(self, thread: int, number: int, row: int) -> int:
        """A sequence point's number for a thread, behind the events before ``row``."""
        found = self.omitted.get(thread)
        if found is None:
            return number
        at = int(np.searchsorted(found[0], row)) - 1
        if at < 0:
            first = int(found[1][0]) if len(found[1]) and self.from_v6 and not self.to_v6 else 0
            return number - first & _WORD
        return number - int(found[1][at]) & _WORD

    def _state_first_losses(self) -> None:
        """Version 6 begins numbering anywhere: a sequence point with 0 says where versions 4 and 5 began (at 1)."""
        if not self.to_v6 or self.from_v6 or self.from_netperf or not self.contents.lost.total:
            return
        late = {gap.capture_thread: 0 for gap in self.contents.lost.gaps if gap.after is None}
        if late and self.contents.info is not None:
            for thread in late:
                self._introduce(thread)
            self.writer.write_sequence_point(self.contents.info.sync_ticks, late)

    # threads ------------------------------------------------------------------------------------------------------

    def _thread_map(self) -> dict[int, int] | None:
        """From version 6: OS thread ids by thread index."""
        if not self.from_v6 or self.to_v6:
            return None
        return {index: info.os_thread_id or 0 for index, info in self.contents.threads.items()}

    def _thread(self, thread: int) -> int:
        if self.to_v6 and not self.from_v6:
            self._introduce(thread)
        return thread if self.threads is None else self.threads.get(thread, thread)

    def _introduce(self, thread: int) -> None:
        process = self.contents.info.process_id if self.contents.info else None
        self.writer.add_thread(ThreadInfo(index=thread, process_id=process, os_thread_id=thread))

    def _threads_of(self, column: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        distinct, which = np.unique(column, return_inverse=True)
        return np.array([self._thread(thread) for thread in distinct.tolist()], np.uint64)[which]

    # events -------------------------------------------------------------------------------------------------------

    def _segment(self, first: int, last: int) -> None:
        contents = self.contents
        headers = replace(contents.headers, sequence=self.sequence)[first:last]
        if self.keep is not None:
            headers = headers[self.keep[first:last]]
        if not len(headers):
            return
        stacks = np.zeros(len(contents.stacks), np.uint32)
        for number in np.unique(headers.stack).tolist():
            if number:
                stacks[number] = self.writer.add_stack(contents.stacks.raw(number))
        headers = replace(
            headers,
            stack=stacks[headers.stack],
            thread=self._threads_of(headers.thread),
            capture_thread=self._threads_of(headers.capture_thread),
            label_list=self._labels_of(headers),
        )
        self.writer.write_events(headers, contents.buffer, guids=contents.guids)

    def _labels_of(self, headers: HeaderColumns) -> npt.NDArray[np.uint32]:
        contents, writer = self.contents, self.writer
        if self.from_v6:
            made = np.zeros(len(contents.labels), np.uint32)
            for number in np.unique(headers.label_list).tolist():
                labels = contents.labels[number]
                if self.to_v6:
                    made[number] = writer.add_labels(labels)
                elif labels != LabelList(activity=labels.activity, related=labels.related):
                    raise UsageError(f"nettrace {writer.version} has no labels beside activity ids: {labels}")
            return made[headers.label_list]
        if not self.to_v6:
            return headers.label_list
        pairs = headers.activity.astype(np.uint64) << np.uint64(32) | headers.related
        distinct, which = np.unique(pairs, return_inverse=True)
        guids = contents.guids
        numbers = []
        for pair in distinct.tolist():
            activity, related = pair >> 32, pair & _WORD
            numbers.append(
                writer.add_labels(
                    LabelList(
                        activity=guids[activity] if activity else None, related=guids[related] if related else None
                    )
                )
            )
        return np.array(numbers, np.uint32)[which]

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
