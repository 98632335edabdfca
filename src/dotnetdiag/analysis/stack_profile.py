"""Weighted stacks, and what of them is looked at: the filters as methods, each a profile of its own.

``dd.cpu(trace).focus("Sql").hide_framework().top(10)``. A pattern is a regular expression, searched without regard to case in the full
name of a frame (``module!Namespace.Type.Method(parameters)``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis import filters
from dotnetdiag.analysis.profile import Profile, State
from dotnetdiag.durations import time_of
from dotnetdiag.errors import UsageError
from dotnetdiag.table import HasTable
from dotnetdiag.trace.method_names import Style

if TYPE_CHECKING:
    from dotnetdiag.table import Table


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class StackProfile(Profile, HasTable):
    """Weighted stacks of threads: samples as columns, sorted by thread and then by time, whose stacks are nodes of one ``tree``.

    Of each sample: ``thread`` (i32, index into ``threads``), ``start_ns`` and ``length_ns`` (i64, since the start of the trace; 0 for what has no
    length), ``weight`` (f64, in ``unit``: ``ms``, ``samples``, ``bytes``, …), ``node`` (i32, the leaf in ``tree``, 0 without a stack), ``state``
    (u8, a ``State``). ``frames[tree.frame[node]]`` is the method of a node, ``tree.parent[node]`` its caller. ``name`` says what the weights
    are, ``from_ns`` and ``to_ns`` bound the time that was looked at, ``origin`` tells of the recording, ``notes`` are lines on what was done or
    is odd. Nothing of it is changed.

    Filters give a profile each, and may follow each other in any order: ``dd.cpu(trace).focus("Sql").hide_framework().top(10)``. A pattern is a
    regular expression, searched without regard to case in the full name of a frame, ``module!Namespace.Type.Method(parameters)``.
    """

    def table(self) -> Table:
        """As :meth:`methods`."""
        return self.methods()

    def between(self, start: float | str | None = None, end: float | str | None = None) -> StackProfile:
        """Seconds since the start of the trace, or texts (``"1.5s"``), half-open, None: open; samples over an edge are cut there. UsageError
        for a time that ends before it begins, is no number, or begins after all samples.
        """
        return filters.between(self, time_of(start), time_of(end))

    def of_threads(self, *wanted: int | str) -> StackProfile:
        """Threads by id, or by a part of their name. UsageError when one is not there."""
        return filters.of_threads(self, wanted)

    def in_states(self, *states: State | str) -> StackProfile:
        """Samples in some states only: ``State.CPU``, or its name (``"cpu"``). UsageError for a state that is not there."""
        return filters.in_states(self, *map(_state, states))

    def focus(self, pattern: str) -> StackProfile:
        """Samples with a frame that matches anywhere in the stack. GrammarError for what is no pattern."""
        return filters.focus(self, pattern)

    def ignore(self, pattern: str) -> StackProfile:
        """Samples without such a frame. GrammarError for what is no pattern."""
        return filters.ignore(self, pattern)

    def hide(self, pattern: str) -> StackProfile:
        """Frames that match are left out; their time goes to what called them. GrammarError for what is no pattern."""
        return filters.hide(self, pattern)

    def hide_framework(self) -> StackProfile:
        """Frames of .NET and the system are left out: their time goes to the program's methods that called them. Stacks without any method of
        the program keep their weight in ``total``, and are in no row.
        """
        return filters.hide_framework(self)

    def fold_recursion(self) -> StackProfile:
        """A method that calls itself at once is one frame."""
        return filters.fold_recursion(self)

    def group_by(self, group: str) -> StackProfile:
        """Frames by ``module``, ``namespace`` or ``thread``: a call within the group is no frame of its own. ``method`` changes nothing.
        UsageError for another group.
        """
        return filters.group_by(self, group)

    def named(self, style: Style) -> StackProfile:
        """Methods that print alike in a style are one, such as overloads in ``SHORT``, and lambdas in ``SOURCE``."""
        return filters.named(self, style)

    def invert(self) -> StackProfile:
        """Stacks from their leaves to their roots: what calls a method stands below it."""
        return filters.invert(self)


def _state(state: State | str) -> State:
    try:
        return State[state.upper()] if isinstance(state, str) else State(state)
    except (KeyError, ValueError) as error:
        names = ", ".join(one.name.lower() for one in State)
        raise UsageError(f"no state {state!r}: one of {names}") from error
