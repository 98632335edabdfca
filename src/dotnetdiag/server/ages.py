"""Which commands the runtimes of each age know: ``Command.since``, which is measured (ipc-protocol.md §4, §21.6)."""

from __future__ import annotations

from enum import Enum
from functools import cache

from dotnetdiag.ipc.commands import Command


class Age(Enum):
    """A release of .NET, by its commands. What is younger than the age is an unknown command."""

    NET_CORE_3_1 = "3.1"
    """.NET Core 3.1."""
    NET_5 = "5"
    """.NET 5."""
    NET_6 = "6"
    """.NET 6."""
    NET_7 = "7"
    """.NET 7."""
    NET_8 = "8"
    """.NET 8."""
    NET_9 = "9"
    """.NET 9."""
    NET_10 = "10"
    """.NET 10."""
    NET_11 = "11"
    """.NET 11."""

    @property
    def commands(self) -> frozenset[Command]:
        """Those that a server of this age knows."""
        return _commands(self)


NEWEST = Age.NET_11


@cache
def _commands(age: Age) -> frozenset[Command]:
    return frozenset(command for command in Command if _version(command.since) <= _version(age.value))


def _version(text: str) -> tuple[int, ...]:
    """(3, 0) of ``.NET Core 3.0``, (8,) of ``.NET 8`` and of ``8``."""
    return tuple(map(int, text.split()[-1].split(".")))
