from __future__ import annotations

import gc

from dotnetdiag.server.gc_pauses import GcPauses


def test_a_program_that_takes_the_hook_away_or_puts_it_back_disturbs_nothing() -> None:
    hooks = list(gc.callbacks)
    pauses = GcPauses()
    pauses.begin()
    saved = list(gc.callbacks)
    gc.callbacks.clear()
    pauses.end()
    gc.callbacks[:] = saved
    pauses.begin()
    assert gc.callbacks == saved
    gc.callbacks[:] = hooks
    pauses.begin()
    assert gc.callbacks == saved
    pauses.end()
    pauses.end()
    assert gc.callbacks == hooks


def test_collections_are_measured_while_somebody_asks() -> None:
    hooks = list(gc.callbacks)
    pauses = GcPauses()
    gc.collect()
    assert pauses.total_ns == 0
    pauses.begin()
    pauses.begin()
    gc.collect()
    first = pauses.total_ns
    assert first > 0
    assert pauses.last_share == 0
    pauses.end()
    gc.collect()
    second = pauses.total_ns
    assert second > first
    assert 0 < pauses.last_share <= 1
    pauses.end()
    gc.collect()
    assert pauses.total_ns == second
    assert gc.callbacks == hooks
