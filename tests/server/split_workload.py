"""A program with a known split of its time: ``hot``, ``warm`` and ``cold`` spin 70, 20 and 10 per cent of it."""

from __future__ import annotations

UNIT, STEP, STEPS = 2_000, 41, 97
"""Turns of a loop, some tenths of a millisecond: a round is over long before the next sample. Rounds differ in length, or samples at equal
intervals could meet the same function again and again.
"""


def hot(unit: int) -> int:
    total = 0
    for number in range(7 * unit):
        total += number & 3
    return total


def warm(unit: int) -> int:
    total = 0
    for number in range(2 * unit):
        total += number & 3
    return total


def cold(unit: int) -> int:
    total = 0
    for number in range(unit):
        total += number & 3
    return total


def spin(rounds: int) -> int:
    """So many rounds of all three."""
    units = (UNIT + STEP * (turn % STEPS) for turn in range(rounds))
    return sum(hot(unit) + warm(unit) + cold(unit) for unit in units)
