"""What ``trace report gc`` shows to people: what the garbage collector did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.cli.render import counted, echo, say_more, table
from dotnetdiag.cli.shown_rows import whole_parts
from dotnetdiag.table.largest import largest
from dotnetdiag.table.parts import counts, is_told
from dotnetdiag.tui.widths import cells, shortened_method

if TYPE_CHECKING:
    from dotnetdiag.analysis.gc_collections import GcReport

ROWS = 10
"""Of each table, where nobody says how many."""

_FRAMES = 5
"""Of a stack."""
_CALLED_BY = " < "
_PHASES = ("mark", "plan", "relocate", "compact", "sweep", "rest")
LONG_FINALIZERS_MS = 100.0
"""So long they are told of."""


def show(made: GcReport, number: int) -> None:
    """Print it for people: ``number`` rows of each table."""
    totals = made.totals
    if not totals.count:
        for note in made.notes:
            echo(f"note: {note}")
        return
    generations = counts(made.collections, "generation")
    told = sorted(one for one in generations if one is not None)
    by_generation = ", ".join(f"{generations[one]:,} of gen{one}" for one in told)
    if generations[None]:
        by_generation += f"{', ' if told else ''}{generations[None]:,} of a generation that is not told"
    induced = f"; {totals.induced:,} induced" if totals.induced else ""
    by = counts(made.collections, "induced_by") if totals.induced else Counter[str]()
    if named := [one for one in by if is_named(one)]:  # few of many
        most = max(named, key=by.__getitem__)
        some = f"{by[most]:,} of them " if by[most] < totals.induced else ""
        induced += f", {some}by {short(most)}"
    for note in made.notes:
        echo(f"note: {note}")
    echo(f"{counted(totals.count, 'collection')}: {by_generation}{induced}")
    share = "" if totals.pause_percent is None else f", {totals.pause_percent:.2f} % of the time"
    parts = ", ".join(f"{name} {value:,.3f}" for name, value in totals.pauses_ms.items())
    echo(f"paused {totals.pause_ms:,.3f} ms{share}; {parts}" if parts else "how long they paused is not told")
    sizes = {
        "allocated": totals.allocated_bytes,
        "promoted": totals.promoted_bytes,
        "largest heap before one": totals.max_before_bytes,
    }
    rate = totals.allocated_bytes_per_second
    rates = {} if rate is None else {"allocated": f" ({_megabytes(round(rate))} MB a second) until the last one began"}
    echo(
        ", ".join(
            f"{name} {_megabytes(value)} MB{rates.get(name, '')}" for name, value in sizes.items() if value is not None
        )
    )
    if (totals.finalizers_ms or 0.0) >= LONG_FINALIZERS_MS:
        echo(f"finalizers ran for {totals.finalizers_ms:,.3f} ms; {totals.finalized or 0:,} objects were finalized")
    echo()
    several = len(counts(made.collections, "pid")) > 1
    background = [name for name in _IN_BACKGROUND if is_told(made.collections, name)]
    phases = (*_PHASES, *(name.removesuffix("_ms").replace("_", " ") for name in background))
    shown = ("suspend", *phases, "before MB", "after MB", "promoted MB")
    columns = (*(("process",) if several else ()), "number", "gen", "reason", "type", "start ms", "pause ms", *shown)
    right = tuple(name for name in columns if name not in ("reason", "type"))
    if number:
        names = (*_COLUMNS, *background)
        rows = largest(made.collections, "pause_ms", number, names) or made.collections[:number].to_pylist()
        table(columns, [_cells(row, several, background) for row in rows], right=right, drop=_LESS)
        say_more(totals.count - len(rows))
        _show_heaps(made, several)
        _show_stacks(made, number)


def _show_stacks(made: GcReport, number: int) -> None:
    """Who asked for induced collections: the methods from what asked outwards, as many as a line has room for."""
    rows = [row for row in made.by_stack.to_pylist() if any(map(is_named, row["stack"]))][:number]
    if not rows:
        return
    echo()
    by = Counter[str]()
    for row in rows:  # methods that differ in their parameters have one name here
        by[_CALLED_BY.join(map(short, row["stack"][:_FRAMES]))] += row["collections"]
    table(
        ("induced", "by"),
        [(f"{count:,}", stack) for stack, count in by.most_common()],
        right=("induced",),
        shorten=shortened_stack,
    )
    say_more(len(made.by_stack) - len(rows))


def shortened_stack(stack: str, width: int) -> str:
    """Who called gives way to who asked, which is the first that is not the collector's own: of that the name of the method stays."""
    made, asked = whole_parts(stack, width, _CALLED_BY), stack.split(_CALLED_BY)[:2]
    if len(asked) < 2 or made.startswith(_CALLED_BY.join(asked)):
        return made
    first = f"{asked[0]}{_CALLED_BY}"
    return first + shortened_method(asked[1], width - cells(first))


def _show_heaps(made: GcReport, several: bool) -> None:
    """Where there is more than one in a process."""
    rows = made.by_heap.to_pylist()
    if len(rows) == len({row["pid"] for row in rows}):
        return
    columns = (*(("process",) if several else ()), "heap", "collections", "mean before MB", "survived MB", "of all %")
    echo()
    table(
        columns,
        [
            (
                *((str(row["pid"]),) if several else ()),
                str(row["heap"]),
                f"{row['collections']:,}",
                _megabytes(row["before_bytes"]),
                _megabytes(row["survived_bytes"]),
                "" if row["survived_percent"] is None else f"{row['survived_percent']:.1f}",
            )
            for row in rows
        ],
        right=columns,
    )


_COLUMNS = (
    *("pid", "number", "generation", "reason", "type", "start_ms", "pause_ms", "suspend_ms"),
    *(f"{phase}_ms" for phase in _PHASES),
    *("before_bytes", "after_bytes", "promoted_bytes"),
)
"""Of the table of collections, which has fifty: what is shown of each."""
_IN_BACKGROUND = ("concurrent_mark_ms", "concurrent_sweep_ms")

_LESS = (
    *(
        "concurrent sweep",
        "concurrent mark",
        "plan",
        "relocate",
        "compact",
        "sweep",
        "mark",
        "rest",
        "promoted MB",
        "suspend",
    ),
    *("type", "number", "before MB"),
)
"""Columns that a narrow terminal does without, the first first."""


def _cells(row: dict[str, Any], several: bool, background: Sequence[str]) -> tuple[str, ...]:
    return (
        *((str(row["pid"]),) if several else ()),
        str(row["number"]),
        "" if row["generation"] is None else str(row["generation"]),
        row["reason"] or "",
        (row["type"] or "").removesuffix("GC"),
        f"{row['start_ms']:,.3f}",
        _or_nothing(row["pause_ms"]),
        *(_or_nothing(row[f"{phase}_ms"]) for phase in ("suspend", *_PHASES)),
        *(_or_nothing(row[name]) for name in background),
        *(_megabytes(row[f"{name}_bytes"]) for name in ("before", "after", "promoted")),
    )


def _or_nothing(value: float | None) -> str:
    return "" if value is None else f"{value:,.3f}"


def _megabytes(value: int | None) -> str:
    return "" if value is None else f"{value / 1e6:,.2f}"
