"""From a recording to data frames, and event by event: what naive code costs.

    python benchmarks/frames.py [--rounds N] [--no-record]

==============  ======================================================================================================
figure          what is measured
==============  ======================================================================================================
polars          ``to_polars()`` of a million events with a text and three numbers each, texts still in the file (the gate: ≤ 0.3 s),
                and how many times faster that is than ``polars.DataFrame`` of the rows as dicts
duckdb          ``select count(*), max(text)`` over the same table, by its name
events          ``for event in trace.events()`` (the gate: ≥ 400,000 a second)
pandas          ``to_pandas()`` of the flood, all columns, the median of processes of their own (the gates: ≤ 3 s, ≤ 1.2 GB)
==============  ======================================================================================================
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
from operator import itemgetter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import append, pairs, seconds
from benchmarks.traces import CACHE, trace

import dotnetdiag as dd
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer

EVENTS = 1_000_000
ROWS = 20_000
"""Of the slow way; the ratio is by row."""
GATES_S = {"polars": 0.3, "pandas": 3.0}
PANDAS = """
import json, resource, sys, time
import dotnetdiag as dd, pandas
trace = dd.open(sys.argv[1])
name = max((count, f"{provider}/{event}") for provider, events in trace.counts().items() for event, count in events.items())[1]
begin = time.perf_counter()
frame = trace[name].to_pandas()
took = time.perf_counter() - begin
print(json.dumps([len(frame), took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def written() -> Path:
    """A million requests with a path each, of which some are equal."""
    path = CACHE / f"texts-{EVENTS}.nettrace"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = [("Path", TypeCode.STRING), ("Status", TypeCode.INT32), ("Bytes", TypeCode.INT64), ("Ms", TypeCode.DOUBLE)]
    declared = tuple(Field(name=name, type=FieldType(code=code)) for name, code in fields)
    with path.open("wb") as file, Writer(file) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="Web", event_id=1, name="Request", fields=declared))
        for number in range(EVENTS):
            text = f"/api/items/{number * 7919 % 5000}".encode("utf-16-le") + b"\0\0"
            writer.write_event(
                1, number * 1000, text + struct.pack("<iqd", 200, number, number / 7), thread=number % 16
            )
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    import duckdb
    import polars

    path = written()
    opened = dd.open(path)
    opened["Request"].to_polars()  # imports, and the index of the file

    def fast() -> None:
        assert len(dd.open(path)["Request"].to_polars()) == EVENTS

    def slow() -> None:
        assert len(polars.DataFrame(opened["Request"][:ROWS].to_pylist())) == ROWS

    both = pairs(slow, fast, options.rounds)
    by_row = both.ratio * EVENTS / ROWS
    figures: dict[str, object] = {"polars s": round(both.median_b, 3), "polars × rows": round(by_row, 1)}
    print(
        f"polars   {both.median_b:.3f} s for {EVENTS:,} rows, with the reading of the file (at most {GATES_S['polars']} s); "
        f"{by_row:.1f} × faster than rows"
    )

    def alone() -> float:
        table = dd.open(path)["Request"]
        assert len(table) == EVENTS  # the file is read
        return seconds(table.to_polars)

    took = sorted(alone() for _ in range(options.rounds))[options.rounds // 2]
    figures["polars alone s"] = round(took, 3)
    print(f"         {took:.3f} s of that once the headers are read: texts, names of frames, and the data frame")

    requests = opened["Request"]
    assert len(requests) == EVENTS

    def ask() -> None:
        asked = requests  # found by its name, in this frame
        answer: Any = duckdb.sql("select count(*), max(Path) from asked")
        assert answer.fetchall()[0][0] == len(asked)

    took = min(seconds(ask) for _ in range(3))
    figures["duckdb s"] = round(took, 3)
    print(f"duckdb   {took:.3f} s")

    some = 300_000
    took = min(seconds(lambda: sum(1 for _ in opened.events(limit=some))) for _ in range(3))
    figures["events/s"] = round(some / took)
    print(f"events   {some / took:,.0f} a second, one by one (at least 400,000)")

    command = [sys.executable, "-c", PANDAS, str(trace("flood"))]
    runs = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(options.rounds)
    ]
    # the first has memory that the system must find: up to half as much again, on a machine that is itself one of many
    rows, took, megabytes = sorted(runs, key=itemgetter(1))[len(runs) // 2]
    figures |= {"pandas s": round(took, 2), "pandas MB": round(megabytes)}
    print(
        f"pandas   {took:.2f} s and {megabytes:,.0f} MB for {rows:,} rows of the flood (at most {GATES_S['pandas']} s, 1,200 MB)"
    )
    if not options.no_record:
        append("frames.py", {**figures, "rounds": options.rounds})


if __name__ == "__main__":
    main()
