"""``gcdump``: heaps, collected and looked into."""

from __future__ import annotations

import click

from dotnetdiag.cli.lazy import LazyGroup

ENTRIES = {
    "collect": ("gcdump_collect", "collect", "Write the heap of a process into a .gcdump."),
    "report": ("gcdump_report", "report", "The types that fill a heap: objects, bytes, what they keep alive."),
    "tree": ("gcdump_report", "tree", "Who keeps what alive, from the roots down."),
    "paths": ("gcdump_report", "paths", "Why objects of a type, or one at an address, are alive."),
    "diff": ("gcdump_diff", "diff", "What grew from one heap to another; for CI."),
    "watch": ("gcdump_watch", "watch", "Collect heaps of a process over time, and say what only grows."),
    "advice": (
        "gcdump_report",
        "advice",
        "What stands out in a heap: collections with waste, events, timers, statics.",
    ),
    "convert": ("gcdump_convert", "convert", "Write a heap in another format."),
    "ps": ("processes", "ps", "List the .NET processes that can be reached."),
}


@click.group(cls=LazyGroup, entries=ENTRIES)
def gcdump() -> None:
    """Say what fills the heap of a process, what holds it, and what grew.

    A heap is collected by a blocking collection of everything: the process stands still for it, some 0.1 to 0.3 s for a million objects,
    longer on a busy machine. A FILE is a .gcdump, or a recording of a heap session (.nettrace).
    """
