"""Whose this process is."""

from __future__ import annotations

IS_OURS = False
"""It is the command line's own, which may end it."""
