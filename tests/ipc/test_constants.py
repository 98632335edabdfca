"""The numbers of the closed sets (ipc-protocol.md §5, §8)."""

from __future__ import annotations

from enum import Enum

import pytest

from dotnetdiag.ipc import constants

SETS: list[tuple[type[Enum], dict[str, int]]] = [
    (
        constants.EventLevel,
        {"LOG_ALWAYS": 0, "CRITICAL": 1, "ERROR": 2, "WARNING": 3, "INFORMATIONAL": 4, "VERBOSE": 5},
    ),
    (constants.TraceFormat, {"NETPERF": 0, "NETTRACE": 1}),
    (constants.BufferingMode, {"DROP": 0, "BLOCK": 1}),
    (constants.DumpType, {"MINI": 1, "HEAP": 2, "TRIAGE": 3, "FULL": 4}),
    (
        constants.DumpFlags,
        {"NONE": 0, "LOGGING": 1, "VERBOSE_LOGGING": 2, "CRASH_REPORT": 4, "CRASH_REPORT_ONLY": 8},
    ),
    (constants.PerfMapType, {"ALL": 1, "JITDUMP": 2, "PERFMAP": 3}),
]


@pytest.mark.parametrize(("kind", "numbers"), SETS, ids=lambda value: getattr(value, "__name__", ""))
def test_names_have_these_numbers(kind: type[Enum], numbers: dict[str, int]) -> None:
    assert {name: member.value for name, member in kind.__members__.items()} == numbers


def test_defaults_and_limits_are_those_of_the_document() -> None:
    assert constants.ALL_KEYWORDS == (1 << 64) - 1
    assert constants.DEFAULT_RUNDOWN_KEYWORD == 0x1 | 0x8 | 0x10 | 0x20 | 0x100 | 0x20000 | 0x80000000
    assert constants.DEFAULT_BUFFER_MB == 256
    assert constants.MAX_PROVIDERS == 1000
    assert (constants.SESSION_STREAMING, constants.SESSION_USER_EVENTS) == (0, 1)
