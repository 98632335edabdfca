"""What verbs that only read files do before anything large is loaded."""

from __future__ import annotations

import _thread
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, cast

from dotnetdiag.recipes import own_process

if TYPE_CHECKING:
    from importlib.abc import Loader

_OBJECTS = 100_000


def collect_seldom() -> None:
    """Python's collector looks for garbage after :data:`_OBJECTS` more objects, and not after 700: what is loaded and made here stays, and to look at
    it again and again was 8 of 150 ms of a short report.
    """
    gc.set_threshold(_OBJECTS)


def be_lean() -> None:
    """For verbs that load numpy. No threads for linear algebra, of which there is none here: they spin for a while when they are born, which was
    100 of the 500 ms of processor time of a report. Not for verbs that start programs, which would inherit it. And of the 65 ms that numpy takes
    to load 25 are texts for ``help``, types for checkers, and modules that it uses seldom: they are loaded when somebody asks for them.
    """
    collect_seldom()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


@contextmanager
def lean_click() -> Iterator[None]:
    """Within it click is loaded, and without ``inspect`` and what that loads: 8 of the 75 ms that a verb takes until it begins. Not for what a verb
    loads itself: that may be a program of somebody else.
    """
    is_there = _Finder in sys.meta_path
    if not is_there:
        sys.meta_path.insert(0, _Finder)
    try:
        yield
    finally:
        if not is_there:
            sys.meta_path.remove(_Finder)


def _later(module: str, name: str) -> Callable[..., Any]:
    """A function of a module that is loaded when it is called."""

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **named)

    return call


def _nothing(_: object) -> None:
    """No signature for ``help``."""


class _Log:
    """In place of a logger that nobody has written to yet."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("logging").getLogger(self._name), name)


def _cleandoc(text: str) -> str:
    """As that of ``inspect``, which it is asked when there is more than a line."""
    if "\n" in text or "\t" in text:
        return str(import_module("inspect").cleandoc(text))
    return text.lstrip(" ")


def _isfunction(of: object) -> bool:
    return isinstance(of, FunctionType)


_LINEAR = {name: _later("numpy.linalg", name) for name in ("eigvals", "inv", "lstsq", "matrix_power")}
_WITHOUT: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "numpy": {
        "numpy._core._add_newdocs": {},
        "numpy._core._add_newdocs_scalars": {},
        "numpy.linalg": _LINEAR,
        "ast": {},
        "ctypes": {},
        "inspect": {"cleandoc": str, "signature": _nothing},
        "pickle": {},
        "platform": {},
        "textwrap": {},
    },
    "click.core": {"inspect": {"cleandoc": _cleandoc, "isfunction": _isfunction}},
    "click.decorators": {"inspect": {}},
    "click.termui": {"inspect": {}},
    "concurrent.futures._base": {"logging": {"getLogger": _Log}},
    "pathlib": {"urllib.parse": {"quote_from_bytes": _later("urllib.parse", "quote_from_bytes")}},
    "uuid": {"platform": {"system": lambda: os.uname().sysname}} if hasattr(os, "uname") else {},
}
"""Of each module what it imports and does not use yet, with what it does use. Should another version use more, that module is loaded then."""
_FOR_GOOD = "click.core"
"""What this one has in the place of functions it keeps: it calls them for each option of each verb."""
_POSTPONED = frozenset(
    {"numpy.typing", "dotnetdiag.events.fallback", "dotnetdiag.trace.fallback", "dotnetdiag.analysis.filters"}
)
"""Modules that are loaded when something of theirs is used, and not before: what stands in where there is no compiler, and what stacks alone need."""
_asking = _thread.allocate_lock()
_wanted: set[str] = set()
"""Those of which something was."""
_USELESS = frozenset({"pandas"})
"""What a verb has no use for, and libraries load where it is installed, to know its objects when they are given some: pyarrow spends 0.3 s of the 0.9
of a short query on it, and 45 MB.
"""


class _StandIn(ModuleType):
    """In place of a module that nobody has used yet."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _wanted.add(self.__name__)
        with _asking:
            if sys.modules.get(self.__name__) is self:
                del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


class _Postponing:
    """Loads a module when something of it is used."""

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        """What stands in for it."""
        return _StandIn(spec.name)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Nothing yet."""


class _Without:
    """Loads a module with stand-ins for some of what it imports."""

    def __init__(self, loader: Loader, given: Mapping[str, Mapping[str, Any]]) -> None:
        self._loader, self._given = loader, given

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the other does."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run it. Who imports one of the modules behind that has the real one, and who asks for its loader the usual one."""
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        stand_ins = [_StandIn(name) for name in self._given if name not in sys.modules]
        for one in stand_ins:
            vars(one).update(self._given[one.__name__])
            sys.modules[one.__name__] = one
        try:
            self._loader.exec_module(module)
        finally:
            for one in stand_ins:
                if module.__name__ != _FOR_GOOD:
                    for name in self._given[
                        one.__name__
                    ]:  # whoever has it, another thread too, has the real ones from now on
                        vars(one).pop(name, None)
                if sys.modules.get(one.__name__) is one:
                    del sys.modules[one.__name__]


class _Finder:
    """Finds the modules that are loaded later, or :data:`_WITHOUT` others."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As other finders do. Raises ModuleNotFoundError for what a verb, in a process of its own, has no use for."""
        if name in _USELESS and own_process.IS_OURS:
            raise ModuleNotFoundError(f"{name} is of no use here", name=name)
        if name not in _WITHOUT and (name not in _POSTPONED or name in _wanted):
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            loader = _Without(found.loader, _WITHOUT[name]) if name in _WITHOUT else _Postponing
            found.loader = cast("Loader", loader)
        return found
