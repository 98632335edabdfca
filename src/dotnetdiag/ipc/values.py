"""The values that messages are."""

from __future__ import annotations

from typing import dataclass_transform

from dotnetdiag._dataclasses import dataclass


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Value:
    """Named values: given by keyword, compared by value, never changed. Every subclass is a dataclass, without saying so."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(frozen=True, kw_only=True)(cls)
