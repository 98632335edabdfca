"""Tables of a recording, and what other libraries make of them: python tables.py FILE."""

import sys

import dotnetdiag as dd

trace = dd.open(sys.argv[1])
provider, events = next(iter(trace.counts().items()))
table = trace[f"{provider}/{next(iter(events))}"]

print(repr(table[:2]))  # rows, and what the columns are
print(table.to_polars(["ms", "event", "leaf"]).head(3))
print(dd.info(trace).tables()[0].to_pandas()[["event", "count"]].head(3))

methods = dd.cpu(trace).methods()
print(methods.columns, methods.units)
print(dd.write(methods, "methods.csv"), dd.write([table, methods], "both.sqlite"))
