"""What is in a recording, in Python: python explain.py FILE."""

import sys

import dotnetdiag as dd

trace = dd.open(sys.argv[1])
print(f"{trace.duration.total_seconds():.1f} s, {trace.lost.total} events lost")

profile = dd.cpu(trace).in_states("cpu")  # time on the processor
for row in profile.top(3):
    print(f"{row.exclusive_percent:6.2f} %  {row.name('short')}")

exceptions = trace["Exception/Start"]  # a table: a column for each field
print(exceptions.to_pandas(["ms", "ExceptionType", "ExceptionMessage"]).tail(3))

collections = dd.spans(trace, "GC/Start", "GC/Stop").to_pandas()  # from one event to another
print(f"{len(collections)} collections, the longest {collections['duration_ms'].max():.1f} ms")
