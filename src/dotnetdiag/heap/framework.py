"""Which types and static variables are likely to be the framework's own, as far as names and modules tell: the runtime does not say which class
declares a variable.
"""

from __future__ import annotations

import re

_MODULE = re.compile(r"(?i)(System(\..*)?|Microsoft\..*|mscorlib|netstandard|WindowsBase)\.(dll|exe)")
_TYPE = re.compile(r"[^<>,\[\]]+")
_NAMESPACES = ("System.", "Microsoft.")
_DATA = (
    "System.Collections.", "System.Data.", "System.IO.", "System.Text.", "System.Xml.", "System.Runtime.Caching.",
    "Microsoft.Extensions.Caching.",
)  # fmt: skip
"""What programs keep things in: a buffer, a document, a cache."""
_PLAIN = frozenset({"System.String", "System.Object", "System.Array"})
HANDLER = re.compile(r"EventHandler(<|$)|^System\.(Action|Func)(<|$)|(Callback|Handler|Delegate)(<|$)")
"""The names of delegates, as most are called."""


def is_framework_module(module: str | None) -> bool:
    """Whether a module's file is called as those of the framework are; of a module that is not known it is not."""
    return module is not None and _MODULE.fullmatch(module.replace("\\", "/").rpartition("/")[2]) is not None


def is_framework_type(name: str, module: str | None) -> bool:
    """Whether it is of such a module; of one whose module is not known, whether all names in it are."""
    if module is not None and not module.startswith("Module(0x"):
        return is_framework_module(module)
    return _has_framework_names(name)


def _has_framework_names(name: str) -> bool:
    parts = _TYPE.findall(name)
    return bool(parts) and all(part.startswith(_NAMESPACES) for part in parts)


def is_framework_variable(variable: str) -> bool:
    """Whether it is named as the framework's own are (``s_``), and of its types alone."""
    kind, _, field = variable.rpartition(".")
    return field.startswith("s_") and _has_framework_names(kind)


def is_for_own_use(name: str, module: str | None) -> bool:
    """Whether it is a class of the framework that programs hardly keep their data in: no collection or array, no delegate, no buffer or cache."""
    return (
        is_framework_module(module)
        and _TYPE.fullmatch(name) is not None
        and name not in _PLAIN
        and not name.startswith(_DATA)
        and not HANDLER.search(name)
    )
