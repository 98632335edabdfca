"""Byte primitives that know no protocol: a bounded cursor, a packer, text in UTF-16 and UTF-8.

May import ``errors``. Never sockets, clocks or files.
"""

from dotnetdiag.wire.cursor import Cursor
from dotnetdiag.wire.decimal import decimal
from dotnetdiag.wire.packer import Packer

__all__ = ["Cursor", "Packer", "decimal"]
