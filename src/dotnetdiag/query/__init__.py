"""SQL over recordings, and datasets of many: each event type and each report is a table, read window by window as Arrow record batches.

May import errors, table, trace, analysis, heap; duckdb, fsspec, polars, dask and ray each in the one file that is named after what it does with
it. Decodes only the columns that are asked for. Never prints; how a file is opened is told by who asks (``recipes``).
"""
