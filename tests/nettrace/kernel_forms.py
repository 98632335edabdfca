"""The loops over events in both forms: compiled, where they are, and the fall-back."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from dotnetdiag.nettrace import decode, fallback, kernels, loss_count
from dotnetdiag.nettrace.arena import LEAST_EVENT, Arena
from dotnetdiag.nettrace.group import Form
from dotnetdiag.nettrace.ids import IdMap
from dotnetdiag.nettrace.kernels import KERNELS
from dotnetdiag.nettrace.piece import Piece, Place
from dotnetdiag.nettrace.translation import Tables, Translation

COMPILED_FORMS: list[ModuleType] = [] if KERNELS is None else [KERNELS]
FORMS: list[ModuleType] = [fallback, *COMPILED_FORMS]
FORM_IDS = ["fallback", "compiled"][: len(FORMS)]


def decoded(
    by: Any,
    data: bytes | memoryview,
    form: Form,
    place: Place | None = None,
    most_rows: int = 1 << 20,
    *,
    is_translated: bool = False,
) -> Piece:
    """One block, from byte 3 on, with metadata ids that stand for themselves. Others stand for nothing, or with ``is_translated``
    the odd ones for other numbers.
    """
    view, place = memoryview(data), place or Place()
    translation = _translation(view, form, is_translated)
    if by is fallback:
        piece = fallback.decode(view, 3, len(view), form, place)
        if is_translated:
            piece.headers = translation.apply(piece.headers, piece.blocks)
        return piece
    starts, ends = np.array([3], np.int64), np.array([len(view)], np.int64)
    lent = Arena(min(most_rows, len(view) // LEAST_EVENT + 1)).lend()
    v6 = form is Form.COMPRESSED_V6
    return decode._fill(by, view, starts, ends, v6, Tables.of([(1, translation)]), lent, place)


def _translation(view: memoryview, form: Form, is_translated: bool) -> Translation:
    """Of the ids of a block."""
    metadata, stacks, labels = IdMap(), IdMap(), IdMap()
    place: Place | None = Place()
    while place is not None:
        piece = fallback.decode(view, 3, len(view), form, place)
        for number in filter(None, np.unique(piece.headers.metadata_id).tolist()):
            metadata.define(number, number)
        for ids, column in ((stacks, piece.headers.stack), (labels, piece.headers.label_list)):
            for number in np.unique(column[column % 2 == 1]).tolist():
                ids.define(number, number ^ 0x5A5A5A5A)
        place = piece.remainder
    if not is_translated:
        return Translation(metadata=metadata.snapshot())
    return Translation(stacks.snapshot(), labels.snapshot(), metadata.snapshot())


def without_kernels(monkeypatch: Any) -> None:
    """As where nothing could be compiled."""
    monkeypatch.setattr(kernels, "KERNELS", None)
    monkeypatch.setattr(loss_count.LossCounter.__init__, "__defaults__", (None, None))
