"""The .NET Diagnostic IPC protocol, sans-IO, both directions: frames, requests, replies, operations, ports, the pre-V1 form.

May import ``errors`` and ``wire``. Never transport, asyncio, threads, clocks or files.
Facts: ipc-protocol.md; where section 21 of it (measured on real runtimes) differs from another section, it is right.
"""
