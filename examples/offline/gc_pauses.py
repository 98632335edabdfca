"""Collections by generation: python gc_pauses.py FILE."""

import sys

import dotnetdiag as dd

collections = dd.spans(dd.open(sys.argv[1]), "GC/Start", "GC/Stop").to_pandas()
print(collections.groupby("Depth")["duration_ms"].agg(["count", "max"]).head(1))
