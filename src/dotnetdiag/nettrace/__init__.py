"""Framing of NetPerf 1-3 and nettrace 4-6, sans-IO: bytes <-> blocks <-> header columns, read and written.

``Reader`` takes a stream piece by piece, ``read`` and ``scan`` a whole file in memory (or mapped); ``Writer`` writes.
May import ``errors``, ``wire`` and numpy. Never ``ipc`` or ``events``, files by name, or sockets. What writes is loaded
when it is first used: most programs only read.
"""

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader
from dotnetdiag.nettrace.blocks import Block, Framer, header_fields, iter_blocks
from dotnetdiag.nettrace.columns import EventBatch, HeaderColumns
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.info import TraceInfo
from dotnetdiag.nettrace.kernels import COMPILED
from dotnetdiag.nettrace.labels import LabelList
from dotnetdiag.nettrace.loss import Gap, LossAccount
from dotnetdiag.nettrace.metadata import Field, FieldType, Metadata, TypeCode
from dotnetdiag.nettrace.order import sort_order
from dotnetdiag.nettrace.reader import Reader, Verdict
from dotnetdiag.nettrace.scanning import Contents, Scan, read, scan
from dotnetdiag.nettrace.stacks import StackTable
from dotnetdiag.nettrace.threads import ThreadInfo

if TYPE_CHECKING:
    from dotnetdiag.nettrace.rewriting import rewrite
    from dotnetdiag.nettrace.writer import Writer

__all__ = [
    "COMPILED",
    "Block",
    "BlockKind",
    "Contents",
    "EventBatch",
    "Field",
    "FieldType",
    "Framer",
    "Gap",
    "GuidTable",
    "HeaderColumns",
    "LabelList",
    "LossAccount",
    "Metadata",
    "Reader",
    "Scan",
    "StackTable",
    "ThreadInfo",
    "TraceInfo",
    "TypeCode",
    "Verdict",
    "Writer",
    "header_fields",
    "iter_blocks",
    "read",
    "rewrite",
    "scan",
    "sort_order",
]

__getattr__ = loader(globals(), {"Writer": "writer", "rewrite": "rewriting"})  # what writes, when it is used
