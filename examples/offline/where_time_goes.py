"""The program's own methods, each with what .NET did for it: python where_time_goes.py FILE."""

import sys

import dotnetdiag as dd

profile = dd.cpu(dd.open(sys.argv[1])).in_states("cpu").hide_framework()
for row in profile.top(3):
    print(f"{row.exclusive:8.1f} {profile.unit}  {row.name('short')}")
