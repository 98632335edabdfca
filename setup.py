"""Compile the kernels where a C compiler is at hand.

An install without one uses the fall-backs in numpy, slower. Cython's C files stay in the build's own folder.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNELS = sorted(Path("src").glob("dotnetdiag/*/_kernels.pyx"))
DEBUG = "-g" in os.environ.get("CFLAGS", "").split()


class BuildKernels(build_ext):
    """Builds each with the flags of the compiler that is there, without debug information (four fifths of the size).

    ``CFLAGS=-g`` keeps it.
    """

    def build_extension(self, ext: Extension) -> None:
        ext.cython_c_in_temp = True
        if self.compiler.compiler_type == "msvc":
            ext.extra_compile_args = ["/O2"]
        else:
            # the limit is gcc's; the reader of headers must be part of its loop (14 % of the time of a flood of events)
            inlining = [] if sys.platform == "darwin" else ["-finline-limit=1000"]
            ext.extra_compile_args = ["-O3", *inlining, *([] if DEBUG else ["-g0"])]
            ext.extra_link_args = [] if DEBUG else ["-Wl,-S,-x"] if sys.platform == "darwin" else ["-s"]
        super().build_extension(ext)


setup(
    ext_modules=[
        Extension(".".join(path.with_suffix("").parts[1:]), [path.as_posix()], optional=True) for path in KERNELS
    ],
    cmdclass={"build_ext": BuildKernels},
)
