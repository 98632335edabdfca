"""Whole jobs: options in, progress and results out. May import every room above but ``wire`` and ``ipc``.

Never prints, never exits, knows no face.
"""
