"""Event types by the ids that a file gives them."""

from __future__ import annotations

from typing import Any

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.budget import NESTED_TYPE_COST, Budget, parsed_cost
from dotnetdiag.nettrace.ids import FreeNumbers, IdMap
from dotnetdiag.nettrace.metadata import Metadata, count_nested_types
from dotnetdiag.nettrace.records import parse_record, parse_row
from dotnetdiag.nettrace.remarks import Remarks
from dotnetdiag.wire import Cursor


class MetadataTable:
    """Numbers handed out stay valid: an id that is used again for something else gets another one.

    ``records`` are by number, and so is what decoders keep with them, ``schemas``; ``ids`` says what number an id of
    the file stands for now.
    """

    def __init__(self, budget: Budget, remarks: Remarks) -> None:
        self.records: dict[int, Metadata] = {}
        self.schemas: dict[int, Any] = {}
        self.ids = IdMap()
        self._free = FreeNumbers(0xFFFFFFFF)
        self._budget, self._remarks = budget, remarks

    def take(self, record: Cursor, *, v6: bool) -> None:
        """Read one record, or row of version 6, and add it; damage is recorded."""
        offset, size = record.offset, record.left
        if not self._budget.has_room(parsed_cost(size), offset):
            return
        try:
            made = parse_row(record) if v6 else parse_record(record)
        except FormatError as error:
            self._remarks.add_damage(error)
        else:
            self.define(made, offset, size)

    def define(self, made: Metadata, offset: int, size: int) -> None:
        """Add a record of that size found at ``offset``."""
        number = made.metadata_id
        if not number:
            self._remarks.warn("metadata with id 0", offset)
            return
        there = self.ids.get(number)
        if there:
            if replace(made, metadata_id=there) != self.records.get(there):
                self._remarks.warn("metadata ids defined twice, differently: the first counts", offset)
            return
        kept, other = number, self.records.get(number)
        if made != other:
            cost = parsed_cost(size) + NESTED_TYPE_COST * count_nested_types(made.fields)
            if not self._budget.affords("metadata", cost, offset):
                return
        self._free.see(number)
        if other is not None and made != other:
            kept = self._free.take(self.records)
        self.records[kept] = made if made.metadata_id == kept else replace(made, metadata_id=kept)
        self.ids.define(number, kept)

    def forget(self, *, keep: bool) -> None:
        """From here on ids are defined anew; ``keep``: the records stay."""
        self.ids = IdMap()
        if not keep:
            self.records, self.schemas = {}, {}
            self._budget.set("metadata")
