"""Forwards diagnostic connections between tools and runtimes that cannot reach each other.

May import ``errors``, ``ipc``, ``transport``. Never ``client`` or ``server``: it sends no request of its own, but the one that asks a
runtime which one it is, and understands only where a request ends and which runtime has dialled.
"""
