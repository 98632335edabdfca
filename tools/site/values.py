"""``dotnetdiag._dataclasses`` is the standard library's ``dataclass`` for who reads the pages: values have the signature of their ``__init__``."""

from __future__ import annotations

from typing import Any

from griffe import Alias, Extension

OURS = "dotnetdiag._dataclasses."


class StandardDataclasses(Extension):
    """For mkdocstrings."""

    def on_alias_instance(self, *, alias: Alias, **_: Any) -> None:
        """A name that a module imports, before the classes behind it are looked at."""
        if alias.target_path.startswith(OURS):
            alias.target_path = "dataclasses." + alias.target_path.removeprefix(OURS)
