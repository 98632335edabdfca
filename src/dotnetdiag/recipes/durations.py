"""Durations as people type them."""

from dotnetdiag.client.duration import parse_duration, seconds_of

__all__ = ["parse_duration", "seconds_of"]
