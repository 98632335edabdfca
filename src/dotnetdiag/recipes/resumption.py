"""Let a runtime run that could not be told so at once: one that is stopped by a signal or a debugger, or when we have no descriptor left."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dotnetdiag.client.server import ConnectedRuntime
from dotnetdiag.errors import DiagnosticsError, ServerError

AGAIN_S = 0.5


def let_run(runtime: ConnectedRuntime) -> threading.Thread:
    """The same of a runtime that has dialled us, for as long as it is there."""
    return resume_later(runtime.resume, lambda: runtime.is_connected)


def resume_later(resume: Callable[[], object], is_wanted: Callable[[], bool]) -> threading.Thread:
    """Call ``resume`` in a thread of its own until it succeeds, or until it is not wanted any more (the runtime is gone, or somebody else
    cares for it). What the runtime answers, it has heard.
    """
    pause = threading.Event()

    def work() -> None:
        while is_wanted():
            try:
                resume()
            except ServerError:
                return
            except (DiagnosticsError, OSError):
                pause.wait(AGAIN_S)
            else:
                return

    thread = threading.Thread(target=work, name="dotnetdiag resumption", daemon=True)
    thread.start()
    return thread
