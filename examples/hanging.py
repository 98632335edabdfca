"""Which methods the threads of a .NET process are in, innermost first: python hanging.py NAME."""

import sys

import dotnetdiag as dd

for thread in dd.stack(sys.argv[1]).threads:
    print(f"thread {thread.tid}, {thread.mode}:", *(frame.partition("(")[0] for frame in thread.frames[:2]), sep="\n  ")
