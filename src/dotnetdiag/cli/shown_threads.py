"""What ``trace report threads`` shows to people: who the threads are, and what each did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import counted, echo, say_more, table

if TYPE_CHECKING:
    from dotnetdiag.analysis.threads import ThreadReport

ROWS = 20
"""Of each table, where nobody says how many."""

_FIGURES = ("cpu_ms", "waiting_ms", "lock_ms", "wait_ms")


def show(made: ThreadReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    ran = "" if totals.cpu_ms is None else f", {totals.cpu_ms:,.3f} ms running, {totals.waiting_ms:,.3f} ms waiting"
    created = "" if totals.created is None else f", {totals.created:,} of them created meanwhile"
    echo(f"{counted(totals.count, 'thread')}{created}{ran}")
    rows = made.threads.to_pylist()
    told = [name for name in _FIGURES if any(row[name] for row in rows)]
    if totals.cpu_ms is None and any(row["samples"] for row in rows):
        told.insert(0, "samples")
    has_bytes, has_thrown = (any(row[name] for row in rows) for name in ("allocated_bytes", "exceptions"))
    heads = (
        "thread",
        *(name.replace("_", " ") for name in told),
        *(["MB"] if has_bytes else []),
        *(["exceptions"] if has_thrown else []),
        "created ms",
    )
    cells = [
        (
            str(row["tid"]),
            *(
                "" if row[name] is None else f"{row[name]:,}" if name == "samples" else f"{row[name]:,.3f}"
                for name in told
            ),
            *([f"{(row['allocated_bytes'] or 0) / 1e6:,.3f}"] if has_bytes else []),
            *([f"{row['exceptions'] or 0:,}"] if has_thrown else []),
            "" if row["created_ms"] is None else f"{row['created_ms']:,.3f}",
            " ".join(dict.fromkeys(one for one in (row["name"], row["kind"]) if one)),
        )
        for row in rows[:number]
    ]
    if cells:
        echo()
        less = ("created ms", "exceptions", "MB", *(name.replace("_", " ") for name in reversed(told[1:])))
        table((*heads, "name"), cells, right=heads, drop=less, room=24)
    say_more(len(rows) - number)
