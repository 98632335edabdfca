"""What the blobs of a trace mean: schemas from metadata, the catalogue of known events, payloads → typed columns.

Pure: may import ``errors``, ``wire``, ``nettrace`` and numpy; never opens files by name (the catalogue is package
data), sockets, clocks or threads. The caller may decode several event types, or slices of one, in parallel threads.
"""

from dotnetdiag.events.columns import Bytes, Column, ListOf, Scalar, Struct, Text
from dotnetdiag.events.decode import Table, concat_tables, decode, infer
from dotnetdiag.events.layout import Kind, Layout, SchemaField
from dotnetdiag.events.schema import EventSchema, Source, resolve

__all__ = [
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
    "concat_tables",
    "decode",
    "infer",
    "resolve",
]
