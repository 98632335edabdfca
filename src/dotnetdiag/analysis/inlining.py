"""Calls that the compiler put the called method in the place of, and those where it did not, and why."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.groups import groups
from dotnetdiag.analysis.kept_events import Kept, KeptEvents, Texts, having
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

DONE, FAILED = 185, (186, 192)
"""Method/InliningSucceeded; Method/InliningFailed, of .NET Core 3 with texts of one byte a letter, and of later ones."""
_NAMES = ("InlinerNamespace", "InlinerName", "InlineeNamespace", "InlineeName", "FailReason")


@dataclass(frozen=True, kw_only=True)
class InliningTotals:
    """Calls that were inlined, and calls that were not."""

    inlined: int
    failed: int


class InliningEvents:
    """Takes windows; of each, calls that are alike are kept as one."""

    def __init__(self) -> None:
        self._texts = Texts(1 << 20)
        self._failed = KeptEvents(having(*FAILED), ("FailAlways",), names=_NAMES, texts=self._texts)
        self._done = KeptEvents(having(DONE))
        self._inlined = 0

    def wants(self, schema: EventSchema) -> bool:
        """Both kinds."""
        return self._failed.wants(schema) or self._done.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._inlined += len(self._done.events_of(window))
        events = self._failed.events_of(window)
        if not len(events):
            return
        kept = self._failed.of(events)
        first, which = combined([kept[name] for name in (*_NAMES, "FailAlways")], len(kept))
        alike = kept.of(first)
        fields = {**alike.fields, "count": np.bincount(which, minlength=len(first))}
        self._failed.add(Kept(alike.ms, alike.pid, alike.tid, fields))

    def result(self) -> tuple[dict[str, Column], InliningTotals | None]:
        """Columns of a row for each reason and pair of methods, the most frequent first: ``reason``, ``always`` (whatever calls it), ``caller``,
        ``callee``, ``count``. None: the recording has no such events.
        """
        kept = self._failed.all()
        count = kept["count"] if len(kept) else np.zeros(0, np.int64)
        found = groups([kept[name] for name in (*_NAMES, "FailAlways")], count.astype(np.float64), counts=count)
        rows = kept.of(found.first)
        columns: dict[str, Column] = {
            "reason": self._coded(rows["FailReason"]),
            "always": Scalar((rows["FailAlways"] > 0).astype(np.int64), None, Kind.I8),
            "caller": self._method(rows, "Inliner"),
            "callee": self._method(rows, "Inlinee"),
            "count": Scalar(found.total.astype(np.int64), None, Kind.I8),
        }
        failed = int(count.sum())
        return columns, InliningTotals(inlined=self._inlined, failed=failed) if failed or self._inlined else None

    def _coded(self, which: Array) -> Coded:
        return Coded(Text.from_pylist([*self._texts.names, ""]), which)

    def _method(self, rows: Kept, role: str) -> Coded:
        pairs, which = np.unique(np.stack([rows[f"{role}Namespace"], rows[f"{role}Name"]]), axis=1, return_inverse=True)
        names = [f"{self._texts[space]}.{self._texts[name]}" for space, name in pairs.T.tolist()]
        return Coded(Text.from_pylist(names), which.reshape(-1))
