"""Record a .NET process for two seconds and explain it: python ten_lines.py NAME."""

import sys

import dotnetdiag as dd

dd.collect(sys.argv[1], "app.nettrace", duration="2s")  # a name, a pid, the address of a port

trace = dd.open("app.nettrace")
for row in dd.cpu(trace).in_states("cpu").top(5):  # where the time went
    print(f"{row.exclusive_percent:6.2f} %  {row.name('short')}")
print(trace["Exception/Start"].to_pandas(["ms", "ExceptionMessage"]).head(3))  # one type of event, as a table
