"""The second half of a recording, without what is nobody's business: python cut.py FILE."""

import sys

import dotnetdiag as dd

path = sys.argv[1]
middle = dd.open(path).duration.total_seconds() / 2
dd.trim(path, "half.nettrace", start=middle)
dd.redact("half.nettrace", "half-safe.nettrace")
print(dd.open("half-safe.nettrace"))
