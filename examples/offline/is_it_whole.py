"""Whether a recording can be trusted: python is_it_whole.py FILE."""

import sys

import dotnetdiag as dd

trace = dd.open(sys.argv[1])
print("complete:", trace.complete)
print("damage:", trace.damage)
print("lost:", trace.lost.total)
