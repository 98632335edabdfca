"""Samples of which there may be any number, as sums: those of one thread that are alike in stack and state become one row.

A program has some thousands of stacks, and is sampled a thousand times a second: as rows the samples of an hour of eight threads took 2 GB. What
lasts until the next sample of its thread is known when that has come; until then the last of each thread is held, and with it how long it ran at most
(:func:`~dotnetdiag.analysis.running.limits`): so the sums are what they would be with all samples at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis.cpu import FROM_KERNEL, CpuFold, left_out
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.profile import ProfileThread, State
from dotnetdiag.analysis.rows import SampleRows, profile_of, samples_in_order
from dotnetdiag.analysis.running import NO_LIMIT, limits, without_idle
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.thread_lives import ThreadLives
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.table import EventTable

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_SAMPLES = 1 << 17
"""Where there are no more each has a row of its own."""
SUMMED_SAMPLES = 1 << 16
"""So many are summed at once, with 10 MB."""
_KEY = np.dtype([("thread", np.uint64), ("stack", np.int64), ("state", np.int64), ("life", np.int64)])
_SUMMED = "count", "weight", "ran", "waited", "kept"
_ROW = np.dtype([*_KEY.descr, ("first", np.int64), ("last", np.int64), *((name, np.float64) for name in _SUMMED)])
TOGETHER = "samples that are alike in thread and stack are one, for there are very many: their order is not told"
_HELD = 1 << 14
"""Rows of sums that may be alike, beside twice those that are known to differ."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampled:
    """A ``profile`` of samples, of which one row may stand for several that are alike: for ``count`` of them, the last of which began at ``last_ns``.
    ``ran``: the same without what threads that were passed over did not run (``running.without_idle``).
    """

    profile: StackProfile
    ran: StackProfile
    count: Array
    last_ns: Array

    @classmethod
    def of(cls, profile: StackProfile) -> Sampled:
        """Of a profile with a row for each sample."""
        ran = replace(without_idle(profile), is_ticked=False)
        return cls(profile=profile, ran=ran, count=np.ones(len(profile), np.int64), last_ns=profile.start_ns)


class _Sums:
    """Rows of sums, those that are alike made one."""

    def __init__(self) -> None:
        self._parts: list[Array] = []
        self._rows = self._differ = 0

    def add(self, rows: Array) -> None:
        """Some of :data:`_ROW`, no two of which are alike."""
        self._parts.append(rows)
        self._rows += len(rows)
        if self._rows > 2 * self._differ + _HELD:
            self.all()

    def all(self) -> Array:
        """They, in the order in which they came first."""
        rows = np.concatenate([np.zeros(0, _ROW), *self._parts])
        keys, sums = [rows[name] for name in _KEY.names or ()], {name: rows[name] for name in _SUMMED}
        made = _together(keys, rows["first"], rows["last"], sums)
        self._parts, self._rows, self._differ = [made], len(made), len(made)
        return made


def _together(keys: Sequence[Array], begun: Array, last: Array, values: Mapping[str, Array]) -> Array:
    """Rows of sums of values that come by time for each key."""
    first, which = combined(keys, len(begun))
    made = np.zeros(len(first), _ROW)
    for name, column in zip(_KEY.names or (), keys, strict=True):
        made[name] = column[first]
    for name, column in values.items():
        made[name] = np.bincount(which, column, minlength=len(first))
    made["first"], made["last"] = begun[first], begun[first]
    np.maximum.at(made["last"], which, last)
    return made


