"""What people say of a session: provider texts, names of keywords and levels, presets, and what they make together.

May import ``errors`` and ``ipc``. Never the names of options: those belong to the faces.
"""
