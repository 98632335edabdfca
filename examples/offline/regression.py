"""A test of how fast a program is: python regression.py BEFORE AFTER."""

import sys

import dotnetdiag as dd

before, after = sys.argv[1:3]
changes = dd.diff(before, after, shares=True).changes().to_pandas()
slower = changes[changes["exclusive_change"] > 500]  # milliseconds
assert slower.empty, slower[["method", "exclusive_before", "exclusive_after"]]
print(f"none of {len(changes)} methods takes 500 ms more than before")
