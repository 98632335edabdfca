"""The presets, as plain values; the words that say what is recorded."""

from __future__ import annotations

from typing import Any

from dotnetdiag.providers.keywords import CLR_KEYWORDS
from dotnetdiag.providers.presets import DEFAULT_PRESETS, PRESETS
from dotnetdiag.providers.text import LEVELS

__all__ = ["CLR_KEYWORDS", "DEFAULT_PRESETS", "LEVELS", "PRESETS", "list_presets"]


def list_presets() -> list[dict[str, Any]]:
    """Name, description and providers (without their arguments) of every preset."""
    return [
        {
            "name": preset.name,
            "description": preset.description,
            "providers": [f"{one.name}:0x{one.keywords:X}:{int(one.level)}" for one in preset.providers],
        }
        for preset in PRESETS.values()
    ]
