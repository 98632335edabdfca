"""The events of a short session of the same process, to be written behind those of a part: how a part gets the names of its methods.

Both sessions number their event types and their threads' events by themselves. The types get numbers behind those of the part, and the
events of a thread go on where those of the part ended, so that what either has lost is counted as before.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace.part import point_block
from dotnetdiag.nettrace.scanning import Contents
from dotnetdiag.nettrace.stream_blocks import StreamBlock, StreamBlocks
from dotnetdiag.nettrace.writer import Writer


def appended_blocks(contents: Contents, *, largest_id: int, numbers: Mapping[int, int]) -> list[StreamBlock]:
    """The blocks to write, a sequence point first. ``largest_id`` of the part's event types, ``numbers`` the last of each thread in it.

    UsageError for a trace that is not of nettrace 4 or 5.
    """
    info = contents.info
    if info is None or contents.format.partition(" ")[0] != "nettrace" or contents.format.startswith("nettrace 6"):
        raise UsageError(f"events of {contents.format or 'no trace'} cannot be written behind those of a part")
    headers = contents.headers
    if not len(headers):
        return []
    out = io.BytesIO()
    writer = Writer.like(out, info, version=5)
    ids = {number: place for place, number in enumerate(contents.metadata, largest_id + 1)}
    for number, metadata in contents.metadata.items():
        writer.add_metadata(replace(metadata, metadata_id=ids[number]))
    known = np.isin(headers.metadata_id, list(ids))
    starts = [*contents.segment_starts.tolist(), len(headers)]
    for first, last in pairwise(starts):
        own = headers[first:last][known[first:last]]
        if not len(own):
            continue
        own = replace(
            own,
            metadata_id=_mapped(own.metadata_id, ids),
            sequence=own.sequence + _mapped(own.capture_thread, numbers),
            stack=_mapped(own.stack, {n: writer.add_stack(contents.stacks.raw(n)) for n in _distinct(own.stack) if n}),
        )
        writer.write_events(own, contents.buffer, guids=contents.guids, arrange=False)
        if last < len(headers):
            writer.write_sequence_point()
    writer.close(sequence_point=False)
    return [point_block(int(headers.time.min()), numbers), *StreamBlocks().feed(out.getvalue())]


def _distinct(column: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> list[int]:
    found: list[int] = np.unique(column).tolist()
    return found


def _mapped(
    column: np.ndarray[tuple[int], np.dtype[np.unsignedinteger]], new: Mapping[int, int]
) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    distinct, which = np.unique(column, return_inverse=True)
    return np.array([new.get(number, 0) for number in distinct.tolist()], np.uint32)[which]