class SampleSums(CpuFold):
    """Takes windows; :meth:`rows` are the sums. ``lives``: samples of threads that had one id after the other are apart, and what one did was over
    when the next was created.
    """

    def __init__(self, *, lives: ThreadLives | None = None, most: int = SUMMED_SAMPLES) -> None:
        super().__init__()
        self._lives, self._most = lives, most
        self._sums = _Sums()
        self._limits: tuple[Array, Array] = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        """Of threads that have a sample held: their numbers, ascending, and how long that ran at most."""
        self._last = np.zeros(0, _ROW)
        """The last sample of each thread, which lasts until nobody knows when: it counts as one, and for no time."""
        self._beside: tuple[str, ...] = ()
        self.is_summed = False
        """Whether there were so many that some have no row of their own."""

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        super().feed(window)
        if len(self._columns) > (min(self._most, SUMMED_SAMPLES) if self.is_summed else self._most):
            self.is_summed = True
            self._settle()

    def rows(self, *, of_all: bool = False) -> Array:
        """The sums, once. Of processes that have samples of the kernel these, of others the runtime's. ``of_all``: the last of each thread has a row
        too, of no time.
        """
        self._columns.end()
        self._settle(final=True)
        rows = self._chosen(self._sums.all()) if self._has_kernel else self._sums.all()
        return np.concatenate([rows, self._last]) if of_all else rows

    def _chosen(self, rows: Array) -> Array:
        """Of the sums of both kinds those that count."""
        threads = {number: self.thread(number).process_id for number in distinct(rows["thread"]).tolist()}
        kernel = rows["state"] >= FROM_KERNEL
        seen = {threads[number] for number in distinct(rows["thread"][kernel]).tolist()}
        is_beside = np.array([self.thread(one).process_id in seen for one in self._last["thread"].tolist()], np.bool_)
        beside = np.array([threads[number] in seen for number in rows["thread"].tolist()], np.bool_) & ~kernel
        count = int(rows["count"][beside].sum() + self._last["count"][is_beside].sum())
        self._last = self._last[~is_beside]
        if count:
            self._beside = (left_out(count),)
        rows = rows[~beside]
        rows["state"] &= FROM_KERNEL - 1
        is_cpu = rows["state"] == State.CPU  # that a thread was passed over is known of the runtime's sampler alone
        rows["ran"], rows["waited"] = np.where(is_cpu, rows["kept"], 0), np.where(is_cpu, 0, rows["kept"])
        return rows

    def thread(self, number: int) -> ProfileThread:
        """Of a row."""
        return self._columns.thread(number)

    def _settle(self, *, final: bool = False) -> None:
        samples = self._columns.take()
        numbers = self._columns.numbers
        kernel = samples.state >= FROM_KERNEL
        kinds = (
            [(samples, False)] if not kernel.any() else [(samples.take(~kernel), False), (samples.take(kernel), True)]
        )
        held = []
        for some, is_kernel in kinds:
            if len(some):
                held.append(self._settle_kind(some, numbers, is_kernel=is_kernel, final=final))
        for some in held:
            self._columns.hold(some, numbers)

    def _settle_kind(self, samples: SampleRows, numbers: Array, *, is_kernel: bool, final: bool) -> SampleRows:
        """Those that wait for more are given back."""
        start, last = self._columns.context.meaning.info.elapsed_ns(samples.time), samples.is_last
        ids = np.array([one.key for one in samples.threads], np.int64).reshape(-1, 2)[samples.thread]
        limit, done = np.full(len(start), NO_LIMIT), ~last
        if is_kernel:
            length = self.kernel_lengths(samples.state, samples.values)
            done |= final
        else:
            length = np.zeros(len(start), np.int64)
            np.subtract(start[1:], start[:-1], out=length[:-1])
            np.maximum(length, 0, out=length)
            limit = limits(ids[:, 0], start, samples.thread)
            self._carry(limit, numbers[samples.thread], last)
        self._sums.add(self._summed_up(samples.take(done), numbers, ids[done], start[done], length[done], limit[done]))
        if final and not is_kernel:
            nothing = np.zeros(int(last.sum()), np.int64)
            self._last = self._summed_up(samples.take(last), numbers, ids[last], start[last], nothing, nothing)
        return samples.take(last & (not final))

    def _carry(self, limit: Array, thread: Array, last: Array) -> None:
        """Samples that were held may not have run longer than was known before; those that are held now take along what is known."""
        first, thread = np.append(True, last[:-1]), thread.astype(np.uint64)
        known, most = self._limits
        place = np.searchsorted(known, thread[first])
        is_known = (place < len(known)) & (np.append(known, np.uint64(0))[place] == thread[first])
        limit[first] = np.minimum(limit[first], np.where(is_known, np.append(most, 0)[place], NO_LIMIT))
        order = np.argsort(thread[last])
        self._limits = thread[last][order], limit[last][order]

    def _summed_up(
        self, samples: SampleRows, numbers: Array, ids: Array, start: Array, length: Array, limit: Array
    ) -> Array:
        """Rows of the sums of some samples, no two of which are alike."""
        weight, life = length / 1e6, np.zeros(len(samples), np.int64)
        ran = np.where(samples.state & (FROM_KERNEL - 1) == State.CPU, np.minimum(length, limit) / 1e6, 0.0)
        rest: Array | float = np.inf
        if self._lives is not None:
            pid, tid = ids.T
            life = self._lives.number(pid, tid, start / 1e6)
            rest = np.maximum(self._lives.next_ms(pid, tid, life) - start / 1e6, 0.0)
        keys = [numbers[samples.thread].astype(np.uint64), samples.stack, samples.state, life]
        values = {
            "count": np.ones(len(samples)),
            "weight": weight,
            "ran": np.minimum(ran, rest),
            "waited": np.minimum(weight - ran, rest),
            "kept": np.minimum(weight, rest),
        }
        return _together(keys, samples.time, samples.time, values)


class SampledFold(SampleSums):
    """Takes windows; the result is :class:`Sampled`, with a row for each sample where there are not too many."""

    def __init__(self, *, most: int = MOST_SAMPLES) -> None:
        super().__init__(most=most)

    def result(self) -> Any:
        """The answer."""
        return Sampled.of(super().result()) if not self.is_summed else self._summed()

    def _summed(self) -> Sampled:
        rows = self.rows()
        columns, elapsed = self._columns, self._columns.context.meaning.info.elapsed_ns
        samples, _ = samples_in_order(
            rows["first"], rows["stack"].astype(np.uint32), rows["state"].astype(np.uint8), rows["thread"],
            np.arange(len(rows), dtype=np.float64), self.thread,
        )  # fmt: skip
        rows = rows[samples.values.astype(np.int64)]
        count = rows["count"].astype(np.int64)
        profile = profile_of(
            columns,
            samples,
            name="Thread time",
            unit="ms",
            length_ns=np.zeros(len(rows), np.int64),
            weight=rows["weight"],
            notes=(*self.notes, *self._beside, TOGETHER),
        )
        last_ns = elapsed(rows["last"])
        profile = replace(profile, to_ns=int(last_ns.max(initial=0)), samples=int(count.sum()))
        ran = replace(profile, weight=np.where(profile.state == State.CPU, rows["ran"], profile.weight))
        return Sampled(profile=profile, ran=ran, count=count, last_ns=last_ns)
