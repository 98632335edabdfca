"""Compile the kernels where a C compiler is at hand.

An install without one uses the fall-backs in numpy, slower.
"""

from pathlib import Path

from setuptools import Extension, setup

KERNELS = sorted(map(str, Path("src").glob("dotnetdiag/*/_kernels.pyx")))


def extensions() -> list[Extension]:
    """One optional extension per kernel file; none when Cython is missing."""
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    modules = [
        Extension(
            str(Path(path).relative_to("src").with_suffix("")).replace("/", ".").replace("\\", "."),
            [path],
            optional=True,
            # the limit is gcc's; the reader of headers must be part of its loop (14 % of the time of a flood of events)
            extra_compile_args=["-O3", "-finline-limit=1000"],
        )
        for path in KERNELS
    ]
    if not modules:
        return []
    return list(cythonize(modules, language_level=3, quiet=True))


setup(ext_modules=extensions())
