"""Framing of NetPerf 1-3 and nettrace 4-6, sans-IO: bytes <-> blocks <-> header columns, read and written.

``Reader`` takes a stream piece by piece, ``read`` and ``scan`` a whole file in memory (or mapped); ``Writer`` and
``NetPerfWriter`` write;
``LossCounter`` and ``count_losses`` tell only what was lost, without numpy.
May import ``errors``, ``wire`` and numpy. Never ``ipc`` or ``events``, files by name, or sockets.
"""

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

if TYPE_CHECKING:
    from dotnetdiag.nettrace.batch import EventBatch
    from dotnetdiag.nettrace.block import Block, header_fields
    from dotnetdiag.nettrace.columns import HeaderColumns
    from dotnetdiag.nettrace.constants import BlockKind
    from dotnetdiag.nettrace.framing import Framer, iter_blocks
    from dotnetdiag.nettrace.guids import GuidTable
    from dotnetdiag.nettrace.info import TraceInfo
    from dotnetdiag.nettrace.kernels import COMPILED
    from dotnetdiag.nettrace.labels import LabelList
    from dotnetdiag.nettrace.loss import Gap, LossAccount
    from dotnetdiag.nettrace.loss_count import LossCount, LossCounter, count_losses
    from dotnetdiag.nettrace.metadata import Field, FieldType, Metadata, TypeCode
    from dotnetdiag.nettrace.netperf_writer import NetPerfWriter
    from dotnetdiag.nettrace.order import sort_order
    from dotnetdiag.nettrace.reader import Batches, Reader
    from dotnetdiag.nettrace.rewriting import rewrite
    from dotnetdiag.nettrace.scanning import Contents, Scan, read, scan
    from dotnetdiag.nettrace.stacks import StackTable
    from dotnetdiag.nettrace.threads import ThreadInfo
    from dotnetdiag.nettrace.writer import Writer

__all__ = [
    "COMPILED",
    "Batches",
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
    "LossCount",
    "LossCounter",
    "Metadata",
    "NetPerfWriter",
    "Reader",
    "Scan",
    "StackTable",
    "ThreadInfo",
    "TraceInfo",
    "TypeCode",
    "Writer",
    "count_losses",
    "header_fields",
    "iter_blocks",
    "read",
    "rewrite",
    "scan",
    "sort_order",
]

# Loaded when used: who counts losses needs no numpy, most programs only read.
_PUBLIC = {
    "Block": "block",
    "Framer": "framing",
    "header_fields": "block",
    "iter_blocks": "framing",
    "EventBatch": "batch",
    "HeaderColumns": "columns",
    "BlockKind": "constants",
    "GuidTable": "guids",
    "TraceInfo": "info",
    "COMPILED": "kernels",
    "LabelList": "labels",
    "Gap": "loss",
    "LossAccount": "loss",
    "LossCount": "loss_count",
    "LossCounter": "loss_count",
    "count_losses": "loss_count",
    "Field": "metadata",
    "FieldType": "metadata",
    "Metadata": "metadata",
    "TypeCode": "metadata",
    "NetPerfWriter": "netperf_writer",
    "sort_order": "order",
    "Reader": "reader",
    "Batches": "reader",
    "rewrite": "rewriting",
    "Contents": "scanning",
    "Scan": "scanning",
    "read": "scanning",
    "scan": "scanning",
    "StackTable": "stacks",
    "ThreadInfo": "threads",
    "Writer": "writer",
}
__getattr__ = loader(globals(), _PUBLIC)


def __dir__() -> list[str]:
    return sorted(__all__)
