"""Compile the kernels where a C compiler is at hand.

The kernels are ordinary Python files; an install without a compiler uses them as they are, slower.
"""

from pathlib import Path

from setuptools import Extension, setup

KERNELS = sorted(str(path) for path in Path("src").glob("dotnetdiag/*/_kernels.py"))


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
            extra_compile_args=["-O3"],
        )
        for path in KERNELS
    ]
    if not modules:
        return []
    return list(cythonize(modules, language_level=3, quiet=True))


setup(ext_modules=extensions())
