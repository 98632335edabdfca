"""Which file a module id stands for: ids are used again, so each has a path for a time."""

from __future__ import annotations

from bisect import bisect_right

from dotnetdiag.trace.symbol_events import Role, SymbolEvents


class ModulePaths:
    """Paths by module id, each with the times at which it was said, in order."""

    def __init__(self, events: SymbolEvents) -> None:
        self._paths: dict[int, tuple[list[int], list[str]]] = {}
        modules = events.of(Role.MODULE)
        if modules is None:
            return
        named = modules.text >= 0
        ids, times = modules.column("ModuleID")[named].tolist(), modules.time[named].tolist()
        paths = [il_path or native_path for il_path, native_path in events.texts.take(modules.text[named])]
        for module, time, path in sorted(zip(ids, times, paths, strict=True)):
            if path:
                moments, known = self._paths.setdefault(module, ([], []))
                if not known or known[-1] != path:
                    moments.append(time)
                    known.append(path)

    def at(self, module: int, time: int) -> str:
        """The path of a module's file at a time (ticks), empty where no event says it."""
        found = self._paths.get(module)
        if found is None:
            return ""
        moments, paths = found
        return paths[max(bisect_right(moments, time) - 1, 0)]
