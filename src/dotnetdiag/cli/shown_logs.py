"""What ``trace report logs`` shows to people: what was logged, and within which request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.cli.render import counted, echo, say_more, table
from dotnetdiag.tui.widths import cut

if TYPE_CHECKING:
    from dotnetdiag.analysis.logs import LogReport

ROWS = 20
"""Of each table, where nobody says how many."""


def show(made: LogReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    for note in made.notes:
        echo(f"note: {note}")
    totals = made.totals
    if not totals.count:
        return
    levels = ", ".join(f"{count:,} {name}" for name, count in totals.by_level.items())
    echo(f"{counted(totals.count, 'message')}: {levels}; {totals.in_requests:,} within requests")
    events = [
        (f"{row['count']:,}", row["level"] or "", row["logger"] or "", _said(row["example"], row["exception"]))
        for row in made.by_event[:number].to_pylist()
    ]
    if events:
        echo()
        table(
            ("count", "level", "logger", "one of them"),
            events,
            right=("count",),
            shorten=cut,
            drop=("logger",),
            room=30,
        )
        say_more(len(made.by_event) - number)
    from dotnetdiag.analysis.distinct import rows_with
    from dotnetdiag.analysis.log_entries import WORSE
    from dotnetdiag.table.parts import parts

    count, first, places = 0, 0, list[int]()
    for part in parts(made.messages, ["level"]):
        (own,) = rows_with(part["level"], lambda level: level in WORSE).nonzero()
        places += [first + row for row in own[: number - len(places)].tolist()]
        count, first = count + len(own), first + len(part["level"])
    wrong = [made.messages.row(place) for place in places]
    if wrong:
        echo()
        cells = [
            (f"{row['ms']:,.3f}", row["level"], row["request"] or "", _said(row["message"], row["exception"]))
            for row in wrong
        ]
        table(
            ("ms", "level", "request", "message"),
            cells,
            right=("ms",),
            shorten=cut,
            room=30,
            squeeze={"request": 20},
        )
        say_more(count - number)


def _said(message: str | None, exception: str | None) -> str:
    """A message, and the exception that it was logged with."""
    if not exception:
        return message or ""
    from dotnetdiag.analysis.log_exceptions import first_line

    return f"{message} ({first_line(exception)})" if message else first_line(exception)
