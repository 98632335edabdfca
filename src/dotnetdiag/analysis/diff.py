"""What changed between two profiles, per method and per call path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import number
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.origin import Origin
from dotnetdiag.analysis.profile import Array
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import UsageError
from dotnetdiag.events import Scalar
from dotnetdiag.table import HasTable, Losses, Table
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.stack_tree import StackTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A weight before and after, in the unit of the profiles."""

    before: float
    after: float

    @property
    def absolute(self) -> float:
        """How much more it is."""
        return self.after - self.before

    @property
    def relative(self) -> float | None:
        """How much more it is in percent of what it was; None when it was nothing."""
        return 100 * self.absolute / self.before if self.before else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodChange:
    """One method of both profiles, found again by its ``name`` as printed in the style of the diff. ``exclusive`` is the weight that it took
    itself, ``inclusive`` that with all that it called.
    """

    name: str
    frame: Frame
    exclusive: Change
    inclusive: Change


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class ProfileDiff(HasTable):
    """Two profiles against each other; ``unit`` is that of all weights, ``total`` the change of their sum.

    ``methods`` are sorted by the size of the change of their exclusive weight, largest first, then by that of their
    inclusive weight, then by name. ``tree`` has the call paths of both over ``frames``; ``before`` and ``after`` are
    the weights at each of its nodes (f64). ``scale`` is what the weights of the second were multiplied by.
    """

    unit: str
    total: Change
    methods: tuple[MethodChange, ...]
    tree: StackTree
    frames: Frames
    before: Array
    after: Array
    before_origin: Origin
    after_origin: Origin
    scale: float = 1.0

    def grown(self, limit: float) -> tuple[MethodChange, ...]:
        """Methods whose exclusive weight grew by more than ``limit`` (in the unit), the worst first."""
        worse = [method for method in self.methods if method.exclusive.absolute > limit]
        return tuple(sorted(worse, key=lambda method: -method.exclusive.absolute))

    def table(self) -> Table:
        """As :meth:`changes`."""
        return self.changes()

    def changes(self) -> Table:
        """A row per method in the order of ``methods``: exclusive and inclusive weights before and after, and the change."""
        columns: dict[str, list[Any] | Scalar] = {
            "method": [one.name for one in self.methods],
            "module": [one.frame.module for one in self.methods],
        }
        units: dict[str, str] = {}
        for kind in ("exclusive", "inclusive"):
            both: list[Change] = [getattr(one, kind) for one in self.methods]
            columns[f"{kind}_before"] = number(np.array([change.before for change in both], np.float64))
            columns[f"{kind}_after"] = number(np.array([change.after for change in both], np.float64))
            columns[f"{kind}_change"] = number(np.array([change.absolute for change in both], np.float64))
            relative = [change.relative for change in both]
            columns[f"{kind}_relative_percent"] = number(np.array(relative, np.float64))  # None is NaN
            units |= {f"{kind}_{name}": self.unit for name in ("before", "after", "change")}
            units[f"{kind}_relative_percent"] = "%"
        first, second = self.before_origin, self.after_origin
        lost = None if first.lost is None or second.lost is None else first.lost + second.lost
        return Table(
            columns,
            title=f"{second.name or 'after'} against {first.name or 'before'}",
            units=units,
            losses=Losses(lost=lost, damage=first.damage or second.damage),
        )


def diff(before: StackProfile, after: StackProfile, *, style: Style = Style.FULL, shares: bool = False) -> ProfileDiff:
    """The second profile against the first.

    With ``shares`` the second is scaled to the total of the first, for recordings of unequal length. Filter both alike.
    Raises UsageError when their units differ.
    """
    if before.unit != after.unit:
        raise UsageError(f"{before.unit} against {after.unit}: nothing can be said")
    scale = before.total / after.total if shares and before.total and after.total else 1.0
    frames, kept = _Names(style), []
    for profile, factor in ((before, 1.0), (after, scale)):
        numbers = frames.numbers(profile)
        tree, new_node = profile.tree.map_frames(numbers)
        weights = np.bincount(new_node[profile.node], profile.weight, minlength=len(tree)) * factor
        kept.append((tree, weights))
    (old_tree, old), (new_tree, new) = kept
    tree, old_nodes, new_nodes = _joined(old_tree, new_tree)
    at_before = np.bincount(old_nodes, old, minlength=len(tree)).astype(np.float64)
    at_after = np.bincount(new_nodes, new, minlength=len(tree)).astype(np.float64)
    return ProfileDiff(
        unit=before.unit,
        total=Change(before=before.total, after=after.total * scale),
        methods=_methods(tree, frames, at_before, at_after),
        tree=tree,
        frames=Frames(extra=frames.frames),
        before=at_before,
        after=at_after,
        before_origin=before.origin,
        after_origin=after.origin,
        scale=scale,
    )


class _Names:
    """Frames of several profiles under one numbering, by name."""

    def __init__(self, style: Style) -> None:
        self.style = style
        self.frames: list[Frame] = []
        self.texts: list[str] = []
        self._ids: dict[str, int] = {}

    def numbers(self, profile: StackProfile) -> Array:
        made = np.full(max(len(profile.frames), 1), -1, np.int32)
        for place in profile.used_frames().tolist():
            frame: Frame = profile.frames[place]
            text = unresolved_name(frame) if frame.kind is FrameKind.UNRESOLVED else frame.name(self.style)
            found = self._ids.get(text)
            if found is None:
                found = self._ids[text] = len(self.frames)
                self.frames.append(frame)
                self.texts.append(text)
            made[place] = found
        return made


def unresolved_name(frame: Frame) -> str:
    """Addresses differ from run to run: those of one module are one, unless the module's file gives their place."""
    return frame.name(Style.SHORT) if frame.offset is not None else f"{frame.module or '?'}!?"


def _joined(old: StackTree, new: StackTree) -> tuple[StackTree, Array, Array]:
    """One tree with the paths of two over the same frames, and the node in it of each of theirs."""
    moved = np.where(new.parent[1:] > 0, new.parent[1:] + len(old) - 1, 0)
    frame = np.append(old.frame, new.frame[1:]).astype(np.int32)
    both = StackTree(np.append(old.parent, moved).astype(np.int32), frame)
    tree, nodes = both.map_frames(np.arange(int(frame.max()) + 1, dtype=np.int32))
    return tree, nodes[: len(old)], np.append(0, nodes[len(old) :])


def _methods(tree: StackTree, frames: _Names, before: Array, after: Array) -> tuple[MethodChange, ...]:
    (own_before, in_before), (own_after, in_after) = tree.by_frame(before), tree.by_frame(after)
    columns: Iterable[tuple[float, ...]] = zip(
        *(column.tolist() for column in (own_before, own_after, in_before, in_after)), strict=True
    )
    made = [
        MethodChange(
            name=text,
            frame=frame,
            exclusive=Change(before=row[0], after=row[1]),
            inclusive=Change(before=row[2], after=row[3]),
        )
        for text, frame, row in zip(frames.texts, frames.frames, columns, strict=False)
    ]
    made.sort(key=lambda method: (-abs(method.exclusive.absolute), -abs(method.inclusive.absolute), method.name))
    return tuple(made)
