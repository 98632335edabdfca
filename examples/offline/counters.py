"""What a program counted: python counters.py FILE."""

import sys

import dotnetdiag as dd

counters = dd.counters(sys.argv[1])
for row in counters.summary().to_pylist():
    print(row["instrument"], row["tags"], f"from {row['least']} to {row['most']} {row['unit']}")
for note in counters.notes:
    print(note)
