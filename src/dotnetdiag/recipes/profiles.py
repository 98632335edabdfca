"""The named sets of providers, as plain values."""

from __future__ import annotations

from typing import Any

from dotnetdiag.client.configuration import PROFILES


def profiles() -> list[dict[str, Any]]:
    """Name, description and providers (in the grammar of ``--providers``) of every profile."""
    return [
        {
            "name": profile.name,
            "description": profile.description,
            "providers": [f"{one.name}:0x{one.keywords:X}:{int(one.level)}" for one in profile.providers],
        }
        for profile in PROFILES.values()
    ]
