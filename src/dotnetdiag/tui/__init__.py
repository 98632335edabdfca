"""Screens that fill a terminal, and what they have in common with the lines that the command line prints.

May import ``recipes`` and result types. Never ``cli``, which opens the screens. Textual (the extra ``tui``) is imported in the files of the
screens and their widgets alone: ``counters``, ``counter_tree``, ``process_tabs``.
"""
