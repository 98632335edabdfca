"""What the blobs of a trace mean: schemas from metadata, the catalogue of known events, payloads → typed columns.

Pure: may import ``errors``, ``wire``, ``nettrace`` and numpy; never opens files by name (the catalogue is package
data), sockets or clocks. Threads are the caller's: several may decode at once, and :func:`tables` takes an executor.

The way from bytes to columns: batches of events (``nettrace.Reader`` or ``nettrace.scan``) → ``EventBatch.tables`` → tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

# Loaded when used: who counts events needs their names, and no columns.
_PUBLIC = {
    "Bytes": "columns",
    "Column": "columns",
    "ListOf": "columns",
    "Scalar": "columns",
    "Struct": "columns",
    "Text": "columns",
    "decode": "decoding",
    "as_bytes": "inferring",
    "infer": "inferring",
    "Kind": "layout",
    "Layout": "layout",
    "SchemaField": "layout",
    "resolve": "resolving",
    "EventSchema": "schema",
    "Source": "schema",
    "BatchTable": "slices",
    "batch_tables": "slices",
    "tables": "slices",
    "Table": "table",
    "concat_tables": "table",
}
__getattr__ = loader(globals(), _PUBLIC)


if TYPE_CHECKING:
    from dotnetdiag.events.columns import Bytes, Column, ListOf, Scalar, Struct, Text
    from dotnetdiag.events.decoding import decode
    from dotnetdiag.events.inferring import as_bytes, infer
    from dotnetdiag.events.layout import Kind, Layout, SchemaField
    from dotnetdiag.events.resolving import resolve
    from dotnetdiag.events.schema import EventSchema, Source
    from dotnetdiag.events.slices import BatchTable, batch_tables, tables
    from dotnetdiag.events.table import Table, concat_tables

__all__ = [
    "BatchTable",
    "Bytes",
    "Column",
    "EventSchema",
    "Kind",
    "Layout",
    "ListOf",
    "Scalar",
    "SchemaField",
    "Source",
    "Struct",
    "Table",
    "Text",
    "as_bytes",
    "batch_tables",
    "concat_tables",
    "decode",
    "infer",
    "resolve",
    "tables",
]
