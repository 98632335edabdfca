"""Events of NetPerf, which carry their stacks and the metadata of others (nettrace.md §3, §4)."""

from __future__ import annotations

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.block import Block
from dotnetdiag.nettrace.budget import parsed_cost
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.container import ContainerKind
from dotnetdiag.nettrace.piece import Piece
from dotnetdiag.nettrace.records import parse_flat_record, parse_record
from dotnetdiag.nettrace.state import TraceState
from dotnetdiag.wire import Cursor


def take_events(state: TraceState, block: Block, data: memoryview, base: int, piece: Piece) -> HeaderColumns:
    """The events of a block: its metadata events become metadata, its stacks are interned."""
    assert piece.frames is not None
    is_metadata = piece.headers.metadata_id == 0
    defined = _define(state, data, base, piece, np.flatnonzero(is_metadata).tolist())
    starts, sizes = piece.frames
    whole = np.where(sizes >= state.pointer_size, sizes - sizes % state.pointer_size, -1)
    headers, rows = replace(piece.headers, stack=state.stacks.intern_many(data, starts, whole)), np.arange(len(starts))
    if is_metadata.any():
        rows = np.flatnonzero(~is_metadata)
        headers = headers[rows]
    ids, which = np.unique(headers.metadata_id, return_inverse=True)
    known_from = [
        defined.get(number, 0) if number in state.metadata.records else len(starts) for number in ids.tolist()
    ]
    is_unknown = rows < np.array(known_from, np.int64)[which]
    if is_unknown.any():
        detail = f" (id {headers.metadata_id[is_unknown][0]})"
        state.remarks.warn(
            "events with an unknown metadata id", block.offset, int(np.count_nonzero(is_unknown)), detail
        )
        headers = replace(headers, metadata_id=np.where(is_unknown, np.uint32(0), headers.metadata_id))
    return headers


def _define(state: TraceState, data: memoryview, base: int, piece: Piece, rows: list[int]) -> dict[int, int]:
    """The rows where ids were defined that were not known before."""
    assert piece.positions is not None
    defined: dict[int, int] = {}
    for row in rows:
        start = int(piece.headers.payload_offset[row])
        size = int(piece.headers.payload_length[row])
        if not state.has_room(parsed_cost(size), base + start):
            continue
        cursor = Cursor(data, position=start, end=start + size, base=base, where="metadata record")
        try:
            if state.container is ContainerKind.FLAT:
                number = int(piece.positions[row]) + base & 0xFFFFFFFF
                made = parse_flat_record(cursor, number, major=state.major)
            else:
                made = parse_record(cursor)
        except FormatError as error:
            state.remarks.add_damage(error)
        else:
            if made.metadata_id not in state.metadata.records:
                defined[made.metadata_id] = row
            state.metadata.define(made, base + start, size)
    return defined
