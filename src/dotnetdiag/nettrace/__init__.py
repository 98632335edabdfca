"""Framing of NetPerf 1-3 and nettrace 4-6, sans-IO: bytes <-> blocks <-> header columns, read and written.

May import ``errors``, ``wire`` and numpy. Never ``ipc`` or ``events``, files by name, or sockets.
"""
