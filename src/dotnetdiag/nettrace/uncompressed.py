"""Events that are written in full (NetPerf; nettrace 4 to 6 where a block says so): found one by one, read by strides."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import BATCH_ROWS, UNKNOWN_PROCESSOR
from dotnetdiag.nettrace.group import Form
from dotnetdiag.nettrace.kernel_types import BLOCK
from dotnetdiag.nettrace.piece import Piece, Place

_WORD, _LONG = "<u4", "<u8"
_GUIDS = [("activity", "u1", 16), ("related", "u1", 16)]
_OPENING: list[Any] = [("size", _WORD), ("metadata", _WORD)]
_MIDDLE: list[Any] = [
    ("sequence", _WORD),
    ("thread", _LONG),
    ("capture", _LONG),
    ("processor", _WORD),
    ("stack", _WORD),
]
_TIME, _PAYLOAD = ("time", "<i8"), ("payload", _WORD)
_NETPERF = np.dtype([*_OPENING, ("thread", _WORD), _TIME, *_GUIDS, _PAYLOAD])
_V4 = np.dtype([*_OPENING, *_MIDDLE, _TIME, *_GUIDS, _PAYLOAD])
_V6 = np.dtype([*_OPENING, *_MIDDLE, _TIME, ("label", _WORD), _PAYLOAD])
_LAYOUTS = {Form.NETPERF: _NETPERF, Form.UNCOMPRESSED: _V4, Form.UNCOMPRESSED_V6: _V6}
_UNSORTED = np.uint32(0x80000000)


def decode(data: memoryview, start: int, end: int, form: Form, place: Place) -> Piece:
    """The events of one block, or as many as fit a batch, from ``place`` on, with ids as they stand in the file."""
    layout = _LAYOUTS[form]
    first = start if place.state is None else place.state
    positions, stop, problem = _find(data, first, end, layout, form is Form.NETPERF)
    rows = len(positions)
    fields = np.zeros(rows, layout)
    if rows:
        raw = np.frombuffer(data, np.uint8)
        fields = sliding_window_view(raw, layout.itemsize)[positions].view(layout).reshape(rows)
    # what was found lies between those; sizes may have changed since (a mapped file that somebody writes to)
    ends = np.append(positions[1:], stop)
    trailing = 4 if form is Form.NETPERF else 0
    fields["payload"] = np.minimum(fields["payload"], ends - trailing - layout.itemsize - positions)
    headers, guids = _columns(fields, positions, form)
    block = np.zeros(1, BLOCK)
    block["rows"], block["stop"], block["problem"] = rows, stop, problem
    remainder = Place(0, rows, stop) if not problem and stop < end else None
    if form is Form.NETPERF:
        frames = _frames(data, headers, ends)
        none = np.zeros(0, np.int64)
        return Piece(place, remainder, headers, none, guids, block, frames, positions)
    jumps = np.zeros(min(rows, 1), np.int64)
    if rows:
        is_jump = (np.diff(headers.sequence) != 1) | (np.diff(headers.capture_thread) != 0)
        jumps = np.concatenate([jumps, np.flatnonzero(is_jump) + 1])
    return Piece(place, remainder, headers, jumps, guids, block)


def _find(
    data: memoryview, start: int, end: int, layout: np.dtype[Any], has_stack: bool
) -> tuple[npt.NDArray[np.int64], int, int]:
    """(where events begin, where the last good one ends, what is wrong there)."""
    header, size_at = layout.itemsize, layout.itemsize - 4
    if kernels.KERNELS is None:
        from dotnetdiag.nettrace import fallback  # many programs never need it

        return fallback.walk(data, start, end, header, size_at, has_stack, BATCH_ROWS)
    positions = np.empty(min(BATCH_ROWS, (end - start) // header + 1), np.int64)
    found, stop, problem = kernels.KERNELS.walk(data, start, end, header, size_at, has_stack, positions)
    return positions[:found], stop, problem


def _columns(
    fields: npt.NDArray[np.void], positions: npt.NDArray[np.int64], form: Form
) -> tuple[HeaderColumns, npt.NDArray[np.int64]]:
    """(columns, where GUIDs stand that are not zero)."""
    rows, layout, netperf = len(fields), fields.dtype, form is Form.NETPERF
    guids = np.zeros(0, np.int64)
    activity, related = np.zeros(rows, np.uint32), np.zeros(rows, np.uint32)
    if form is not Form.UNCOMPRESSED_V6:
        for name, column in (("activity", activity), ("related", related)):
            stated = np.flatnonzero(fields[name].any(axis=1))
            column[stated] = np.arange(len(stated), dtype=np.uint32) + np.uint32(len(guids) + 1)
            field_at = layout.fields[name][1] if layout.fields else 0
            guids = np.concatenate([guids, positions[stated] + field_at])
    metadata = fields["metadata"].astype(np.uint32)
    thread = fields["thread"].astype(np.uint64)
    headers = HeaderColumns(
        metadata_id=metadata if netperf else metadata & ~_UNSORTED,
        sequence=np.zeros(rows, np.uint32) if netperf else fields["sequence"].astype(np.uint32),
        capture_thread=thread if netperf else fields["capture"].astype(np.uint64),
        thread=thread,
        processor=np.full(rows, UNKNOWN_PROCESSOR, np.uint32) if netperf else fields["processor"].astype(np.uint32),
        stack=np.zeros(rows, np.uint32) if netperf else fields["stack"].astype(np.uint32),
        time=fields["time"].astype(np.int64),
        activity=activity,
        related=related,
        payload_offset=positions + layout.itemsize,
        payload_length=fields["payload"].astype(np.uint32),
        # NetPerf is in time order over the whole file; else bit 31 *set* means not sorted (nettrace.md §5.4)
        is_sorted=np.ones(rows, np.bool_) if netperf else metadata & _UNSORTED == 0,
        label_list=fields["label"].astype(np.uint32) if form is Form.UNCOMPRESSED_V6 else np.zeros(rows, np.uint32),
    )
    return headers, guids


def _frames(
    data: memoryview, headers: HeaderColumns, ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """(where the stack of each event begins, its size in bytes): it follows the payload."""
    at = headers.payload_offset + headers.payload_length
    sizes = np.zeros(0, np.int64)
    if len(at):
        sizes = sliding_window_view(np.frombuffer(data, np.uint8), 4)[at].view(_WORD).ravel().astype(np.int64)
    return at + 4, np.minimum(sizes, ends - at - 4)
