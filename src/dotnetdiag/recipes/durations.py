"""Durations as people type them, for faces, which see no room below this one."""

from dotnetdiag.durations import parse_duration, seconds_of

__all__ = ["parse_duration", "seconds_of"]
