"""Which file a module id stands for: each process has its own, and they are used again, so each has a path for a time."""

from __future__ import annotations

from bisect import bisect_right

from dotnetdiag.trace.bounds import ANY_PROCESS
from dotnetdiag.trace.symbol_events import Role, SymbolEvents


class ModulePaths:
    """Paths by process and module id, each with the times at which it was said, in order."""

    def __init__(self, events: SymbolEvents) -> None:
        self._paths: dict[tuple[int, int], tuple[list[int], list[str]]] = {}
        modules = events.of(Role.MODULE)
        if modules is None:
            return
        named = modules.text >= 0
        columns = (modules.process, modules.column("ModuleID"), modules.time)
        processes, ids, times = (column[named].tolist() for column in columns)
        paths = [il_path or native_path for il_path, native_path in events.texts.take(modules.text[named])]
        for process, module, time, path in sorted(zip(processes, ids, times, paths, strict=True)):
            if path:
                moments, known = self._paths.setdefault((process, module), ([], []))
                if not known or known[-1] != path:
                    moments.append(time)
                    known.append(path)

    def at(self, process: int, module: int, time: int) -> str:
        """The path of a module's file at a time (ticks), empty where no event of its process says it, nor one whose process is not known."""
        found = self._paths.get((process, module)) or self._paths.get((ANY_PROCESS, module))
        if found is None:
            return ""
        moments, paths = found
        return paths[max(bisect_right(moments, time) - 1, 0)]
