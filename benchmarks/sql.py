"""SQL over one recording of 4 million events: whole processes ``dotnetdiag trace sql FILE QUERY``.

    python benchmarks/sql.py [--rounds N] [--no-record]

==============  ======================================================================================================
figure          what is measured, the file being in memory
==============  ======================================================================================================
count           ``select count(*) from events`` (the gate: ≤ 1 s)
filter          ``select count(*), sum(Bytes)`` of the rows with one status in a hundred: a payload's column chooses
text            the five most frequent of 5,000 paths
leaf            the flood, whose events have stacks: events by the method that they happened in
imports         ``import duckdb, pyarrow.dataset`` without pandas, and a query of nothing: what no query can be faster than
MB              the most memory of any of them, and of the imports alone (the gate: ≤ 150 more than these); pages of the libraries and of
                the mapped file are in it, as Linux counts
==============  ======================================================================================================
"""

from __future__ import annotations

import argparse
import statistics
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.processes import Usage, run
from benchmarks.record import append
from benchmarks.traces import CACHE, trace

from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer

EVENTS = 4_000_000
GATE_S, GATE_MB = 1.0, 150.0
QUERIES = {
    "count": "select count(*) from events",
    "filter": 'select count(*), sum(Bytes) from "Request" where Status = 500',
    "text": 'select Path, count(*) as n from "Request" group by Path order by n desc, Path limit 5',
}
LEAF = 'select leaf, count(*) from "Blob" group by leaf'
IMPORTS = """
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.recipes import own_process
own_process.IS_OURS = True
be_lean()
import duckdb, pyarrow.dataset
duckdb.connect().execute("select 1").fetchall()
"""
"""Without pandas, which pyarrow brings along where it is installed, and a verb does not."""


def written() -> Path:
    """4 million requests with a path each, of which some are equal, by 16 threads."""
    path = CACHE / f"requests-{EVENTS}.nettrace"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    fields = [("Path", TypeCode.STRING), ("Status", TypeCode.INT32), ("Bytes", TypeCode.INT64), ("Ms", TypeCode.DOUBLE)]
    declared = tuple(Field(name=name, type=FieldType(code=code)) for name, code in fields)
    with unfinished.open("wb") as file, Writer(file) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="Web", event_id=1, name="Request", fields=declared))
        for number in range(EVENTS):
            text = f"/api/items/{number * 7919 % 5000}".encode("utf-16-le") + b"\0\0"
            status = 200 if number % 100 else 500
            writer.write_event(
                1, number * 1000, text + struct.pack("<iqd", status, number, number / 7), thread=number % 16
            )
    unfinished.rename(path)
    return path


def measured(words: list[str], rounds: int) -> tuple[float, float]:
    """(median of the seconds, most MB) of a process that is run so often, after once."""
    done: list[Usage] = [run(words, {}) for _ in range(rounds + 1)][1:]
    assert all(one.exit_code == 0 for one in done), words
    return statistics.median(one.wall_s for one in done), max(one.peak_bytes for one in done) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    requests, program = str(written()), str(Path(sys.executable).with_name("dotnetdiag"))
    asked = {name: [program, "trace", "sql", requests, query] for name, query in QUERIES.items()}
    asked["leaf"] = [program, "trace", "sql", str(trace("flood")), LEAF]
    figures: dict[str, object] = {}
    most = 0.0
    for name, words in asked.items():
        took, megabytes = measured(words, options.rounds)
        most = max(most, megabytes)
        figures[f"{name} s"], figures[f"{name} MB"] = round(took, 3), round(megabytes)
        print(f"{name:<8} {took:.3f} s, {megabytes:.0f} MB")
    took, megabytes = measured([sys.executable, "-c", IMPORTS], options.rounds)
    figures["imports s"], figures["imports MB"] = round(took, 3), round(megabytes)
    print(f"imports  {took:.3f} s, {megabytes:.0f} MB")
    print(
        f"gates: count {figures['count s']} s of {GATE_S:g}; {most - megabytes:.0f} MB more than imports of {GATE_MB:g}"
    )
    if not options.no_record:
        append("sql.py", {**figures, "rounds": options.rounds})


if __name__ == "__main__":
    main()
