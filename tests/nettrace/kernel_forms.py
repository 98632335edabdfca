"""The loops over events in both forms: compiled, where they are, and the fall-back."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from dotnetdiag.nettrace import decode, fallback, kernels
from dotnetdiag.nettrace.arena import LEAST_EVENT, Arena
from dotnetdiag.nettrace.group import Form
from dotnetdiag.nettrace.ids import IdMap, Snapshot
from dotnetdiag.nettrace.kernels import KERNELS
from dotnetdiag.nettrace.piece import Piece, Place
from dotnetdiag.nettrace.translation import Tables, Translation

COMPILED_FORMS: list[ModuleType] = [] if KERNELS is None else [KERNELS]
FORMS: list[ModuleType] = [fallback, *COMPILED_FORMS]
FORM_IDS = ["fallback", "compiled"][: len(FORMS)]


def decoded(
    by: Any, data: bytes | memoryview, form: Form, place: Place | None = None, most_rows: int = 1 << 20
) -> Piece:
    """One block, from byte 3 on, with metadata ids that stand for themselves and others that stand for nothing."""
    view, place = memoryview(data), place or Place()
    if by is fallback:
        return fallback.decode(view, 3, len(view), form, place)
    starts, ends = np.array([3], np.int64), np.array([len(view)], np.int64)
    lent = Arena(min(most_rows, len(view) // LEAST_EVENT + 1)).lend()
    v6 = form is Form.COMPRESSED_V6
    tables = Tables.of([(1, Translation(metadata=_standing_for_themselves(view, form)))])
    return decode._fill(by, view, starts, ends, v6, tables, lent, place)


def _standing_for_themselves(view: memoryview, form: Form) -> Snapshot:
    """The metadata ids of a block."""
    itself = IdMap()
    place: Place | None = Place()
    while place is not None:
        piece = fallback.decode(view, 3, len(view), form, place)
        for number in filter(None, np.unique(piece.headers.metadata_id).tolist()):
            itself.define(number, number)
        place = piece.remainder
    return itself.snapshot()


def without_kernels(monkeypatch: Any) -> None:
    """As where nothing could be compiled."""
    monkeypatch.setattr(kernels, "KERNELS", None)
