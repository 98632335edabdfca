"""``Table``: named columns with units, the one shape of a result that has rows.

May import ``errors`` and the columns of ``events``; each library of data frames in its own file, when it is asked for. Knows nothing
of traces or processes: an event table, a report, the list of processes are tables, and every exporter takes them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

_PUBLIC = {"HasTable": "result", "Losses": "losses", "Table": "table"}
__getattr__ = loader(globals(), _PUBLIC)

if TYPE_CHECKING:
    from dotnetdiag.table.losses import Losses
    from dotnetdiag.table.result import HasTable
    from dotnetdiag.table.table import Table

__all__ = ["HasTable", "Losses", "Table"]
