"""The few names of the ``cython`` module that the kernels use, for an install that has neither a compiler nor Cython.

Decorators that do nothing; the types stand in annotations only, which nobody evaluates.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

_Function = TypeVar("_Function", bound=Callable[..., object])

compiled = False


def cfunc(function: _Function) -> _Function:
    """The function itself."""
    return function


inline = cfunc


def exceptval(*_: object, **__: object) -> Callable[[_Function], _Function]:
    """A decorator that does nothing."""
    return cfunc


class _NoGil(nullcontext[None]):
    """Both a context and a decorator."""

    def __call__(self, function: _Function) -> _Function:
        return function


nogil = _NoGil()
