"""Events as data frames: python dataframes.py FILE."""

import sys

import duckdb
import polars

import dotnetdiag as dd

trace = dd.open(sys.argv[1])
exceptions = trace["Exception/Start"]
print(exceptions.to_pandas(["ms", "ExceptionMessage"]).head(2))
print(polars.DataFrame(exceptions).select("ms", "ExceptionMessage").head(2))

collections = trace["GC/Start"]  # DuckDB finds it by the name of the variable
print(duckdb.sql("select Depth as generation, Reason as reason, count(*) as n from collections group by all limit 1"))
